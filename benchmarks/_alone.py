"""A measurement in a process of its own, with one thread: its memory is its own, and it has no history."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def alone(module: str, params: dict[str, Any]) -> dict[str, Any]:
    """What `python -m module PARAMS` prints, both as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(params)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **THREADS},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {params}: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def megabytes() -> float:
    """The most memory that this process has had."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
