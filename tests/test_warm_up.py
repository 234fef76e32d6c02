"""`python -m combopeps.warm_up`: one line, and no kernel is left to be compiled."""

import os
import re
import subprocess
import sys

import pytest

from combopeps import oracles, warm_up

RUNS = """
import warnings
import numpy as np
from combopeps import identify, load_instance

warnings.simplefilter("ignore")
for name in ("topk-paper", "town", "two-nets", "cyclic-matching", "tree-e20", "knapsack-20", "partition-10", "sphere"):
    instance = load_instance(name)
    arms, rng = instance.problem.arms, np.random.default_rng(0)
    means = instance.theta[arms.component] if arms.matrix is None else arms.matrix @ instance.theta
    values = dict(zip(arms.labels, means))
    for rule in ("posterior", "guaranteed"):
        identify(instance.problem, lambda label: values[label] + rng.normal(), stopping=rule, budget=150)
"""


def run(cache, *words):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=600)


def contents(cache):
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}


def test_one_line_with_the_seconds(capsys, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    made = warm_up.problems()
    monkeypatch.setattr(warm_up, "problems", lambda: {"top-k": made["top-k"]})
    assert warm_up.main() == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"kernels are compiled and cached, in \d+\.\d s\n", out)
    assert err == ""


def test_each_family_of_oracles_with_compiled_loops_has_a_problem():
    used = {type(problem.oracle) for problem in warm_up.problems().values()}
    for_others = {oracles.CpSatOracle, oracles.MatroidOracle, oracles.MilpOracle}  # which call a solver, or Python
    classes = {getattr(oracles, name) for name in oracles.__all__}
    families = {made for made in classes if isinstance(made, type) and issubclass(made, oracles.ArgmaxOracle)}
    assert used == families - for_others - {oracles.ArgmaxOracle, oracles.CheckedOracle, oracles.ProductOracle}


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file" / "cache", "-m", "combopeps.warm_up")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: NUMBA_CACHE_DIR cannot be written")


@pytest.mark.slow
def test_nothing_is_compiled_afterwards(tmp_path):
    warm, cold = tmp_path / "warm", tmp_path / "cold"
    assert run(warm, "-m", "combopeps.warm_up").returncode == 0
    held = contents(warm)
    assert len(held) > 100
    done = run(warm, "-c", RUNS)
    assert done.returncode == 0, done.stderr
    assert contents(warm) == held
    assert run(cold, "-c", RUNS).returncode == 0  # the negative control
    assert len(contents(cold)) > 100
