"""Sentences whose words follow from the numbers."""

from __future__ import annotations

from math import isinf
from pathlib import Path

from benchmarks._store import read_csv
from benchmarks.paper._cases import INSTANCES, TITLES
from benchmarks.paper._claims import Samples


def spread_of_spheres(out: Path) -> str:
    """How different the drawn spheres are."""
    found = [
        float(row["samples"])
        for row in read_csv(out / "spheres.csv")
        if row["policy"] == "LinGame" and float(row["delta"]) == 0.1
    ]
    low, high = ("more than the budget" if isinf(end) else f"{end:.0f}" for end in (min(found), max(found)))
    return f"LinGame alone needs from {low} to {high} samples at delta = 0.1, depending on the sphere."


def winner_on_topk(out: Path) -> str:
    """PEPS or LinGame."""
    found = Samples(out)
    peps, game = (found.get("topk", policy, 0.1) for policy in ("PEPS", "LinGame"))
    if peps == game:
        return "PEPS and LinGame cannot be told apart in this run (delta = 0.1)."
    return f"PEPS needs {'more' if peps > game else 'fewer'} samples than LinGame (delta = 0.1)."


def second_arm(out: Path) -> str:
    """Arm 1 of Soare, which is never the answer."""
    rows = [row for row in read_csv(out / "pulls.csv") if row["instance"] == "soare" and row["arm"] == "1"]
    share = {row["policy"]: 100 * float(row["share"]) for row in rows}
    best = share.pop("optimal")
    listed = ", ".join(f"{policy} {value:.0f} %" for policy, value in share.items())
    return (
        "Arm 1 of Soare is not a good answer, but it separates the other two: the optimal allocation gives it\n"
        f"{best:.0f} % of the measurements. {listed}."
    )


def slower_alternatives(out: Path) -> str:
    """Rejection over half-spaces, at the end of the runs."""
    rows, parts = read_csv(out / "rejection.csv"), []
    for instance in INSTANCES:
        last = {row["sampler"]: row for row in rows if row["instance"] == instance}  # later rows replace earlier ones
        ratio = float(last["rejection"]["median_us"]) / float(last["half-spaces"]["median_us"])
        parts.append(f"{ratio:.2g} on {TITLES[instance]}")
    return f"Median time per round, rejection over half-spaces, at the end: {', '.join(parts)}."


def theorem_reading(out: Path) -> str:
    """Where Algorithm 2 stands, beside uniform allocation at the same T."""
    rows = read_csv(out / "theorem.csv")
    last = [row for row in rows if row["kind"] == "proved"][-1]
    even = [row for row in rows if row["kind"] == "uniform" and row["T"] == last["T"]]
    text = (
        "The theorem holds in the limit of large T. At small T the exponent of any allocation lies above its own\n"
        "limit, by terms of order ln(T)/T: compare policies with the oracle allocation at the same T, not only with\n"
        "tau*. The practical variant and TopTwo are not covered by the theorem."
    )
    if not even:
        return text
    mine, other = float(last["exponent"]), float(even[0]["exponent"])
    text += (
        f"\n\nIn an epoch of T = {last['T']} Algorithm 2 (constants as proved) has an exponent of {mine:.3g}, and\n"
        f"uniform allocation one of {other:.3g}. The step size eta_lambda of the proofs is small: by the end of that\n"
        f"epoch lambda, which starts uniform over 3 arms, was {last['lam']} on average. "
    )
    if abs(mine - other) > float(last["two_se"]) + float(even[0]["two_se"]):
        return text + "The two exponents differ by\nmore than the noise."
    return text + (
        "The difference of the two\nexponents is within the noise; this neither supports nor contradicts the theorem."
    )
