"""docs/reproduction.md: the report of the results. Every measured number in it comes from a file beside the figures."""

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

PAGE = """# Reproduction of the paper

Experiments of *Optimal Exploration is no harder than Thompson Sampling* (Li, Jamieson, Jain), with PEPS, its baselines
and TopTwo. This page is written by

    {command}

with seed {seed}, {runs} runs, combopeps {combopeps}, numpy {numpy} and Python {python} (all versions:
[made.json]({folder}/made.json)). Its tables come from the CSV files beside it.

## Summary

{held} of {claims} statements are confirmed by this run. **NO** marks a statement that is not.

{verdicts}

## Samples to an identification rate of 1 - delta

The identification rate at t is the share of runs whose answer is right after t measurements. In brackets: 95 %
bootstrap intervals. The initial measurements of LinGame and LinGapE (each arm once) are included, in contrast to the
paper. Ties are broken by a small random vector per run, so that no index is preferred. "Oracle" tracks the allocation
of `lower_bound`. "> budget" (this run) and "not reached" (paper) mark rates that were not attained within the budget.

{samples}

**Sphere.** The twenty points of the authors are not published. The table shows the mean over {spheres} random spheres,
{sphere_runs} runs each; {spheres_reading} The column of the paper is for one sphere: only the order of the policies can
be compared.

**Top-k.** The figures of the paper for LinGame, LinGapE and Oracle cannot be compared with those for PEPS: the authors'
code tests whether LinGame, LinGapE and Oracle identify the single best arm, and whether PEPS identifies the three best
arms. For the same task, {topk} Thompson sampling measures answers; in this instance no arm is an answer.

{rates}

### Variation between blocks of runs

The reference figures are single blocks of 500 runs. A longer simulation of each baseline, divided into blocks of {runs}
runs; the intervals for 95 % of blocks are obtained by resampling from all runs:

{blocks_table}

### Six problems

{wider_note}

{wider}

## Allocation of measurements

{pulls}

{second_arm}

{pull_figures}

## Cost of an alternative

{rejection}

Rejection takes 1 / P(Alt) draws on average, half-spaces a few proposals at any P(Alt). A round in which rejection was
stopped (at {cap} draws) counts with that number.
{rejection_reading}

![Draws per round]({folder}/draws.png)

![Time per round]({folder}/seconds.png)

## Time per round against the number of arms

{clock}

Blocks of 20 rounds, interleaved in one process with one thread; medians over rounds, and in brackets 95 % bootstrap
intervals of the median ratio. LinGame is vectorised like the others; every round includes AdaHedge over K arms,
A(lambda) from K arms, and the nearest alternative among K - 1 rivals. The times of the paper are from Julia on another
machine.

![Time per round]({folder}/clock.png)

## Exponents of the error probability

{theorem}

{theorem_reading}

![The exponent of the posterior]({folder}/theorem.png)

## Parameters of PEPS

{effects}

Samples to 90 %, {effect_runs} runs each; differences within the intervals are not significant. The text of the paper
uses eta_p = 1, one alternative and sampling; the authors' code averages 20 alternatives.

![Parameters of PEPS]({folder}/effects.png)
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
