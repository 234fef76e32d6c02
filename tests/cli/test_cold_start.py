"""`list`, `show` and `status` compile nothing, and a small `status` starts without what it does not need."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import combopeps
from combopeps import Campaign, load_instance
from combopeps.cli.main import main

HEAVY = {
    "numba",
    "ortools",
    "matplotlib",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "combopeps.viz",
}
AS_A_COMMAND = """
import sys
from combopeps.cli.main import main
code = main()
print(code, *sys.modules, file=sys.stderr)
"""


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "run.db"
    campaign = Campaign.create(path, load_instance("town"), delta=0.1)
    for value, query in enumerate(campaign.ask(6)):
        campaign.tell(query, float(value))
    return path


def fresh(cache, code, *words):
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True, text=True, check=True)


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "words", [["list"], ["show", "town"], ["status", "--state", "STATE"]], ids=lambda words: words[0]
)
def test_nothing_is_compiled_and_the_output_is_the_same(words, state, tmp_path, capsys):
    cache = tmp_path / "cache"
    cache.mkdir()
    words = [str(state) if word == "STATE" else word for word in words]
    done = fresh(cache, AS_A_COMMAND, *words)
    assert files(cache) == []
    code, *modules = done.stderr.split()
    assert main(words) == int(code)  # in this process kernels are compiled, or were
    assert done.stdout == capsys.readouterr().out
    if words[0] == "status":
        assert HEAVY.isdisjoint(modules)


USE = """
import sys
from combopeps import _compiled
if "spared" in sys.argv:
    _compiled.never_compile()
    _compiled.QUICK = -1.0  # no time for Python: load at once
import numpy as np
from combopeps.oracles._graph_kernels import topological_order
print(topological_order(np.array([0, 1, 2, 2], np.int32), np.array([1, 2], np.int32)))
if "spared" in sys.argv:
    print(len(topological_order._loaded.signatures), topological_order._missing)
"""


def test_kernels_come_from_the_cache_if_it_has_them(tmp_path):
    assert fresh(tmp_path, USE, "spared").stdout.splitlines() == ["[0 1 2]", "0 True"]  # it has none: Python
    assert files(tmp_path) == []
    assert fresh(tmp_path, USE).stdout.splitlines() == ["[0 1 2]"]
    assert files(tmp_path) != []  # as a process that may compile does: the look at the folder can see it
    assert fresh(tmp_path, USE, "spared").stdout.splitlines() == ["[0 1 2]", "1 False"]


def test_numba_is_imported_in_one_place():
    package = Path(combopeps.__file__).parent
    importing = [
        path.name for path in package.rglob("*.py") if re.search(r"^\s*(from|import) numba", path.read_text(), re.M)
    ]
    assert importing == ["_compiled.py"]  # kernels take njit from there, or a look would compile them
