"""Can the arms tell the answers apart at all?"""

from __future__ import annotations

import numpy as np

from combopeps.belief.arms import Arms
from combopeps.errors import ReachError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.probe import first_answers

_KEPT = 8


def check_reach(arms: Arms, oracle: ArgmaxOracle, rng: int | np.random.Generator | None = 0) -> Array:
    """Raise `ReachError` if some two answers differ in a direction that no combination of arms measures.

    Differences z - z' of answers must lie in the row space of the arms: then, and only then, their order can be
    learnt. Answers are found by asking the oracle at random thetas; a direction that only unseen answers need is
    not found. Returns a few of them, which later answers can be compared with.
    """
    answers = first_answers(oracle, np.random.default_rng(rng))
    blind = _blind_part(arms, answers - answers[0])
    worst = blind[np.abs(blind).max(axis=1).argmax()]
    size = float(np.linalg.norm(worst))
    if size <= 1e-9 * float(np.abs(answers).max()):
        return answers[:_KEPT].copy()
    direction = worst / size
    largest = np.argsort(-np.abs(direction))[:4]
    named = ", ".join(f"{oracle.components[i]!r}: {direction[i]:+.3g}" for i in largest if abs(direction[i]) > 1e-9)
    raise ReachError(
        f"answers differ in the direction {{{named}}}, which no combination of the arms measures; "
        "add an arm with a component along it",
        direction,
    )


def _blind_part(arms: Arms, differences: Array) -> Array:
    """What remains of each difference after projection on the row space of the arms."""
    if arms.matrix is None:
        blind = differences.copy()
        blind[:, arms.component] = 0.0
        return blind
    return arms.span.blind(differences)
