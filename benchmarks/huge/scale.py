"""How large everything is: the full form, the quick one, and the one for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.huge.families import FAMILIES, Size

RIVAL = "LinGame"
POLICIES = {"TopTwo": "top-two", "PEPS": "peps", RIVAL: "lingame"}
NEED = {"TopTwo": 2.0, "PEPS": 14.0, RIVAL: 2.0}  # samples per component until the rule stops, roughly


@dataclass(frozen=True)
class Scale:
    """The defaults are the full form: some 15 minutes on two quiet cores, and an hour or so for `--to-the-end`."""

    sizes: dict[str, tuple[Size, ...]] = field(default_factory=lambda: {name: f.sizes for name, f in FAMILIES.items()})
    rounds: int = 600  # timed, half of them at the start and half of them late
    runs: int = 3  # of TopTwo and PEPS where d <= `large`,
    few: int = 2  # and where it is larger; one of LinGame
    large: int = 2000
    patience: int = 40  # samples per component, at most
    seconds: float = 15.0  # runs that are expected to take longer wait for `--to-the-end`,
    longest: dict[str, float] = field(default_factory=lambda: {"TopTwo": 1000.0, "PEPS": 100.0})  # ... or are not done
    solved: int | None = None  # the budget of the `solved` runs

    def expected(self, family: str, d: int, policy: str) -> float:
        """Seconds of a run, by a guess that does not hang on the machine."""
        made = FAMILIES[family]
        return NEED[policy] * made.need * d * (1e-4 + made.guess * d)

    def budget(self, d: int) -> int:
        """Samples of one run."""
        return self.patience * d

    def replications(self, d: int, policy: str) -> int:
        """Seeds 0, 1, ..."""
        if policy == RIVAL:
            return 1
        return self.runs if d <= self.large else self.few


def quick() -> Scale:
    """About a minute: the smallest size, and two around 10^30 and 10^100."""
    sizes: dict[str, tuple[Size, ...]] = {
        "top-k": ((12, 3), (200, 20), (1000, 50)),
        "grid": ((6,), (30,), (64,)),
        "rings": ((3, 3), (32, 3), (105, 3)),
        "matching": ((5,), (16,), (32,)),
        "band": ((10,), (144,), (480,)),
        "partition": ((3, 5, 1), (10, 10, 2), (100, 10, 1)),
        "tree": ((5,), (16,), (64,)),
        "knapsack": ((9, 9), (120, 40), (600, 100)),
    }
    return Scale(sizes, rounds=100, runs=2, few=1, seconds=0.5, longest={"TopTwo": 5.0, "PEPS": 5.0}, solved=200)


def tiny() -> Scale:
    """Seconds: for tests of the machinery."""
    sizes = {name: family.sizes[:1] for name, family in FAMILIES.items()}
    return Scale(
        sizes, rounds=10, runs=1, few=1, patience=4, seconds=0.045, longest={"TopTwo": 0.08, "PEPS": 0.08}, solved=20
    )
