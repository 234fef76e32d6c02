"""Snapshots: opening from one is opening from all lines, bit for bit; and whatever bytes lie there, nothing else changes."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from cases import ROADS, filled, go_on, measured, problems, same_state
from memory_storage import MemoryStorage
from unit_problem import unit_problem

from combopeps import (
    Box,
    Campaign,
    ExplicitOracle,
    KnapsackOracle,
    QueryError,
    ShortestPathOracle,
    StateFileError,
    TopKOracle,
)
from combopeps.campaign import examine, follower, salvage
from combopeps.campaign.snapshot import Snapshot
from combopeps.policies.registry import POLICIES
from combopeps.stopping import verified

HERE = Path(__file__).parent
BEANS = ["a", "b", "c", "d", "e"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def often(monkeypatch):
    """A snapshot at every third line or so."""
    monkeypatch.setattr(follower, "_CHEAP", (3, 10**9))
    monkeypatch.setattr(follower, "_COSTLY", (3, 10**9))


def aside(path):
    return path.with_name(path.name + ".snapshot")


def without_snapshot(path, **options):
    """The same lines, all of them gone through."""
    copy = path.with_name("copy of " + path.name)
    shutil.copy(path, copy)
    aside(copy).unlink(missing_ok=True)
    campaign = Campaign.open(copy, **options)
    assert campaign._kept == 0
    return campaign


def from_snapshot(path, **options):
    campaign = Campaign.open(path, **options)
    assert 0 < campaign._kept <= campaign._lines
    return campaign


def everything(campaign):
    """All bits of the state but those of the noise guard, which rounds otherwise when many results come at once."""
    with campaign._reading() as state:
        plain = state.plain()
        noise = plain["session"].pop("noise")
        return Snapshot({}, {}, 0, plain).packed(), noise["count"].tolist(), noise["alarmed"]


def same(one, other):
    assert everything(one) == everything(other)
    same_state(one, other)
    assert str(one.status()) == str(other.status())
    assert everything(one) == everything(other)


def go_on_alike(path, samples, batch=2, **options):
    """From here on, too: the same queries, lines and states with and without a snapshot."""
    one, other = from_snapshot(path, **options), without_snapshot(path, **options)
    same(one, other)
    for campaign in (one, other):
        go_on(campaign, samples, batch)
    same(one, other)
    assert one.path.read_bytes() == other.path.read_bytes()
    return one


BOXED = unit_problem(TopKOracle(3, k=1), space=Box(-4.0, 4.0), prior_std=2.0)
CASES = {
    "sweep": (problems()["topk"], {"sweep": 3}),
    "route": (problems()["route"], {}),
    "general arms": (problems()["explicit"], {}),
    "certified": (problems()["topk"], {"stopping": "certified"}),
    "heuristic": (problems()["matching"], {"stopping": "heuristic"}),
    "clucb rule": (problems()["topk"], {"stopping": "clucb"}),
    "epsilon": (problems()["topk"], {"epsilon": 0.5}),
    "unknown noise": (unit_problem(TopKOracle(BEANS, k=2), noise_std=None), {"policy": "peps"}),
    "unknown noise of general arms": (unit_problem(ExplicitOracle(np.eye(3)), arms=np.eye(3) + 0.2, noise_std=None), {}),
    "costs": (unit_problem(TopKOracle(BEANS, k=2), cost=[1.0, 2.0, 3.0, 1.0, 1.0]), {"policy": "peps"}),
    "actions": (unit_problem(TopKOracle(BEANS, k=2), actions="answers", cost=2.0, part_cost=0.5), {}),
    "peps of actions": (unit_problem(TopKOracle(BEANS, k=2), actions="answers"), {"policy": "peps"}),
    "single actions": (unit_problem(TopKOracle(BEANS, k=1), actions="answers"), {}),
    "routes of unknown noise": (
        unit_problem(ShortestPathOracle(nx.DiGraph(ROADS), "home", "work"), actions="answers", noise_std=None), {}
    ),
}  # fmt: skip
for name in POLICIES:
    if name == "fixed":
        continue  # takes shares, which no file holds
    problem = BOXED if name == "doubling-peps" else problems()["topk"]
    CASES[name] = (unit_problem(TopKOracle(5, k=1)) if name == "thompson" else problem), {"policy": name}


@pytest.mark.parametrize("case", CASES)
def test_opening_from_one_is_opening_from_all_lines(path, often, case):
    problem, options = CASES[case]
    campaign = Campaign.create(path, problem, seed=5, **options)
    for samples in (7, 24):
        go_on(campaign, samples, batch=3)
        label = campaign.problem.arms.labels[1]
        campaign.observe(label, 1.25, count=3)
        if campaign.problem.noise_std is not None:
            campaign.observe(label, 0.75, sem=0.25)
        campaign.abandon(campaign.ask())
        campaign.ask(2)
        go_on_alike(path, samples + 9)
        aside(path).unlink(missing_ok=True)  # this one saw nothing of that
        campaign = Campaign.open(path)


def test_no_field_of_a_state_is_forgotten(path):
    """Whoever adds one gives it in `State.plain`, takes it back in `State.restore`, and names it here."""
    given = {"policy", "session", "ledger", "_notes", "_samples", "hands", "keys"}
    of_the_header = {"problem", "seed", "stopping", "delta", "epsilon", "_noise", "_labels", "_requests_measurements"}
    empty_between_lines = {"_news"}
    with filled(path)._reading() as state:
        assert vars(state).keys() - of_the_header - empty_between_lines == given


def test_results_with_errors_of_their_own(path, often):
    campaign = Campaign.create(path, problems()["topk"])
    told = campaign.ask(6)
    campaign.tell_many([(query, 1.0, 0.3) if query.id % 2 else (query, 2.0) for query in told])
    campaign.tell(campaign.ask(), 1.5, sem=0.125)
    again = from_snapshot(path)
    same(again, without_snapshot(path))
    again.tell(told[1], 1.0, 0.3)  # a repetition is harmless
    again.tell(told[2].id, 2.0)
    for y, sem in ((1.0, None), (1.0, 0.25), (1.5, 0.3)):
        with pytest.raises(QueryError, match=r"was answered 1\.0 "):
            again.tell(told[1], y, sem)
    with pytest.raises(QueryError, match="never asked"):
        again.tell(7, 1.0)


def test_answers_come_in_any_order(path, often):
    """Old ones in arrays, newer ones before and behind them."""
    campaign = Campaign.create(path, unit_problem(TopKOracle(BEANS, k=2), noise_std=5.0, prior_std=9.0))
    queries = campaign.ask(12)
    for i in (7, 3, 11, 0):
        campaign.tell(queries[i], float(i))
    campaign = from_snapshot(path)
    for i in (5, 1, 10, 2):
        campaign.tell(queries[i], float(i))
    campaign.abandon(queries[4])
    again = from_snapshot(path)
    same(again, without_snapshot(path))
    for i in (7, 3, 11, 0, 5, 1, 10, 2):
        again.tell(queries[i], float(i))
        with pytest.raises(QueryError, match="was answered"):
            again.tell(queries[i], 0.5)
    with pytest.raises(QueryError, match="abandoned"):
        again.tell(queries[4], 4.0)
    assert [query.id for query in again.open_queries] == [6, 8, 9]


def test_actions_are_told_again_and_in_any_order(path, often):
    campaign = Campaign.create(path, CASES["actions"][0])
    queries = campaign.ask(6)
    for i in (4, 1, 3, 0):
        campaign.tell(queries[i], measured(queries[i]))
    again = from_snapshot(path)
    for i in (0, 1, 3, 4, 2, 5):
        again.tell(queries[i].id, measured(queries[i]))
    again = from_snapshot(path)
    same(again, without_snapshot(path))
    for query in queries:
        again.tell(query, measured(query))
        with pytest.raises(QueryError, match="was answered"):
            again.tell(query, [0.5] * len(query.parts))


TRUTH = np.array([1.5, 0.0, 0.8, -0.5])
ROUTE = np.array([1.0, 2.5, 1.0, 1.0, 2.5])


def fresh(query, truth):
    return float(truth[query.arm] + np.random.default_rng([5, query.id, query.arm]).normal())


def watched_rule(kind, monkeypatch):
    """A problem whose rule goes that way, and what is true of it."""
    if kind in ("supports", "rounds"):
        monkeypatch.setattr(verified, "_ATTEMPTS", 0)  # the certificate decides
    if kind == "plan":
        monkeypatch.setattr(verified, "list_answers", lambda oracle: None)
        return unit_problem(KnapsackOracle([2.0, 3.0, 4.0, 5.0], capacity=7.0), prior_std=3.0), TRUTH
    if kind == "rounds":
        return unit_problem(ShortestPathOracle(nx.Graph(ROADS), "home", "work"), prior_std=3.0), ROUTE
    if kind == "general arms":
        return unit_problem(ExplicitOracle(np.eye(3)), arms=np.eye(3) + 0.3, prior_std=3.0), TRUTH
    return unit_problem(TopKOracle(4, k=1), prior_std=3.0), TRUTH


def parts_of(rule):
    """Kinds of objects that hold the notes of a rule now."""
    rule = getattr(rule, "rule", rule)
    insured = rule._insurance
    rounds = None if insured._bets is None else insured._bets._attempt
    return {type(part).__name__ for part in (rule._attempt, insured._supports, rounds, rule._proved)} - {"NoneType"}


SLOW = pytest.mark.slow
WANTED = {
    "bets": "Bets",
    "peps": "Bets",
    "plan": "FixedPlan",
    "general arms": "Bets",
    "guaranteed": "Bets",
    "supports": "SupportTest",
}


@pytest.mark.parametrize(
    "kind",
    [
        "bets",
        "plan",
        *(pytest.param(kind, marks=SLOW) for kind in ("peps", "general arms", "guaranteed", "supports", "rounds")),
    ],
)
def test_rules_that_keep_notes(path, monkeypatch, often, kind):
    """At several moments, from the first look to the claim; a rule that is not restored would look otherwise."""
    problem, truth = watched_rule(kind, monkeypatch)
    options = {"policy": "peps" if kind == "peps" else "top-two", "seed": 2}
    campaign = Campaign.create(path, problem, stopping=kind if kind == "guaranteed" else "verified", **options)
    seen, late, moments = set(), [], {2, 5, 20, 80, 200}
    for step in range(400):
        queries = campaign.ask(4)
        for query in [*queries[1:], *late]:
            if query.id % 31 == 0:
                campaign.abandon(query)
            else:
                campaign.tell(query, fresh(query, truth))
        late = queries[:1]
        now = parts_of(campaign._state._notes._rule)
        if step in moments or not now <= seen:
            seen |= now
            one, other = from_snapshot(path), without_snapshot(path)
            same(one, other)
            assert [(q.id, q.arm) for q in one.ask(5)] == [(q.id, q.arm) for q in other.ask(5)]
            same(one, other)
            late += one.open_queries[-5:]
        if "Verdict" in seen:
            break
    assert WANTED.get(kind, "Rounds") in seen
    assert "Verdict" in seen or kind == "plan"


def test_an_oracle_of_ones_own(path, often):
    from test_own_oracles import NAMES, PairOracle

    campaign = Campaign.create(path, unit_problem(PairOracle(NAMES), noise_std=0.5), policy="peps")
    go_on(campaign, 12)
    go_on_alike(path, 20, oracle=PairOracle(NAMES))
    with pytest.raises(Exception, match="open it with"):
        Campaign.open(path)


def test_damage_in_the_old_part_is_noticed(path, often):
    go_on(Campaign.create(path, problems()["topk"]), 12)
    assert from_snapshot(path).samples == 12
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateFileError, match="damaged"):
        Campaign.open(path)


def test_another_campaign_of_the_same_name(path, often, tmp_path):
    """Its snapshot is ignored, and then replaced."""
    go_on(Campaign.create(path, problems()["topk"]), 12)
    path.unlink()
    campaign = Campaign.create(path, problems()["topk"], seed=1)
    assert campaign._kept == 0
    go_on(campaign, 12)
    go_on_alike(path, 20)


def test_a_snapshot_that_is_ahead_of_the_lines(path, often):
    """Lines that vanish from the end cannot be noticed; a snapshot does not bring them back."""
    go_on(Campaign.create(path, problems()["topk"]), 12)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:9]))
    campaign = Campaign.open(path)
    assert campaign._kept == 0
    same(campaign, without_snapshot(path))


def test_a_snapshot_of_long_ago(path, often, monkeypatch):
    campaign = Campaign.create(path, problems()["topk"], policy="peps")
    go_on(campaign, 12)
    monkeypatch.setattr(follower, "_COSTLY", (10**9, 10**9))
    go_on(campaign, 60, batch=3)
    assert from_snapshot(path)._kept < 30
    go_on_alike(path, 70)


def test_two_that_write_take_each_others(path, often):
    one = Campaign.create(path, problems()["topk"], policy="peps")
    other = Campaign.open(path)
    for _ in range(8):
        for campaign in (one, other):
            query = campaign.ask()
            campaign.tell(query, measured(query))
            one.status()
    same(one, other)
    same(from_snapshot(path), without_snapshot(path))


WORK = """
import sys
from cases import measured
from combopeps import Campaign
from combopeps.campaign import follower
follower._CHEAP = follower._COSTLY = (3, 10**9)
campaign = Campaign.open(sys.argv[1])
print("begun", flush=True)
while True:
    query = campaign.ask()
    campaign.tell(query, measured(query))
"""


@pytest.mark.parametrize("rounds", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_two_processes_that_are_killed_at_any_moment(path, rounds):
    """Whatever they leave behind, opening is opening from all lines."""
    Campaign.create(path, problems()["topk"], policy="peps")
    rng, taken = np.random.default_rng(rounds), 0
    for _ in range(rounds):
        command = [sys.executable, "-c", WORK, str(path)]
        pair = [subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE) for _ in range(2)]
        for process in pair:
            assert process.stdout.readline() == b"begun\n"
        while not aside(path).exists():
            time.sleep(0.01)
        for process in pair:
            time.sleep(rng.uniform(0.05, 0.2))
            process.kill()
        for process in pair:
            process.wait()
            process.stdout.close()
        one = Campaign.open(path)
        taken += one._kept > 0
        same(one, without_snapshot(path))
    assert taken > rounds / 2
    left = {"run.jsonl", "run.jsonl.snapshot", "run.jsonl.snapshot.draft", "copy of run.jsonl"}
    assert set(os.listdir(path.parent)) <= left


def test_who_looks_writes_nothing(path, often):
    campaign = Campaign.create(path, problems()["topk"])
    go_on(campaign, 12)
    aside(path).unlink()
    again = Campaign.open(path)
    assert (again.samples, len(again.leaders()), again.status().samples) == (12, len(again.leaders()), 12)
    assert sorted(os.listdir(path.parent)) == ["run.jsonl"]
    again.ask()
    assert sorted(os.listdir(path.parent)) == ["run.jsonl", "run.jsonl.snapshot"]


def test_doctors_read_the_lines_alone(path, often, tmp_path):
    filled(path)
    found = examine(path)
    aside(path).write_bytes(b"\0" * 100)
    assert examine(path) == found
    salvage(path, tmp_path / "salvaged.jsonl")
    same_state(Campaign.open(tmp_path / "salvaged.jsonl"), Campaign.open(path))
    assert not aside(tmp_path / "salvaged.jsonl").exists()


def test_other_storages_go_without(often):
    storage = MemoryStorage()
    go_on(Campaign.create(storage, problems()["topk"]), 12)
    assert Campaign.open(storage).samples == 12
    assert (storage.snapshot(), storage.note(1), storage.beginning({})) == (None, None, None)


def test_a_policy_that_cannot_say_what_it_remembers_goes_without(path, often, monkeypatch):
    monkeypatch.setattr(POLICIES["peps"], "memory", lambda self: None)
    go_on(Campaign.create(path, problems()["topk"], policy="peps"), 12)
    assert not aside(path).exists()


def test_permissions_are_those_of_the_campaign(path, often):
    campaign = Campaign.create(path, problems()["topk"])
    path.chmod(0o640)
    go_on(campaign, 12)
    assert stat.S_IMODE(aside(path).stat().st_mode) == 0o640


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "pipe"])
@pytest.mark.parametrize("name", ["run.jsonl.snapshot", "run.jsonl.snapshot.draft"])
def test_what_is_no_regular_file_is_left_alone(path, often, kind, name):
    place, other = path.with_name(name), path.with_name("other")
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        if kind == "link":
            other.write_bytes(b"mine")
        place.symlink_to(other)
    before = os.lstat(place)
    go_on(Campaign.create(path, problems()["topk"]), 12)
    assert Campaign.open(path).samples == 12
    assert os.lstat(place).st_mode == before.st_mode
    assert not other.exists() or other.read_bytes() == b"mine"


def test_a_disk_that_is_full_is_no_matter(path, often, monkeypatch):
    campaign = Campaign.create(path, problems()["topk"])
    opened = os.open

    def full(place, *rest, **options):
        if str(place).endswith(".draft"):
            raise OSError(28, "No space left on device")
        return opened(place, *rest, **options)

    monkeypatch.setattr(os, "open", full)
    go_on(campaign, 12)
    assert sorted(os.listdir(path.parent)) == ["run.jsonl"]
    assert Campaign.open(path).samples == 12


def test_a_draft_that_a_crash_left_is_no_matter(path, often):
    path.with_name("run.jsonl.snapshot.draft").write_bytes(b"half")
    go_on(Campaign.create(path, problems()["topk"]), 12)
    assert sorted(os.listdir(path.parent)) == ["run.jsonl", "run.jsonl.snapshot"]
    from_snapshot(path)


def test_few_lines_have_none(path):
    go_on(Campaign.create(path, problems()["topk"]), 30)
    assert not aside(path).exists()


def opens_as_without(path):
    """Whatever lies there: the same state, and the next operation that writes puts it right."""
    campaign = Campaign.open(path)
    same(campaign, without_snapshot(path))
    return campaign._kept > 0


def test_any_bytes(path, often):
    """Cut off, altered, longer, something else: ignored, and rebuilt."""
    campaign = Campaign.create(path, problems()["topk"], policy="peps")
    go_on(campaign, 12)
    good, rng = aside(path).read_bytes(), np.random.default_rng(0)
    assert opens_as_without(path)
    bad = [
        b"",
        b"\n",
        good[:-1],
        good + b"\0",
        good[: len(good) // 2],
        rng.bytes(1000),
        b"\x80\x05K\x2a.",
        b"PK\x03\x04",
    ]
    for _ in range(60):
        changed = bytearray(good)
        changed[int(rng.integers(len(good)))] ^= 1 << int(rng.integers(8))
        bad.append(bytes(changed))
    for data in bad:
        aside(path).write_bytes(data)
        assert Campaign.open(path)._kept == 0
    assert not opens_as_without(path)
    go_on(Campaign.open(path), 14)
    assert opens_as_without(path)


def altered(path, change):
    """The snapshot with something else in it, and the right checksum; `change` returns another state, or nothing."""
    known = Snapshot.unpacked(aside(path).read_bytes())
    state = loose(known.state)
    aside(path).write_bytes(replace(known, state=change(state) or state).packed())


def loose(value):
    """A copy whose arrays can be changed."""
    if isinstance(value, dict):
        return {name: loose(each) for name, each in value.items()}
    if isinstance(value, list):
        return [loose(each) for each in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def put(*keys, value):
    def change(state):
        for key in keys[:-1]:
            state = state[key]
        state[keys[-1]] = value(state[keys[-1]]) if callable(value) else value

    return change


def one_more(array, at=0, by=1):
    array.reshape(-1)[at] += by
    return array


POLICY, SESSION = ("policy",), ("session",)
LEDGER = (*SESSION, "ledger")
BAD = {
    "a pull more": put(*POLICY, "pulls", value=one_more),
    "a total": put(*POLICY, "totals", value=lambda each: one_more(each, by=0.01)),
    "a mean": put(*POLICY, "belief", "theta_hat", value=lambda each: one_more(each, by=0.01)),
    "a moment": put(*POLICY, "belief", "moment", value=lambda each: one_more(each, by=0.01)),
    "a variance": put(*POLICY, "belief", "variance", value=lambda each: one_more(each, by=0.001)),
    "NaN": put(*POLICY, "belief", "theta_hat", value=lambda each: one_more(each, by=np.nan)),
    "NaN in a learner": put(*POLICY, "memory", "learner", "total", value=lambda each: one_more(each, by=np.nan)),
    "another shape": put(*POLICY, "pulls", value=lambda each: each[:, :-1]),
    "another kind": put(*POLICY, "pulls", value=lambda each: each.astype(float)),
    "no array": put(*POLICY, "pulls", value=3),
    "no learner": put(*POLICY, "memory", value={}),
    "a negative round": put(*POLICY, "t", value=-1),
    "samples": put("samples", value=lambda n: n + 1),
    "an id that was not given": put(*LEDGER, "next_id", value=3),
    "an id twice": put(*LEDGER, "answers", "id", value=lambda each: one_more(each, at=0)),
    "open and answered": put(*LEDGER, "open", "id", value=lambda each: each * 0 + 1),
    "an arm that is not there": put(*LEDGER, "answers", "asked", value=lambda each: one_more(each, by=99)),
    "a negative arm": put(*LEDGER, "answers", "asked", value=lambda each: one_more(each, by=-99)),
    "an open query of no arm": put(*LEDGER, "open", "asked", value=lambda each: each + 99),
    "fewer results": put(*LEDGER, "answers", "y", value=lambda each: each[:-1]),
    "an infinite result": put(*LEDGER, "answers", "y", value=lambda each: one_more(each, by=np.inf)),
    "noise of more": put(*SESSION, "noise", "count", value=one_more),
    "a stream": put(*POLICY, "streams", "seeds", value=[]),
    "nothing": lambda state: {"policy": {}},
    "a sweep": put(*POLICY, "sweep", value={"at": np.array([10**9])}),
}


@pytest.mark.parametrize("what", BAD)
def test_a_right_checksum_of_wrong_data(path, often, what):
    """Numbers that contradict each other are noticed."""
    campaign = Campaign.create(path, problems()["topk"], policy="peps", sweep=1)
    go_on(campaign, 12)
    campaign.ask()
    altered(path, lambda state: None)
    assert opens_as_without(path)  # the control: packed again as it was, it fits
    altered(path, BAD[what])
    assert not opens_as_without(path)


def test_a_right_checksum_of_another_header_or_other_lines(path, often):
    go_on(Campaign.create(path, problems()["topk"], policy="peps"), 12)
    good = aside(path).read_bytes()
    known = Snapshot.unpacked(good)
    notes = [
        {"lines": 3},
        {},
        {"lines": 0, "offset": 0},
        {"lines": 9, "offset": -5},
        {"lines": 9, "offset": 2**80},
        None,
    ]
    notes += [{"lines": 9, "offset": "x"}, known.note | {"offset": known.note["offset"] - 1}]
    for other in (
        replace(known, header=known.header | {"seed": 1}),
        replace(known, header=known.header | {"delta": 0.06}),
        replace(known, crc=known.crc ^ 1),
        *(replace(known, note=note) for note in notes),
    ):
        aside(path).write_bytes(other.packed())
        assert not opens_as_without(path)
    aside(path).write_bytes(good.replace(b"snapshot 1", b"snapshot 2"))
    assert not opens_as_without(path)


def leaves(value, keys=()):
    """The way to every number, text and array."""
    if isinstance(value, (dict, list)) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*keys, key))
    else:
        yield keys


def mutated(value, rng):
    """Something else in its place: another number, kind, shape or thing."""
    junk = [
        None,
        -1,
        0,
        2**60,
        10**400,
        0.5,
        "x",
        True,
        [],
        {},
        [[]],
        np.zeros(3),
        np.zeros((0, 2)),
        np.zeros(2, dtype=bool),
    ]
    if not isinstance(value, np.ndarray) or rng.random() < 0.3:
        return junk[int(rng.integers(len(junk)))]
    ways = [lambda: value[..., :-1], lambda: np.append(value, value), lambda: value[None], lambda: value.ravel()]
    kinds = [np.float64, np.int64, np.int32, np.bool_, np.uint64]
    ways += len(kinds) * [lambda: value.astype(kinds[int(rng.integers(len(kinds)))])]
    if value.size and value.dtype.kind in "if":
        entry = 10.0 ** rng.integers(0, 18) * rng.choice([-1, 1])
        ways += 6 * [lambda: one_more(value, int(rng.integers(value.size)), np.array(entry).astype(value.dtype))]
    with np.errstate(all="ignore"):
        return ways[int(rng.integers(len(ways)))]()


@pytest.mark.parametrize("times", [12, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["peps", "doubling-peps", "actions", "verified"])
def test_wrong_data_of_any_kind_with_a_right_checksum(path, often, kind, times):
    """Nothing but the lines decides whether a campaign can be opened."""
    problem, options = CASES.get(kind, (unit_problem(TopKOracle(4, k=1), prior_std=3.0), {"stopping": kind}))
    campaign, rng = Campaign.create(path, problem, **options), np.random.default_rng(1)
    while not (campaign.samples > 24 and (kind != "verified" or parts_of(campaign._state._notes._rule))):
        query = campaign.ask()
        campaign.tell(query, fresh(query, TRUTH) if kind == "verified" else measured(query))
    campaign.ask()
    good = aside(path).read_bytes()
    ways, ignored = list(leaves(Snapshot.unpacked(good).state)), 0
    for _ in range(times):
        way = ways[int(rng.integers(len(ways)))]
        aside(path).write_bytes(good)
        altered(path, put(*way, value=lambda value: mutated(value, rng)))
        ignored += Campaign.open(path)._kept == 0
    assert times / 2 < ignored


@pytest.mark.parametrize("versions", [{"combopeps": "0.0.1"}, {"numpy": "9.9"}, {"machine": "abacus"}])
def test_other_releases_read_the_lines(path, often, monkeypatch, versions):
    from combopeps.campaign import snapshot

    go_on(Campaign.create(path, problems()["topk"]), 12)
    ours = snapshot._versions()
    monkeypatch.setattr(snapshot, "_versions", lambda: ours | versions)
    assert not opens_as_without(path)


@pytest.mark.parametrize(
    "form",
    [["<f8", [10**12]], ["<f8", [-1]], ["|O", [1]], ["<U9", [1]], ["<f8", [2**63, 2**63]], ["<f8", "x"], 3, ["<f8"]],
)
def test_arrays_of_absurd_forms(path, often, form):
    from hashlib import sha256

    go_on(Campaign.create(path, problems()["topk"]), 12)
    data = aside(path).read_bytes()
    body = data[data.index(b"\n", 30) + 1 :]
    head, rest = body[: body.index(b"\n")], body[body.index(b"\n") + 1 :]
    document = json.loads(head)
    document["arrays"][0] = form
    body = json.dumps(document).encode() + b"\n" + rest
    aside(path).write_bytes(data[: data.index(b"\n") + 1] + sha256(body).hexdigest().encode() + b"\n" + body)
    assert not opens_as_without(path)


def test_a_huge_file_is_not_read(path, often):
    go_on(Campaign.create(path, problems()["topk"]), 12)
    with open(aside(path), "r+b") as file:
        file.truncate(1 << 40)  # a hole: it takes no room
    assert not opens_as_without(path)


def test_what_is_not_noticed(path, often):
    """A number that nothing contradicts, with a right checksum: whoever can write that can write the lines, too."""
    campaign = Campaign.create(path, problems()["topk"], policy="peps")
    go_on(campaign, 12)
    altered(path, put(*LEDGER, "answers", "y", value=lambda each: one_more(each, by=0.5)))
    assert Campaign.open(path)._kept > 0
    altered(path, put(*POLICY, "memory", "learner", "total", value=lambda each: one_more(each, by=0.5)))
    assert Campaign.open(path)._kept > 0


def test_lines_behind_a_wrong_snapshot_are_read_from_the_first(path, often, monkeypatch):
    """They make no sense behind it: then it is the snapshot that is believed least."""
    campaign = Campaign.create(path, problems()["topk"])
    go_on(campaign, 12)
    query = campaign.ask()

    def forget_it(state):
        ledger = state["session"]["ledger"]
        ledger["open"] = {name: each[:0] for name, each in ledger["open"].items()}

    monkeypatch.setattr(follower, "_CHEAP", (10**9, 1))
    from combopeps.campaign.replay import State

    with campaign.storage.locked():
        note = campaign.storage.note(campaign._point)
        begun = campaign.storage.beginning(note)
        campaign.storage.keep_snapshot(Snapshot(begun.header, note, begun.crc, State.plain(campaign._state)).packed())
    altered(path, forget_it)
    campaign.tell(query, 1.0)
    same(Campaign.open(path), without_snapshot(path))


def test_who_has_a_query_and_keys_of_observations(path, often):
    campaign = Campaign.create(path, problems()["topk"])
    mine, late = campaign.ask(2, client="ann"), campaign.ask(1, client="bob", patience=1e-9)
    campaign.observe("a", 1.5, sem=0.25, key="first")
    campaign.observe("b", 2.0, count=3, key="second")
    campaign.tell(mine[0], 0.5)
    campaign.abandon(campaign.ask())
    one, other = from_snapshot(path), without_snapshot(path)
    same(one, other)
    assert one.holders == other.holders
    assert {holder.client for holder in one.holders.values()} == {"ann", "bob"}
    for again in (one, other):
        samples = again.samples
        again.observe("a", 1.5, sem=0.25, key="first")  # counts once
        assert again.samples == samples
        with pytest.raises(QueryError):
            again.observe("a", 1.75, sem=0.25, key="first")
        assert [query.id for query in again.ask(2, client="ann")] == [mine[1].id, late[0].id]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda state: state["hands"].append([99, "ann", None]),
        lambda state: state["hands"].append([0, "", None]),
        lambda state: state["hands"].append([0, "ann", -1.0]),
        lambda state: state["keys"]["key"].append("more"),
        lambda state: state["keys"].update(arm=np.array([77])),
        lambda state: state["keys"].update(count=np.array([0])),
    ],
)
def test_hands_and_keys_that_do_not_fit(path, often, wrong):
    campaign = Campaign.create(path, problems()["topk"])
    campaign.ask(2, client="ann")
    campaign.observe("a", 1.5, key="first")
    campaign.observe("b", 1.5)
    known = Snapshot.unpacked(aside(path).read_bytes())
    assert known.state["hands"]
    wrong(known.state)
    aside(path).write_bytes(known.packed())
    again = Campaign.open(path)
    assert again._kept == 0
    same(again, without_snapshot(path))
