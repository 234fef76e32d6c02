"""`simulate`: many independent runs against a known theta, with the very policy code that `identify` uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array, strictly_better
from combopeps.policies.base import Policy
from combopeps.policies.registry import DEFAULT_POLICY, policy_class
from combopeps.posterior.scales import check_scale
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed, seed_sequence
from combopeps.session.environment import Environment, Noise, as_noise, simulate_round
from combopeps.session.trace import Trace
from combopeps.utils.parallel import check_jobs, connected, n_workers, parallel_map, threads
from combopeps.utils.validation import MAX_ROUNDS, MAX_RUNS, as_float_array, check_count, check_flag, check_kind

if TYPE_CHECKING:
    from distributed import Client

    from combopeps.utils.parallel import Scheduler

_GROUP = 250  # replications that run side by side
_LEAST, _EACH = 25, 2  # on a cluster: runs in a group, and groups for each thread of a worker


def simulate(
    problem: Problem | ArgmaxOracle,
    theta: ArrayLike,
    policy: str | type[Policy] | Callable[..., Policy] = DEFAULT_POLICY,
    *,
    budget: int,
    replications: int,
    rng: int | np.random.Generator | None = 0,
    noise: str | Noise = "normal",
    checkpoints: ArrayLike | None = None,
    n_jobs: int | None = None,
    scheduler: Scheduler | None = None,
    progress: bool = False,
    true_noise_std: float | None = None,
    **options: Any,
) -> Trace:
    """Run a policy `replications` times for `budget` measurements each.

    Each replication has a seed of its own, so that results, but for the seconds, do not depend on who computes them or
    on how replications are grouped. Ties between answers are broken at random in each run: no index is favoured.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    theta
        The truth.
    policy
        Name or class; `options` go to its constructor.
    budget, replications
        Measurements per run, and runs.
    rng
        Seed or generator.
    noise
        What measurements are really like, whatever the policy believes: "normal" with the problem's standard deviation,
        "student" (outliers), "relative:0.3" (30 % of the mean), "bernoulli" (0 or 1), "poisson" (counts), or a `Noise`.
    checkpoints
        When to look at the answer; by default about 400 times, geometrically spaced.
    n_jobs
        Processes (joblib), -1 for all cores; None: as a surrounding `joblib.parallel_config` says, else one.
    scheduler
        Runs are spread over the workers of this Dask scheduler: an address such as `tcp://host:8786`, or a
        `distributed.Client` (`pip install 'combopeps[dask]'`).
    progress
        Show a bar.
    true_noise_std
        Where the problem has noise_std=None, how large the noise is in truth (times the ratios of the arms).

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle
    >>> items = Problem(TopKOracle(3, k=1), noise_std=1.0)
    >>> trace = simulate(items, [1.0, 0.0, 0.0], "peps", budget=50, replications=20, rng=1)
    >>> trace.correct.shape[0], trace.pulls.sum(axis=1).tolist() == [50] * 20
    (20, True)
    """
    problem = problem if isinstance(problem, Problem) else Problem(problem)
    truth = as_float_array("theta", theta)
    if truth.shape != (problem.oracle.dim,) or not np.isfinite(truth).all():
        raise ParameterError(f"theta must be a finite vector of length {problem.oracle.dim}")
    check_count("budget", budget, MAX_ROUNDS)
    check_count("replications", replications, MAX_RUNS)
    check_flag("progress", progress)
    check_jobs(n_jobs)
    if checkpoints is None:
        checkpoints = np.geomspace(1, budget, min(budget, 400)).round().astype(np.int64)
    moments = as_float_array("checkpoints", checkpoints)
    times = np.unique(moments).astype(np.int64) if np.isfinite(moments).all() else np.empty(0, dtype=np.int64)
    if not len(times) or times[0] < 1 or times[-1] > budget or (moments != np.rint(moments)).any():
        raise ParameterError(f"checkpoints must be integers in 1..{budget}, at least one")
    if (problem.noise_std is None) != (true_noise_std is not None):
        raise ParameterError(
            "true_noise_std says how large the noise is in truth where the problem leaves that open "
            "(noise_std=None): give both, or neither"
        )
    if true_noise_std is not None:
        check_scale("true_noise_std", true_noise_std)
    std = problem.noise * (1.0 if true_noise_std is None else true_noise_std)
    make = policy if callable(policy) else policy_class(policy)
    kind = as_noise(noise)
    kind.check(_means(problem, truth), problem.arms.labels)
    seeds = seed_sequence(rng).spawn(replications)
    seed = int(rng) if isinstance(rng, (int, np.integer)) else -1
    work = (problem, truth, kind, std, make, budget, times, seed, options)
    with connected(scheduler) as client:
        size = _group_size(replications, n_jobs, client)
        if problem.measures_actions and (problem.noise_std is None or problem.prior_is_estimated):
            size = 1  # when estimates are renewed depends on how many components each action showed
        groups = [seeds[i : i + size] for i in range(0, replications, size)]
        alone = client is None and (len(groups) == 1 or n_workers(n_jobs) == 1)
        run = partial(_run, *work, progress and alone)
        shown = progress and not alone
        traces = parallel_map(
            run, ((group,) for group in groups), n_jobs=n_jobs, scheduler=client, progress=shown, unit=" groups"
        )
    return Trace.join(traces)


def _group_size(replications: int, n_jobs: int | None, client: Client | None) -> int:
    """Runs side by side are cheap; on a cluster, a worker that is lost should not have had too many in hand."""
    if client is None:
        return min(_GROUP, -(-replications // n_workers(n_jobs)))
    return min(_GROUP, max(_LEAST, -(-replications // (_EACH * threads(client)))))


def _run(
    problem: Problem,
    theta: Array,
    kind: Noise,
    std: Array,
    make: Callable[..., Policy],
    budget: int,
    times: np.ndarray[Any, np.dtype[np.int64]],
    seed: int,
    options: dict[str, Any],
    progress: bool,
    seeds: Sequence[np.random.SeedSequence],
) -> Trace:
    """Replications side by side: the policy has one stream per row, the environment another."""
    from tqdm import tqdm

    nature = Environment(
        problem, _means(problem, theta), Streams([named_seed(row, "nature") for row in seeds]), kind, std
    )
    policy = make(problem, streams=Streams(seeds), **options)
    check_kind("what policy returns", policy, Policy)
    best = problem.oracle.argmax(theta)
    correct = np.zeros((len(seeds), len(times)), dtype=bool)
    draws, seconds, cost = np.zeros(len(times)), np.zeros(len(times)), np.zeros(correct.shape)
    at, rounds, spent, start = 0, 0, 0, time.perf_counter()
    for t in tqdm(range(1, budget + 1), disable=not progress, desc="rounds", unit=""):
        simulate_round(policy, nature)
        rounds += 1
        spent += policy.alternatives.draws
        if at < len(times) and t == times[at]:
            now = time.perf_counter()
            thetas = np.broadcast_to(theta, policy.posterior.theta_hat.shape)
            correct[:, at] = ~strictly_better(np.broadcast_to(best, thetas.shape), policy.z_hat(), thetas)
            cost[:, at] = policy.spent
            draws[at], seconds[at] = (x / (rounds * len(seeds)) for x in (spent, now - start))
            at, rounds, spent, start = at + 1, 0, 0, time.perf_counter()
    return Trace(times, correct, policy.pulls.copy(), draws, seconds, seed, cost)


def _means(problem: Problem, theta: Array) -> Array:
    """x @ theta of every arm, (K,)."""
    arms = problem.arms
    return arms.dot(theta) if arms.matrix is None else np.asarray(arms.matrix @ theta)
