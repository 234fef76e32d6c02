"""`plan`: what measuring will take, before the first measurement."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np

from combopeps.belief.scales import check_scale
from combopeps.errors import ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.parallel import check_jobs, hands, spread
from combopeps.planning.forecast import Forecast
from combopeps.planning.guess import read_guess
from combopeps.planning.least import least_cost
from combopeps.planning.outcome import Plan
from combopeps.planning.planned_run import Ended, Setting, planned_run
from combopeps.planning.reach import reach_of
from combopeps.policies.registry import DEFAULT, policy_class
from combopeps.policies.sweep import sweep_length
from combopeps.problem import Problem
from combopeps.session.environment import Noise, noise_called
from combopeps.stopping.base import check_rule
from combopeps.stopping.registry import stopping_rule
from combopeps.streams import named, seed_sequence
from combopeps.validation import MOST_ROUNDS, MOST_RUNS, check_count, check_flag, check_positive

_TIMES = 240  # at which answers are compared with the truth
_PILOT = 2  # runs of every rule in this process: the first may wait for a compiler
_WORTH = 8.0  # seconds of work, from which other processes are worth their start
_BEGIN = 0.8  # of the time, in which runs begin


def plan(
    problem: Problem | ArgmaxOracle,
    *,
    delta: float = 0.05,
    stopping: str | Sequence[str] = "posterior",
    theta: Any = None,
    theta_std: Any = None,
    budget: int | None = None,
    runs: int = 100,
    policy: str = DEFAULT,
    epsilon: float = 0.0,
    sweep: bool | int | None = None,
    noise: str | Noise = "normal",
    true_noise_std: float | None = None,
    most: int = 100_000,
    seconds: float | None = 48.0,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    scheduler: Any = None,
    progress: bool = False,
) -> Plan:
    """How many measurements, at what cost, and with what chance of being right: before the first one is made.

    Simulated runs say it, each of them `identify` itself with a seed of its own. A run does not depend on the others,
    nor on `n_jobs`; the time decides only how many there are. Runs that were cut off, by the time or after `most`
    measurements, count as long as they were seen (Kaplan and Meier): quantiles stay right, and a mean that rests on
    too many of them is called "at least". Under a prior it often is: some thetas have gaps so small that no number of
    measurements will do, and the median says more than the mean.

    Backwards: with a `budget`, the plan also says what can be reached with it (`Plan.reach`). Runs that use all of it
    say in what share the answer is right; which delta is reached, namely the posterior probability of being wrong that
    nine of ten runs stay below at the end; and by how much the answer is worse than the best at most in a share
    1 - delta of runs. For a guess at theta the plan looks for the gaps, as a multiple of those of the guess at the same
    noise, for which a share 1 - delta of runs is right.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    delta, stopping, policy, epsilon, sweep
        As for `identify`; of stopping rules several, by name.
    theta
        A guess: one number per component, in their order or {label: number}. None: theta is drawn from the problem's
        prior anew in each run.
    theta_std
        The uncertainty of the guess, one number or one per component: each run draws its theta around the guess. None:
        the guess is exact.
    budget
        Measurements that can be made (actions, where these are measured); at least one of every arm. `sweep=0` says
        that some may stay unmeasured, and allows less.
    runs
        How many for each rule.
    noise, true_noise_std
        What measurements are really like, as for `simulate`.
    most
        Measurements after which a run is cut off; the budget, if there is one.
    seconds
        After this time no run goes on, and none begins in the last fifth of it. None: all runs are made, however long
        they take. Lower bounds and other gaps take some seconds more.
    rng
        Seed or generator.
    n_jobs
        Processes (joblib), -1 for all cores. None: as a surrounding `joblib.parallel_config` says, else one, or all
        cores where that is worth their start.
    scheduler
        A Dask cluster to run on: an address, or a `distributed.Client`.
    progress
        Show a bar.

    Examples
    --------
    >>> from combopeps import Problem, TopKOracle
    >>> items = Problem(TopKOracle(["a", "b", "c"], k=1), noise_std=1.0, prior_mean=0.0, prior_std=1.0)
    >>> ahead = plan(items, theta={"a": 0.0, "b": 2.0, "c": 1.0}, delta=0.1, runs=40)
    >>> forecast = ahead["posterior"]
    >>> 10 <= forecast.mean_samples.value <= 40, forecast.share_right.value >= 0.8
    (True, True)
    >>> ahead.words[1]  # doctest: +ELLIPSIS
    'Its answer is right in about ... of 100 cases (95 % interval ...).'
    """
    begin = time.time()
    problem = problem if isinstance(problem, Problem) else Problem(problem)
    check_rule(delta, epsilon, 2.0)
    for name, count in (("runs", runs), ("most", most), *([] if budget is None else [("budget", budget)])):
        check_count(name, count, MOST_RUNS if name == "runs" else MOST_ROUNDS)
    check_flag("progress", progress)
    if seconds is not None:
        check_positive("seconds", seconds)
    if n_jobs is not None:
        check_jobs(n_jobs)
    rules = _rules(stopping, problem, delta, epsilon, budget)
    length = sweep_length(sweep)
    _check_budget(problem, policy, budget, sweep, length)
    std, kind = _std(problem, true_noise_std), noise_called(noise)
    guess = read_guess(problem, theta, theta_std, epsilon)
    owner = seed_sequence(rng)
    seeds = [named(owner, "planned", r) for r in range(runs)]
    limit = most if budget is None else budget
    times = np.unique(np.geomspace(1, limit, _TIMES).round().astype(np.int64))
    setting = Setting(problem, guess, policy, float(delta), float(epsilon), length, kind, std, int(limit), times)
    for seed in seeds[: 1 if guess.exact else runs] if np.isfinite([kind.low, kind.high]).any() else ():
        kind.check(problem.arms.dot(setting.truth(seed)), problem.arms.labels)
    found = _all_runs(setting, rules, seeds, begin, inf if seconds is None else seconds, n_jobs, scheduler, progress)
    forecasts = tuple(Forecast.of(rule, ended, times) for rule, ended in found.items())
    plan_reach = None
    if budget is not None:
        plan_reach = reach_of(forecasts[-1], setting, float(delta), owner)
    return Plan(
        forecasts,
        float(delta),
        float(epsilon),
        policy,
        int(rng) if isinstance(rng, (int, np.integer)) else None,
        str(guess),
        guess.theta is not None,
        int(runs),
        int(limit),
        None if budget is None else int(budget),
        plan_reach,
        least_cost(problem, guess, float(delta), float(epsilon), owner),
        "actions" if problem.measures_actions else "measurements",
        bool((problem.cost != 1.0).any()) or problem.measures_actions,
        time.time() - begin,
    )


def _rules(stopping: Any, problem: Problem, delta: float, epsilon: float, budget: int | None) -> list[str]:
    """Names, each of a rule that fits the problem; with a budget, one that uses it up comes last."""
    names = [stopping] if isinstance(stopping, str) else list(stopping) if isinstance(stopping, Iterable) else None
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ParameterError(
            f"stopping must be the name of a rule, or several different names: a plan makes a rule for each run; "
            f"got {stopping!r:.60}"
        )
    for name in names:
        stopping_rule(name, delta, epsilon).check_problem(problem)
    if "budget" in names and budget is None:
        raise ParameterError('stopping="budget" needs a budget')
    return [name for name in names if name != "budget"] + (["budget"] if budget is not None else [])


def _check_budget(problem: Problem, policy: str, budget: int | None, sweep: Any, length: int) -> None:
    """Refuse one that is over before everything was measured once; and a policy that cannot run here."""
    runner = policy_class(policy)(problem, 0)
    if length:
        runner.sweep(length)
    times = max(runner.first_sweep, 0 if sweep is not None else 1)
    needed = 0 if problem.measures_actions else times * len(problem.arms)
    if budget is not None and budget < needed:
        once = "once" if times == 1 else f"{times} times"
        cure = "" if runner.first_sweep else ", or say sweep=0 (--sweep 0) if some may stay unmeasured"
        raise ParameterError(
            f"a budget of {budget} does not suffice to measure each of the {len(problem.arms)} arms {once}: "
            f"give at least {needed}{cure}"
        )


def _std(problem: Problem, true_noise_std: float | None) -> Any:
    """Of the noise of every arm, in truth."""
    if (problem.noise_std is None) != (true_noise_std is not None):
        raise ParameterError(
            "true_noise_std says how large the noise is in truth where the problem leaves that open "
            "(noise_std=None): give both, or neither"
        )
    if true_noise_std is None:
        return problem.noise
    check_scale("true_noise_std", true_noise_std)
    return problem.noise * float(true_noise_std)


def _all_runs(
    setting: Setting,
    rules: list[str],
    seeds: list[np.random.SeedSequence],
    begin: float,
    seconds: float,
    n_jobs: int | None,
    scheduler: Any,
    progress: bool,
) -> dict[str, list[Ended]]:
    """By rule. All rules take turns, so that the time is shared out between them; some runs are made here first."""
    until, end = begin + _BEGIN * seconds, begin + seconds
    tasks = [(setting, rule, seed, inf if i < len(rules) else until, end)
             for i, (seed, rule) in enumerate((seed, rule) for seed in seeds for rule in rules)]  # fmt: skip
    here = 0 if n_jobs is not None or scheduler is not None else min(len(tasks), _PILOT * len(rules))
    first, since = list[Ended | None](), time.time()
    for i, task in enumerate(tasks[:here]):
        if i == here - len(rules):
            since = time.time()
        first.append(planned_run(*task))
    if n_jobs is None and hands(None) == 1:  # no `joblib.parallel_config` says otherwise
        ahead = (time.time() - since) * len(tasks) / len(rules)
        n_jobs = -1 if ahead > _WORTH else 1
    rest = spread(planned_run, tasks[here:], n_jobs=n_jobs, progress=progress, scheduler=scheduler)
    found: dict[str, list[Ended]] = {rule: [] for rule in rules}
    for (_, rule, *_), ended in zip(tasks, [*first, *rest], strict=True):
        if ended is not None:
            found[rule].append(ended)
    return found
