"""`plan`: what measuring will take, before the first measurement.

`Plan`: what measuring will take, said before the first measurement.

The least expected cost of rules with a frequentist guarantee, by the lower bound.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import StringIO
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from combopeps.errors import ComboPepsError, ParameterError
from combopeps.oracles.base import ArgmaxOracle
from combopeps.policies.registry import DEFAULT, policy_class
from combopeps.policies.sweep import sweep_length
from combopeps.posterior.scales import check_scale
from combopeps.problem import Problem
from combopeps.random import named, seed_sequence
from combopeps.session import plan_text as in_words
from combopeps.session.environment import Noise, noise_called
from combopeps.session.forecast import Forecast
from combopeps.session.planned_run import Ended, Guess, Setting, planned_run, read_guess
from combopeps.session.power import Reach, reach_of
from combopeps.stopping.base import check_rule
from combopeps.stopping.lower_bound import least_expected_cost, lower_bound
from combopeps.stopping.registry import stopping_rule
from combopeps.utils.formatting import data_frame, html_table
from combopeps.utils.parallel import check_jobs, hands, spread
from combopeps.utils.validation import MOST_ROUNDS, MOST_RUNS, check_count, check_flag, check_positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_AFFORDABLE = 100  # components up to which tau* is a matter of seconds
_DRAWS, _SECONDS = 5, 5.0  # where theta is drawn


@dataclass(frozen=True)
class Least:
    """kl(delta, 1 - delta) / tau*: the least expected cost of a rule that is wrong with probability delta at most.

    That is, at most delta at every theta: a rule with a Bayesian claim may need less (see `least_expected_cost`). Where
    theta is drawn, a median over some draws.

    Attributes
    ----------
    cost
        In units of cost, which are measurements where each costs 1; NaN where it is not known.
    draws
        How many thetas it rests on.
    why_not
        Why it is not known.
    """

    cost: float
    draws: int = 0
    why_not: str = ""


def least_cost(problem: Problem, guess: Guess, delta: float, epsilon: float, seed: np.random.SeedSequence) -> Least:
    """By `lower_bound`, where that is a matter of seconds."""
    nothing = float("nan")
    if epsilon > 0.0:
        return Least(nothing, why_not="with an epsilon there is no such bound")
    if problem.noise_std is None:
        return Least(nothing, why_not="the size of the noise is unknown")
    if problem.oracle.dim > _AFFORDABLE or not problem.oracle.quick:
        return Least(nothing, why_not=f"not computed beyond {_AFFORDABLE} components, or where an argmax takes time")
    if delta >= 0.5:
        return Least(nothing, why_not="a delta of 1/2 asks for nothing")
    found, begin, why = list[float](), time.perf_counter(), ""
    for i in range(1 if guess.exact else _DRAWS):
        if i and time.perf_counter() - begin > _SECONDS:
            break
        try:
            bound = lower_bound(problem, guess.draw(problem, named(seed, "least", i)), relative_gap=0.01, max_rounds=20)
        except ComboPepsError as cause:
            why = str(cause)
            continue
        tau = bound.tau_star if bound.certified else bound.upper  # which is no smaller, certified or not
        if isfinite(tau) and tau > 0.0:
            found.append(least_expected_cost(tau, delta))
    return Least(float(np.median(found)), len(found)) if found else Least(nothing, why_not=why or "nothing bounds tau*")


@dataclass(frozen=True, repr=False)
class Plan:
    """How many measurements, at what cost, and with what chance of being right.

    Printed, it is a table and some sentences; `plan["verified"]` is what one rule does.

    Attributes
    ----------
    forecasts
        One for each stopping rule.
    delta, epsilon, policy, seed
        As given; the seed is None where it was no integer.
    assumes
        Where the thetas of runs come from, in words.
    guessed
        Whether there was a guess at theta.
    runs
        How many were asked for; a forecast has fewer where the time was over.
    most
        Measurements after which runs were cut off: the budget, if there is one.
    budget, reach
        The budget, and what can be found out with it; None without one.
    least
        What the lower bound says.
    unit, priced
        What is counted ("measurements" or "actions"), and whether their costs differ from 1.
    seconds
        What it took to make the plan.
    """

    forecasts: tuple[Forecast, ...]
    delta: float
    epsilon: float
    policy: str
    seed: int | None
    assumes: str
    guessed: bool
    runs: int
    most: int
    budget: int | None
    reach: Reach | None
    least: Least
    unit: str
    priced: bool
    seconds: float = field(compare=False)

    def __getitem__(self, rule: str) -> Forecast:
        for forecast in self.forecasts:
            if forecast.rule == rule:
                return forecast
        there = ", ".join(forecast.rule for forecast in self.forecasts)
        raise ParameterError(f"the plan has no rule {rule!r:.40}; it has {there}")

    @property
    def words(self) -> list[str]:
        """What it says, in sentences."""
        return in_words.sentences(self)

    def __repr__(self) -> str:
        rules = ", ".join(f"{f.rule}: {f.mean_samples}" for f in self.forecasts)
        return f"Plan({rules}; delta={self.delta:g}, {self.assumes})"

    def __str__(self) -> str:
        head = f"{self.unit.capitalize()} until the rule is content: delta = {self.delta:g}, policy {self.policy}"
        return "\n".join([f"{head}, {self.assumes}", in_words.table(self), *self.words])

    def _repr_html_(self) -> str:
        return html_table(f"Plan: delta = {self.delta:g}, {self.assumes}", in_words.rows(self), in_words.HEADER)

    def to_dict(self) -> dict[str, Any]:
        """All data as JSON knows them; see `Readable.to_dict`."""
        from combopeps.utils.formatting import plain

        facts: dict[str, Any] = plain(self)
        for forecast, said in zip(self.forecasts, facts["forecasts"], strict=True):
            said |= {"runs": forecast.runs} | {key: plain(value) for key, value in _summary(forecast).items()}
        return facts | {"words": self.words}

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with one row per rule: means, quantiles and shares, each with the ends of its interval.

        Needs pandas (`pip install 'combopeps[pandas]'`).
        """
        rows = [{"rule": forecast.rule, "runs": forecast.runs} | _summary(forecast) for forecast in self.forecasts]
        return data_frame({name: [row[name] for row in rows] for name in rows[0]})

    def to_csv(self) -> str:
        """The same as text, without pandas."""
        rows = [{"rule": forecast.rule, "runs": forecast.runs} | _summary(forecast) for forecast in self.forecasts]
        text = StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def plot(self, *, ax: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
        """When runs end, and the share that is right against the budget; `plotting.save(ax[0], path)` keeps both.

        Needs matplotlib (`pip install 'combopeps[plot]'`).
        """
        from combopeps.viz.canvas import two_axes
        from combopeps.viz.plans import plot_ends, plot_right

        ends = {f"{f.rule} ({f.runs} runs)": f.ends for f in self.forecasts if f.rule != "budget"}
        right = {f.rule: (f.times, f.right_at) for f in self.forecasts}
        left, beside = two_axes() if ax is None else ax
        options: dict[str, Any] = {"unit": self.unit, "budget": self.budget}
        return plot_ends(ends, ax=left, **options), plot_right(right, ax=beside, **options)


def _summary(forecast: Forecast) -> dict[str, Any]:
    """Numbers with names."""
    samples, cost, right, ended = (
        forecast.mean_samples, forecast.mean_cost, forecast.share_right, forecast.share_ended,
    )  # fmt: skip
    ends = {"median_samples": forecast.quantile(0.5), "most_samples": forecast.quantile(0.9)}
    finite = {name: end if isfinite(end) else None for name, end in ends.items()}
    return {
        "mean_samples": samples.value, "mean_samples_low": samples.low, "mean_samples_high": samples.high,
        "at_least": samples.at_least, **finite,
        "mean_cost": cost.value, "mean_cost_low": cost.low, "mean_cost_high": cost.high,
        "share_right": right.value, "share_right_low": right.low, "share_right_high": right.high,
        "share_ended": ended.value,
    }  # fmt: skip


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
