"""Every public class has a `repr` of one line and an HTML table for notebooks, which escapes labels of users."""

import pickle
import time
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from public_names import public_objects
from test_misuse import FUNCTIONS, Files, used

import combopeps as top
from combopeps.campaign.sql_store import SQLStore
from combopeps.utils.formatting import ShortRepr

CLASSES = {
    name: value
    for name, value in public_objects().items()
    if isinstance(value, type) and not issubclass(value, BaseException)
}
cp = SimpleNamespace(**CLASSES, **{name: getattr(top, name) for name in ("check_oracle", "lower_bound", "plan")})
MAX_LENGTH, MAX_RESULT_LENGTH = 300, 2000  # results show all fields
LABEL = "<script>alert(1)</script>"
ORACLE = cp.TopKOracle([LABEL, "b", "c"], 1)
PROBLEM = cp.Problem(ORACLE, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
PROBLEM_OF_LETTERS = cp.Problem(cp.TopKOracle(["a", "b", "c"], 1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
THETA = [3.0, 1.0, 0.0]
Z = np.array([1.0, 0.0, 0.0])


def faults(made):
    """What is wrong with the representations of an object: a list of texts."""
    found, text = [], repr(made)
    most = MAX_RESULT_LENGTH if isinstance(made, cp.Readable) else MAX_LENGTH
    if type(made).__repr__ is object.__repr__:
        found.append("has the repr of `object`")
    if len(text.splitlines()) != 1:
        found.append(f"repr has {len(text.splitlines())} lines")
    if len(text) > most:
        found.append(f"repr has {len(text)} characters")
    html = getattr(made, "_repr_html_", lambda: None)()
    if not isinstance(html, str):
        return [*found, "has no _repr_html_"]
    if type(made).__name__ not in html:
        found.append("HTML lacks the name of the class")
    if len(html) > 10_000:
        found.append(f"HTML has {len(html)} characters")
    if "<script" in html:
        found.append("HTML is not escaped")
    return found


# One object of each class ------------------------------------------------------------------------------------------


class OwnOracle(cp.ArgmaxOracle):
    calls = 0

    def _argmax_batch(self, thetas):
        self.calls += 1
        return np.eye(thetas.shape[1])[thetas.argmax(axis=1)]


class OwnSampler(cp.AlternativeSampler):
    def __init__(self, tries=LABEL):
        self.tries = tries

    def _sample(self, question, n, rng):
        raise NotImplementedError


class OwnPolicy(cp.Policy):
    def choose(self):
        return np.zeros(self.replications, dtype=np.intp)


class OwnRule(cp.StoppingRule):
    name, delta = "own", 0.1

    def check(self, view):
        return cp.Verdict(False)


class OwnNoise(cp.Noise):
    def draw(self, mean, std, draws):
        return mean


class OwnSpace(cp.ParameterSpace):
    def bounds(self, dim):
        return np.zeros(dim), np.ones(dim)


@dataclass(frozen=True, repr=False)
class OwnRecord(cp.Readable):
    label: str = LABEL


def remote():
    """A campaign at an address that nothing answers: its representations must not use the network."""
    made = object.__new__(cp.RemoteCampaign)
    made._http, made.problem = SimpleNamespace(url=f"http://127.0.0.1:9/{LABEL}"), PROBLEM
    made.policy_name, made.stopping, made.delta = "greedy", "posterior", 0.05
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An object of every public class."""
    files = Files(tmp_path_factory.mktemp("reprs"))
    session, rng = labelled_session(), np.random.default_rng(0)
    posterior, plan = session.posterior, cp.plan(PROBLEM, runs=4, most=20, seconds=5.0, budget=10)
    sampler, trace = cp.HalfSpaceSampler(), top.simulate(PROBLEM, THETA, budget=20, replications=4)
    found = sampler.sample(posterior, ORACLE, Z, 2, rng)
    campaign = used(cp.Campaign.create(files.new(), PROBLEM_OF_LETTERS))
    page = campaign.store.read()
    status = session.status()
    records = [
        *(found, found.account, sampler.probability(posterior, ORACLE, Z, rng, draws=64)),
        *(session, status, session.result(), status.top_answers[0], session.open_queries[0]),
        *(session.measurements()[0], session.observe_table([(LABEL, 1.0)]), cp.View(session.policy, 0)),
        *(plan, plan.forecasts[0], plan.least, plan.reach, trace, trace.samples_to(0.01)),
        *(campaign, campaign.store, page, page.end, cp.Checkpoint(page.end, b"x" * 1000)),
        *(cp.check_oracle(ORACLE), cp.lower_bound(PROBLEM, THETA), cp.Verdict(False), cp.Lease(LABEL)),
        *(ORACLE.confusions(), ORACLE.log_cardinality, cp.NoiseEstimate(1.0, 0.5, 2.0, 9), cp.Proportion.of(8, 10)),
        *(cp.MultiPath([LABEL, "t"], [0]), cp.SamplingTask(posterior, ORACLE, Z, cp.RealSpace()), cp.RealSpace()),
        *(
            cp.Recommendation(Z, {LABEL}, {"b"}, 0.1),
            cp.CheckReport([(1, LABEL)], 4, 2, 1),
            cp.CensoredMean(1.0, 0.5, 2.0),
        ),
        *(cp.any_of(cp.BudgetRule(5), cp.PosteriorRule()), remote(), cp.Instance(LABEL, PROBLEM, THETA)),
        *(cp.EpochConstants(*range(len(fields(cp.EpochConstants)))), *abstract()),
    ]
    objects = {type(one).__name__: one for one in records}
    for name in CLASSES.keys() & FUNCTIONS.keys() - objects.keys():
        objects[name] = CLASSES[name](**FUNCTIONS[name](files))
    return objects


def labelled_session():
    session = cp.Session(PROBLEM)
    for y in (0.5, 1.0, 0.0):
        session.tell(session.ask(), y)
    session.observe(LABEL, 0.5)
    session.ask()
    return session


def abstract():
    """An object of a subclass of each abstract class, as users write them."""
    return [OwnOracle([LABEL, "b"]), OwnSampler(), OwnPolicy(PROBLEM), OwnRule(), OwnNoise(), OwnSpace(), OwnRecord()]


def of_class(made, name):
    """The object of a class, or of a subclass of an abstract one."""
    return made[name] if name in made else next(one for one in made.values() if isinstance(one, CLASSES[name]))


# Tests -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_public_class(made, name):
    assert faults(of_class(made, name)) == []


@pytest.mark.parametrize(
    "name",
    [
        *("Query", "Measurement", "Status", "Result", "Recommendation", "TopAnswer", "Instance", "Lease", "MultiPath"),
        *("CheckReport", "RemoteCampaign", "OwnSampler", "OwnRecord"),
    ],
)
def test_labels_are_shown_and_escaped(made, name):
    changes = {"Query": {"label": LABEL}, "Measurement": {"label": LABEL}, "TopAnswer": {"answer": {LABEL}}}
    shown = replace(made[name], **changes[name]) if name in changes else made[name]
    html = shown._repr_html_()
    assert "&lt;script&gt;" in html
    assert "<script" not in html


def test_options_are_shown(made):
    assert repr(cp.RejectionSampler(cap=7)) == "RejectionSampler(cap=7, clip=False)"
    assert repr(cp.PosteriorRule(0.1, epsilon=0.2)) == "PosteriorRule(delta=0.1, epsilon=0.2, ratio=1.1)"
    assert repr(OwnRule()) == "OwnRule(delta=0.1, epsilon=0.0)"
    assert repr(cp.BudgetRule(9)) == "BudgetRule(delta=1.0, epsilon=0.0, budget=9, simulations=100, seconds=2.0)"
    assert repr(cp.Hedge(3, 2, 0.5)) == "Hedge(arms=3, replications=2, eta=0.5)"
    assert repr(OwnOracle(["a", "b"])) == "OwnOracle(components=2)"
    dense, diagonal = made["DensePosterior"], made["DiagonalPosterior"]
    assert "dense" in repr(dense)
    assert "diagonal" in repr(diagonal)
    assert "components=3" in repr(dense)
    text = repr(made["Session"])
    assert text.startswith("Session(policy='GreedyInformation', stopping='posterior', delta=0.05, samples=")
    assert "open_queries=1, cost=" in text


def timed(made):
    """The representations, which take less than half a second together."""
    start = time.perf_counter()
    found = faults(made)
    assert time.perf_counter() - start < 0.5
    return found


def test_large_objects():
    many = cp.TopKOracle([f"item {i}" for i in range(100_000)], k=500)
    rows = cp.CheckedOracle(cp.ExplicitOracle(np.eye(300)))
    problem = cp.Problem(many, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    long = cp.TopKOracle([letter * 3_000_000 for letter in "abc"], k=1)
    session = cp.Session(cp.Problem(long, noise_std=1.0, prior_mean=0.0, prior_std=1.0))
    query = session.ask()
    session.tell(query, 1.0)
    box = cp.Box(np.zeros(100_000), np.arange(1.0, 100_001.0))
    verdict = cp.Verdict(True, claim="because " * 500)
    nodes = [letter * 10_000 for letter in "sat"]
    route = cp.ShortestPathOracle(nx.DiGraph([*pairwise(nodes), (nodes[0], nodes[2])]), nodes[0], nodes[2])
    routes = cp.Session(cp.Problem(route, noise_std=1.0))
    things = [
        *(many, rows, problem, cp.Session(problem), cp.Session(problem).policy, cp.Arms.of(many), box, verdict),
        *(route, routes, routes.problem, routes.policy, routes.ask(), cp.Lease("x" * 3_000_000)),
        *(session, query, session.measurements()[0], session.status(), session.result()),
        cp.TableSummary(3, 1, {"x" * 3_000_000: 2, "y" * 3_000_000: 1}, "unknown label " + "x" * 3_000_000),
    ]
    assert [(type(one).__name__, timed(one)) for one in things if timed(one)] == []


def test_labels_with_line_breaks_and_representations_that_fail():
    class Odd:
        def __init__(self, name):
            self.name = name

        def __repr__(self):
            if self.name == "fails":
                raise RuntimeError(self.name)
            return f"<{self.name}\n   of two lines>"

    for label in (Odd("fails"), Odd("a name")):
        assert faults(cp.Query(0, label, (0,))) == []
    assert repr(cp.Query(0, Odd("a name"), (0,))) == "Query(id=0, label=<a name of two lines>, arms=(0,))"


def test_the_oracle_of_the_user_is_not_called():
    oracle = OwnOracle(["a", "b", "c"])
    session = cp.Session(cp.Problem(oracle, noise_std=1.0, prior_mean=0.0, prior_std=1.0))
    for _ in range(4):
        session.tell(session.ask(), 1.0)
    view = cp.View(session.policy, 0)
    calls = oracle.calls
    for one in (oracle, session.problem, session, session.policy, view, session.rule):
        assert faults(one) == []
    assert oracle.calls == calls > 0


def test_a_closed_store_and_the_view_of_a_finished_run(tmp_path):
    campaign = used(cp.Campaign.create(tmp_path / "a.db", PROBLEM_OF_LETTERS))
    campaign.store.close()
    (tmp_path / "a.db").unlink()
    assert faults(campaign) == []
    assert faults(campaign.store) == []
    assert isinstance(campaign.store, SQLStore)
    assert "a.db" in campaign._repr_html_()
    result = top.identify(PROBLEM, lambda label: THETA[ORACLE.index(label)], budget=5)
    assert faults(cp.View(result.session.policy, 0)) == []


def test_incomplete_objects_have_the_name_of_their_class():
    class Careless(cp.ArgmaxOracle):
        def __init__(self):
            pass  # without super().__init__(components)

        def _argmax_batch(self, thetas):
            return thetas

    assert repr(Careless()) == "<Careless>"
    assert "Careless" in Careless()._repr_html_()
    for name in ("Session", "DiagonalPosterior", "View", "Verdict", "Hedge", "ExplicitOracle"):
        incomplete = object.__new__(CLASSES[name])
        assert name in repr(incomplete)
        assert name in incomplete._repr_html_()


def test_the_mixin_adds_nothing_to_an_object(made):
    assert ShortRepr.__slots__ == ()
    for name in (
        "Lease",
        "Verdict",
        "Measurement",
        "SamplingStats",
        "Box",
        "LogCardinality",
        "Cursor",
        "NoiseEstimate",
    ):
        assert repr(pickle.loads(pickle.dumps(made[name]))) == repr(made[name])
    assert pickle.loads(pickle.dumps(made["LogCardinality"])).exact


# Negative controls -------------------------------------------------------------------------------------------------


def test_a_class_without_representations_is_caught():
    class Silent:
        pass

    assert faults(Silent()) == ["has the repr of `object`", "has no _repr_html_"]


def test_bad_representations_are_caught():
    class Wrong:
        def __repr__(self):
            return "Wrong(\n" + "x" * 300

        def _repr_html_(self):
            return f"<b>{LABEL}</b>"

    assert faults(Wrong()) == [
        "repr has 2 lines",
        "repr has 307 characters",
        "HTML lacks the name of the class",
        "HTML is not escaped",
    ]
