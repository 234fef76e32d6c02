"""`simulate`: replications of a policy with a known theta, by the policy code that `identify` uses."""

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
from combopeps.posterior.stated_values import check_scale
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed, seed_sequence
from combopeps.session.simulated_environment import Environment, Noise, as_noise
from combopeps.session.trace import Trace
from combopeps.utils.parallel import check_jobs, connected, n_workers, parallel_map, threads
from combopeps.utils.validation import MAX_ROUNDS, MAX_RUNS, as_float_array, check_count, check_flag, check_kind

if TYPE_CHECKING:
    from distributed import Client

    from combopeps.utils.parallel import Scheduler

_MAX_GROUP = 250  # replications that are vectorised
_MIN_CLUSTER_GROUP, _GROUPS_PER_THREAD = 25, 2  # on a cluster


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

    Each replication has a seed of its own, so that results other than `seconds` do not depend on the number of
    processes or on the grouping of replications. Ties between answers are broken at random in each run.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    theta
        The true parameter, (d,).
    policy
        Name or class; `options` go to its constructor.
    budget, replications
        Measurements per run, and runs.
    rng
        Seed or generator.
    noise
        True distribution of the noise: "normal" with the problem's standard deviation, "student" (outliers),
        "relative:0.3" (30 % of the mean), "bernoulli" (0 or 1), "poisson" (counts), or a `Noise`.
    checkpoints
        Numbers of measurements at which the answer is recorded; by default about 400, geometrically spaced.
    n_jobs
        Processes (joblib), -1 for all cores; None for the setting of a surrounding `joblib.parallel_config`, else one.
    scheduler
        Dask scheduler on whose workers runs are distributed: an address such as `tcp://host:8786`, or a
        `distributed.Client` (`pip install 'combopeps[dask]'`).
    progress
        Show a progress bar.
    true_noise_std
        True standard deviation of the noise where the problem has noise_std=None (times the ratios of the arms).

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
            "true_noise_std is the standard deviation of the noise where the problem does not state it "
            "(noise_std=None): give both, or neither"
        )
    if true_noise_std is not None:
        check_scale("true_noise_std", true_noise_std)
    std = problem.noise * (1.0 if true_noise_std is None else true_noise_std)
    make = policy if callable(policy) else policy_class(policy)
    kind = as_noise(noise)
    arms = problem.arms
    means = arms.dot(truth) if arms.matrix is None else np.asarray(arms.matrix @ truth)
    kind.check(means, arms.labels)
    seeds = seed_sequence(rng).spawn(replications)
    seed = int(rng) if isinstance(rng, (int, np.integer)) else -1
    work = (problem, truth, means, kind, std, make, budget, times, seed, options)
    with connected(scheduler) as client:
        size = _group_size(replications, n_jobs, client)
        if problem.measures_actions and (problem.noise_std is None or problem.prior_is_estimated):
            size = 1  # the schedule of refreshed estimates depends on the number of results of each action
        groups = [seeds[i : i + size] for i in range(0, replications, size)]
        alone = client is None and (len(groups) == 1 or n_workers(n_jobs) == 1)
        run = partial(_run, *work, progress and alone)
        shown = progress and not alone
        traces = parallel_map(
            run, ((group,) for group in groups), n_jobs=n_jobs, scheduler=client, progress=shown, unit=" groups"
        )
    return Trace.join(traces)


def _group_size(replications: int, n_jobs: int | None, client: Client | None) -> int:
    """Return the number of replications per task; smaller on a cluster, where a lost worker repeats its tasks."""
    if client is None:
        return min(_MAX_GROUP, -(-replications // n_workers(n_jobs)))
    return min(_MAX_GROUP, max(_MIN_CLUSTER_GROUP, -(-replications // (_GROUPS_PER_THREAD * threads(client)))))


def _run(
    problem: Problem,
    theta: Array,
    means: Array,
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
    """Simulate replications together; policy and environment have separate random streams for each of them."""
    from tqdm import tqdm

    nature = Environment(problem, means, Streams([named_seed(row, "nature") for row in seeds]), kind, std)
    policy = make(problem, streams=Streams(seeds), **options)
    check_kind("what policy returns", policy, Policy)
    best = problem.oracle.argmax(theta)
    correct = np.zeros((len(seeds), len(times)), dtype=bool)
    draws, seconds, cost = np.zeros(len(times)), np.zeros(len(times)), np.zeros(correct.shape)
    i, rounds, n_draws, start = 0, 0, 0, time.perf_counter()
    for t in tqdm(range(1, budget + 1), disable=not progress, desc="rounds", unit=""):
        problem.action_set.simulate_round(policy, nature)
        rounds += 1
        n_draws += policy.alternatives.draws
        if i < len(times) and t == times[i]:
            now = time.perf_counter()
            thetas = np.broadcast_to(theta, policy.posterior.theta_hat.shape)
            correct[:, i] = ~strictly_better(np.broadcast_to(best, thetas.shape), policy.z_hat(), thetas)
            cost[:, i] = policy.spent
            draws[i], seconds[i] = (x / (rounds * len(seeds)) for x in (n_draws, now - start))
            i, rounds, n_draws, start = i + 1, 0, 0, time.perf_counter()
    return Trace(times, correct, policy.pulls.copy(), draws, seconds, seed, cost)
