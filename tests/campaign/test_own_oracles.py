"""User-defined oracles in a campaign: the file holds a fingerprint, and `open` takes the oracle."""

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backends import events
from cases import go_on, same_state
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Campaign, TopKOracle
from combopeps.campaign import check
from combopeps.campaign.custom_oracle import _thetas
from combopeps.campaign.open_store import store_at
from combopeps.errors import InstanceError, OracleError, OracleMismatchError, ParameterError, StateFileError
from combopeps.oracles import CheckedOracle

HERE = Path(__file__).parent


class PairOracle(ArgmaxOracle):
    """Two neighbours on a line, chosen by the sum of their numbers; `gap` is how far they are apart."""

    def __init__(self, components, gap=1):
        super().__init__(components)
        self.gap, self.rows = gap, 0

    def _argmax_batch(self, thetas):
        self.rows += len(thetas)
        worth = thetas[:, : -self.gap] + thetas[:, self.gap :]
        first = worth.argmax(axis=1)
        z = np.zeros(thetas.shape)
        z[np.arange(len(z)), first] = z[np.arange(len(z)), first + self.gap] = 1.0
        return z


class CostOracle(PairOracle):
    domain = "nonnegative"


NAMES = ["a", "b", ("c", 1), 4]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.db"


def test_a_reopened_campaign_continues_with_the_stored_arms_noise_and_prior(path, tmp_path):
    rows = {"left": [1.0, 1.0, 0.0, 0.0], "right": [0.0, 0.0, 1.0, 1.0], "mid": [0.0, 1.0, 1.0, 0.0]}
    problem = unit_problem(PairOracle(NAMES), rows, noise_std=[0.5, 0.6, 0.7], prior_std=0.5)
    whole = Campaign.create(tmp_path / "whole.db", problem, rng=3)
    go_on(whole, 30)
    Campaign.create(path, problem, rng=3)
    for samples in (10, 20, 30):
        go_on(Campaign.open(path, oracle=PairOracle(NAMES)), samples)
    again = Campaign.open(path, oracle=PairOracle(NAMES))
    same_state(whole, again)
    assert (again.problem.arms.labels, again.problem.noise.tolist()) == (tuple(rows), [0.5, 0.6, 0.7])
    assert again.problem.prior_std == 0.5


@pytest.mark.parametrize(
    ("other", "differs", "message"),
    [
        (PairOracle(["a", "b", ("c", 1), 5]), "components", r"lacks \[4\] and adds \[5\]"),
        (PairOracle(NAMES[:3]), "components", r"lacks \[4\]"),
        (PairOracle([*NAMES, "e"]), "components", r"adds \['e'\]"),
        (PairOracle(NAMES[::-1]), "components", "another order"),
        (CostOracle(NAMES), "domain", "'nonnegative', that of the campaign 'real'"),
        (PairOracle(NAMES, gap=2), "answers", "best value at a theta"),
        (TopKOracle(NAMES, k=2), "answers", "TopKOracle is not the oracle"),
        (TopKOracle(NAMES, k=1), "answers", "other answers"),
    ],
    ids=["renamed", "fewer", "more", "order", "domain", "answers", "kind", "size"],
)
def test_another_oracle_is_refused(path, other, differs, message):
    Campaign.create(path, unit_problem(PairOracle(NAMES))).ask()
    before = events(path)
    for act in (Campaign.open, check):
        with pytest.raises(OracleMismatchError, match=message) as caught:
            act(path, oracle=other)
        assert caught.value.differs == differs
        assert str(caught.value).startswith(str(path))
    assert events(path) == before


def test_a_missing_oracle_is_refused_with_the_cure(path):
    Campaign.create(path, unit_problem(PairOracle(NAMES))).ask()
    for act in (Campaign.open, check):
        with pytest.raises(OracleMismatchError, match=r"'PairOracle'.*oracle=mine.*--oracle") as caught:
            act(path)
        assert caught.value.differs == ""
    for wrong in ("pairs:make", TopKOracle, 3):
        with pytest.raises(ParameterError, match="takes an ArgmaxOracle"):
            Campaign.open(path, oracle=wrong)


class SloppyOracle(PairOracle):
    """With a solver's gap: answers of another release may be worth a little less."""

    resolution = 1e-3

    def _argmax_batch(self, thetas):
        return super()._argmax_batch(thetas + 0.1 * np.sin(1e3 * thetas))


def test_answers_are_compared_by_value_within_the_resolution(path):
    exact = PairOracle(range(400))
    exact.resolution = 1e-3
    thetas = _thetas(range(16), exact)
    assert not np.array_equal(exact.argmax(thetas), SloppyOracle(range(400)).argmax(thetas))
    Campaign.create(path, unit_problem(exact))
    Campaign.open(path, oracle=SloppyOracle(range(400)))
    with pytest.raises(OracleMismatchError, match="other answers"):
        Campaign.open(path, oracle=PairOracle(range(400), gap=2))


def test_a_file_that_holds_its_oracle_takes_the_same_one_only(path):
    Campaign.create(path, unit_problem(TopKOracle(NAMES, k=2))).ask()
    assert type(Campaign.open(path, oracle=CheckedOracle(TopKOracle(NAMES, k=2))).problem.oracle) is TopKOracle
    with pytest.raises(OracleMismatchError, match="other answers"):
        Campaign.open(path, oracle=TopKOracle(NAMES, k=1))


def test_labels_that_json_does_not_know_are_refused_before_anything_is_stored(path):
    with pytest.raises(InstanceError, match=r"cannot be stored; use strings, numbers or tuples"):
        Campaign.create(path, unit_problem(PairOracle(["a", frozenset("b"), "c"])))
    assert not path.exists()


def test_an_oracle_that_fails_is_no_fault_of_the_file(path):
    class Dies(PairOracle):
        def _argmax_batch(self, thetas):
            raise RuntimeError("no licence")

    Campaign.create(path, unit_problem(PairOracle(NAMES)))
    with pytest.raises(OracleError, match="no licence"):
        Campaign.open(path, oracle=Dies(NAMES))


def test_the_header_stays_small_and_the_oracle_is_asked_once(path):
    oracle = PairOracle(range(3000))
    Campaign.create(path, unit_problem(oracle))
    assert len(json.dumps(events(path))) < 2000
    other = PairOracle(range(3000))
    campaign = Campaign.open(path, oracle=other)
    asked = other.rows
    for _ in range(3):
        assert campaign.samples == 0
    assert other.rows == asked


def test_thetas_do_not_depend_on_batches_or_releases():
    real = _thetas(range(16), PairOracle(range(5)))
    np.testing.assert_array_equal(real[3:4], _thetas(range(3, 4), PairOracle(range(5))))
    np.testing.assert_array_equal(_thetas(range(16), CostOracle(range(5))), (real + 1.0) / 2.0)
    assert (np.abs(real) < 1).all()
    assert real[0, 0] == pytest.approx(2 * ((np.random.PCG64([20_240_229, 0]).random_raw() >> 11) + 0.5) / 2**53 - 1)
    assert np.abs(real.mean()) < 4 / np.sqrt(3 * real.size)


def test_copies_and_other_processes_open_the_campaign_with_the_oracle(path):
    campaign = Campaign.create(path, unit_problem(PairOracle(NAMES)))
    other = Campaign.open(path, oracle=PairOracle(NAMES))
    campaign.tell(campaign.ask(), 1.0)
    assert other.samples == 1
    again = pickle.loads(pickle.dumps(campaign))
    assert copy.deepcopy(campaign).samples == again.samples == 1
    code = (
        "import sys; sys.path[:0] = sys.argv[2], sys.argv[2] + '/../helpers'\n"
        "from test_own_oracles import NAMES, PairOracle\n"
        "from combopeps import Campaign\n"
        "campaign = Campaign.open(sys.argv[1], oracle=PairOracle(NAMES))\n"
        "campaign.tell(campaign.ask(), 2.0)\n"
    )
    subprocess.run([sys.executable, "-c", code, path, HERE], check=True, env=os.environ, cwd=HERE.parents[1])
    assert campaign.samples == other.samples == again.samples == 2


def rewritten(path, **changes):
    """A campaign whose header has another oracle field, without the checksum of the problem."""
    header = events(path)[0]
    del header["problem"]["sha256"]
    header["problem"]["oracle"] |= changes
    other = path.with_name("rewritten.db")
    store_at(other).create([header])
    return other


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"values": [1.0]}, "oracle.values"),
        ({"values": ["1"] * 16}, r"oracle.values\[0\]"),
        ({"values": None}, "oracle.values"),
        ({"components": 10**12}, "oracle.components"),
        ({"components": ["a", "a"]}, r"oracle.components\[1\]"),
        ({"unit": "1"}, "oracle.unit"),
        ({"domain": "any"}, "oracle.domain"),
        ({"factory": "os:getcwd"}, "unknown field 'factory'"),
        ({"class": ["os"]}, None),
    ],
    ids=["few", "texts", "missing", "huge", "twice", "unit", "domain", "factory", "class"],
)
def test_hostile_fingerprints_are_refused_and_nothing_is_imported(path, changes, field):
    Campaign.create(path, unit_problem(PairOracle(NAMES)))
    path = rewritten(path, **changes)
    known = set(sys.modules)
    if field is not None:
        with pytest.raises(StateFileError, match=field):
            Campaign.open(path, oracle=PairOracle(NAMES))
    with pytest.raises((StateFileError, OracleMismatchError)):
        Campaign.open(path)
    assert set(sys.modules) == known
