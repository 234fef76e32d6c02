"""The first call: few kernels are compiled, Python and numba compute the same bits, and a line says what takes long."""

import json
import os
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from combopeps import ShortestPathOracle, identify, load_instance, random
from combopeps.alternatives import _kernels, facets
from combopeps.oracles import _graph_kernels, path
from combopeps.posterior import gaussian
from combopeps.session import diagnostics
from combopeps.utils import jit

EXAMPLE = """
import json, sys
import networkx as nx
import numpy as np
from combopeps import ShortestPathOracle, identify
minutes = {("home", "bridge"): 9, ("home", "tunnel"): 4, ("tunnel", "bridge"): 2,
           ("bridge", "work"): 5, ("tunnel", "work"): 8}
traffic = np.random.default_rng(0)
routes = ShortestPathOracle(nx.DiGraph(list(minutes)), "home", "work")
result = identify(routes, lambda road: minutes[road] + traffic.normal(), delta=0.01)
print(json.dumps([list(result.pulls.values()), result.error_probability]))
print(json.dumps(sorted(sys.modules)))
"""
COUNTING = """
import json
from numba.core import event
compiled = []
class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__module__ + "." + event.data["dispatcher"].py_func.__name__)
    def on_end(self, event):
        pass
event.register("numba:compile", Listener())
"""
AT_ONCE = "from combopeps.utils import jit\njit.MAX_PYTHON_STEPS = -1.0\n"


def python(cache, code, **variables):
    env = {key: value for key, value in os.environ.items() if key != "COMBOPEPS_QUIET"}
    env |= {"NUMBA_CACHE_DIR": str(cache)} | variables
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=300
    )


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """The example of the README with an empty cache: what was compiled, and the process."""
    done = python(tmp_path_factory.mktemp("cache"), COUNTING + EXAMPLE + "print(json.dumps(compiled))")
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_the_example_compiles_few_kernels_and_no_text(cold):
    (_, modules, compiled), _ = cold
    ours = [name for name in compiled if name.startswith("combopeps.")]
    assert "combopeps.alternatives._kernels.karp_luby" in ours  # the negative control: most of the work is compiled
    assert len(ours) <= 14
    assert len(compiled) <= 20
    assert not [name for name in compiled if "unicode" in name]
    heavy = {"scipy.stats", "scipy.optimize", "ortools", "joblib", "pandas", "matplotlib", "combopeps.oracles.milp"}
    assert heavy.isdisjoint(modules)


def test_results_do_not_depend_on_what_is_compiled(cold, monkeypatch):
    monkeypatch.setattr(jit, "MAX_PYTHON_STEPS", -1.0)
    roads = {
        ("home", "bridge"): 9,
        ("home", "tunnel"): 4,
        ("tunnel", "bridge"): 2,
        ("bridge", "work"): 5,
        ("tunnel", "work"): 8,
    }
    traffic = np.random.default_rng(0)
    routes = ShortestPathOracle(nx.DiGraph(list(roads)), "home", "work")
    result = identify(routes, lambda road: roads[road] + traffic.normal(), delta=0.01)
    assert [list(result.pulls.values()), result.error_probability] == cold[0][0]


def test_a_line_tells_about_compilation_unless_it_is_switched_off(cold, tmp_path):
    code = (
        AT_ONCE + "jit._MAX_SILENT_SECONDS = {}\nfrom combopeps.posterior.normal_tails import log_ndtr\nlog_ndtr(0.0)"
    )
    line = "combopeps: compiling kernels, once per machine (COMBOPEPS_QUIET=1 hides this line)\n"
    assert cold[1] in ("", line)  # which depends on the machine
    assert python(tmp_path / "a", code.format(1e9)).stderr == ""
    assert python(tmp_path / "b", code.format(0.0)).stderr == line
    assert python(tmp_path / "b", code.format(0.0)).stderr == ""  # it is in the cache
    assert python(tmp_path / "c", code.format(0.0), COMBOPEPS_QUIET="1").stderr == ""


MODULES = _kernels, facets, _graph_kernels, path, gaussian, random, diagnostics
KERNELS = {
    f"{module.__name__}.{name}": kernel
    for module in MODULES
    for name, kernel in vars(module).items()
    if isinstance(kernel, jit.Kernel) and kernel.has_estimate and kernel.__module__ == module.__name__
}


def test_all_kernels_that_python_runs_are_compared():
    loaded = [module for name, module in sys.modules.items() if name.startswith("combopeps.")]
    others = [kernel for module in loaded for kernel in vars(module).values() if isinstance(kernel, jit.Kernel)]
    assert {kernel.__module__ for kernel in others if kernel.has_estimate} == {module.__name__ for module in MODULES}


@pytest.fixture
def every_call(monkeypatch):
    """Every call of a kernel that Python may run is computed twice: by Python, and by numba; the bits are equal."""
    calls = dict.fromkeys(KERNELS, 0)

    def compare(name, kernel):
        def run(*args):
            copies = copied(args)
            by_numba = kernel._dispatch()(*copies)
            by_python = kernel._run_python(*args)
            assert bits((by_python, args)) == bits((by_numba, copies)), name
            calls[name] += 1
            return by_python

        return run

    for name, kernel in KERNELS.items():
        monkeypatch.setattr(kernel, "_run", compare(name, kernel))
    return calls


def copied(value):
    if isinstance(value, tuple):
        return tuple(copied(entry) for entry in value)
    return value.copy() if isinstance(value, np.ndarray) else value


def bits(value):
    if isinstance(value, tuple):
        return [bits(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.tobytes()
    return float(value).hex() if isinstance(value, (float, np.floating)) else value


def measured(instance, seed):
    arms, rng = instance.problem.arms, np.random.default_rng(seed)
    means = dict(zip(arms.labels, arms.dot(instance.theta[None])[0], strict=True))
    return lambda label: float(means[label] + 0.3 * rng.normal())


def test_python_and_numba_compute_the_same_bits(every_call):
    for name, policy in [("two-nets", "greedy"), ("town", "peps"), ("topk-paper", "greedy"), ("sphere", "greedy")]:
        instance = load_instance(name)
        identify(instance.problem, measured(instance, 1), policy=policy, budget=25, rng=2)
    graph = nx.DiGraph([(i, j) for i in range(5) for j in range(i + 1, 5)])
    oracle = ShortestPathOracle(graph, 0, 4)
    assert oracle.log_cardinality == pytest.approx(np.log(8))
    rng = np.random.default_rng(3)
    size, states = 600, np.arange(1, 9, dtype=np.uint64).reshape(2, 4)
    log_w, weight, blocks = -800 * rng.random(size), np.empty(size), np.empty(3)
    assert _kernels.sum_weights(0, size, log_w, log_w.max(), weight, blocks) > 1.0
    assert _kernels.sum_weights(300, size, log_w, log_w.max() + 0.1, weight, blocks) > 1.0
    _kernels.log_weights_at(size, rng.normal(size=size) * 10, rng.random(size), 0.7, log_w)
    for spread in (rng.random(4), np.linalg.cholesky(np.cov(rng.normal(size=(4, 9))))):
        rows = 3, np.array([0, 2, 3, 4]), np.array([0, 1, 2, 3], np.int32), rng.normal(size=4)
        gap, width, log_weights = np.empty(3), np.empty(3), np.empty(3)
        _kernels.compute_weights(0, *rows, rng.normal(size=4), spread, 2.0, gap, width, log_weights)
        facets.information(rows, np.exp(log_weights), width, np.empty(spread.shape))
    random._uniforms(states, np.empty(2))
    random._normals(states, np.empty((2, 1001)))
    unused = [name for name, count in every_call.items() if not count]
    assert not unused, f"kernels that are not compared: {unused}"
