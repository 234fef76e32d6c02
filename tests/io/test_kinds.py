"""Registered kinds of oracles: stored in instance files and campaigns."""

import json

import numpy as np
import pytest
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Campaign, load_instance, save_instance
from combopeps.errors import InstanceError, OracleMismatchError
from combopeps.io import Instance
from combopeps.io.oracle_kinds import KINDS, OracleKind, as_json


class BestOracle(ArgmaxOracle):
    """Oracle of single components."""

    def _argmax_batch(self, thetas):
        return np.eye(self.dim)[thetas.argmax(axis=1)]


class BetterOracle(BestOracle):
    """A subclass is not stored as its base class."""


def read(field):
    return BestOracle(field.record({"names"}, set())["names"].labels()), None


BEST = OracleKind(BestOracle, lambda oracle: {"names": as_json(oracle.components)}, read)
NAMES = ["a", ("b", 1), 3]


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(KINDS, "best", BEST)


def test_unregistered_kinds_cannot_be_saved(tmp_path):
    with pytest.raises(InstanceError, match=r"BestOracle cannot be stored, only TopKOracle, .*ExplicitOracle"):
        save_instance(Instance("x", unit_problem(BestOracle(NAMES))), tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()
    Campaign.create(tmp_path / "x.db", BestOracle(NAMES))
    with pytest.raises(OracleMismatchError, match=r"a user-defined oracle, a 'BestOracle'.*oracle=mine"):
        Campaign.open(tmp_path / "x.db")


@pytest.mark.usefixtures("registered")
def test_instances_of_registered_kinds_are_saved_and_loaded(tmp_path):
    path = tmp_path / "x.json"
    save_instance(Instance("x", unit_problem(BestOracle(NAMES)), theta=[0.1, 0.3, 0.2]), path)
    again = load_instance(path)
    assert type(again.oracle) is BestOracle
    assert again.labels == tuple(NAMES)
    assert again.oracle.argmax(again.theta).tolist() == [0.0, 1.0, 0.0]
    document = json.loads(path.read_text())
    assert document["oracle"] == {"kind": "best", "names": ["a", ["b", 1], 3]}
    del document["sha256"]
    for change, place in (
        ({"names": [1, 1]}, "oracle.names[1]"),
        ({"more": 1}, "oracle"),
        ({"kind": "worst"}, "oracle.kind"),
    ):
        path.write_text(json.dumps(document | {"oracle": document["oracle"] | change}))
        with pytest.raises(InstanceError) as caught:
            load_instance(path)
        assert caught.value.field == place


@pytest.mark.usefixtures("registered")
def test_campaigns_support_registered_kinds(tmp_path):
    campaign = Campaign.create(tmp_path / "x", BestOracle(NAMES))
    query = campaign.ask()
    again = Campaign.open(tmp_path / "x")
    assert type(again.problem.oracle) is BestOracle
    assert again.open_queries == [query]
    Campaign.create(tmp_path / "y", BetterOracle(NAMES))
    with pytest.raises(OracleMismatchError, match="BetterOracle"):
        Campaign.open(tmp_path / "y")
