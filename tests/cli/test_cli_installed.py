"""The installed command: the README in a shell, and starts that load and compile nothing needless."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import combopeps
from combopeps import Campaign, load_instance
from combopeps.cli import main

ROOT = Path(__file__).resolve().parents[2]


BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.S | re.M)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The console script of a wheel, in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", str(ROOT), "--no-deps", "-w", str(folder)], check=True, timeout=120)
    (wheel,) = folder.glob("combopeps-*.whl")
    site = folder / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", str(site), str(wheel)], check=True, timeout=120)
    return site


def shell(block, site, folder, first=""):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{first}:{site}".strip(":"),
        "PATH": f"{site / 'bin'}:{os.environ['PATH']}",
    }
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_no_command_hides_outside_the_blocks_that_are_run():
    text = (ROOT / "README.md").read_text()
    outside = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    assert not re.findall(r"^(?: {4})?\$? ?combopeps \w+", outside, flags=re.M)
    commands = {word for block in BLOCKS for word in re.findall(r"^combopeps (\w+)", block, flags=re.M)}
    assert commands >= {"solve", "init", "ask", "tell", "status", "show", "compare"}


@pytest.mark.parametrize(
    "code", [pytest.param(ROOT, id="checkout"), pytest.param("", id="wheel", marks=pytest.mark.slow)]
)  # the wheel compiles all its kernels anew
def test_the_blocks_one_after_the_other(installed, tmp_path, code):
    said = ""
    for block in BLOCKS:
        done = shell(block, installed, tmp_path, code)
        assert done.returncode == 0, block + done.stdout + done.stderr
        said += done.stdout
    assert "home -> tunnel -> bridge -> work" in said
    for picture in ("route.png", "curves.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "run.db").exists()


def test_a_wrong_block_would_be_noticed(installed, tmp_path):
    assert shell("combopeps show no-such-thing\ntrue", installed, tmp_path).returncode == 1


def test_away_from_a_checkout_bench_says_what_it_needs(installed, tmp_path):
    done = shell("combopeps bench", installed, tmp_path)
    assert done.returncode == 1
    assert "checkout" in done.stderr
    assert done.stderr.count("\n") == 1


HEAVY = {
    "numba",
    "ortools",
    "matplotlib",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse.csgraph",
    "combopeps.viz.canvas",
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
    if words[0] == "list":
        assert {"numpy", "networkx", "scipy", "combopeps.oracles", "combopeps.session"}.isdisjoint(modules)


USE = """
import sys
from combopeps.utils import jit
jit.MAX_PYTHON_STEPS = jit.MAX_UNCOMPILED_STEPS = -1.0  # no steps in Python: load at once
if "spared" in sys.argv:
    jit.disable_compilation()
import numpy as np
from combopeps.oracles._graph_kernels import topological_order
print(topological_order(np.array([0, 1, 2, 2], np.int32), np.array([1, 2], np.int32)))
if "spared" in sys.argv:
    print(len(topological_order.signatures), topological_order._is_missing)
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
    assert importing == ["jit.py"]  # kernels take njit from there, or a look would compile them
