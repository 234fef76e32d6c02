"""What every storage promises, and what a campaign makes of it; on a file, in databases, and on a list in memory."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from backends import BACKENDS, places
from cases import filled, go_on, measured, problems, same_state
from memory_storage import MemoryStorage

from combopeps import Campaign, ComboPepsError, LockError, ParameterError, StateFileError
from combopeps.campaign import examine, salvage
from combopeps.campaign.registry import STORAGES, storage_at
from combopeps.campaign.storage import SCHEMA

HEADER = {"kind": "campaign", "schema": SCHEMA}
NEWS = [{"kind": "tell", "label": ["ü", 1], "y": 0.1}, {"kind": "abandon", "id": 2**52}]


@pytest.fixture(params=[*BACKENDS, "memory"])
def storage(request, tmp_path):
    if request.param == "memory":
        return MemoryStorage()
    return storage_at(places(request.param, tmp_path, partial(request.getfixturevalue, "postgres"))())


def add(storage, records):
    with storage.locked():
        storage.append(records, storage.read().end)


def test_records_come_back_numbered_from_any_point(storage):
    storage.create([HEADER])
    first = storage.read()
    assert first.records == [(1, HEADER)]
    assert storage.read(first.end).records == []
    add(storage, NEWS)
    assert storage.read(first.end).records == [(2, NEWS[0]), (3, NEWS[1])]
    everything = storage.read()
    assert everything.records == [(1, HEADER), (2, NEWS[0]), (3, NEWS[1])]
    assert not everything.anew
    assert storage.read(everything.end).end == everything.end == storage.read(first.end).end
    assert storage.torn == []


def test_it_begins_once(storage):
    with pytest.raises(StateFileError):
        Campaign.open(storage)
    storage.create([HEADER, *NEWS])
    with pytest.raises(StateFileError):
        storage.create([HEADER])
    assert len(storage.read().records) == 3


def test_records_are_added_under_the_lock_and_behind_the_last_one_only(storage):
    storage.create([HEADER])
    point = storage.read().end
    with pytest.raises(StateFileError):
        storage.append(NEWS, point)
    with storage.locked():
        storage.append([], point)
        storage.append(NEWS[:1], point)
        with pytest.raises(StateFileError):
            storage.append(NEWS[1:], point)
    assert storage.read(point).records == [(2, NEWS[0])]


def test_one_writes_and_readers_wait_for_nobody(storage):
    storage.create([HEADER])
    with ThreadPoolExecutor(1) as other, storage.locked():
        assert other.submit(storage.read).result().records == [(1, HEADER)]
        with pytest.raises(LockError):
            other.submit(storage.locked(0.01).__enter__).result()
        with pytest.raises(StateFileError):
            other.submit(storage.append, NEWS, storage.read().end).result()
    with storage.locked(0.0):
        pass


@pytest.mark.parametrize("policy", ["top-two", "peps"])
def test_a_campaign_is_the_same_wherever_it_is_kept(storage, tmp_path, policy):
    there, here = filled(storage, policy=policy), filled(tmp_path / "straight", policy=policy)
    same_state(there, here)
    again = Campaign.open(storage)
    same_state(again, here)
    assert again.ask(2) == here.ask(2)
    go_on(there, 12, batch=2)  # what another one asked for is told, too
    go_on(here, 12, batch=2)
    same_state(again, here)
    assert [record for _, record in storage.read().records] == [r for _, r in here.storage.read().records]


def test_several_threads_with_a_campaign_each_share_one_storage(storage):
    campaign = Campaign.create(storage, problems()["topk"])

    def work(name):
        own = Campaign.open(storage)
        for count in range(5):
            query = own.ask()
            own.tell(query, measured(query))
            own.observe("a", 1.0 + (5 * name + count) * 2.0**-20)
            own.status()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert campaign.samples == 40
    assert campaign.open_queries == []
    assert [query.id for query in campaign.ask(2)] == [20, 21]
    same_state(campaign, Campaign.open(storage))


def test_what_is_refused_leaves_nothing_behind(storage):
    for options in ({"policy": "best"}, {"delta": 2.0}, {"stopping": "budget"}, {"timeout": -1}):
        with pytest.raises(ComboPepsError):
            Campaign.create(storage, problems()["topk"], **options)
    campaign = filled(storage)
    before = storage.read()
    with pytest.raises(ComboPepsError):
        campaign.tell(1000, 0.0)
    with storage.locked(), pytest.raises(LockError), ThreadPoolExecutor(1) as other:
        other.submit(Campaign.open(storage, timeout=0.01).observe, "a", 0.0).result()
    assert storage.read() == before


def test_a_newer_campaign_and_a_damaged_one_are_refused(storage):
    storage.create([HEADER | {"schema": SCHEMA + 1}])
    with pytest.raises(StateFileError, match="install a newer"):
        Campaign.open(storage)
    other = MemoryStorage()
    other.create([record for _, record in filled(MemoryStorage()).storage.read().records])
    add(other, [{"kind": "tell", "id": 77, "arm": 0, "label": "a", "y": 0.5}])
    with pytest.raises(StateFileError, match=r"MemoryStorage.*, line 11: query 77 is not open"):
        Campaign.open(other)


def test_paths_and_urls_name_storages(tmp_path, monkeypatch):
    assert storage_at(tmp_path / "x").path == tmp_path / "x"
    assert storage_at(f"file://{tmp_path}/x").path == tmp_path / "x"
    own = MemoryStorage()
    assert storage_at(own) is own
    for act in (storage_at, Campaign.open, examine, lambda url: Campaign.create(url, problems()["topk"])):
        with pytest.raises(ParameterError, match=r"'mysql'; there are file://, sqlite://, postgresql://"):
            act("mysql:///x.db")
    monkeypatch.setitem(STORAGES, "memory", {"one": own}.__getitem__)
    query = Campaign.create("memory://one", problems()["topk"]).ask()
    assert Campaign.open("MEMORY://one").open_queries == [query]
    for act in (examine, lambda url: salvage(url, tmp_path / "out")):
        with pytest.raises(ParameterError, match="only state files"):
            act("memory://one")


def test_only_files_have_a_path(tmp_path):
    assert filled(tmp_path / "x").path == tmp_path / "x"
    campaign = filled(MemoryStorage())
    assert not hasattr(campaign, "path")
    assert "MemoryStorage" in repr(campaign)
    assert campaign.status().recovered == []


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_copy_of_a_storage_is_the_same_place(place, through):
    storage = filled(place()).storage
    assert through(storage).read() == storage.read()
    campaign = Campaign.open(storage)
    query = through(campaign).ask()
    assert campaign.open_queries[-1] == query
