"""Every public signature with each parameter replaced by values that it cannot mean: accepted, or a typed error.

Not one of these calls may end in an exception that is not a `ComboPepsError`, hang, warn again and again, or change an
object whose method refused its arguments.
"""

import inspect
import signal
import threading
import warnings
from collections import Counter
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from backends import events
from public_names import public_objects

from combopeps.errors import ComboPepsError

PUBLIC = {name: value for name, value in public_objects().items() if not value.__module__.startswith("combopeps.viz")}
cp = SimpleNamespace(**PUBLIC)
SECONDS = 10  # after which a call counts as one that hangs
WARNINGS = 5  # of one call
INVALID = {
    "None": None,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "minus infinity": float("-inf"),
    "-1": -1,
    "0": 0,
    "0.5": 0.5,
    "1e308": 1e308,
    "10**400": 10**400,
    "-10**400": -(10**400),
    "2**63": 2**63,
    "10**12": 10**12,
    "True": True,
    "False": False,
    "complex": 1j,
    "Decimal NaN": Decimal("nan"),
    "Decimal sNaN": Decimal("sNaN"),
    "Fraction": Fraction(1, 3),
    "date": datetime(2020, 1, 1),
    "NaT": np.datetime64("NaT"),
    "float32 infinity": np.float32("inf"),
    "numpy bool": np.True_,
    "empty text": "",
    "text": "no such thing",
    "text with NUL": "a\0b",
    "surrogate": "\ud800",
    "empty bytes": b"",
    "bytes": b"x",
    "empty list": [],
    "empty tuple": (),
    "empty dict": {},
    "empty set": set(),
    "list of nothing": [None],
    "list of everything": [1, "a", None],
    "ragged": [[1.0], [1.0, 2.0]],
    "dict": {"a": object()},
    "object": object(),
    "function": lambda: None,
    "function of anything": lambda *args, **options: None,
    "class": int,
    "exception": ValueError("x"),
    "module": np,
    "iterator": iter(()),
    "range": range(3),
    "empty array": np.array([]),
    "wrong shape": np.zeros((2, 2, 2)),
    "NaN array": np.array([1.0, np.nan, 2.0]),
    "infinite array": np.array([1.0, np.inf, 2.0]),
    "huge array": np.array([1e308, -1e308, 1e308]),
    "complex array": np.array([1j, 2j, 3j]),
    "text array": np.array(["a", "b", "c"]),
    "object array": np.array([None, object(), "a"], dtype=object),
    "masked array": np.ma.masked_array([1.0, 2.0, 3.0], mask=[False, True, False]),
    "huge integers": [10**400, 1, 2],
}


CALLED = {"measure", "callback", "make", "independent", "policy"}
"""Functions of the user: what they raise is passed on, so that no function is tried in their place."""

NOT_TRIED = {("n_jobs", "-1")}  # valid, and starts processes
FEW = {
    name: INVALID[name] for name in ("None", "NaN", "10**400", "True", "text with NUL", "empty list", "masked array")
}
SLOW = {"check_oracle", "check_policy", "check_sampler", "RemoteCampaign"}


class HangError(BaseException):
    """A call took longer than it may; not an Exception, so that no handler takes it for something else."""


@contextmanager
def limited(seconds):
    def over(*_):
        raise HangError

    old = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def faults(call, arguments, state=lambda: None, values=INVALID, seconds=SECONDS):
    """What is wrong with a callable, parameter by parameter: a list of texts.

    `arguments` are valid ones by name; `state` is compared before and after each refusal.
    """
    found = []
    for name in parameters(call, arguments):
        for what, value in values.items():
            if (name, what) in NOT_TRIED or (name in CALLED and callable(value)):
                continue
            before, outcome = state(), ""
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                try:
                    with limited(seconds):
                        call(**{**arguments(), name: value})
                    continue
                except ComboPepsError:
                    pass
                except HangError:
                    outcome = "hangs"
                except Exception as error:
                    outcome = f"raises {type(error).__name__}: {str(error)[:80]}"
            if len(seen) > WARNINGS:
                outcome = outcome or f"gives {len(seen)} warnings"
            if not outcome and state() != before:
                outcome = "is refused, but changes the state"
            if outcome:
                found.append(f"{name} = {what}: {outcome}")
    return found


def parameters(call, arguments):
    """The names of the parameters, and of options that a signature passes on and valid arguments name."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    named = [name for name, one in inspect.signature(call).parameters.items() if one.kind not in kinds]
    return [*named, *(name for name in arguments() if name not in named)]


# Valid arguments ---------------------------------------------------------------------------------------------------

ORACLE = cp.TopKOracle(["a", "b", "c"], 1)
PROBLEM = cp.Problem(ORACLE, noise_std=1.0, prior_mean=0.0, prior_std=1.0)
THETA = [0.0, 1.0, 3.0]
BOUNDED = cp.Problem(ORACLE, noise_std=1.0, prior_mean=0.0, prior_std=1.0, space=cp.Box(-9.0, 9.0))
POSTERIOR = cp.GaussianPosterior.start(PROBLEM.arms)
Z = np.array([1.0, 0.0, 0.0])


def measured(label):
    """A result, or a list of them for a list of labels."""
    return [measured(one) for one in label] if isinstance(label, list) else THETA["abc".index(label)]


def graph():
    return nx.DiGraph([("s", "a"), ("a", "t"), ("s", "b"), ("b", "t")])


def model():
    from ortools.sat.python import cp_model

    made = cp_model.CpModel()
    made.add_at_most_one(made.new_bool_var(name) for name in "ab")
    return made


def constraint_arguments():
    made = model()
    return {"model": made, "variables": [made.get_bool_var_from_proto_index(i) for i in range(2)]}


class Files:
    """One file for each reader."""

    def __init__(self, folder):
        self.folder = folder
        self.items = self._write("x.csv", "item,mean,weight,group\na,1,1,g\nb,2,1,g\nc,3,2,h\n")
        self.table = self._write("t.csv", "w,x,y\na,1,2\nb,3,4\n")
        self.network = self._write("n.gr", "p sp 3 3\na 1 2 5\na 2 3 5\na 1 3 12\n")
        self.program = self._write("p.lp", "Maximize\n x + y\nSubject To\n x + y <= 1\nBinary\n x y\nEnd\n")
        self.instance = folder / "i.json"
        cp.save_instance(cp.Instance("i", PROBLEM, THETA), self.instance)
        self.campaign = folder / "campaign.db"
        cp.Campaign.create(self.campaign, PROBLEM)
        self.trace = folder / "trace.npz"
        trace().save(self.trace)
        self.made = 0

    def _write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def new(self):
        self.made += 1
        return self.folder / f"new{self.made}.db"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Names of files among the invalid values must not leave anything behind."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("misuse"))


def trace():
    return cp.simulate(PROBLEM, THETA, budget=20, replications=4)


def used(session):
    """A session with two results, one observation and an open query."""
    for y in (0.5, 1.0):
        session.tell(session.ask(), y)
    session.observe("a", 0.5)
    session.ask()
    return session


def session_state(made):
    return made.measurements(), [query.id for query in made.open_queries], made.posterior.theta_hat.tobytes()


def options_of_policies():
    return {"problem": PROBLEM, "sampler": None, "prior_precision": 1.0, "replications": 1, "initial_design": 0}


FUNCTIONS = {
    "least_expected_cost": lambda f: {"tau_star": 0.1, "delta": 0.05},
    "check_oracle": lambda f: {"oracle": ORACLE},
    "check_identifiability": lambda f: {"arms": PROBLEM.arms, "oracle": ORACLE},
    "check_sampler": lambda f: {"make": cp.RejectionSampler, "draws": 20, "raises": False},
    "check_policy": lambda f: {"make": cp.Uniform, "raises": False},
    "current_answer": lambda f: {"posterior": POSTERIOR, "oracle": ORACLE},
    "draw_thetas": lambda f: {
        "posterior": POSTERIOR,
        "space": cp.RealSpace(),
        "n": 2,
        "rng": np.random.default_rng(0),
    },
    "identify": lambda f: {"problem": PROBLEM, "measure": measured, "budget": 4},
    "Session": lambda f: {"problem": PROBLEM},
    "simulate": lambda f: {"problem": PROBLEM, "theta": THETA, "budget": 4, "replications": 2},
    "plan": lambda f: {"problem": PROBLEM, "runs": 2, "most": 10, "seconds": 1.0},
    "lower_bound": lambda f: {"problem": PROBLEM, "theta": THETA},
    "list_instances": lambda f: {},
    "load_instance": lambda f: {"name": f.instance},
    "save_instance": lambda f: {"instance": cp.Instance("i", PROBLEM), "path": f.folder / "saved.json"},
    "read_groups": lambda f: {"path": f.items, "quotas": 1},
    "read_items": lambda f: {"path": f.items, "k": 1},
    "read_knapsack": lambda f: {"path": f.items, "capacity": 2.0},
    "read_network": lambda f: {"path": f.network, "source": 1, "target": 3},
    "read_table": lambda f: {"path": f.table},
    "read_tree": lambda f: {"path": f.network},
    "read_program": lambda f: {"path": f.program},
    "epoch_constants": lambda f: {"problem": BOUNDED, "epoch": 1},
    "g_optimal": lambda f: {"arms": PROBLEM.arms},
    "CheckedOracle": lambda f: {"oracle": ORACLE},
    "CpSatOracle": lambda f: constraint_arguments(),
    "ExplicitOracle": lambda f: {"Z": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]},
    "KnapsackOracle": lambda f: {"weights": [1.0, 2.0, 3.0], "capacity": 4.0},
    "MatchingOracle": lambda f: {"left": 2, "right": 2},
    "MatroidOracle": lambda f: {"components": 3, "independent": lambda chosen: len(chosen) < 2},
    "MilpOracle": lambda f: {"components": 3, "A": [[1, 1, 1]], "lower": 0, "upper": 1},
    "PartitionOracle": lambda f: {"groups": {"g": ["a", "b"], "h": ["c", "d"]}, "quotas": 1},
    "ProductOracle": lambda f: {"oracles": [cp.TopKOracle(["a", "b", "c"], 1), cp.TopKOracle(["b", "c", "d"], 2)]},
    "ShortestPathOracle": lambda f: {"graph": graph(), "source": "s", "target": "t"},
    "SpanningTreeOracle": lambda f: {"graph": graph().to_undirected()},
    "TopKOracle": lambda f: {"d_or_labels": 3, "k": 1},
    "Arms": lambda f: {"matrix": np.eye(3)},
    "DensePosterior": lambda f: {"arms": PROBLEM.arms},
    "DiagonalPosterior": lambda f: {"arms": PROBLEM.arms},
    "Box": lambda f: {},
    "AutoSampler": lambda f: {},
    "GibbsSampler": lambda f: {},
    "HalfSpaceSampler": lambda f: {},
    "HitAndRunSampler": lambda f: {},
    "RejectionSampler": lambda f: {},
    "Problem": lambda f: {"oracle": ORACLE, "noise_std": 1.0, "prior_mean": 0.0, "prior_std": 1.0},
    "Instance": lambda f: {"name": "i", "problem": PROBLEM, "theta": THETA},
    "Hedge": lambda f: {"arms": 3, "replications": 1, "eta": 0.1},
    "AdaHedge": lambda f: {"arms": 3, "replications": 1},
    "CLUCB": lambda f: options_of_policies(),
    "DoublingPEPS": lambda f: options_of_policies() | {"problem": BOUNDED},
    "FixedAllocation": lambda f: options_of_policies() | {"lam": [0.5, 0.25, 0.25]},
    "GreedyInformation": lambda f: options_of_policies(),
    "LinGame": lambda f: options_of_policies(),
    "LinGapE": lambda f: options_of_policies(),
    "PEPS": lambda f: options_of_policies(),
    "ThompsonSampling": lambda f: options_of_policies(),
    "TopTwo": lambda f: options_of_policies(),
    "Uniform": lambda f: options_of_policies(),
    "BudgetRule": lambda f: {},
    "CertifiedRule": lambda f: {},
    "ClucbRule": lambda f: {},
    "GuaranteedRule": lambda f: {},
    "HeuristicRule": lambda f: {},
    "PosteriorRule": lambda f: {},
    "LossRule": lambda f: {"epsilon": 0.5},
    "VerifiedRule": lambda f: {},
    "RemoteCampaign": lambda f: {"url": "http://127.0.0.1:9", "timeout": 0.1, "patience": 0.0},
    "Actions": lambda f: {"oracle": ORACLE, "actions": "answers"},
    "check": lambda f: {"place": f.campaign},
    "export": lambda f: {"place": f.campaign, "out": f.folder / "events.jsonl"},
    "copy": lambda f: {"source": f.campaign, "target": f.new()},
    "campaigns": lambda f: {"place": f.campaign},
}
"""Callables by name, with valid arguments."""

ORACLES = {
    "TopKOracle": lambda: ORACLE,
    "ShortestPathOracle": lambda: cp.ShortestPathOracle(graph(), "s", "t"),
    "MatchingOracle": lambda: cp.MatchingOracle(2, 2),
    "PartitionOracle": lambda: cp.PartitionOracle({"g": ["a", "b"], "h": ["c", "d"]}, 1),
    "ExplicitOracle": lambda: cp.ExplicitOracle([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "KnapsackOracle": lambda: cp.KnapsackOracle([1.0, 2.0, 3.0], 4.0),
    "SpanningTreeOracle": lambda: cp.SpanningTreeOracle(nx.cycle_graph(3)),
    "MilpOracle": lambda: cp.MilpOracle(3, [[1, 1, 1]], 0, 1),
    "MatroidOracle": lambda: cp.MatroidOracle(3, lambda chosen: len(chosen) < 2),
    "CpSatOracle": lambda: cp.CpSatOracle(**constraint_arguments()),
    "CheckedOracle": lambda: cp.CheckedOracle(ORACLE),
}


def test_the_table_holds_every_public_callable():
    """What is not in it is a record that the package returns, an abstract class, or an error."""
    records = {
        *(
            "SamplingStats",
            "AltProbability",
            "Alternatives",
            "Confusions",
            "ContractReport",
            "Crossing",
            "EpochConstants",
        ),
        *("Forecast", "Lease", "Measurement", "TopAnswer", "LogCardinality", "LowerBound", "MultiPath"),
        *(
            "NoiseEstimate",
            "TableSummary",
            "Plan",
            "Query",
            "SamplingTask",
            "Power",
            "Recommendation",
            "Result",
            "Status",
        ),
        *(
            "Trace",
            "Verdict",
            "View",
            "CheckReport",
            "Checkpoint",
            "Cursor",
            "CostLowerBound",
            "CensoredMean",
            "Page",
            "Proportion",
        ),
    }
    abstract = {
        "ArgmaxOracle",
        "AlternativeSampler",
        "GaussianPosterior",
        "Noise",
        "ParameterSpace",
        "Policy",
        "Readable",
        "StoppingRule",
        "Store",
    }
    apart = {"Campaign", "RealSpace", "any_of"}
    public = {
        name for name, value in PUBLIC.items() if not (isinstance(value, type) and issubclass(value, BaseException))
    }
    assert public == set(FUNCTIONS) | records | abstract | apart


def read_a_program(path, time_limit=60.0):
    """Each call starts a process: the numbers of the problem, as for the other readers, are left out."""
    return cp.read_program(path, time_limit=time_limit)


def test_programs_are_read(files):
    assert faults(read_a_program, lambda: {"path": files.program}, values=FEW) == []


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "read_program"])
def test_functions_and_constructors(name, files):
    values = FEW if name in SLOW else INVALID
    assert faults(getattr(cp, name), partial(FUNCTIONS[name], files), values=values) == []


@pytest.mark.parametrize("kind", ORACLES)
def test_methods_of_oracles(kind):
    oracle = ORACLES[kind]()
    z = oracle.argmax(np.ones(oracle.dim))
    valid = {
        "argmax": {"theta": np.ones(oracle.dim)},
        "decode": {"z": z},
        "encode": {"answer": oracle.decode(z)},
        "facets": {"z": z},
        "membership": {"z": z, "theta": np.ones(oracle.dim)},
        "index": {"label": oracle.components[0]},
        "decode_in_order": {"z": z},
    }
    found = {name: faults(getattr(oracle, name), lambda name=name: valid[name]) for name in valid}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_methods_of_spaces_and_samplers():
    sampler = {"posterior": POSTERIOR, "oracle": ORACLE, "z_hat": Z, "n": 1, "rng": np.random.default_rng(0)}
    odds = {"posterior": POSTERIOR, "oracle": ORACLE, "z_hat": Z, "rng": np.random.default_rng(0), "draws": 64}
    calls = {
        "RejectionSampler.sample": (cp.RejectionSampler().sample, sampler),
        "HalfSpaceSampler.sample": (cp.HalfSpaceSampler().sample, sampler),
        "HalfSpaceSampler.probability": (cp.HalfSpaceSampler().probability, odds),
        "Arms.of": (cp.Arms.of, {"oracle": ORACLE, "arms": None}),
    }
    found = {name: faults(call, lambda valid=valid: valid) for name, (call, valid) in calls.items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


def test_rules_that_are_combined():
    def combine(first, second):
        return cp.any_of(first, second)

    valid = {"first": cp.BudgetRule(5), "second": cp.PosteriorRule()}
    assert faults(combine, lambda: valid) == []


SESSION = {
    "ask": lambda made: {"n": 1, "client": "me", "lease": 60.0},
    "tell": lambda made: {"query": made.open_queries[0], "y": 1.0},
    "tell_many": lambda made: {"results": []},
    "observe": lambda made: {"label": "a", "y": 1.0},
    "observe_table": lambda made: {"rows": [("a", 1.0)]},
    "abandon": lambda made: {"query": made.open_queries[0]},
    "correct": lambda made: {"event": made.measurements()[0].event, "y": 0.75},
    "retract": lambda made: {"event": made.measurements()[0].event},
    "top_answers": lambda made: {"n": 1},
    "run": lambda made: {"measure": measured, "budget": 2},
}


def each_fresh(make, method, valid, state):
    """A method of an object, which is made anew after every call that was accepted: those change it."""
    held = {"object": make()}

    def call(**arguments):
        result = getattr(held["object"], method)(**arguments)
        held["object"] = make()
        return result

    call.__signature__ = inspect.signature(getattr(held["object"], method))
    return faults(call, lambda: valid(held["object"]), lambda: state(held["object"]))


@pytest.mark.parametrize("method", SESSION)
def test_methods_of_sessions(method):
    assert each_fresh(lambda: used(cp.Session(PROBLEM)), method, SESSION[method], session_state) == []


@pytest.mark.parametrize("method", [name for name in SESSION if name != "run"])
def test_methods_of_campaigns(method, files):
    paths = []

    def make():
        paths.append(files.new())
        return used(cp.Campaign.create(paths[-1], PROBLEM))

    assert each_fresh(make, method, SESSION[method], lambda made: events(paths[-1])) == []


def test_campaigns_are_created_and_opened(files):
    path = files.new()
    cp.Campaign.create(path, PROBLEM)
    assert faults(cp.Campaign.open, lambda: {"path": path}, lambda: events(path)) == []
    assert faults(cp.Campaign.create, lambda: {"path": files.new(), "problem": PROBLEM}) == []


def test_methods_of_results(files):
    made, forecast = trace(), cp.plan(PROBLEM, runs=4, most=20, seconds=5.0).forecasts[0]
    calls = {
        "Trace.samples_to": (made.samples_to, {"level": 0.9}),
        "Trace.cost_to": (made.cost_to, {"level": 0.9}),
        "Trace.load": (cp.Trace.load, {"path": files.trace}),
        "Trace.save": (made.save, {"path": files.folder / "saved.npz"}),
        "Trace.join": (cp.Trace.join, {"traces": [made]}),
        "Forecast.budget_for": (forecast.budget_for, {"share": 0.5}),
        "Forecast.quantile": (forecast.quantile, {"share": 0.5}),
        "Forecast.right_within": (forecast.right_within, {"budget": 10}),
    }
    found = {name: faults(call, lambda valid=valid: valid) for name, (call, valid) in calls.items()}
    assert {name: texts for name, texts in found.items() if texts} == {}


# Negative controls -------------------------------------------------------------------------------------------------


def test_a_function_that_does_not_check_is_caught():
    def unchecked(n):
        return [0] * int(n)

    texts = faults(unchecked, lambda: {"n": 1})
    assert any("n = None: raises TypeError" in text for text in texts)
    assert any("n = 10**400: raises OverflowError" in text for text in texts)


def test_a_function_that_hangs_is_caught():
    def waits(n):
        if n is None:
            threading.Event().wait()

    assert faults(waits, lambda: {"n": 1}, seconds=0.2) == ["n = None: hangs"]


def test_a_storm_of_warnings_is_caught():
    def warns(n):
        for _ in range(20):
            warnings.warn("again", UserWarning, stacklevel=1)
        raise cp.ParameterError("n")

    assert faults(warns, lambda: {"n": 1}, values={"None": None}) == ["n = None: gives 20 warnings"]


def test_a_method_that_changes_its_object_before_it_refuses_is_caught():
    counted = Counter()

    def careless(n):
        counted["calls"] += 1
        raise cp.ParameterError("n")

    found = faults(careless, lambda: {"n": 1}, lambda: dict(counted), values={"None": None})
    assert found == ["n = None: is refused, but changes the state"]
