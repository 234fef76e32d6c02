"""`import combopeps` is cheap, lazy and complete."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from public_names import public_objects, reference

import combopeps

HEAVY = {"numba", "ortools", "matplotlib"}


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "statement",
    [
        "import combopeps",
        "from combopeps import TopKOracle; TopKOracle(3, 1).argmax([1.0, 2.0, 3.0])",
        "from combopeps import ComboPepsError, ExplicitOracle, MatchingOracle, ShortestPathOracle, check_oracle",
        "from combopeps import MatroidOracle; MatroidOracle(3, lambda s: len(s) < 2).argmax([1.0, 2.0, 3.0])",
        "from combopeps import PartitionOracle; PartitionOracle([[1, 2], [3, 4]], 1)",
        "from combopeps import MatchingOracle; MatchingOracle(2, 2).argmax([1.0, 2.0, 3.0, 4.0])",
        "from combopeps import CpSatOracle, MilpOracle; MilpOracle(2, [[1, 1]], 0, 1).argmax([1.0, 2.0])",
    ],
)
def test_heavy_packages_are_loaded_on_first_use_only(statement):
    loaded = run(f"{statement}\nimport sys\nprint(*sys.modules)").split()
    assert "combopeps" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_the_look_at_loaded_packages_can_see_them():
    loaded = run("import numba, sys\nprint(*sys.modules)").split()
    assert not HEAVY.isdisjoint(loaded)


def packages_of(code):
    """Packages that some code loads, besides the standard library and what numpy does."""
    first, loaded = (
        {module.partition(".")[0] for module in run(f"{text}\nimport sys\nprint(*sys.modules)").split()}
        for text in ("import numpy", code)
    )
    return loaded - first - sys.stdlib_module_names


def test_import_costs_numpy_and_little_else():
    assert packages_of("import combopeps\nfrom combopeps import TopKOracle") == {"combopeps"}
    assert "scipy" in packages_of("from combopeps import TopKOracle\nTopKOracle(3, 1).facets([1.0, 0.0, 0.0])")


@pytest.mark.parametrize("name", combopeps.__all__)
def test_every_public_name_resolves(name):
    assert getattr(combopeps, name) is not None
    assert name in dir(combopeps)


def test_the_top_level_is_small_and_in_the_reference():
    assert len(combopeps.__all__) - len({"__version__"}) <= 45
    missing = set(combopeps.__all__) - {"__version__"} - {name.rpartition(".")[2] for name in reference()}
    assert missing == set()


def test_every_name_of_the_reference_exists():
    assert len(public_objects()) > 100


def test_every_exception_is_in_the_reference():
    from combopeps import errors

    names = {
        name for name, value in vars(errors).items() if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert len(names) > 10
    assert names <= {name.rpartition(".")[2] for name in reference()}


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'TopOracle'"):
        combopeps.TopOracle  # noqa: B018
    assert not hasattr(combopeps, "oracle")
    with pytest.raises(ImportError):
        from combopeps import TopOracle  # noqa: F401


def written_names():
    """From the text of the package: the names imported on first use, and those that a type checker is shown."""
    tree = ast.parse(Path(combopeps.__file__).read_text(encoding="utf-8"))
    (modules,) = (node.value for node in tree.body if ast.unparse(node).startswith("_MODULES ="))
    (shown, *_) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    typed = [alias.name for line in shown.body for alias in line.names]
    return [name for names in modules.values for name in ast.literal_eval(names).split()], typed


def test_public_names_are_written_once_and_all_of_them_are_typed():
    names, typed = written_names()
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert set(names) == set(typed)
    assert {*names, "__version__"} == set(combopeps.__all__)
    assert (Path(combopeps.__file__).parent / "py.typed").exists()
