"""`python -m benchmarks.paper` in its smallest form: every file appears, nothing is computed twice, nothing is lost."""

import csv
import json
import re

import numpy as np
import pytest

from benchmarks._store import Store, Unit
from benchmarks.paper import samples, wider
from benchmarks.paper.__main__ import ITEMS, main
from benchmarks.paper._cases import INSTANCES, POLICIES, SEED, problem
from benchmarks.paper._claims import ratio
from benchmarks.paper.clock import RIVALS
from benchmarks.paper.theorem import NAMES, attained
from combopeps.session import Trace

TABLES = [
    "samples",
    "spheres",
    "blocks",
    "wider",
    "ratios",
    "curves",
    "pulls",
    "rejection",
    "clock",
    "theorem",
    "effects",
]
pytestmark = pytest.mark.xdist_group("paper")  # `made` takes a minute
FIGURES = [f"{kind}-{instance}" for kind in ("rate", "pulls") for instance in INSTANCES]
FIGURES += ["draws", "seconds", "clock", "theorem", "effects"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper") / "results"
    main(["--tiny", "--jobs", "1", "--out", str(out)])
    return out


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_every_table_and_figure_appears(made):
    for name in TABLES:
        assert rows(made / f"{name}.csv"), name
    for name in FIGURES:
        png = (made / f"{name}.png").read_bytes()
        assert png[:8] == b"\x89PNG\r\n\x1a\n", name
        assert 850 <= int.from_bytes(png[16:20], "big") <= 950, name
    assert {path.stem for path in made.glob("*.md")} >= {item.TITLE for item in ITEMS} - {"curves"}


@pytest.mark.slow
def test_the_tables_hold_every_policy(made):
    found = {(row["instance"], row["policy"]) for row in rows(made / "samples.csv")}
    assert found == {(i, p) for i in INSTANCES for p in POLICIES} - {("topk", "Thompson")}
    assert {row["policy"] for row in rows(made / "clock.csv")} == set(RIVALS)
    assert {row["kind"] for row in rows(made / "theorem.csv")} == set(NAMES)


@pytest.mark.slow
def test_six_problems_are_compared_with_more_runs(made):
    wide = rows(made / "wider.csv")
    assert {(row["problem"], row["policy"]) for row in wide} == {(p, q) for p in wider.NAMES for q in wider.POLICIES}
    runs = {(row["problem"], row["policy"]): int(row["runs"]) for row in wide}
    assert runs["soare", "TopTwo"] == 2 * runs["soare", "PEPS projected"] == 8
    assert {row["over"] for row in rows(made / "ratios.csv")} == {"three", "six"}
    page = (made / "reproduction.md").read_text()
    assert "over the paper's three problems" in page
    assert "over all six problems" in page


@pytest.mark.slow
def test_ratios_follow_from_the_samples(made):
    by = {(row["problem"], row["policy"]): row for row in rows(made / "wider.csv")}
    ratios = rows(made / "ratios.csv")
    assert ratios
    for row in ratios:
        logs = []
        for name in wider.GROUPS[row["over"]]:
            mine, rival = by[name, row["policy"]], by[name, row["rival"]]
            logs.append(np.log(float(mine["samples"]) / min(float(rival["samples"]), float(rival["budget"]))))
        assert float(row["ratio"]) == pytest.approx(np.exp(np.mean(logs)), rel=1e-4)


@pytest.mark.slow
def test_what_made_them_is_written_down(made):
    notes = json.loads((made / "made.json").read_text())
    assert notes["seed"] == SEED
    assert "--tiny" in notes["command"]
    assert {"numpy", "python", "combopeps", "source"} <= set(notes)


@pytest.mark.slow
def test_the_reading_is_complete_and_its_links_work(made):
    page = (made / "reproduction.md").read_text()
    for policy in POLICIES:
        assert f"| {policy}" in page
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) >= len(FIGURES)
    assert all((made / link).exists() for link in links)
    assert "**NO**" in page  # four runs of sixty rounds bear out hardly anything


@pytest.mark.slow
def test_a_second_call_computes_nothing_and_changes_nothing(made, capsys):
    before = {path.name: path.read_bytes() for path in made.glob("*.csv")}
    stamps = {path: path.stat().st_mtime_ns for path in (made / "raw").iterdir()}
    main(["--tiny", "--jobs", "1", "--out", str(made)])
    assert {path.name: path.read_bytes() for path in made.glob("*.csv")} == before
    assert {path: path.stat().st_mtime_ns for path in (made / "raw").iterdir()} == stamps
    assert "minutes spent per item" in capsys.readouterr().out


def test_an_interrupted_unit_leaves_nothing_behind_that_counts(tmp_path):
    store = Store(tmp_path)

    def fails(jobs):
        raise KeyboardInterrupt

    broken = Unit("piece", {"seed": 1}, fails)
    with pytest.raises(KeyboardInterrupt):
        store.run(broken, 1)
    assert broken not in store


def test_other_parameters_are_another_result(tmp_path):
    store = Store(tmp_path)

    def compute(jobs):
        return {"x": np.arange(3)}

    store.run(Unit("piece", {"runs": 4}, compute), 1)
    assert Unit("piece", {"runs": 4}, compute) in store
    assert Unit("piece", {"runs": 5}, compute) not in store
    assert store.load(Unit("piece", {"runs": 4}, compute))["x"].tolist() == [0, 1, 2]


def test_crossings_agree_with_the_trace():
    rng = np.random.default_rng(0)
    t = np.arange(1, 201)
    correct = rng.random((100, 200)) < t / 200
    trace = Trace(t, correct, np.ones((100, 2), dtype=int), np.zeros(200), np.zeros(200), 0, np.tile(t, (100, 1)))
    for level in (0.5, 0.9):
        assert samples.mean_crossing([trace], level)[0] == trace.samples_to(level).samples
    first, low, high = samples.mean_crossing([trace, trace], 0.5)
    assert low <= first <= high
    assert first == trace.samples_to(0.5).samples
    assert samples.mean_crossing([trace], 0.9999)[0] == correct.all(axis=0).argmax() + 1
    early = Trace(t[:150], correct[:, :150], trace.pulls, np.zeros(150), np.zeros(150), 0, trace.cost[:, :150])
    assert samples.mean_crossing([early], 0.9999)[0] == np.inf


def test_small_blocks_scatter_more_than_large_ones():
    """Per resampled block of n runs the crossing of a level scatters like 1 / sqrt(n): twice as much for a quarter."""
    t = np.arange(1, 401)
    correct = np.random.default_rng(1).exponential(100, size=(2000, 1)) < t
    trace = Trace(t, correct, np.ones((2000, 2), dtype=int), np.zeros(400), np.zeros(400), 0, np.tile(t, (2000, 1)))
    large, small = (samples.crossings(trace, 0.7, np.random.default_rng(2), size) for size in (None, 500))
    assert large[0] == small[0] == trace.samples_to(0.7).samples
    assert 1.7 < small[1:].std() / large[1:].std() < 2.3


def test_a_share_equal_to_the_level_is_not_above_it():
    correct = (np.arange(500) < 475)[:, None] | np.array([False, True])
    t = np.array([1, 2])
    trace = Trace(t, correct, np.ones((500, 2), dtype=int), np.zeros(2), np.zeros(2), 0, np.tile(t, (500, 1)))
    assert samples.mean_crossing([trace], 0.95)[0] == 2


def test_the_same_problem_in_other_clothes():
    path, listed = problem("two-nets"), problem("listed two-nets")
    assert len(listed.oracle.Z) == 32
    for theta in np.random.default_rng(0).normal(size=(50, 32)):
        assert np.array_equal(path.oracle.argmax(theta), listed.oracle.argmax(theta))
    unit = problem("unit sphere:d=6,arms=20,seed=3")
    assert np.array_equal(unit.oracle.Z, problem("sphere:d=6,arms=20,seed=3").oracle.Z)
    assert len(unit.arms) == 6


def test_what_was_not_reached_bears_nothing_out():
    assert np.isnan(ratio(np.inf, np.inf))
    assert ratio(np.inf, 10.0) == np.inf
    assert not ratio(np.inf, np.inf) <= 1.05


def test_uniform_allocation_on_soare_by_hand():
    """A = I/3 + x x'/3, x = (cos .1, sin .1): the nearest rival is x, at gap^2 / (2 |x - e_1|^2_{A^-1})."""
    x, e = np.array([np.cos(0.1), np.sin(0.1)]), np.array([1.0, 0.0])
    inverse = 3.0 * (np.eye(2) - np.outer(x, x) / 2.0)
    wanted = min((1 - z @ e) ** 2 / (2 * (z - e) @ inverse @ (z - e)) for z in (x, np.array([0.0, 1.0])))
    assert attained(np.full(3, 1 / 3)) == pytest.approx(wanted, rel=1e-9)


def test_too_few_runs_are_refused():
    with pytest.raises(SystemExit):
        main(["--runs", "1"])
