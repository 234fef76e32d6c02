"""The CSV files as Markdown tables, and the slopes read off them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks._store import read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.huge.ends import Estimate
from benchmarks.huge.families import FAMILIES
from benchmarks.huge.scale import POLICIES
from benchmarks.policies import FACTOR

Row = dict[str, str]
STEEPEST = 1.1
SLOPES = ("family", "policy", "from_d", "to_d", "sizes", "slope", "floor_slope")


def answers(digits: str | float) -> str:
    """|Z| as a power of ten."""
    return f"10^{float(digits):.1f}" if float(digits) < 10 else f"10^{float(digits):.0f}"


def sizes(rows: list[Row]) -> str:
    """What was measured, and how its answers are counted."""
    body = []
    for name, family in FAMILIES.items():
        mine = [row for row in rows if row["family"] == name]
        if mine:
            members = dict.fromkeys(f"{row['size']} ({answers(row['log10_Z'])}, d = {int(row['d']):,})" for row in mine)
            body.append([name, family.formula, "; ".join(members)])
    return markdown(["family", "answers, exactly", "sizes"], body)


def clock(rows: list[Row]) -> str:
    """One row per family, size and policy."""
    header = [
        "family", "size", "answers", "policy", "us per round", "early", "late", "argmax + d normals, us", "ratio",
        "oracle calls per round", "time in the oracle", "search, ms", "peak MB",
    ]  # fmt: skip
    body = [
        [row["family"], row["size"], answers(row["log10_Z"]), row["policy"], f"{float(row['us_per_round']):.0f}",
         f"{float(row['us_early']):.0f}", f"{float(row['us_late']):.0f}", f"{float(row['floor_us']):.0f}",
         f"{float(row['times_floor']):.1f}", f"{float(row['oracle_calls_per_round']):.1f}",
         f"{float(row['oracle_share']):.0%}", f"{float(row['search_ms']):.0f}", f"{float(row['peak_MB']):.0f}"]
        for row in rows
    ]  # fmt: skip
    return markdown(header, body)


def largest(rows: list[Row], slopes: list[Row]) -> str:
    """One row per family: its largest size under TopTwo, and the growth of its rounds with d."""
    steep = {row["family"]: f"{float(row['slope']):.2f}" for row in slopes if row["policy"] == "TopTwo"}
    last = {row["family"]: row for row in rows if row["policy"] == "TopTwo"}  # rows are in the order of sizes
    body = [
        [family, row["size"], answers(row["log10_Z"]), f"{int(row['d']):,}", f"{float(row['us_per_round']) / 1e3:.2f}",
         f"{float(row['floor_us']) / 1e3:.2f}", f"{float(row['oracle_calls_per_round']):.1f}",
         f"{float(row['peak_MB']):.0f}", steep.get(family, "")]
        for family, row in last.items()
    ]  # fmt: skip
    header = [
        "family", "largest size", "answers", "d", "round of TopTwo, ms", "argmax + d normals, ms",
        "oracle calls per round", "peak MB", "slope of time against d",
    ]  # fmt: skip
    return markdown(header, body)


def key(row: Row) -> tuple[str, ...]:
    """Which row of the clocks it is."""
    return row["family"], row["size"], row["policy"]


def within(row: Row) -> bool:
    """Is the time of a round within the limit of the benchmark?"""
    return float(row["us_per_round"]) <= float(row["limit_us"])


def slope(d: list[float], values: list[float]) -> float:
    """Of log values against log d, by least squares; nan for a single point."""
    return float(np.polyfit(np.log(d), np.log(values), 1)[0]) if len(d) > 1 else float("nan")


def slopes(rows: list[Row]) -> list[tuple[object, ...]]:
    """Over the largest decade of d of every family, for the policies that must not mind |Z|."""
    found = []
    for family in dict.fromkeys(row["family"] for row in rows):
        largest = max(int(row["d"]) for row in rows if row["family"] == family)
        for policy in FACTOR:
            mine = [
                row for row in rows
                if row["family"] == family and row["policy"] == policy and 10 * int(row["d"]) >= largest
            ]  # fmt: skip
            d = [float(row["d"]) for row in mine]
            both = (slope(d, [float(row[key]) for row in mine]) for key in ("us_per_round", "floor_us"))
            found.append((family, policy, int(min(d)), int(max(d)), len(d), *both))
    return found


def write_slopes(out: Path) -> None:
    """slopes.csv, from clock.csv."""
    write_csv(out / "slopes.csv", SLOPES, slopes(read_csv(out / "clock.csv")))


def slopes_by_family(rows: list[Row]) -> str:
    """The slopes, and those of what every round must do."""
    body = [
        [row["family"], row["policy"], f"{int(row['from_d']):,} to {int(row['to_d']):,} ({row['sizes']} sizes)",
         f"{float(row['slope']):.2f}", f"{float(row['floor_slope']):.2f}"]
        for row in rows
    ]  # fmt: skip
    return markdown(["family", "policy", "d", "slope", "slope of argmax + d normals"], body)


def slope_table(rows: list[Row]) -> str:
    """The slopes with a verdict, for the terminal."""
    body = []
    for row in rows:
        steep = float(row["slope"])
        verdict = "too few sizes" if np.isnan(steep) else f"<= {STEEPEST} {'yes' if steep <= STEEPEST else 'NO'}"
        span = f"{int(row['from_d']):,} to {int(row['to_d']):,} ({row['sizes']} sizes)"
        body.append([row["family"], row["policy"], span, row["slope"], row["floor_slope"], verdict])
    return markdown(["family", "policy", "d", "slope", "slope of argmax + d normals", "wanted"], body)


def runs(rows: list[Row], missing: list[Estimate]) -> str:
    """One row per family, size and policy: medians over runs, or what a run would take, in the order of FAMILIES."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[*key(row), row["log10_Z"]].append(row)
    body: list[tuple[tuple[float, ...], list[str]]] = []
    for (family, size, policy, digits), mine in groups.items():
        samples = [int(row["samples"]) for row in mine]
        certain = sum(row["ended_by"] == "posterior" for row in mine)
        right = sum(row["right"] == "True" for row in mine)
        seconds = [float(row["seconds"]) for row in mine]
        per_round = np.median([x / n for x, n in zip(seconds, samples, strict=True)])
        calls = sum(int(row["oracle_calls"]) for row in mine) / sum(samples)
        cells = [
            family, size, answers(digits), policy, f"{np.median(samples):,.0f}", f"{int(mine[0]['budget']):,}",
            f"{certain} of {len(mine)}", f"{right} of {len(mine)}", f"{calls:.1f}", f"{per_round * 1e6:.0f}",
            duration(float(np.median(seconds))),
        ]  # fmt: skip
        body.append((_place(family, digits, policy), cells))
    for one in missing:
        cells = [one.family, one.size, answers(one.digits), one.policy]
        if np.isnan(one.samples):
            cells += ["?", "", "not run", "", "", "", "?"]
        else:
            cells += [f"about {one.samples:,.0f}", "", "not run", "", "", "", f"about {duration(one.seconds)}"]
        body.append((_place(one.family, one.digits, one.policy), cells))
    header = [
        "family", "size", "answers", "policy", "samples, median", "budget", "ended by the rule", "right",
        "oracle calls per sample", "us per sample, with looks", "one run",
    ]  # fmt: skip
    return markdown(header, [cells for _, cells in sorted(body, key=lambda pair: pair[0])])


def _place(family: str, digits: str | float, policy: str) -> tuple[float, ...]:
    """By family, size (CSV files have six digits) and policy."""
    return list(FAMILIES).index(family), float(f"{float(digits):.6g}"), list(POLICIES).index(policy)


def duration(seconds: float) -> str:
    """In a unit that suits."""
    if np.isnan(seconds):
        return "?"
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def solved(rows: list[Row]) -> str:
    """From the first sample to a claim."""
    body = [
        [row["instance"], answers(row["log10_Z"]), f"{int(row['d']):,}", row["rule"], f"{int(row['samples']):,}",
         f"{float(row['seconds']):.0f}", row["looks"], f"{float(row['seconds_of_looks']) / float(row['seconds']):.0%}",
         "yes" if row["right"] == "True" else "NO", row["claim"]]
        for row in rows
    ]  # fmt: skip
    header = ["instance", "answers", "d", "rule", "samples", "seconds", "looks", "time in looks", "right", "claim"]
    return markdown(header, body)
