"""The constraints of `make test-lowest` are the floors of pyproject.toml, all of them."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
spec = importlib.util.spec_from_file_location("lowest", ROOT / ".ci" / "lowest.py")
script = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def of(dependencies, extras=None, test=()):
    project = {"dependencies": dependencies, "optional-dependencies": extras or {}}
    return {"project": project, "dependency-groups": {"test": list(test), "docs": ["sphinx>=8.2"]}}


def test_every_floor_becomes_a_pin_with_extras_and_included_groups():
    extras = {"plot": ["matplotlib>=3.8"], "all": ["combopeps[plot,pandas]"], "pandas": ["pandas>=2.1"]}
    found = script.lowest(of(["numpy>=1.26"], extras, ["pytest>=8.0", {"include-group": "docs"}]))
    assert found == ["numpy==1.26", "matplotlib==3.8", "pandas==2.1", "pytest==8.0", "sphinx==8.2"]


def test_extras_of_a_requirement_are_no_part_of_its_pin_and_systems_are():
    found = script.lowest(of(["psycopg[binary]>=3.2", "uvloop>=0.21; sys_platform != 'win32'"]))
    assert found == ["psycopg==3.2", "uvloop==0.21; sys_platform != 'win32'"]


@pytest.mark.parametrize("requirement", ["numpy", "numpy>1.26", "numpy>=1.26,<3", "numpy~=1.26"])
def test_a_requirement_without_a_plain_floor_is_refused(requirement):
    with pytest.raises(SystemExit, match="name>=version"):
        script.lowest(of([requirement]))


def test_this_project_has_a_floor_for_everything():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pins = script.lowest(pyproject)
    assert {"numpy", "scipy", "numba", "matplotlib", "pytest"} <= {pin.partition("==")[0] for pin in pins}
    assert len(pins) > len(pyproject["project"]["dependencies"])
