"""What we say about the results, each with its numbers and a computed yes or NO."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, isinf, log
from pathlib import Path

from benchmarks._store import read_csv
from benchmarks.paper._cases import INSTANCES, TITLES
from benchmarks.paper._published import DELTAS, PAPER, REFERENCE

DELTA = 0.05


@dataclass(frozen=True)
class Claim:
    """A sentence, the numbers behind it, and whether they bear it out."""

    sentence: str
    numbers: str
    holds: bool


class Samples:
    """samples.csv by instance, policy and delta."""

    def __init__(self, out: Path) -> None:
        rows = read_csv(out / "samples.csv")
        self._rows = {(row["instance"], row["policy"], float(row["delta"])): row for row in rows}

    def get(self, instance: str, policy: str, delta: float = DELTA) -> float:
        return float(self._rows[instance, policy, delta]["samples"])

    def row(self, instance: str, policy: str) -> list[float]:
        return [self.get(instance, policy, delta) for delta in DELTAS[instance]]

    def inside(self, instance: str, policy: str, values: tuple[float, ...]) -> int:
        """How many of the values lie in our bootstrap intervals."""
        rows = [self._rows[instance, policy, delta] for delta in DELTAS[instance]]
        return sum(float(row["low"]) <= value <= float(row["high"]) for row, value in zip(rows, values, strict=True))


def ratio(a: float, b: float) -> float:
    """a / b, where not reached is infinitely many: unknown (NaN) when neither was."""
    return float("nan") if isinf(a) and isinf(b) else a / b


def over_all(samples: Samples, policy: str, rival: str) -> float:
    """Geometric mean over the instances of the ratio at delta = .05."""
    ratios = [ratio(samples.get(i, policy), samples.get(i, rival)) for i in INSTANCES]
    return exp(sum(log(r) if r > 0 else -inf for r in ratios) / len(ratios)) if all(map(isfinite, ratios)) else inf


def sample_claims(out: Path) -> list[Claim]:
    """Tables 1 and 2."""
    samples, claims = Samples(out), []
    for instance in INSTANCES:
        if instance == "sphere":
            continue
        ours, paper = samples.row(instance, "PEPS"), PAPER[instance, "PEPS"]
        claims.append(_close(f"PEPS on {TITLES[instance]} is within 15 % of the paper's figures", ours, paper))
    claims += baseline_claims(out, samples)
    for instance, most in (("topk", 1.05), ("soare", 1.1), ("sphere", 1.1)):
        better = min(samples.get(instance, "LinGame"), samples.get(instance, "LinGapE"))
        mine = samples.get(instance, "TopTwo")
        claims.append(
            _at_most(f"TopTwo needs at most {most:g} x the better of LinGame and LinGapE on {TITLES[instance]}",
                     ratio(mine, better), most, f"{count(mine)} against {count(better)}")
        )  # fmt: skip
    claims += ratio_claims(out, samples)
    peps, game = samples.get("topk", "PEPS"), samples.get("topk", "LinGame")
    numbers = f"{count(peps)} against {count(game)}"
    claims.append(Claim("PEPS needs fewer samples than LinGame on Top-k, as the paper has it", numbers, peps < game))
    return claims


def baseline_claims(out: Path, samples: Samples) -> list[Claim]:
    """Our baselines by all runs of `blocks`, the better estimate; the 500 runs of the tables beside it."""
    blocks, claims = read_csv(out / "blocks.csv"), []
    for (instance, policy), reference in REFERENCE.items():
        mine = [row for row in blocks if (row["instance"], row["policy"]) == (instance, policy)]
        whole, drawn = ([row for row in mine if row["block"] == name] for name in ("all", "drawn"))
        ours, few = [float(row["samples"]) for row in whole], samples.row(instance, policy)
        name = f"{policy} on {TITLES[instance]}"
        claim = _close(f"{name} is within 15 % of the reference", ours, reference)
        numbers = f"{claim.numbers} ({whole[0]['runs']} runs; in the table {' / '.join(map(count, few))})"
        claims.append(Claim(claim.sentence, numbers, claim.holds))
        ends = [(float(row["low"]), float(row["high"])) for row in drawn]
        inside = [low <= value <= high < inf for (low, high), value in zip(ends, reference, strict=True)]
        sentence = f"the reference of {name} lies where 95 % of our blocks of {drawn[0]['runs']} runs lie"
        claims.append(Claim(sentence, f"{sum(inside)} of {len(inside)}", all(inside)))
    return claims


def ratio_claims(out: Path, samples: Samples) -> list[Claim]:
    """Over the paper's three problems, and over six."""
    rows, claims = read_csv(out / "ratios.csv"), []
    for policy, most in (("TopTwo", 0.85), ("PEPS projected", 1.15)):
        for over, where in (("three", "the paper's three problems"), ("six", "all six problems")):
            wanted = {"over": over, "policy": policy, "rival": "LinGame"}
            row = next(row for row in rows if wanted.items() <= row.items())
            numbers = f"{float(row['low']):.2f} - {float(row['high']):.2f}"
            if over == "three":
                numbers += f"; by the tables {over_all(samples, policy, 'LinGame'):.2f}"
            sentence = f"{policy} needs at most {most:g} x LinGame's samples over {where} (geometric mean)"
            claims.append(_at_most(sentence, float(row["ratio"]), most, numbers))
    return claims


def clock_claims(out: Path) -> list[Claim]:
    """Time per round."""
    rows = read_csv(out / "clock.csv")
    arms = list(dict.fromkeys(int(row["K"]) for row in rows))

    def of(policy: str, column: str) -> dict[int, float]:
        return {int(row["K"]): float(row[column]) for row in rows if row["policy"] == policy}

    claims = []
    for policy, what in (("TopTwo", "faster than"), ("PEPS", "no slower than")):
        ratios = of(policy, "lingame_over_this")
        holds = all(r > 1.0 if policy == "TopTwo" else r >= 1.0 for r in ratios.values())
        numbers = f"LinGame's time over {policy}'s: " + ", ".join(f"{K}: {r:.2f}" for K, r in ratios.items())
        claims.append(Claim(f"{policy} is {what} LinGame at every K", numbers, holds))
    most = arms[-1]
    top = of("TopTwo", "lingame_over_this")[most]
    claims.append(Claim(f"TopTwo is at least 2 x faster than LinGame at K = {most}", f"{top:.2f} x", top >= 2.0))
    ours, paper = of("PEPS", "median_ms")[most], of("PEPS", "paper_ms")[most]
    numbers = f"{ours:.2f} ms against {paper:.2f} ms"
    claims.append(
        Claim(f"PEPS is at least 10 x faster than the paper's at K = {most}", f"{numbers}: {paper / ours:.1f} x",
              paper / ours >= 10.0)
    )  # fmt: skip
    return claims


def theorem_claims(out: Path) -> list[Claim]:
    """Exponents at the largest T."""
    rows, claims = read_csv(out / "theorem.csv"), []
    for kind, name in (("proved", "Algorithm 2"), ("peps", "the practical variant"), ("top-two", "TopTwo")):
        last = [row for row in rows if row["kind"] == kind][-1]
        share, two = (float(last[key]) / float(last["tau_star"]) for key in ("exponent", "two_se"))
        numbers = f"{share:.2f} ± {two:.2f} of tau* at T = {last['T']}"
        claims.append(Claim(f"the exponent of {name} has come within 10 % of tau*", numbers, abs(share - 1.0) <= 0.1))
    return claims


def _close(sentence: str, ours: list[float], theirs: tuple[float, ...]) -> Claim:
    numbers = " / ".join(map(count, ours)) + " against " + " / ".join(map(count, theirs))
    return Claim(sentence, numbers, all(abs(ratio(a, b) - 1.0) <= 0.15 for a, b in zip(ours, theirs, strict=True)))


def _at_most(sentence: str, value: float, most: float, numbers: str = "") -> Claim:
    shown = f"{value:.2f}" if isfinite(value) else "unknown"
    return Claim(sentence, shown + (f" ({numbers})" if numbers else ""), value <= most)


def count(value: float) -> str:
    """Samples as a person reads them."""
    return f"{value:.0f}" if isfinite(value) else "not reached"
