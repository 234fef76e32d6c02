"""How large everything is: the full form, the quick one, and the one for tests."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scale:
    """Sizes of all items; the defaults are the full form but for the number of runs."""

    runs: int
    spheres: int = 10
    blocks: dict[str, int] = field(default_factory=lambda: {"soare": 6, "topk": 3})  # of `runs` runs each
    many_budgets: dict[str, int] = field(  # of these blocks, and of the problems that the paper does not have
        default_factory=lambda: {"soare": 3600, "topk": 14_000, "3 of 50": 6600, "path": 300, "transductive": 1500}
    )
    budgets: dict[str, int] = field(default_factory=lambda: {"soare": 6000, "sphere": 3000, "topk": 30_000})
    short: float = 0.5  # of the top-k budget, for policies that need less than PEPS and the oracle allocation
    effect_share: float = 0.7  # of the top-k budget, for the variants of PEPS
    sampler_runs: int = 5
    sampler_rounds: dict[str, int] = field(default_factory=lambda: {"soare": 6000, "sphere": 1500, "topk": 10_000})
    sampler_cap: int = 100_000
    clock_arms: tuple[int, ...] = (50, 200, 1000, 5000, 10_000, 20_000)
    clock_turns: int = 50
    theorem_runs: int = 64
    theorem_doublings: int = 17  # practical variant: T up to 2^17
    epochs: int = 13  # Algorithm 2: epochs 0 .. 13
    epoch_runs: int = 16

    @property
    def sphere_runs(self) -> int:
        """Runs on each of the drawn spheres."""
        return max(2, self.runs // 2)

    @property
    def effect_runs(self) -> int:
        """Runs of each variant of PEPS."""
        return max(2, self.runs // 5)


def quick(runs: int) -> Scale:
    """About a minute or two on a quiet machine; the figures are drawn, their numbers say little."""
    return Scale(
        runs,
        spheres=2,
        blocks={"soare": 2, "topk": 2},
        many_budgets={"soare": 1500, "topk": 3000, "3 of 50": 1000, "path": 150, "transductive": 400},
        budgets={"soare": 2000, "sphere": 600, "topk": 4000},
        sampler_runs=2,
        sampler_rounds={"soare": 1500, "sphere": 400, "topk": 1500},
        sampler_cap=5000,
        clock_turns=5,
        theorem_runs=8,
        theorem_doublings=12,
        epochs=8,
        epoch_runs=4,
    )


def tiny() -> Scale:
    """Seconds: for tests of the machinery."""
    return Scale(
        4,
        spheres=2,
        blocks={"soare": 2, "topk": 2},
        many_budgets={"soare": 40, "topk": 60, "3 of 50": 60, "path": 40, "transductive": 40},
        budgets={"soare": 60, "sphere": 40, "topk": 60},
        sampler_runs=1,
        sampler_rounds={"soare": 30, "sphere": 30, "topk": 30},
        sampler_cap=500,
        clock_arms=(50, 1000),
        clock_turns=2,
        theorem_runs=2,
        theorem_doublings=7,
        epochs=4,
        epoch_runs=2,
    )
