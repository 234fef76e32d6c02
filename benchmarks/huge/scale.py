"""How large everything is: the full form, the quick one, and the one for tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.huge.families import FAMILIES, Size

RIVAL = "LinGame"
POLICIES = {"TopTwo": "top-two", "PEPS": "peps", RIVAL: "lingame"}


@dataclass(frozen=True)
class Scale:
    """The defaults are the full form: at most 30 minutes on two quiet cores."""

    sizes: dict[str, tuple[Size, ...]] = field(default_factory=lambda: {name: f.sizes for name, f in FAMILIES.items()})
    rounds: int = 600  # timed, half of them at the start and half of them late
    runs: int = 5  # of every policy where d <= `large`,
    few: int = 2  # and where it is larger
    large: int = 2000
    seconds: float = 12.0  # what one run may take on a quiet core, roughly
    solved: int | None = None  # the budget of the `solved` runs

    def budget(self, family: str, d: int) -> int:
        """Samples of one run: at most 40 per component, and no more than the seconds allow."""
        return min(40 * d, int(self.seconds / (1e-4 + FAMILIES[family].guess * d)))

    def replications(self, d: int) -> int:
        """Seeds 0, 1, ..."""
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
    }
    return Scale(sizes, rounds=100, runs=2, few=1, seconds=0.2, solved=200)


def tiny() -> Scale:
    """Seconds: for tests of the machinery."""
    sizes = {name: family.sizes[:1] for name, family in FAMILIES.items()}
    return Scale(sizes, rounds=10, runs=1, seconds=0.02, solved=20)
