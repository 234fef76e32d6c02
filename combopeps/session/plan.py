"""Plan an experiment by simulation: number of measurements, cost and error rate of stopping rules, and lower bounds."""

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
from combopeps.policies.initial_design import initial_design_length
from combopeps.policies.registry import DEFAULT_POLICY, policy_class
from combopeps.posterior.stated_values import check_scale
from combopeps.problem import Problem
from combopeps.random import named_seed, seed_sequence
from combopeps.session import plan_text
from combopeps.session.forecast import Forecast, Power, power_of
from combopeps.session.plan_simulation import (
    RunOutcome,
    RunSettings,
    ThetaDistribution,
    planned_run,
    theta_distribution,
)
from combopeps.session.simulated_environment import Noise, as_noise
from combopeps.stopping.base import check_rule_parameters
from combopeps.stopping.lower_bound import least_expected_cost, lower_bound
from combopeps.stopping.registry import stopping_rule
from combopeps.utils.formatting import ShortRepr, data_frame, html_table, to_json_data
from combopeps.utils.parallel import check_jobs, n_workers, parallel_map
from combopeps.utils.validation import MAX_ROUNDS, MAX_RUNS, check_count, check_flag, check_positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

# Lower bound.
_MAX_DIM = 100  # components up to which tau* takes seconds
_MAX_DRAWS, _MAX_SECONDS = 5, 5.0  # of theta, if it is drawn

# Runs.
_N_TIMES = 240  # numbers of measurements at which answers are compared with the best one
_PILOT_RUNS = 2  # of every rule, in this process: the first may include compilation
_MIN_PARALLEL_SECONDS = 8.0  # of work, from which on it is worth starting other processes
_BEGIN_FRACTION = 0.8  # of the time, in which runs may begin


@dataclass(frozen=True, repr=False)
class CostLowerBound(ShortRepr):
    """Lower bound of the expected cost of a rule that is wrong with probability at most delta at every theta.

        kl(delta, 1 - delta) / tau*

    A rule with a Bayesian claim may need less (see `least_expected_cost`). If theta is drawn, it is the median over
    some draws.

    Attributes
    ----------
    cost
        The bound in units of cost, or in measurements if each costs 1; NaN where it is unknown.
    draws
        Number of thetas that it is computed for.
    why_not
        Why it is unknown.
    """

    cost: float
    draws: int = 0
    why_not: str = ""


def least_cost(
    problem: Problem, thetas: ThetaDistribution, delta: float, epsilon: float, seed: np.random.SeedSequence
) -> CostLowerBound:
    """Return the lower bound of the expected cost, if it can be computed within seconds."""
    unknown = float("nan")
    if epsilon > 0.0:
        return CostLowerBound(unknown, why_not="with an epsilon there is no such bound")
    if problem.noise_std is None:
        return CostLowerBound(unknown, why_not="the size of the noise is unknown")
    if problem.oracle.dim > _MAX_DIM or not problem.oracle.quick:
        return CostLowerBound(unknown, why_not=f"not computed beyond {_MAX_DIM} components, or with a slow argmax")
    if delta >= 0.5:
        return CostLowerBound(unknown, why_not="a delta of 1/2 or more requires no measurements")
    found, begin, why = list[float](), time.perf_counter(), ""
    for i in range(1 if thetas.is_exact else _MAX_DRAWS):
        if i and time.perf_counter() - begin > _MAX_SECONDS:
            break
        theta = thetas.draw(problem, named_seed(seed, "least", i))
        try:
            bound = lower_bound(problem, theta, relative_gap=0.01, max_rounds=20)
        except ComboPepsError as cause:
            why = str(cause)
            continue
        tau = bound.tau_star if bound.certified else bound.upper  # an upper end of tau* keeps the bound valid
        if isfinite(tau) and tau > 0.0:
            found.append(least_expected_cost(tau, delta))
    if not found:
        return CostLowerBound(unknown, why_not=why or "tau* has no upper bound")
    return CostLowerBound(float(np.median(found)), len(found))


@dataclass(frozen=True, repr=False)
class Plan(ShortRepr):
    """Number of measurements, cost and error rate of stopping rules, forecast by simulation.

    `str(plan)` is a table with some sentences; `plan["verified"]` is the forecast of one rule.

    Attributes
    ----------
    forecasts
        One for each stopping rule.
    delta, epsilon, policy, seed
        As given; `seed` is None if it was not an integer.
    assumes
        Distribution of theta, as text.
    guessed
        Whether there was a guess at theta.
    runs
        Number of runs that were requested; a forecast has fewer if the time was over.
    most
        Number of measurements after which runs were cut off: the budget, if there is one.
    budget, reach
        The budget, and what it achieves; None without one.
    least
        Lower bound of the expected cost.
    unit, priced
        What is counted ("measurements" or "actions"), and whether their costs differ from 1.
    seconds
        Time that the plan took.
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
    reach: Power | None
    least: CostLowerBound
    unit: str
    priced: bool
    seconds: float = field(compare=False)

    def __getitem__(self, rule: str) -> Forecast:
        for forecast in self.forecasts:
            if forecast.rule == rule:
                return forecast
        rules = ", ".join(forecast.rule for forecast in self.forecasts)
        raise ParameterError(f"the plan has no rule {rule!r:.40}; it has {rules}")

    @property
    def words(self) -> list[str]:
        """The plan as sentences."""
        return plan_text.sentences(self)

    def __repr__(self) -> str:
        rules = ", ".join(f"{f.rule}: {f.mean_samples}" for f in self.forecasts)
        return f"Plan({rules}; delta={self.delta:g}, {self.assumes})"

    def __str__(self) -> str:
        head = f"{self.unit.capitalize()} until the rule is satisfied: delta = {self.delta:g}, policy {self.policy}"
        return "\n".join([f"{head}, {self.assumes}", plan_text.table(self), *self.words])

    def _repr_html_(self) -> str:
        return html_table(f"Plan: delta = {self.delta:g}, {self.assumes}", plan_text.rows(self), plan_text.HEADER)

    def to_dict(self) -> dict[str, Any]:
        """Return all data as a JSON-compatible dict; see `Readable.to_dict`."""
        document: dict[str, Any] = to_json_data(self)
        for forecast, entry in zip(self.forecasts, document["forecasts"], strict=True):
            entry |= {"runs": forecast.runs} | {
                key: to_json_data(value) for key, value in _statistics(forecast).items()
            }
        return document | {"words": self.words}

    def _records(self) -> list[dict[str, Any]]:
        """Return one record per rule."""
        return [{"rule": forecast.rule, "runs": forecast.runs} | _statistics(forecast) for forecast in self.forecasts]

    def to_frame(self) -> DataFrame:
        """Return a pandas DataFrame with one row per rule: means, quantiles and shares, with the ends of intervals.

        Needs pandas (`pip install 'combopeps[pandas]'`).
        """
        records = self._records()
        return data_frame({name: [record[name] for record in records] for name in records[0]})

    def to_csv(self) -> str:
        """Return the table of `to_frame` as CSV text, without pandas."""
        records = self._records()
        text = StringIO()
        writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()

    def plot(self, *, ax: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
        """Plot the shares of runs that end, and of right answers, against the number of measurements.

        Needs matplotlib (`pip install 'combopeps[plot]'`). `combopeps.viz.save(axes[0], path)` writes both to a file.

        Parameters
        ----------
        ax
            Two axes to draw on; new ones by default.
        """
        from combopeps.viz.canvas import two_axes
        from combopeps.viz.curves import plot_run_lengths, plot_share_correct

        ends = {f"{f.rule} ({f.runs} runs)": f.ends for f in self.forecasts if f.rule != "budget"}
        right = {f.rule: (f.times, f.right_at) for f in self.forecasts}
        left_ax, right_ax = two_axes() if ax is None else ax
        options: dict[str, Any] = {"unit": self.unit, "budget": self.budget}
        return plot_run_lengths(ends, ax=left_ax, **options), plot_share_correct(right, ax=right_ax, **options)


def _statistics(forecast: Forecast) -> dict[str, Any]:
    """Return means, quantiles and shares of a forecast by name."""
    samples, cost, right, ended, loss = (
        forecast.mean_samples, forecast.mean_cost, forecast.share_right, forecast.share_ended, forecast.mean_loss,
    )  # fmt: skip
    quantiles = {"median_samples": forecast.quantile(0.5), "most_samples": forecast.quantile(0.9)}
    finite = {name: value if isfinite(value) else None for name, value in quantiles.items()}
    return {
        "mean_samples": samples.value, "mean_samples_low": samples.low, "mean_samples_high": samples.high,
        "at_least": samples.at_least, **finite,
        "mean_cost": cost.value, "mean_cost_low": cost.low, "mean_cost_high": cost.high,
        "share_right": right.value, "share_right_low": right.low, "share_right_high": right.high,
        "share_ended": ended.value,
        "mean_loss": loss.value, "mean_loss_low": loss.low, "mean_loss_high": loss.high,
    }  # fmt: skip


def plan(
    problem: Problem | ArgmaxOracle,
    *,
    delta: float = 0.05,
    stopping: str | Sequence[str] = "posterior",
    theta: Any = None,
    theta_std: Any = None,
    budget: int | None = None,
    runs: int = 100,
    policy: str = DEFAULT_POLICY,
    epsilon: float = 0.0,
    initial_design: bool | int | None = None,
    noise: str | Noise = "normal",
    true_noise_std: float | None = None,
    most: int = 100_000,
    seconds: float | None = 48.0,
    rng: int | np.random.Generator | None = 0,
    n_jobs: int | None = None,
    scheduler: Any = None,
    progress: bool = False,
) -> Plan:
    """Forecast the number of measurements, their cost and the error rate by simulation, before measuring.

    Each simulated run is a call of `identify` with its own seed. A run depends neither on other runs nor on `n_jobs`;
    the time only limits the number of runs. Runs that were cut off, by the time or after `most` measurements, are
    censored observations (Kaplan-Meier): quantiles stay correct, and a mean is reported as "at least" if the longest
    runs were cut off. If theta is drawn from the prior, this is common: some thetas have gaps so small that no number
    of measurements is enough, and the median is more informative than the mean.

    With a `budget`, the plan also states what can be achieved with it (`Plan.reach`), from runs that use all of it: the
    share of right answers; the delta that is reached, which is the 90 % quantile of the posterior probability of being
    wrong at the end; and the loss that is not exceeded in a share 1 - delta of runs. For an exact guess at theta, the
    plan searches for the multiple of its gaps, at the same noise, at which a share 1 - delta of runs is right.

    Parameters
    ----------
    problem
        A `Problem`, or a bare oracle.
    delta, stopping, policy, epsilon, initial_design
        As for `identify`; `stopping` may be a sequence of names of rules.
    theta
        Guess at theta: one number per component, in their order or as {label: number}. By default, theta is drawn from
        the prior of the problem in each run.
    theta_std
        Standard deviation of the guess, one number or one per component: each run draws its theta around the guess. By
        default the guess is exact.
    budget
        Number of measurements that can be made (of actions, where these are measured); at least one of every arm,
        unless `initial_design=0` allows that some arms stay unmeasured.
    runs
        Number of runs for each rule.
    noise, true_noise_std
        Noise of the simulated measurements, as for `simulate`.
    most
        Number of measurements after which a run is cut off; replaced by the budget, if there is one.
    seconds
        Time after which all runs are cut off; none begins in the last fifth of it. With None, all runs are made,
        however long they take. Lower bounds and the search for gaps take some seconds more.
    rng
        Seed or generator.
    n_jobs
        Number of processes (joblib), -1 for all cores. By default that of a surrounding `joblib.parallel_config`; else
        one, or all cores for long plans.
    scheduler
        Dask cluster to run on: an address, or a `distributed.Client`.
    progress
        Whether to show a progress bar.

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
    check_rule_parameters(delta, epsilon, 2.0)
    for name, count in (("runs", runs), ("most", most), *([] if budget is None else [("budget", budget)])):
        check_count(name, count, MAX_RUNS if name == "runs" else MAX_ROUNDS)
    check_flag("progress", progress)
    if seconds is not None:
        check_positive("seconds", seconds)
    if n_jobs is not None:
        check_jobs(n_jobs)
    delta, epsilon = float(delta), float(epsilon)
    rules = _rule_names(stopping, problem, delta, epsilon, budget)
    length = initial_design_length(initial_design)
    _check_budget(problem, policy, budget, initial_design, length)
    noise_std, noise_kind = _true_noise_std(problem, true_noise_std), as_noise(noise)
    thetas = theta_distribution(problem, theta, theta_std, epsilon)
    root_seed = seed_sequence(rng)
    seeds = [named_seed(root_seed, "planned", r) for r in range(runs)]
    limit = int(most if budget is None else budget)
    times = np.unique(np.geomspace(1, limit, _N_TIMES).round().astype(np.int64))
    settings = RunSettings(problem, thetas, policy, delta, epsilon, length, noise_kind, noise_std, limit, times)
    if np.isfinite([noise_kind.low, noise_kind.high]).any():  # noise of this kind restricts the means of arms
        for seed in seeds[: 1 if thetas.is_exact else runs]:
            noise_kind.check(problem.arms.dot(settings.theta_of(seed)), problem.arms.labels)
    time_limit = inf if seconds is None else seconds
    outcomes = _simulate_runs(settings, rules, seeds, begin, time_limit, n_jobs, scheduler, progress)
    forecasts = tuple(Forecast.of(rule, ended, times) for rule, ended in outcomes.items())
    return Plan(
        forecasts=forecasts,
        delta=delta,
        epsilon=epsilon,
        policy=policy,
        seed=int(rng) if isinstance(rng, (int, np.integer)) else None,
        assumes=str(thetas),
        guessed=thetas.theta is not None,
        runs=int(runs),
        most=limit,
        budget=None if budget is None else limit,
        reach=None if budget is None else power_of(forecasts[-1], settings, delta, root_seed),
        least=least_cost(problem, thetas, delta, epsilon, root_seed),
        unit="actions" if problem.measures_actions else "measurements",
        priced=bool((problem.cost != 1.0).any()) or problem.measures_actions,
        seconds=time.time() - begin,
    )


def _rule_names(stopping: Any, problem: Problem, delta: float, epsilon: float, budget: int | None) -> list[str]:
    """Return the names of rules, checked against the problem; with a budget, the rule that uses it up is the last."""
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


def _check_budget(problem: Problem, policy: str, budget: int | None, initial_design: Any, length: int) -> None:
    """Raise if the budget is too small to measure every arm once, or if the policy cannot run on the problem."""
    instance = policy_class(policy)(problem, 0)
    if length:
        instance.initial_design(length)
    times = max(instance.default_initial_design, 0 if initial_design is not None else 1)
    needed = 0 if problem.measures_actions else times * len(problem.arms)
    if budget is not None and budget < needed:
        once = "once" if times == 1 else f"{times} times"
        cure = (
            ""
            if instance.default_initial_design
            else ", or say initial_design=0 (--initial-design 0) if some may stay unmeasured"
        )
        raise ParameterError(
            f"a budget of {budget} does not suffice to measure each of the {len(problem.arms)} arms {once}: "
            f"give at least {needed}{cure}"
        )


def _true_noise_std(problem: Problem, true_noise_std: float | None) -> Any:
    """Return the standard deviation of the simulated noise of every arm, (K,)."""
    if (problem.noise_std is None) != (true_noise_std is not None):
        raise ParameterError(
            "true_noise_std is the size of the simulated noise where the problem leaves it unknown "
            "(noise_std=None): give both, or neither"
        )
    if true_noise_std is None:
        return problem.noise
    check_scale("true_noise_std", true_noise_std)
    return problem.noise * float(true_noise_std)


def _simulate_runs(
    settings: RunSettings,
    rules: list[str],
    seeds: list[np.random.SeedSequence],
    begin: float,
    seconds: float,
    n_jobs: int | None,
    scheduler: Any,
    progress: bool,
) -> dict[str, list[RunOutcome]]:
    """Simulate runs of all rules, and return their outcomes by rule.

    Rules alternate, so that all have about as many runs when the time is over. Unless the number of processes is given,
    some pilot runs are made in this process, to estimate whether the others are worth starting more processes.
    """
    begin_until, end = begin + _BEGIN_FRACTION * seconds, begin + seconds
    order = [(seed, rule) for seed in seeds for rule in rules]
    # The first run of each rule begins in any case: a forecast needs at least one.
    tasks = [(settings, rule, seed, inf if i < len(rules) else begin_until, end)
             for i, (seed, rule) in enumerate(order)]  # fmt: skip
    n_pilots = 0 if n_jobs is not None or scheduler is not None else min(len(tasks), _PILOT_RUNS * len(rules))
    pilots, since = list[RunOutcome | None](), time.time()
    for i, task in enumerate(tasks[:n_pilots]):
        if i == n_pilots - len(rules):
            since = time.time()  # time the last run of each rule only: the first ones may include compilation
        pilots.append(planned_run(*task))
    if n_jobs is None and n_workers(None) == 1:  # no surrounding `joblib.parallel_config`
        expected = (time.time() - since) * len(tasks) / len(rules)
        n_jobs = -1 if expected > _MIN_PARALLEL_SECONDS else 1
    rest = parallel_map(planned_run, tasks[n_pilots:], n_jobs=n_jobs, progress=progress, scheduler=scheduler)
    outcomes: dict[str, list[RunOutcome]] = {rule: [] for rule in rules}
    for (_, rule, *_), outcome in zip(tasks, [*pilots, *rest], strict=True):
        if outcome is not None:
            outcomes[rule].append(outcome)
    return outcomes
