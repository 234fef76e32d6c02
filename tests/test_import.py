"""`import combopeps` is cheap, lazy and complete."""

import subprocess
import sys

import pytest

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
        "from combopeps import MatchingOracle; MatchingOracle(2, 2).argmax([1.0, 2.0, 3.0, 4.0])",
    ],
)
def test_heavy_packages_are_loaded_on_first_use_only(statement):
    loaded = run(f"{statement}\nimport sys\nprint(*sys.modules)").split()
    assert "combopeps" in loaded
    assert HEAVY.isdisjoint(loaded)


def test_the_look_at_loaded_packages_can_see_them():
    loaded = run("import numba, sys\nprint(*sys.modules)").split()
    assert not HEAVY.isdisjoint(loaded)


def test_import_takes_less_than_half_a_second():
    code = (
        "from time import perf_counter\nstart = perf_counter()\n"
        "import combopeps\nfrom combopeps import TopKOracle\nprint(perf_counter() - start)"
    )
    assert min(float(run(code)) for _ in range(5)) < 0.5


@pytest.mark.parametrize("name", combopeps.__all__)
def test_every_public_name_resolves(name):
    assert getattr(combopeps, name) is not None
    assert name in dir(combopeps)


def test_every_public_name_is_what_its_module_offers():
    import combopeps.errors
    import combopeps.oracles

    for name in combopeps.oracles.__all__:
        assert getattr(combopeps, name) is getattr(combopeps.oracles, name)
    errors = {name for name, value in vars(combopeps.errors).items() if isinstance(value, type)}
    for name in errors & {name for name in errors if issubclass(getattr(combopeps.errors, name), Exception)}:
        assert getattr(combopeps, name) is getattr(combopeps.errors, name)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'TopOracle'"):
        combopeps.TopOracle  # noqa: B018
    assert not hasattr(combopeps, "oracle")
    with pytest.raises(ImportError):
        from combopeps import TopOracle  # noqa: F401


def test_public_names_are_listed_once_and_typed():
    assert len(set(combopeps.__all__)) == len(combopeps.__all__)
    assert sorted(combopeps.__all__) == dir(combopeps)
