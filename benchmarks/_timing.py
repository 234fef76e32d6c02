"""Interleaved timing: rivals take turns, so that a busy machine slows all of them alike."""

from __future__ import annotations

import time
from collections.abc import Callable


def best_times(
    rivals: dict[str, Callable[[], object]],
    *,
    seconds: float = 0.3,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds per call of each rival: the best of `rounds` turns, the turns interleaved."""
    repeats = {}
    for name, call in rivals.items():
        call()
        start = clock()
        call()
        once = clock() - start
        repeats[name] = max(1, int(seconds / rounds / max(once, 1e-7)))
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(rounds):
        for name, call in rivals.items():
            start = clock()
            for _ in range(repeats[name]):
                call()
            best[name] = min(best[name], (clock() - start) / repeats[name])
    return best
