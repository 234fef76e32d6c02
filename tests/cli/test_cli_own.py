"""`--oracle package.module:factory`: from the person, on every command that needs it."""

import json
import subprocess
import sys

import pytest
from tampering import alter

from combopeps.cli import main

MODULE = """
import numpy as np
from combopeps import ArgmaxOracle, Problem
from combopeps.io import Instance

print("loading")

class Best(ArgmaxOracle):
    def _argmax_batch(self, thetas):
        return np.eye(self.dim)[thetas.argmax(axis=1)]

def make(): return Best(["a", "b", "c"])
def other(): return Best(["a", "b", "d"])
def problem(): return Problem(make(), noise_std=0.25)
def instance(): return Instance("mine", problem(), [0.0, 2.0, 1.0])
def number(): return 3
def fails(): raise RuntimeError("no licence")
def leaves(): raise SystemExit(0)
oracle = make()
class Shop:
    make = staticmethod(make)
"""


@pytest.fixture
def call(capsys, tmp_path, monkeypatch, request):
    """Run a command in a folder with a module of one's own, under a name that no other test uses."""
    monkeypatch.chdir(tmp_path)
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / f"{name}_broken.py").write_text("import no_such_package_here\n")
    (tmp_path / f"{name}_raises.py").write_text("raise ValueError('half written')\n")

    def run(line, *, code=0):
        got = main(line.replace("OWN", name).split())
        out, err = capsys.readouterr()
        assert got == code, out + err
        return json.loads(out) if "--json" in line else out + err

    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    return run


def test_a_campaign_from_beginning_to_end(call):
    assert "--oracle" in call("init --oracle OWN:make --state run.db")
    own = "--oracle OWN:make --state run.db"
    queries = call(f"ask {own} -n 3 --json")["queries"]
    assert len(queries) == 3
    call(f"tell {own} 0 1.5")
    call(f"abandon {own} 1")
    call(f"observe {own} b 2.5")
    status = call(f"status {own} --json", code=3)
    assert status["samples"] == 2
    assert "--oracle" in call(f"status {own}", code=3)
    assert call(f"check {own} --json") == {"sound": True, "faults": [], "events": 5, "asked": 3, "told": 2}


def test_without_or_with_another_one(call):
    call("init --oracle OWN:make --state run.db")
    for command in ("ask", "status", "tell", "abandon", "check", "observe"):
        rest = {"tell": " 0 1", "abandon": " 0", "observe": " a 1"}.get(command, "")
        said = call(f"{command} --state run.db{rest} --json", code=1)
        assert said["type"] == "OtherOracleError"
        assert "--oracle package.module:factory" in said["error"]
    said = call("ask --state run.db --oracle OWN:other --json", code=1)
    assert said["type"] == "OtherOracleError"
    assert "lacks ['c'] and adds ['d']" in said["error"]


def test_problems_and_instances_bring_more(call):
    assert call("show --oracle OWN:problem --json")["noise_std"] == 0.25
    assert call("show --oracle OWN:problem --noise 3 --json")["noise_std"] == 3.0
    assert call("solve --oracle OWN:instance --json")["answer"] == ["b"]
    call("init --oracle OWN:instance --state run.db")
    call("ask --state run.db --oracle OWN:instance")
    call("ask --state run.db --oracle OWN:Shop.make")
    assert "no Instance with a theta" in call("solve --oracle OWN:make", code=1)


def test_a_campaign_of_a_known_kind_takes_none_of_another(call):
    call("init topk-paper --state run.db")
    assert call("ask --state run.db --oracle OWN:make --json", code=1)["type"] == "OtherOracleError"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("OWN", "takes package.module:factory"),
        ("OWN:", "takes package.module:factory"),
        (":make", "takes package.module:factory"),
        ("../OWN:make", "takes package.module:factory"),
        ("no_such_module_here:make", "there is no module 'no_such_module_here'"),
        ("OWN.inner:make", "raised|no module"),
        ("OWN_broken:make", "needs 'no_such_package_here', which is not installed"),
        ("OWN_raises:make", "raised ValueError: half written"),
        ("OWN:nothing", "there is no 'nothing'"),
        ("OWN:oracle", "is a Best, not a function"),
        ("OWN:number", "returned a int"),
        ("OWN:fails", "raised RuntimeError: no licence"),
        ("OWN:leaves", "raised SystemExit"),
    ],
)
def test_what_is_wrong_is_said(call, spec, message):
    for line in (f"init --oracle {spec} --state run.db --json", f"show --oracle {spec} --json"):
        said = call(line, code=1)
        assert said["type"] == "ParameterError"
        assert any(part in said["error"] for part in message.split("|")), said


def test_a_problem_is_named_once(call):
    call("init --state run.db", code=2)
    call("init town --oracle OWN:make --state run.db", code=2)
    assert "no meaning" in call("show --oracle OWN:make --k 2", code=1)


def test_as_a_command_modules_of_the_folder_are_found(tmp_path):
    (tmp_path / "shop.py").write_text(MODULE)
    command = [sys.executable, "-P", "-c", "import sys; from combopeps.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, "show", "--oracle", "shop:make", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["d"] == 3
    assert "loading" in done.stderr


def test_a_file_cannot_name_a_module(call, tmp_path):
    """Whatever stands in a header, nothing is imported because of it."""
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n")
    call("init --oracle OWN:make --state run.db")
    alter(tmp_path / "run.db", 1, '"class":"Best"', '"class":"trap:make"')
    call("ask --state run.db", code=1)
    call("ask --state run.db --oracle OWN:make", code=1)  # the checksum of the event
    assert not (tmp_path / "sprung").exists()
