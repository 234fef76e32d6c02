"""Generated instances: reproducible, of the requested size, with errors by option."""

import math

import numpy as np
import pytest

from combopeps import load_instance, save_instance
from combopeps.errors import InstanceError
from combopeps.io.generators import FAMILIES
from combopeps.io.instance_files import to_document

RECIPES = [
    "topk:d=40,k=3",
    "grid:n=6,seed=2",
    "matching:n=7,seed=3",
    "matching:n=9,degree=3,seed=3",
    "matching:n=5,degree=1",
    "sphere:d=3,arms=8,seed=1",
    "sphere:",
    "soare:",
    "soare:d=4,omega=0.2",
    "tree:n=7,seed=1",
    "partition:groups=3,size=4,quota=2,seed=1",
    "knapsack:d=15,seed=1",
    "hard-topk:d=20,k=4,seed=1",
    "hard-grid:n=5",
    "hard-matching:n=6,seed=1",
]


def test_every_family_is_tried():
    assert {recipe.partition(":")[0] for recipe in RECIPES} == set(FAMILIES)


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_reproducible_and_can_be_saved(recipe, tmp_path):
    first, second = load_instance(recipe), load_instance(recipe)
    assert to_document(first) == to_document(second)
    assert first.name == recipe
    assert first.best is not None
    save_instance(first, tmp_path / "x.json")
    assert to_document(load_instance(tmp_path / "x.json")) == to_document(first)


@pytest.mark.parametrize("recipe", [recipe for recipe in RECIPES if "seed=" in recipe])
def test_another_seed_makes_another_instance(recipe):
    other = recipe.partition("seed=")[0] + "seed=99"
    assert not np.array_equal(load_instance(recipe).theta, load_instance(other).theta)


@pytest.mark.parametrize(
    ("recipe", "dim"),
    [
        ("tree:n=200", 19_900),
        ("grid:n=100,seed=0", 19_800),
        ("matching:n=2000,degree=10,seed=1", 20_000),
        ("topk:d=100000,k=100", 100_000),
    ],
)
def test_large_ones(recipe, dim):
    assert load_instance(recipe).oracle.dim == dim


def test_topk_has_a_gap():
    theta = np.sort(load_instance("topk:d=500,k=20,seed=5").theta)
    assert theta[-20] - theta[-21] >= 0.25


def test_a_sparse_matching_has_its_degrees():
    instance = load_instance("matching:n=30,degree=4,seed=2")
    degrees = np.bincount([i for i, _ in instance.labels])
    assert degrees.tolist() == [4] * 30
    assert len(set(instance.labels)) == 120


def test_hard_grids_have_one_free_route():
    instance = load_instance("hard-grid:n=7")
    assert np.count_nonzero(instance.theta == 0) == 12
    assert round(math.exp(instance.oracle.log_cardinality)) == math.comb(12, 6)


@pytest.mark.parametrize(
    ("recipe", "field"),
    [
        ("forest:n=3", ""),
        ("tree:n=2", "n"),
        ("tree:n=3000", "edges"),
        ("partition:groups=0,size=3", "items"),
        ("partition:groups=2,size=3,quota=4", ""),
        ("partition:groups=2,size=3,quota=0", ""),
        ("partition:groups=2", "size"),
        ("knapsack:d=0", "d"),
        (":", ""),
        ("grid:", "n"),
        ("grid:n=1", "n"),
        ("grid:n=0", "n"),
        ("grid:n=-3", "n"),
        ("grid:n=2.5", "n"),
        ("grid:n=nan", "n"),
        ("grid:n=1_0", "n"),
        ("grid:n=", "n"),
        ("grid:n=3,n=4", "n"),
        ("grid:n=3,m=4", "m"),
        ("grid:n=100000", "edges"),
        ("grid:n=" + "9" * 5000, "n"),
        ("topk:d=5,k=9", ""),
        ("topk:d=5,k=0", ""),
        ("topk:d=999999999,k=1", "d"),
        ("matching:n=5,degree=6", "degree"),
        ("matching:n=0", "degree"),
        ("matching:n=5000", "edges"),
        ("sphere:d=0", "numbers"),
        ("sphere:arms=1", "arms"),
        ("soare:d=1", "d"),
        ("soare:omega=0", "omega"),
        ("soare:omega=nan", "omega"),
        ("soare:omega=x", "omega"),
    ],
)
def test_invalid_recipes(recipe, field):
    with pytest.raises(InstanceError) as caught:
        load_instance(recipe)
    assert caught.value.field == field
