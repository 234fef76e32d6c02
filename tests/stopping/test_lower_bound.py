"""tau* against the published numbers, a general solver, exhaustive grids and the listed Z."""

import networkx as nx
import numpy as np
import pytest
from listed import by_slsqp, dag, grid, inner_minimum, matching, routes
from unit_problem import unit_problem

from combopeps import ArgmaxOracle, ExplicitOracle, MatchingOracle, ShortestPathOracle, TopKOracle, lower_bound
from combopeps.stopping.lower_bound import LagrangianSeparator
from combopeps.stopping.lower_bound_game import UnitGame

GAP = 1e-4
SOARE = np.array([[1.0, 0.0], [0.0, 1.0], [np.cos(0.1), np.sin(0.1)]])


def name(case):
    """An id that is the same in every process."""
    make, *numbers = case
    return "-".join([make.__name__, *map(str, numbers)])


IMPLICIT = (
    [(grid, n, seed) for n in (3, 4, 5) for seed in range(4)]
    + [(dag, n, seed) for n in (6, 9) for seed in range(6)]
    + [(matching, n, n, seed) for n in (3, 4, 5) for seed in range(3)]
    + [(matching, 3, 5, seed) for seed in range(3)]
)


def sphere(seed, K=20, d=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(K, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X[0] + 0.3 * rng.normal(size=d)


def assert_encloses(result, X, Z, theta, noise_std=1.0):
    """What the result claims is true of the listed Z."""
    assert result.certified
    assert result.relative_gap <= GAP
    assert result.allocation.min() >= 0.0
    assert result.allocation.sum() == pytest.approx(1.0, abs=1e-12)
    attained = inner_minimum(X, Z, theta, result.allocation, noise_std)
    assert result.tau_star * (1 - 1e-9) <= attained <= result.upper * (1 + 1e-9)
    assert result.lower == result.tau_star


def test_soare():
    tau_star, allocation = lower_bound(unit_problem(ExplicitOracle(SOARE), arms=SOARE), [1.0, 0.0])
    assert tau_star == pytest.approx(1.1356e-3, rel=2 * GAP)
    np.testing.assert_allclose(allocation, [0.048, 0.952, 0.0], atol=6e-4)


def test_top_k_of_the_paper():
    tau_star, allocation = lower_bound(unit_problem(TopKOracle(12, k=3)), 1 - 0.05 * np.arange(12))
    assert tau_star == pytest.approx(2.505e-4, rel=3e-4)
    np.testing.assert_allclose(allocation[2:4], 0.401, atol=6e-4)


def test_two_arms_by_hand():
    """Best of two unit arms: half each, and tau* = gap^2 / 8."""
    tau_star, allocation = lower_bound(unit_problem(TopKOracle(2, k=1)), [1.0, 0.4])
    assert tau_star == pytest.approx(0.36 / 8, rel=GAP)
    np.testing.assert_allclose(allocation, 0.5, atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_listed_answers_against_a_general_solver(seed):
    X, theta = sphere(seed)
    result = lower_bound(unit_problem(ExplicitOracle(X), arms=X), theta)
    assert_encloses(result, X, X, theta)
    assert by_slsqp(X, X, theta) == pytest.approx(result.tau_star, rel=GAP)


@pytest.mark.parametrize("seed", range(3))
def test_listed_answers_against_an_exhaustive_grid(seed):
    rng = np.random.default_rng(seed)
    X, Z, theta = rng.normal(size=(3, 2)), rng.normal(size=(6, 2)), rng.normal(size=2)
    result = lower_bound(unit_problem(ExplicitOracle(Z), arms=X), theta)
    shares = [(i / 80, j / 80, 1 - (i + j) / 80) for i in range(81) for j in range(81 - i)]
    values = [inner_minimum(X, Z, theta, np.array(lam)) for lam in shares if np.count_nonzero(lam) > 1]
    assert 0.97 * result.tau_star < max(values) <= result.upper


@pytest.mark.parametrize("case", IMPLICIT, ids=name)
def test_through_the_argmax_alone(case):
    make, *arguments = case
    oracle, Z, theta = make(*arguments)
    assert oracle.facets(oracle.argmax(theta)) is None
    result = lower_bound(unit_problem(oracle), theta)
    assert_encloses(result, np.eye(oracle.dim), Z, theta)
    assert 1 < result.oracle_calls < 5000
    listed = lower_bound(unit_problem(ExplicitOracle(Z)), theta)
    assert listed.certified
    assert result.lower <= listed.upper
    assert listed.lower <= result.upper


@pytest.mark.parametrize("case", [(grid, 3, 7), (matching, 3, 3, 7), (dag, 6, 7)], ids=name)
def test_through_the_argmax_alone_against_a_general_solver(case):
    make, *arguments = case
    oracle, Z, theta = make(*arguments)
    assert by_slsqp(np.eye(oracle.dim), Z, theta) == pytest.approx(
        lower_bound(unit_problem(oracle), theta).tau_star, rel=2 * GAP
    )


@pytest.mark.parametrize("make", [lambda: grid(4, 0), lambda: matching(4, 4, 0)], ids=["grid", "matching"])
def test_when_many_rivals_are_alike(make):
    """Theta one on z* and zero elsewhere."""
    oracle, Z, theta = make()
    theta = np.where(oracle.argmax(theta) != 0.0, oracle.unit, 0.0)
    assert_encloses(lower_bound(unit_problem(oracle), theta), np.eye(oracle.dim), Z, theta)


class AllSubsets(ArgmaxOracle):
    """Answers that contain one another: dropping a component of z* does not reach them all."""

    binary = True

    def _argmax_batch(self, thetas):
        return (thetas > 0.0).astype(float)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_answers_that_contain_the_best_one(sign):
    theta = sign * np.array([-0.5, 0.3, -0.9, 0.7, -0.2])
    Z = np.array(list(np.ndindex(*[2] * 5)), dtype=float)
    assert_encloses(lower_bound(unit_problem(AllSubsets(range(5))), theta), np.eye(5), Z, theta)


@pytest.mark.parametrize("noise_std", [0.1, 3.0])
def test_noise(noise_std):
    oracle, Z, theta = grid(3, 1)
    result = lower_bound(unit_problem(oracle, noise_std=noise_std), theta)
    assert_encloses(result, np.eye(oracle.dim), Z, theta, noise_std)
    assert result.tau_star * noise_std**2 == pytest.approx(lower_bound(unit_problem(oracle), theta).tau_star, rel=GAP)


def test_scale_of_theta():
    oracle, _, theta = grid(4, 2)
    one = lower_bound(unit_problem(oracle), theta).tau_star
    assert lower_bound(unit_problem(oracle), 1e-6 * theta).tau_star == pytest.approx(1e-12 * one, rel=GAP)
    assert lower_bound(unit_problem(oracle), 1e6 * theta).tau_star == pytest.approx(1e12 * one, rel=GAP)


def test_arms_in_any_order_and_strength():
    """Of two arms for a component the stronger is used; the weaker gets nothing."""
    oracle, Z, theta = grid(3, 3)
    X = np.concatenate([np.eye(12)[::-1], 2.0 * np.eye(12)[:4], -0.5 * np.eye(12)])
    result = lower_bound(unit_problem(oracle, arms=X), theta)
    assert_encloses(result, X, Z, theta)
    assert not result.allocation[16:].any()
    assert not result.allocation[8:12].any()


def test_arms_that_leave_out_what_no_answer_needs():
    """Every route uses the first edge, which need not be measured."""
    graph = nx.DiGraph([("s", "a"), ("a", "b"), ("a", "c"), ("b", "t"), ("c", "t")])
    oracle, Z, theta = routes(graph, "s", "t", "min", np.array([1.0, 0.3, 0.5, 0.2, 0.4]))
    some = [label for label in oracle.components if label != ("s", "a")]
    result = lower_bound(unit_problem(oracle, arms=some), theta)
    assert_encloses(result, np.eye(5)[[oracle.index(label) for label in some]], Z, theta)
    assert result.tau_star == pytest.approx(lower_bound(unit_problem(oracle), theta).tau_star, rel=2 * GAP)


def test_general_arms_without_a_list_are_not_called_certified():
    for make in (lambda: grid(4, 5), lambda: matching(4, 4, 5), lambda: dag(8, 5)):
        oracle, Z, theta = make()
        X = np.random.default_rng(5).normal(size=(oracle.dim + 8, oracle.dim))
        result = lower_bound(unit_problem(oracle, arms=X), theta)
        assert not result.certified
        assert result.lower == 0.0
        truth = lower_bound(unit_problem(ExplicitOracle(Z), arms=X), theta)
        assert truth.lower <= result.upper
        assert result.tau_star == pytest.approx(truth.tau_star, rel=2 * GAP)


@pytest.mark.parametrize("seed", range(4))
def test_graphs_with_cycles(seed):
    """What is certified is true; the ends need not meet."""
    graph = nx.grid_2d_graph(3, 3)
    oracle, Z, theta = routes(graph, (0, 0), (2, 2), "min", np.random.default_rng(seed).uniform(0.1, 1.0, 12))
    assert isinstance(oracle, ShortestPathOracle)
    assert oracle.domain == "nonnegative"
    result, truth = lower_bound(unit_problem(oracle), theta), lower_bound(unit_problem(ExplicitOracle(Z)), theta)
    assert truth.certified
    assert result.lower <= truth.upper
    assert truth.lower <= result.upper
    assert result.tau_star == pytest.approx(truth.tau_star, rel=2 * GAP)


def test_weights_clipped_at_zero_prove_nothing():
    """With cycles the widest rival may be a long detour that the clipped weights do not find."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        oracle, Z, theta = routes(nx.grid_2d_graph(3, 3), (0, 0), (0, 1), "min", rng.uniform(0.1, 1.0, 12))
        lam = rng.dirichlet(np.full(12, 0.5)) * 0.999 + 0.001 / 12
        widest = 0.5 / inner_minimum(np.eye(12), Z, theta, lam)
        separator = LagrangianSeparator(oracle, theta, oracle.argmax(theta), UnitGame(unit_problem(oracle).arms))
        found = separator.separate(lam, 0.999 * widest)
        assert found.upper >= widest


@pytest.mark.parametrize("seed", range(10))
def test_groups_are_bounded_at_any_allocation(seed):
    """The certified end is above the widest rival, close to it, and a rival above a ceiling is found."""
    oracle, Z, theta = [dag(9, seed), matching(4, 4, seed), grid(5, seed)][seed % 3]
    game = UnitGame(unit_problem(oracle).arms)
    separator = LagrangianSeparator(oracle, theta, oracle.argmax(theta), game)
    lam = np.random.default_rng(seed).dirichlet(np.full(oracle.dim, 0.3)) * 0.999 + 0.001 / oracle.dim
    widest = 0.5 / inner_minimum(np.eye(oracle.dim), Z, theta, lam)
    above = separator.separate(lam, 1.0001 * widest)
    assert not len(above.rivals)
    assert widest <= above.upper <= 1.0002 * widest
    below = separator.separate(lam, 0.9999 * widest)
    assert len(below.rivals)
    assert below.upper >= widest


def test_a_separation_step_that_is_cut_short_certifies_no_more_than_it_has_bounded():
    """Out of calls before all groups are split: the end is still above the widest rival, though no longer close."""
    excess = []
    for seed in range(20):
        oracle, Z, theta = dag(9, seed)
        lam = np.random.default_rng(seed).dirichlet(np.full(oracle.dim, 0.3)) * 0.999 + 0.001 / oracle.dim
        widest = 0.5 / inner_minimum(np.eye(oracle.dim), Z, theta, lam)
        game = UnitGame(unit_problem(oracle).arms)
        separator = LagrangianSeparator(oracle, theta, oracle.argmax(theta), game, max_calls=1)
        excess.append(separator.separate(lam, 1.0001 * widest).upper / widest)
    assert min(excess) >= 1.0
    assert max(excess) > 1.01


def test_the_hardest_rivals_are_answers():
    oracle, Z, theta = matching(4, 4, 1)
    result = lower_bound(unit_problem(oracle), theta)
    listed = {tuple(z) for z in Z.tolist()}
    assert len(result.rivals)
    assert {tuple(z) for z in result.rivals.tolist()} <= listed - {tuple(oracle.argmax(theta).tolist())}


def test_a_wider_gap_is_quicker_and_honest():
    oracle, _, theta = grid(5, 0)
    loose, tight = lower_bound(unit_problem(oracle), theta, relative_gap=0.2), lower_bound(unit_problem(oracle), theta)
    assert loose.certified
    assert 2e-4 < loose.relative_gap <= 0.2
    assert loose.lower <= tight.upper
    assert tight.lower <= loose.upper
    assert loose.oracle_calls < tight.oracle_calls


def test_out_of_rounds_is_said():
    oracle, _, theta = matching(5, 5, 3)
    result = lower_bound(unit_problem(oracle), theta, max_rounds=1)
    assert not result.certified
    assert result.relative_gap > GAP
    truth = lower_bound(unit_problem(oracle), theta)
    assert result.lower <= truth.upper
    assert truth.lower <= result.upper


def test_progress_is_shown(capsys):
    lower_bound(unit_problem(TopKOracle(4, k=2)), [4.0, 3.0, 2.0, 1.0], progress=True)
    assert "gap" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [15, 10])
def test_beyond_listing(size, seed):
    rng = np.random.default_rng(seed)
    graph = nx.DiGraph((u, v) if u < v else (v, u) for u, v in nx.grid_2d_graph(size, size).edges)
    path = ShortestPathOracle(graph, (0, 0), (size - 1, size - 1))
    assert lower_bound(unit_problem(path), rng.uniform(0.5, 1.5, path.dim)).certified
    pairs = MatchingOracle(size, size)
    assert lower_bound(unit_problem(pairs), rng.normal(size=pairs.dim)).certified


@pytest.mark.slow
def test_a_large_top_k_set():
    assert lower_bound(unit_problem(TopKOracle(1000, k=50)), np.random.default_rng(2).normal(size=1000)).certified
