"""Compiled solvers do not change the SIGINT handler: Ctrl-C after a solve is a KeyboardInterrupt."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
RAISE = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""
MODEL = """
from ortools.sat.python import cp_model
model = cp_model.CpModel()
a, b = model.new_bool_var("a"), model.new_bool_var("b")
model.add_exactly_one(a, b)
"""
SOLVERS = {
    "cp-sat": MODEL
    + """
from combopeps import CpSatOracle
CpSatOracle(model, [a, b]).argmax([1.0, 2.0])
""",
    "highs": """
from combopeps import MilpOracle
MilpOracle(2, [[1.0, 1.0]], [1.0], [1.0]).argmax([1.0, 2.0])
""",
    "or-tools assignment": """
from combopeps import MatchingOracle
MatchingOracle(3, 3, engine="ortools").argmax(range(9))
""",
}


def after(code):
    return subprocess.run([sys.executable, "-c", code + RAISE], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interrupt_after_a_solve_is_a_keyboard_interrupt(solver):
    run = after(SOLVERS[solver])
    assert (run.returncode, run.stdout) == (0, "KeyboardInterrupt\n"), run.stderr


def test_default_handler_of_cp_sat_would_kill_the_process():
    run = after(MODEL + "cp_model.CpSolver().solve(model)\n")
    assert run.returncode != 0
    assert "KeyboardInterrupt" not in run.stdout
