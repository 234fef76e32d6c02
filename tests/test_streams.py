"""The compiled streams: the published generator, the right laws, and rows that do not know of each other.

Every Kolmogorov-Smirnov test below raises a false alarm with probability 1e-6 (over the choice of the seed).
"""

import numpy as np
import pytest
from scipy import stats

from combopeps import random as streams
from combopeps.random import Streams, named_seed

ALARM = 1e-6
SIZE = 20_000


def state(seed=0):
    return np.random.SeedSequence(seed).generate_state(4, np.uint64)


def test_reference_vector_of_xoshiro256plusplus():
    words = np.array([1, 2, 3, 4], dtype=np.uint64)
    drawn = [int(streams._next(words)) for _ in range(4)]
    assert drawn == [41943041, 58720359, 3588806011781223, 3591011842654386]


@pytest.mark.parametrize(("draw", "law"), [("uniform", "uniform"), ("normal", "norm"), ("exponential", "expon")])
def test_law_of_single_draws(draw, law):
    words = state()
    sample = np.array([getattr(streams, draw)(words) for _ in range(SIZE)])
    assert stats.kstest(sample, law).pvalue > ALARM
    assert stats.kstest(1.05 * sample + 0.05, law).pvalue < ALARM  # the test has the power to see a small error


@pytest.mark.parametrize("length", [1, 2, 7])
def test_law_of_filled_normals(length):
    words, out = state(1), np.empty((SIZE // length, length))
    for row in out:
        streams.fill_normals(words, row)
    for column in out.T:
        assert stats.kstest(column, "norm").pvalue > ALARM
    assert stats.kstest(out.ravel(), "norm").pvalue > ALARM
    if length > 1:  # the two of one polar pair are independent: the correlation has standard deviation 1 / sqrt(n)
        for values in (out, out**2):
            assert abs(np.corrcoef(values[:, 0], values[:, 1])[0, 1]) < 5 / np.sqrt(len(out))


def test_uniforms_stay_below_one():
    full = np.array([0, 0, 0, 2**64 - 1], dtype=np.uint64)  # the first output is rotl(2^64 - 1) + 0: all bits set
    assert streams.uniform(full) == 1.0 - 2.0**-53


def test_rows_do_not_depend_on_how_they_are_grouped():
    seeds = np.random.SeedSequence(3).spawn(5)
    together, alone = Streams(seeds), [Streams([seed]) for seed in seeds]
    for _ in range(3):
        np.testing.assert_array_equal(together.uniform(), np.concatenate([one.uniform() for one in alone]))
        np.testing.assert_array_equal(together.normal(3), np.concatenate([one.normal(3) for one in alone]))
    for r, one in enumerate(alone):
        np.testing.assert_array_equal(together.generator(r).random(4), one.generator(0).random(4))


def test_rows_differ_from_each_other_and_from_their_generators():
    streams = Streams.of(0, 100)
    draws = np.concatenate([streams.uniform(), [streams.generator(r).random() for r in range(100)]])
    assert len(np.unique(draws)) == 200


def test_the_generator_of_a_row_is_made_once_and_the_same_again():
    streams = Streams.of(5, 2)
    assert streams.generator(1) is streams.generator(1)
    streams.uniform()
    np.testing.assert_array_equal(streams.generator(0).random(5), Streams.of(5, 2).generator(0).random(5))


def test_streams_of_a_generator_follow_its_seed_and_none_is_unpredictable():
    first, second, third = (Streams.of(np.random.default_rng(seed), 2).normal(2) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert (first != third).all()
    assert (Streams.of(None, 1).normal(4) != Streams.of(None, 1).normal(4)).all()


def test_a_named_stream_depends_on_owner_name_and_moment_alone():
    owner = np.random.SeedSequence(5).spawn(2)[1]
    keys = [("look", 3), ("look", 4), ("look",), ("nature",), ("generator",)]
    draws = [np.random.default_rng(named_seed(owner, *key)).random() for key in keys]
    assert len({*draws, np.random.default_rng(named_seed(7, *keys[0])).random()}) == len(keys) + 1
    owner.spawn(3)  # whatever else it was asked for
    assert draws == [np.random.default_rng(named_seed(owner, *key)).random() for key in keys]
    assert draws[0] == np.random.default_rng(Streams([owner]).named(0, *keys[0])).random()


@pytest.mark.parametrize(
    ("name", "number"), [("policy", 0), ("query", 1), ("status", 2), ("generator", 1), ("nature", 2), ("look", 3)]
)
def test_the_numbers_behind_the_names_stay(name, number):
    """What a campaign asks next depends on them."""
    expected = np.random.SeedSequence(9, spawn_key=(number, 4)).generate_state(4)
    np.testing.assert_array_equal(named_seed(9, name, 4).generate_state(4), expected)


def test_a_stream_without_a_name_is_refused():
    with pytest.raises(KeyError):
        named_seed(0, "aside")
