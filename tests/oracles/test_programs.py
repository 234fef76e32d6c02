"""Solver-based oracles against enumeration, and against each other."""

from itertools import product

import numpy as np
import pytest
from brute_force import assert_counts
from ortools.sat.python import cp_model
from unit_problem import unit_problem

from combopeps import CpSatOracle, KnapsackOracle, MilpOracle, check_oracle, identify, load_instance
from combopeps.errors import NoAlternativeError, ProgramError

CASES = 500
some_or_all = pytest.mark.parametrize("cases", [CASES // 5, pytest.param(CASES, marks=pytest.mark.slow)])


def all_points(low, high):
    return np.array(list(product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))), dtype=float)


def tricky_thetas(rng, d):
    """Return a smooth theta, one with many ties and zeros, and one with ties broken by 1e-6, at different scales."""
    ties = rng.integers(-2, 3, size=(2, d)).astype(float)
    ties[1] += 1e-6 * rng.normal(size=d)
    thetas = np.concatenate([rng.normal(size=(1, d)), ties])
    return thetas * 10.0 ** rng.integers(-8, 9, size=(3, 1))


def assert_best(oracle, Z, thetas):
    """Assert that answers are rows of Z (oracle.unit times the points), and that none is better."""
    best = oracle.argmax(thetas)
    listed = {tuple(z) for z in (oracle.unit * Z + 0.0).tolist()}
    assert {tuple(z) for z in best.tolist()} <= listed
    record = (thetas @ (oracle.unit * Z).T).max(axis=1)
    worth = (best * thetas).sum(axis=1)
    assert (record - worth <= 1e-12 * np.abs(thetas).sum(axis=1)).all()


def random_rows(rng, d, low, high):
    """Return up to three rows of mixed signs, some equalities, in units from 1e-9 to 1e8, feasible for some point."""
    m = int(rng.integers(1, 4))
    A = rng.integers(-3, 5, size=(m, d)) * rng.choice([1, 1, 0], size=(m, d))
    point = rng.integers(low, high, endpoint=True)
    room = rng.integers(0, 6, size=(2, m)) * (rng.random(m) > 0.2)
    lower, upper = A @ point - room[0], A @ point + room[1]
    if rng.random() < 0.1:
        lower, upper = lower + 9, upper + 9
    Z = all_points(low, high)
    sums = Z @ A.T
    Z = Z[((sums >= lower) & (sums <= upper)).all(axis=1)]
    unit = 10.0 ** rng.integers(-9, 9, size=m)
    return unit[:, None] * A, unit * lower, unit * upper, Z


@some_or_all
def test_integer_programs_agree_with_enumeration(cases):
    rng = np.random.default_rng(0)
    counts = {"binary": 0, "general": 0, "empty": 0, "single": 0}
    for case in range(cases):
        d = int(rng.integers(1, 6))
        general = case % 5 == 0
        low = rng.integers(-2, 1, size=d) if general else np.zeros(d, dtype=int)
        high = low + rng.integers(0, 4, size=d) if general else np.ones(d, dtype=int)
        A, lower, upper, Z = random_rows(rng, d, low, high)
        objective = "max" if rng.random() < 0.5 else "min"
        options = {"bounds": (low, high), "objective": objective}
        if len(Z) == 0:
            counts["empty"] += 1
            with pytest.raises(ProgramError, match="row"):
                MilpOracle(d, A, lower, upper, **options)
        elif len(Z) == 1:
            counts["single"] += 1
            with pytest.raises(NoAlternativeError, match="one answer only"):
                MilpOracle(d, A, lower, upper, **options)
        else:
            oracle = MilpOracle(d, A, lower, upper, **options, engine="highs")
            counts["binary" if oracle.binary else "general"] += 1
            assert (oracle.engine, oracle.expensive) == ("highs", True)
            thetas = tricky_thetas(rng, d)
            assert_best(oracle, Z, thetas)
            assert oracle.log_cardinality >= np.log(len(Z)) - 1e-9
            listed = MilpOracle(d, A, lower, upper, **options)
            assert (listed.engine, listed.expensive, listed.facet_count) == ("list", False, len(Z) - 1)
            assert_best(listed, Z, thetas)
            assert_counts(listed.log_cardinality, len(Z))
            assert (listed.binary, listed.antichain) == (oracle.binary, oracle.antichain)
            if oracle.antichain:
                inside = (Z[:, None] >= Z[None]).all(axis=2)
                assert (inside == np.eye(len(Z), dtype=bool)).all()
            rows = oracle.equalities()
            assert rows is None or np.ptp(rows @ Z.T, axis=1).max() < 1e-6
    assert min(counts.values()) >= cases // 50, counts


def cp_model_of(A, lower, upper):
    model = cp_model.CpModel()
    x = [model.new_bool_var(f"x{i}") for i in range(A.shape[1])]
    for row, least, most in zip(A.astype(int).tolist(), lower, upper, strict=True):
        model.add_linear_constraint(cp_model.LinearExpr.weighted_sum(x, row), int(least), int(most))
    return model, x


@some_or_all
def test_constraint_models_agree_with_enumeration(cases):
    """Rows, clauses, exclusive pairs, an auxiliary integer, and only some Boolean variables listed."""
    rng = np.random.default_rng(1)
    counts = {"several": 0, "single": 0, "empty": 0}
    for _ in range(cases):
        d = int(rng.integers(1, 6))
        A = rng.integers(-3, 5, size=(1, d))
        lower = A @ rng.integers(0, 2, size=d) - rng.integers(0, 5)
        upper = lower + rng.integers(0, 6)
        model, x = cp_model_of(A, lower, upper)
        Z = all_points([0] * d, [1] * d)
        keep = (Z @ A[0] >= lower) & (Z @ A[0] <= upper)
        if rng.random() < 0.5:
            i, j = rng.integers(0, d, size=2).tolist()
            model.add_bool_or(x[i], ~x[j])
            keep &= (Z[:, i] == 1) | (Z[:, j] == 0)
        if rng.random() < 0.5:
            steps = model.new_int_var(0, 2, "steps")
            model.add(2 * steps == sum(x))
            keep &= Z.sum(axis=1) % 2 == 0
        listed = sorted(rng.permutation(d)[: int(rng.integers(1, d + 1))].tolist())
        Z = np.unique(Z[keep][:, listed], axis=0)
        objective = "max" if rng.random() < 0.5 else "min"
        variables = {f"x{i}": x[i] for i in listed} if rng.random() < 0.5 else [x[i] for i in listed]
        if len(Z) > 1:
            counts["several"] += 1
            oracle = CpSatOracle(model, variables, objective=objective)
            assert oracle.components == tuple(f"x{i}" for i in listed)
            assert_best(oracle, Z, tricky_thetas(rng, len(listed)))
        else:
            counts["single" if len(Z) else "empty"] += 1
            with pytest.raises(NoAlternativeError if len(Z) else ProgramError, match=r"one answer|no solution"):
                CpSatOracle(model, variables, objective=objective)
    assert min(counts.values()) >= cases // 50, counts


def test_knapsacks_agree_with_enumeration():
    """Small integers by dynamic programming, in any unit; other weights as a program, one case in twenty."""
    rng = np.random.default_rng(2)
    for case in range(CASES):
        d = int(rng.integers(1, 8))
        fractional = case % 20 == 0
        weights = rng.uniform(0.1, 1.0, d) if fractional else rng.integers(0, 9, size=d) * int(rng.choice([1, 7, 1000]))
        capacity = float(rng.uniform(weights.min(), 1.2 * weights.sum() + 1))
        oracle = KnapsackOracle(weights, capacity)
        assert not oracle.expensive
        assert set(oracle.pruned) == set(np.flatnonzero(weights > capacity).tolist())
        kept = weights[list(oracle.components)]
        Z = all_points([0] * len(kept), [1] * len(kept))
        Z = Z[Z @ kept <= capacity]
        assert_best(oracle, Z, tricky_thetas(rng, len(kept)))
        assert oracle.log_cardinality.exact
        assert_counts(oracle.log_cardinality, len(Z))


def worths(answers, thetas):
    return (answers * thetas).sum(axis=1)


@pytest.mark.parametrize(("d", "m", "seed"), [(25, 3, 0), (40, 4, 1), (60, 2, 2)])
def test_two_solvers_agree_on_larger_programs(d, m, seed):
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 12, size=(m, d))
    upper = A.clip(0).sum(axis=1) // 3
    program = MilpOracle(d, A, -np.inf, upper)
    model, x = cp_model_of(A, np.full(m, -(10**6)), upper)
    thetas = rng.normal(size=(4, d))
    thetas[2:] = rng.integers(-3, 6, size=(2, d))
    np.testing.assert_allclose(
        worths(program.argmax(thetas), thetas), worths(CpSatOracle(model, x).argmax(thetas), thetas), rtol=1e-12
    )


@pytest.mark.parametrize("objective", ["max", "min"])
def test_two_solvers_agree_on_a_timetable(objective):
    """Lessons of classes in slots: each once, no class and no teacher twice at a time."""
    lessons, slots = [(c, t) for c in range(3) for t in range(3)], range(4)
    model = cp_model.CpModel()
    x = {(c, t, s): model.new_bool_var(f"{c}{t}{s}") for c, t in lessons for s in slots}
    groups = [[(c, t, s) for s in slots] for c, t in lessons]
    for group in groups:
        model.add_exactly_one(x[v] for v in group)
    apart = [[(c, t, s) for t in range(3)] for c in range(3) for s in slots]
    apart += [[(c, t, s) for c in range(3)] for t in range(3) for s in slots]
    for group in apart:
        model.add_at_most_one(x[v] for v in group)
    A = np.array([[v in group for v in x] for group in groups + apart], dtype=float)
    lower = np.repeat([1.0, -np.inf], [len(groups), len(apart)])
    program = MilpOracle(list(x), A, lower, 1.0, objective=objective)
    assert program.antichain
    assert program.equalities().shape == (9, 36)
    thetas = np.random.default_rng(3).normal(size=(4, 36))
    other = CpSatOracle(model, x, objective=objective)
    np.testing.assert_allclose(worths(program.argmax(thetas), thetas), worths(other.argmax(thetas), thetas), rtol=1e-12)


def test_three_solvers_agree_on_knapsacks():
    rng = np.random.default_rng(4)
    weights = rng.integers(5, 60, size=50)
    capacity = int(weights.sum() // 3)
    table = KnapsackOracle(weights, capacity)
    model, x = cp_model_of(weights[None], [0], [capacity])
    rivals = [MilpOracle(50, weights[None], -np.inf, capacity), CpSatOracle(model, x)]
    thetas = np.concatenate([rng.normal(size=(3, 50)), rng.integers(-2, 9, size=(3, 50))])
    expected = worths(table.argmax(thetas), thetas)
    for rival in rivals:
        np.testing.assert_allclose(worths(rival.argmax(thetas), thetas), expected, rtol=1e-12)


def exactly_one_of_three():
    model = cp_model.CpModel()
    x = [model.new_bool_var(name) for name in "abc"]
    model.add_exactly_one(x)
    return CpSatOracle(model, x)


def courses(**options):
    return MilpOracle(list("abc"), [[1, 1, 1], [0, -1, 1]], -np.inf, [2, 0], **options)


QUICK = {
    "program": courses,
    "costs": lambda: MilpOracle(list("abcd"), [[1, 1, 1, 1]], 2, 2, objective="min"),
    "integers": lambda: MilpOracle(list("ab"), [[2, 3]], -1, 7, bounds=([-1, 0], [3, 2])),
    "knapsack": lambda: KnapsackOracle({"a": 3, "b": 2, "c": 2, "d": 9}, 5),
    "knapsack of fractions": lambda: KnapsackOracle([0.3, 0.21, 0.22], 0.52, labels=list("abc")),
}
SOLVED = {
    "program by HiGHS": lambda: courses(engine="highs"),
    "integers by HiGHS": lambda: MilpOracle(list("ab"), [[2, 3]], -1, 7, bounds=([-1, 0], [3, 2]), engine="highs"),
    "constraints": exactly_one_of_three,
}
QUICK_ONES = [pytest.param(build, id=name) for name, build in QUICK.items()]
SLOW_ONES = [pytest.param(build, id=name, marks=pytest.mark.slow) for name, build in SOLVED.items()]
FASTEST_SOLVED = [pytest.param(SOLVED[name], id=name) for name in ("program by HiGHS", "constraints")]


@pytest.mark.parametrize("build", [*QUICK_ONES, *FASTEST_SOLVED, SLOW_ONES[1]])
def test_contract_holds(build):
    report = check_oracle(build(), raises=False)
    assert report.violations == {}
    assert len(report.passed) == 13


def measured(oracle, **options):
    truth = np.linspace(2.0, -1.0, oracle.dim)
    noise = np.random.default_rng(5)
    by_label = dict(zip(oracle.components, truth, strict=True))
    problem = unit_problem(oracle, noise_std=0.1, prior_std=2.0)
    result = identify(problem, lambda arm: by_label[arm] + 0.1 * noise.normal(), rng=0, **options)
    assert result.answer == oracle.decode(oracle.argmax(truth))
    return result


@pytest.mark.parametrize("build", QUICK_ONES)
def test_identify_finds_the_best_answer(build):
    """At a posterior error of 1e-3, at most one of a thousand seeds may be wrong; this one is right."""
    assert measured(build(), stopping="posterior", delta=1e-3).stop_reason == "posterior"


@pytest.mark.parametrize("build", [*FASTEST_SOLVED, SLOW_ONES[1]])
def test_identify_by_solvers_finds_the_best_answer(build):
    """With limited oracle calls; components are ten standard deviations apart."""
    assert measured(build(), stopping="posterior").stop_reason == "posterior"


def test_bounds_may_be_off_by_one_unit():
    """CP-SAT may report a bound that is one unit of 2^-52 below its solution's value."""
    oracle = load_instance("timetable").oracle
    theta = np.zeros(12)
    theta[[5, 6, 7]] = 0.7760316524389725, 0.2595489061416364, 0.8306314412608798
    theta[[0, 2, 3, 9, 11]] = 5.966704901305883e-12, 8.824011894309801e-12, 1.4420979000117521e-11, 2.6e-11, 3.85e-11
    rng = np.random.default_rng(0)
    for tiny in (np.zeros(12), *(2e-11 * rng.standard_normal((40, 12)))):
        z = oracle.argmax(theta + tiny)
        others = oracle.argmax(rng.standard_normal((4, 12)))
        assert (others @ (theta + tiny) <= z @ (theta + tiny) + 1e-10).all()
