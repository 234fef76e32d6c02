"""The units of a problem are not part of it: the same arms are chosen in any of them, bit for bit.

Two changes of units leave every question as it was. Measured in other units, the noise, the prior, Theta and the
rewards are multiplied by s; counted in other units, rows are multiplied by c and theta, with its prior and its space,
divided by it. For powers of two both are exact in floating point, so that choices must agree to the last bit. An
absolute constant anywhere in a policy, a sampler or a posterior breaks that.
"""

from dataclasses import dataclass, replace

import networkx as nx
import numpy as np
import pytest
from sessions import POLICIES, session_of
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, Box, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle, simulate

ROUNDS = 30
Z = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.1, 0.6], [0.7, 0.7, -0.2]])
X = np.array([[1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, 0.0, 1.0], [1.0, 1.0, 1.0], [0.2, -1.0, 0.4]])
UNITS = np.diag([1.0, -2.0, 0.5, 1.5, 3.0])
ROUTES = ShortestPathOracle(nx.Graph([(0, 1), (1, 3), (0, 2), (2, 3), (1, 2)]), 0, 3)


@dataclass(frozen=True)
class Case:
    """A problem, its truth, and the units that both are in."""

    oracle: object  # None where the arms are the answers
    rows: np.ndarray
    theta: np.ndarray
    box: tuple[float, float] | None = None
    noise: float = 1.0
    prior: float = 3.0

    def problem(self):
        space = None if self.box is None else Box(*self.box)
        oracle = ExplicitOracle(self.rows) if self.oracle is None else self.oracle
        return unit_problem(oracle, self.rows, self.noise, space, prior_std=self.prior)

    def measured_in(self, s):
        """Noise, prior, Theta and truth times s."""
        box = None if self.box is None else (self.box[0] * s, self.box[1] * s)
        return replace(self, theta=self.theta * s, noise=self.noise * s, prior=self.prior * s, box=box)

    def counted_in(self, c):
        """Differences times c; theta, its prior and its space divided by it."""
        box = None if self.box is None else (self.box[0] / c, self.box[1] / c)
        return replace(self, rows=self.rows * c, theta=self.theta / c, prior=self.prior / c, box=box)


CASES = {
    "unit arms": Case(TopKOracle(5, k=2), UNITS, np.array([0.5, -0.2, 0.8, 0.7, 0.4])),
    "general arms": Case(ExplicitOracle(Z), X, np.array([0.5, -0.2, 0.8])),
    "unit arms in a box": Case(
        TopKOracle(5, k=2), UNITS, np.array([0.5, -0.2, 0.8, 0.7, 0.4]), (-1.0, 1.5), prior=0.75
    ),
    "general arms in a box": Case(ExplicitOracle(Z), X, np.array([0.5, -0.2, 0.8]), (-1.0, 1.5), prior=0.75),
    "routes": Case(ROUTES, np.eye(5), np.array([0.5, 0.3, 0.8, 0.7, 0.2]), (0.0, np.inf)),
    "assignments": Case(MatchingOracle(3, 3), np.eye(9), np.arange(9) * 7 % 5 / 5),
    "arms that are the answers": Case(None, Z, np.array([0.5, -0.2, 0.8])),
}
FREE = ["unit arms", "general arms"]  # Theta = R^d, and facets that are listed
BOXED = ["unit arms in a box", "general arms in a box"]
ORACLE_ONLY = [*FREE, *BOXED, "routes", "assignments"]
PRINTED = {"eta_lambda": 0.3, "eta_p": 0.5, "alpha": 0.25}
RUNS = [
    *[("peps", case, {}) for case in ORACLE_ONLY],
    *[("peps", case, PRINTED) for case in [*FREE, *BOXED]],
    *[("peps", case, {"gain": "projected", "alternatives_per_round": 4}) for case in FREE],
    *[("peps", case, {"tracking": True}) for case in FREE],
    *[("doubling-peps", case, {"constants": c}) for case in BOXED for c in ("proved", "printed")],
    *[("top-two", case, {}) for case in ORACLE_ONLY],
    *[("greedy", case, {}) for case in ORACLE_ONLY],
    *[("uniform", case, {}) for case in FREE],
    *[("fixed", case, {"lam": [0.1, 0.2, 0.3, 0.15, 0.25]}) for case in FREE],
    ("thompson", "arms that are the answers", {}),
    *[("lingame", case, {"optimism": optimism}) for case in FREE for optimism in (False, True)],
    *[("lingape", case, {}) for case in FREE],
    *[("clucb", case, {}) for case in ("unit arms", "unit arms in a box", "routes")],
]
NAMES = [f"{name}, {case}, {','.join(options) or 'plain'}" for name, case, options in RUNS]
OTHER_UNITS = {
    "small measurements": lambda case: case.measured_in(2.0**-20),
    "long rows": lambda case: case.counted_in(2.0**20),
    "both": lambda case: case.measured_in(2.0**9).counted_in(2.0**-13),
}


def chosen(case, name, options, *, rng=5):
    """The arms of a session, in batches of one and of three."""
    session = session_of(POLICIES[name], case.problem(), rng, **options)
    means, noise, arms = case.rows @ case.theta, np.random.default_rng(6), []
    while len(arms) < ROUNDS:
        for query in session.ask(1 + 2 * (len(arms) % 2)):
            session.tell(query, float(means[query.arm] + case.noise * noise.standard_normal()))
            arms.append(query.arm)
    return arms


@pytest.mark.parametrize(("name", "case", "options"), RUNS, ids=NAMES)
def test_the_same_arms_in_any_units(name, case, options):
    plain = chosen(CASES[case], name, options)
    for units, change in OTHER_UNITS.items():
        assert chosen(change(CASES[case]), name, options) == plain, units


@pytest.mark.parametrize(("name", "case", "options"), RUNS, ids=NAMES)
def test_simulations_are_the_same_in_any_units(name, case, options):
    def run(case):
        return simulate(case.problem(), case.theta, name, budget=30, replications=3, rng=7, **options)

    plain, other = run(CASES[case]), run(OTHER_UNITS["both"](CASES[case]))
    np.testing.assert_array_equal(other.pulls, plain.pulls)
    np.testing.assert_array_equal(other.correct, plain.correct)


class BestTwo(ArgmaxOracle):
    """Pairs of five components, each worth `unit`; facets are not listed."""

    def __init__(self, unit):
        super().__init__(range(5))
        self.unit = unit

    def _argmax_batch(self, thetas):
        best = np.zeros(thetas.shape)
        np.put_along_axis(best, np.argsort(self.unit * thetas, axis=1)[:, -2:], self.unit, axis=1)
        return best


@pytest.mark.parametrize("name", ["peps", "top-two", "clucb", "uniform"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_same_arms_whatever_a_component_adds_to_an_answer(name, sign):
    """Answers times a positive number are the same answers."""
    first, *others = (
        chosen(replace(CASES["unit arms"], oracle=BestTwo(sign * size)), name, {}) for size in (1.0, 0.125, 8.0)
    )
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["peps", "top-two", "lingame", "lingape"])
def test_the_same_arms_for_listed_answers_of_any_size(name):
    runs = [chosen(replace(CASES["general arms"], oracle=ExplicitOracle(Z * size)), name, {}) for size in (1.0, 32.0)]
    assert runs[1] == runs[0]


def test_another_problem_gets_other_arms():
    """What the comparison cannot see would pass it: noise that is smaller, with all else left as it was."""
    plain, other = CASES["unit arms"], replace(CASES["unit arms"], noise=2.0**-3)
    for name in ("peps", "top-two", "lingape"):
        assert chosen(plain, name, {}) != chosen(other, name, {})


def test_every_policy_is_asked():
    assert {name for name, _, _ in RUNS} == set(POLICIES)
