"""docs/reproduction.md: the results read aloud. Every number of ours in it comes from a file beside the figures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from benchmarks._table import markdown
from benchmarks.paper import _readings as read
from benchmarks.paper import blocks, clock, curves, effects, rejection, samples, theorem, wider
from benchmarks.paper._cases import INSTANCES, TITLES
from benchmarks.paper._claims import Claim, clock_claims, sample_claims, theorem_claims

PAGE = """# The paper, reproduced

*Optimal Exploration is no harder than Thompson Sampling* (Li, Jamieson, Jain), its rivals, and TopTwo. This page is
written by

    {command}

with seed {seed}, {runs} runs, combopeps {combopeps}, numpy {numpy} and Python {python} (all versions:
[made.json]({folder}/made.json)). Its tables come from the CSV files beside it.

## In short

{held} of {claims} statements hold in this run. A **NO** is a statement that its numbers do not bear out.

{verdicts}

## Samples to an identification rate of 1 - delta

Every measurement counts, also those with which LinGame and LinGapE begin (each arm once; the paper does not count
them). In brackets: 95 % bootstrap intervals. The labels of arms and answers are not shuffled; instead our policies
break ties by a tiny random vector drawn in each run, so that no index is favoured. Oracle tracks the allocation of
`lower_bound`. Figures that were not reached within the budget: "> budget" for ours, "not reached" for the paper's.

{samples}

**Sphere.** The authors' twenty points are not known. Ours is the mean over {spheres} drawn spheres, {sphere_runs} runs
each; {spheres_reading} The paper's column is one
draw: the figures cannot be compared, only the order of the policies.

**Top-k.** The paper's figures for LinGame, LinGapE and Oracle do not compare with those for PEPS: the authors' code
asked of them whether arm 1 is the single best arm, and of PEPS whether the three best arms are found. Asked the same
question, {topk}
Thompson sampling measures answers, and here no arm is one: the paper leaves it out too.

{rates}

### How much is chance?

The references are single blocks of 500 runs. One long simulation of each baseline, cut into blocks of {runs} runs; the
last column but one is what blocks drawn anew from all runs give:

{blocks_table}

### More runs, and more problems

{wider_note}

{wider}

## Where the measurements go

{pulls}

{second_arm}

{pull_figures}

## What an alternative costs

{rejection}

Rejection takes 1 / P(Alt) draws on average, half-spaces a few proposals at any P(Alt). A round in which rejection gave
up (at {cap} draws) counts with that number: its true cost was higher.
{rejection_reading}

![Draws per round]({folder}/draws.png)

![Time per round]({folder}/seconds.png)

## Time per round against the number of arms

{clock}

Turns of 20 rounds, interleaved in one process with one thread; medians over rounds, and in brackets 95 % bootstrap
intervals of the median ratio. LinGame is vectorised like the others and does all its work in every round: AdaHedge over
K arms, A(lambda) from K arms, and the nearest alternative among K - 1 rivals. The paper's milliseconds are from Julia
on another machine.

![Time per round]({folder}/clock.png)

## The theorem

{theorem}

{theorem_reading}

![The exponent of the posterior]({folder}/theorem.png)

## The knobs of PEPS

{effects}

Samples to 90 %, {effect_runs} runs each; differences within the intervals mean nothing. The paper's text has eta_p = 1,
one alternative and sampling; the authors' code averages 20 alternatives.

![The knobs of PEPS]({folder}/effects.png)
"""


def text(out: Path, report: Path) -> str:
    """The page, from the files in `out`; links are relative to `report`."""
    made = json.loads((out / "made.json").read_text())
    folder = os.path.relpath(out, report.parent).replace(os.sep, "/")
    claims = [*sample_claims(out), *clock_claims(out), *theorem_claims(out)]
    return PAGE.format(
        **{key.replace(" ", "_"): value for key, value in made.items()},
        folder=folder,
        held=sum(claim.holds for claim in claims),
        claims=len(claims),
        verdicts=_verdicts(claims),
        samples=_by_instance(lambda i: samples.table(out / "samples.csv", i)),
        spheres_reading=read.spread_of_spheres(out),
        topk=read.winner_on_topk(out),
        rates=_pictures(folder, "rate", "Identification rate"),
        blocks_table=blocks.table(out / "blocks.csv"),
        wider_note=wider.NOTE,
        wider=wider.table(out),
        pulls=_by_instance(lambda i: curves.pulls_table(out / "pulls.csv", i)),
        second_arm=read.second_arm(out),
        pull_figures=_pictures(folder, "pulls", "Pulls per arm"),
        rejection=rejection.table(out / "rejection.csv"),
        rejection_reading=read.slower_alternatives(out),
        clock=clock.table(out / "clock.csv"),
        theorem=theorem.table(out / "theorem.csv"),
        theorem_reading=read.theorem_reading(out),
        effects=effects.table(out / "effects.csv"),
    )


def _verdicts(claims: list[Claim]) -> str:
    rows = [[claim.sentence, claim.numbers, "yes" if claim.holds else "**NO**"] for claim in claims]
    return markdown(["statement", "numbers", "holds"], rows)


def _by_instance(table: Callable[[str], str]) -> str:
    return "\n\n".join(f"### {TITLES[i]}\n\n{table(i)}" for i in INSTANCES)


def _pictures(folder: str, name: str, title: str) -> str:
    return "\n\n".join(f"![{title}, {TITLES[i]}]({folder}/{name}-{i}.png)" for i in INSTANCES)
