"""`Progress`: the bar that `identify` shows."""

from __future__ import annotations

from combopeps.stopping.base import Situation


class Progress:
    """A bar with measurements, current answer and error probability.

    Parameters
    ----------
    show
        Whether there is a bar at all.
    budget
        Where it ends; None if nobody knows.
    """

    def __init__(self, show: bool, budget: int | None) -> None:
        self.show, self.budget = show, budget

    def __enter__(self) -> Progress:
        from tqdm import tqdm

        self._bar = tqdm(total=self.budget, disable=not self.show, unit=" samples")
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def update(self, made: int, now: Situation, epsilon: float) -> None:
        """Show the state after so many measurements."""
        if self.show:
            wrong = "wrong" if epsilon == 0.0 else f"worse by more than {epsilon:g}"
            self._bar.n = made
            self._bar.set_postfix_str(
                f"{wrong} with p = {now.risk(epsilon):.2g}, answer {now.oracle.decode(now.z_hat)!s:.60}"
            )
