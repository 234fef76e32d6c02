"""The constraints of `make test-lowest` are the floors of pyproject.toml, all of them."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("lowest", ROOT / ".ci" / "lowest.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def test_every_floor_becomes_a_pin_through_extras_of_extras():
    project = {
        "dependencies": ["numpy>=1.26"],
        "optional-dependencies": {"test": ["pytest>=8.0", "combopeps[plot]"], "plot": ["matplotlib>=3.8"]},
    }
    assert script.lowest(project) == ["numpy==1.26", "pytest==8.0", "matplotlib==3.8"]


def test_extras_of_a_requirement_are_no_part_of_its_pin_and_systems_are():
    lines = ["psycopg[binary]>=3.2", "uvloop>=0.21; sys_platform != 'win32'"]
    project = {"dependencies": lines, "optional-dependencies": {"test": []}}
    assert script.lowest(project) == ["psycopg==3.2", "uvloop==0.21; sys_platform != 'win32'"]


@pytest.mark.parametrize("requirement", ["numpy", "numpy>1.26", "numpy>=1.26,<3", "numpy~=1.26"])
def test_a_requirement_without_a_plain_floor_is_refused(requirement):
    with pytest.raises(SystemExit, match="name>=version"):
        script.lowest({"dependencies": [requirement], "optional-dependencies": {"test": []}})


def test_this_project_has_a_floor_for_everything():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = script.lowest(project)
    assert {"numpy", "scipy", "numba", "matplotlib", "pytest"} <= {pin.partition("==")[0] for pin in pins}
    assert len(pins) > len(project["dependencies"])
