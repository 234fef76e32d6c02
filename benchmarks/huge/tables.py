"""The CSV files as Markdown tables, and the slopes read off them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks._store import read_csv, write_csv
from benchmarks._table import markdown
from benchmarks.huge.families import FAMILIES
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
        "wanted, us", "oracle calls per round", "time in the oracle", "search, ms", "peak MB",
    ]  # fmt: skip
    body = []
    for row in rows:
        us, limit = float(row["us_per_round"]), float(row["limit_us"])
        wanted = "" if np.isnan(limit) else f"<= {limit:.0f} {'yes' if us <= limit else 'NO'}"
        body.append(
            [row["family"], row["size"], answers(row["log10_Z"]), row["policy"], f"{us:.0f}",
             f"{float(row['us_early']):.0f}", f"{float(row['us_late']):.0f}", f"{float(row['floor_us']):.0f}",
             f"{float(row['times_floor']):.1f}", wanted, f"{float(row['oracle_calls_per_round']):.1f}",
             f"{float(row['oracle_share']):.0%}", f"{float(row['search_ms']):.0f}", f"{float(row['peak_MB']):.0f}"]
        )  # fmt: skip
    return markdown(header, body)


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


def slope_table(rows: list[Row]) -> str:
    """With a verdict."""
    body = []
    for row in rows:
        steep = float(row["slope"])
        verdict = "too few sizes" if np.isnan(steep) else f"<= {STEEPEST} {'yes' if steep <= STEEPEST else 'NO'}"
        span = f"{int(row['from_d']):,} to {int(row['to_d']):,} ({row['sizes']} sizes)"
        body.append([row["family"], row["policy"], span, row["slope"], row["floor_slope"], verdict])
    return markdown(["family", "policy", "d", "slope", "slope of argmax + d normals", "wanted"], body)


def runs(rows: list[Row]) -> str:
    """One row per family, size and policy: medians over runs."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["family"], row["size"], row["log10_Z"], row["policy"]].append(row)
    body = []
    for (family, size, digits, policy), mine in groups.items():
        samples = [int(row["samples"]) for row in mine]
        certain = sum(row["ended_by"] == "posterior" for row in mine)
        right = sum(row["right"] == "True" for row in mine)
        per_round = np.median([float(row["seconds"]) / int(row["samples"]) for row in mine])
        calls = sum(int(row["oracle_calls"]) for row in mine) / sum(samples)
        body.append(
            [family, size, answers(digits), policy, f"{np.median(samples):,.0f}", f"{int(mine[0]['budget']):,}",
             f"{certain} of {len(mine)}", f"{right} of {len(mine)}", f"{calls:.1f}", f"{per_round * 1e6:.0f}"]
        )  # fmt: skip
    header = [
        "family", "size", "answers", "policy", "samples, median", "budget", "ended by the rule", "right",
        "oracle calls per sample", "us per sample, looks included",
    ]  # fmt: skip
    return markdown(header, body)


def solved(rows: list[Row]) -> str:
    """From the first sample to a claim."""
    body = [
        [row["instance"], answers(row["log10_Z"]), f"{int(row['d']):,}", f"{int(row['samples']):,}",
         f"{float(row['seconds']):.0f}", "yes" if row["right"] == "True" else "NO", row["claim"]]
        for row in rows
    ]  # fmt: skip
    return markdown(["instance", "answers", "d", "samples", "seconds", "right", "claim"], body)
