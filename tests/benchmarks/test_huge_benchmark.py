"""`python -m benchmarks.huge`: counts against enumeration, tables, and work that is done once."""

import csv
import json
import sys
from itertools import permutations

import networkx as nx
import numpy as np
import pytest

from benchmarks._counting import Calls
from benchmarks._store import Store, Unit
from benchmarks._work import work
from benchmarks.huge import clock, ends, runs, tables
from benchmarks.huge.__main__ import main
from benchmarks.huge.families import FAMILIES, lucas, planted, problem
from benchmarks.huge.listing import MOST, can_be_listed, listed_problem
from benchmarks.huge.scale import POLICIES, RIVAL, Scale, quick, tiny
from combopeps import MatchingOracle, TopKOracle
from combopeps.cli import main as combopeps
from combopeps.errors import DependencyError
from combopeps.oracles.constrained_argmax import enumerate_answers

SMALL = [("top-k", (6, 2)), ("top-k", (7, 3)), ("grid", (3,)), ("grid", (4,)), ("matching", (3,)), ("matching", (4,))]
SMALL += [("band", (4,)), ("band", (5,)), ("band", (8,)), ("partition", (2, 4, 2)), ("partition", (3, 4, 1))]
SMALL += [("tree", (3,)), ("tree", (4,)), ("knapsack", (5, 4)), ("knapsack", (6, 7)), ("knapsack", (6, 99))]


@pytest.mark.parametrize(("family", "size"), SMALL)
def test_the_number_of_answers_is_what_branching_through_the_oracle_finds(family, size):
    found = enumerate_answers(FAMILIES[family].oracle(*size), limit=100)
    assert len(found) == FAMILIES[family].count(*size)


@pytest.mark.parametrize("size", [(1, 2), (2, 2), (2, 3), (3, 3), (2, 4)])
def test_the_number_of_routes_through_rings(size):
    oracle = FAMILIES["rings"].oracle(*size)
    graph = nx.DiGraph(list(oracle.components))
    assert not nx.is_directed_acyclic_graph(graph)
    assert sum(1 for _ in nx.all_simple_paths(graph, "start", "end")) == FAMILIES["rings"].count(*size)


def test_the_permanent_of_a_band():
    for n in (3, 6, 7):
        band = {(i, (i + shift) % n) for i in range(n) for shift in range(3)}
        assert sum(all(pair in band for pair in enumerate(p)) for p in permutations(range(n))) == lucas(n) + 2


@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_span_what_is_promised(family):
    made = FAMILIES[family]
    digits = [made.digits(size) for size in made.sizes]
    assert digits == sorted(digits)
    assert 2 <= digits[0] < 3
    assert digits[-1] >= 100
    assert [can_be_listed(family, size) for size in made.sizes[:4]] == [True, True, True, False]
    dims = [made.dim(size) for size in made.sizes]
    assert sum(10 * d >= dims[-1] for d in dims) >= 3  # for the slope


@pytest.mark.parametrize("family", FAMILIES)
def test_a_planted_answer_is_best_by_a_gap_of_one(family):
    made, theta = listed_problem(family, FAMILIES[family].sizes[0])
    assert len(made.oracle.Z) == FAMILIES[family].count(*FAMILIES[family].sizes[0]) <= MOST
    values = np.sort(made.oracle.Z @ theta)
    assert values[-1] - values[-2] >= 1 - 1e-9
    same, _ = problem(family, FAMILIES[family].sizes[0])
    np.testing.assert_array_equal(same.oracle.argmax(theta), made.oracle.argmax(theta))


def test_a_membership_that_asks_for_an_argmax_is_counted_once():
    for oracle in (MatchingOracle(3, 3), TopKOracle(5, 2)):
        theta = planted(oracle)
        z = oracle.argmax(theta)
        calls = Calls(oracle)
        oracle.membership(z, theta)
        oracle.argmax(np.stack([theta, theta]))
        assert calls.rows == 3
        assert calls.seconds > 0


def test_slopes_come_from_the_largest_decade_and_say_no():
    def row(d, us, floor, policy="TopTwo"):
        return {"family": "f", "policy": policy, "d": str(d), "us_per_round": str(us), "floor_us": str(floor)}

    measured = [row(10, 1e9, 1e9), row(1000, 100, 10), row(3000, 900, 30), row(10_000, 10_000, 100)]
    measured += [row(d, 5 * d**0.5, d, "PEPS") for d in (10, 1000, 10_000)]
    steep, flat = tables.slopes(measured)
    assert steep[:5] == ("f", "TopTwo", 1000, 10_000, 3)
    assert steep[5:] == pytest.approx((2, 1), abs=1e-3)
    assert flat[5] == pytest.approx(0.5)
    text = tables.slope_table([dict(zip(tables.SLOPES, map(str, found), strict=True)) for found in (steep, flat)])
    assert "<= 1.1 NO" in text
    assert "<= 1.1 yes" in text
    assert np.isnan(tables.slope([10.0], [1.0]))


def test_one_clock_measures_everything_it_says():
    data = clock.in_a_process(1, family="top-k", size=[12, 3], policy="LinGame", rounds=6)
    assert len(data["early"]) == len(data["late"]) == 3
    assert data["calls"] == 6  # one z_hat per round; the facets are listed
    assert 0 < data["floor"] < 1e-2
    assert 0 < data["inside"] < data["early"].sum() + data["late"].sum()
    assert 50 < data["megabytes"] < 2000


def clocks(path, names, timed):
    """A file of clocks, by hand: rows of TopTwo and PEPS."""
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, names, extrasaction="ignore")
        rows.writeheader()
        for policy in ("TopTwo", "PEPS"):
            for d, (size, us) in enumerate(timed.items(), 1):
                fixed = {"family": "top-k", "size": size, "d": 12 * d, "log10_Z": 2.3, "policy": policy, "rounds": 10}
                rows.writerow({**dict.fromkeys(names, 1.0), **fixed, "us_per_round": us, "limit_us": 500.0})


def test_the_tables_are_written_from_the_files(tmp_path, capsys):
    """Differences by hand instead of clocks, which take a process each."""
    main(["--tiny", "--jobs", "1", "--only", "runs", "--out", str(tmp_path)])
    assert not (tmp_path / "clock.md").exists()  # the clocks are missing
    clocks(tmp_path / "clock.csv", (*clock.FIXED, *clock.TIMED), {"3 of 12": 100.0, "100 of 10000": 777.0})
    tables.write_slopes(tmp_path)
    main(["--tiny", "--jobs", "1", "--only", "solved", "--out", str(tmp_path)])
    assert "2 of 4 rows of TopTwo and PEPS are within their time limit" in capsys.readouterr().out
    assert [cell.strip() for cell in line_of(read(tmp_path, "clock"), "3 of 12", "TopTwo").split("|")][5] == "100"
    assert [cell.strip() for cell in line_of(read(tmp_path, "largest"), "100 of 10000").split("|")][4:6] == [
        "24",
        "0.78",
    ]
    assert "cyclic network, 1000 stops" in read(tmp_path, "solved")
    assert "ended by its budget" in read(tmp_path, "solved")
    made = json.loads((tmp_path / "made.json").read_text())
    assert made["sections"].keys() == {"runs", "solved"}
    assert made["sections"]["runs"]["command"].startswith("python -m benchmarks.huge --tiny")
    assert "not run" in line_of(read(tmp_path, "runs"), "3 rings of 3", "PEPS")
    main(["--tiny", "--jobs", "1", "--to-the-end", "--out", str(tmp_path)])
    assert "1 of 1" in line_of(read(tmp_path, "runs"), "3 rings of 3", "PEPS")
    assert "not run" in line_of(read(tmp_path, "runs"), "6 x 6", "PEPS")
    with (tmp_path / "runs.csv").open(newline="") as file:
        found = {(row["family"], row["policy"]) for row in csv.DictReader(file)}
    every = {(family, policy) for family in FAMILIES for policy in POLICIES}
    assert every - found == {("rings", "PEPS"), ("grid", "PEPS")}


def read(folder, name):
    return (folder / f"{name}.md").read_text()


def line_of(page, *words):
    """The last line of the table that has all of these cells."""
    return [line for line in page.splitlines() if all(f"| {word} " in line for word in words)][-1]


def test_every_case_is_run_now_or_to_the_end_or_estimated():
    for scale in (Scale(), quick(), tiny()):
        cases = {(case.family, case.size, case.policy): case for case in runs.cases(scale)}
        now, later = ({(u.params["family"], u.params["size"], u.params["policy"]) for u in part.units(scale)}
                      for part in (runs, ends))  # fmt: skip
        assert not now & later
        assert all(cases[key].seconds > scale.longest[key[2]] for key in cases.keys() - now - later)
        assert {key for key in cases if key[2] == RIVAL} <= now
    full = Scale()
    run = {(u.params["family"], u.params["size"], u.params["policy"]) for u in runs.units(full) + ends.units(full)}
    for family, size in (("grid", (113,)), ("grid", (200,)), ("band", (960,)), ("band", (1440,)), ("rings", (1000, 3))):
        assert (family, size, "TopTwo") in run
    assert ("matching", (100,), "PEPS") in run
    missing = {case for case in runs.cases(full) if case.seconds > full.longest.get(case.policy, np.inf)}
    assert {case.d for case in missing if case.policy == "TopTwo"} == {100_000}
    assert (
        sum(full.expected(u.params["family"], u.params["d"], u.params["policy"]) for u in ends.units(full)) < 4 * 3600
    )


def test_estimates_follow_the_power_law_of_the_sizes_that_came_to_an_end():
    def row(d, samples, ended_by="posterior", policy="TopTwo"):
        return {
            "family": "grid", "size": f"{d} d", "d": str(d), "policy": policy, "samples": str(samples),
            "ended_by": ended_by,
        }  # fmt: skip

    done = [row(10, 7), row(100, 100), row(1000, 2000), row(10_000, 40_000), row(10_000, 40_000)]
    done += [row(100_000, 5, "budget"), row(50, 9, policy="PEPS")]
    assert ends.extrapolated(done, "grid", "TopTwo", 100_000) == pytest.approx(800_000)
    assert ends.extrapolated(done, "grid", "PEPS", 500) == pytest.approx(90)
    assert np.isnan(ends.extrapolated(done, "rings", "PEPS", 500))
    scale = Scale(sizes={"grid": ((113,),)})
    timed = [{"family": "grid", "size": "113 x 113", "policy": "TopTwo", "us_per_round": "1000"}]
    first, second = ends.estimates(scale, done, timed)
    assert first.seconds == pytest.approx(1e-3 * first.samples)
    assert np.isnan(second.seconds)
    text = tables.runs([], [first, second])
    assert f"about {first.samples:,.0f}" in text
    assert tables.duration(first.seconds) in text


def test_times_are_said_in_a_unit_that_suits():
    assert [tables.duration(x) for x in (3.21, 600, 9000, float("nan"))] == ["3.2 s", "10.0 min", "2.5 h", "?"]


def test_the_picture_ends_the_line_of_lingame(tmp_path):
    from benchmarks.huge import picture

    names = ("family", "policy", "log10_Z", "us_per_round", "floor_us")
    lines = [("top-k", p, z, 100 + z, 10) for p in ("TopTwo", "PEPS") for z in (2, 5, 100)]
    lines += [("top-k", "LinGame", z, 10.0**z, 10) for z in (2, 5)]
    with (tmp_path / "clock.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *lines])
    picture.draw(tmp_path)
    assert (tmp_path / "huge.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_what_is_finished_is_not_done_again(tmp_path):
    store, done = Store(tmp_path), []

    def unit(i, fails=False):
        def compute(jobs):
            if fails:
                raise KeyboardInterrupt
            done.append(i)
            return {"i": np.asarray(i)}

        return Unit(f"piece {i}", {"i": i}, compute)

    with pytest.raises(KeyboardInterrupt):
        work([unit(0), unit(1), unit(2, fails=True), unit(3)], store)
    assert done == [0, 1]
    work([unit(i) for i in range(4)], store)
    assert done == [0, 1, 2, 3]
    assert [int(store.load(unit(i))["i"]) for i in range(4)] == [0, 1, 2, 3]


def test_other_sources_are_another_result(tmp_path):
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("1")
    second.write_text("2")
    store = Store(tmp_path)
    store.save(Unit("piece", {}, len, (first,)), {"x": np.zeros(1)})
    assert Unit("piece", {}, len, (first,)) in store
    assert Unit("piece", {}, len, (second,)) not in store


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DependencyError, match=r"combopeps\[dask\]"):
        work([Unit("piece", {}, len, (tmp_path,))], _Empty(), scheduler="tcp://127.0.0.1:1")
    with pytest.raises(SystemExit):
        main(["--tiny", "--only", "runs", "--scheduler", "tcp://127.0.0.1:1", "--out", str(tmp_path)])
    assert "pip install 'combopeps[dask]'" in capsys.readouterr().err


class _Empty:
    def __contains__(self, unit):
        return False


def test_budgets_do_not_hang_on_the_machine():
    scale = Scale()
    assert scale.budget(12) == 480
    assert (
        scale.expected("top-k", 100, "PEPS")
        > scale.expected("grid", 100, "PEPS")
        > scale.expected("grid", 100, "TopTwo")
    )
    assert scale.replications(100, "PEPS") > scale.replications(100_000, "PEPS")
    assert quick().sizes.keys() == scale.sizes.keys()


def test_the_command_line_lists_packages(capsys):
    assert combopeps(["bench"]) == 0
    names = capsys.readouterr().out.split()
    assert {"huge", "paper", "stopping", "policies"} <= set(names)
    assert not any(name.startswith("_") for name in names)
