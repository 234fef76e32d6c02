"""Build the contents of the report page from a campaign or from the result of a run.

Error probability of a campaign after 1, 2, 3, 5, 7, 10, 14, ... measurements.

The grid of sample numbers is fixed, and the random numbers of a point are determined by the seed of the campaign and
the number of samples, so that a point never changes. Results are replayed into the posterior; no query is chosen again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, isfinite
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from combopeps.campaign import Campaign
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.constrained_argmax import can_constrain, constrained_argmax, flip_one_component
from combopeps.policies.base import Policy
from combopeps.policies.registry import policy_class
from combopeps.posterior.gaussian import GaussianPosterior
from combopeps.posterior.noise_level import MIN_DOF
from combopeps.problem import Problem
from combopeps.random import Streams, named_seed
from combopeps.session.events import Lease
from combopeps.session.queries import Query
from combopeps.session.result import Recommendation, Result, Status, TopAnswer
from combopeps.stopping.base import View
from combopeps.stopping.registry import level_text
from combopeps.utils.formatting import mean_std_text, probability_text
from combopeps.viz.page_figures import picture_of
from combopeps.viz.svg import log_chart
from combopeps.viz.text_descriptions import action_oracle, answer_text, difference_text, kind_of, problem_text
from combopeps.viz.view_model import (
    AnswerText,
    ArmRow,
    ComponentRow,
    PictureData,
    QueryRow,
    ReportData,
    ResultRow,
    TopAnswerRow,
    Uncertain,
    clipped_label,
)

_GRID_RATIO = 1.4  # of successive sample numbers: 33 points up to 100,000 measurements
_MAX_SECONDS = 2.0  # for one update


class ErrorCurve:
    """Error probabilities of a campaign on a grid of sample numbers; updates compute new points only.

    Parameters
    ----------
    seconds
        Time limit of one update. If the points take longer, some of them are left out.

    Attributes
    ----------
    points
        Pairs of a number of measurements and the posterior probability that the answer at that time was wrong, which
        is a rough estimate from some hundred draws.
    left_out
        Number of grid points that were left out for lack of time.

    Examples
    --------
    >>> import tempfile
    >>> from combopeps import TopKOracle
    >>> campaign = Campaign.create(tempfile.mkdtemp() + "/beans.db", TopKOracle(["a", "b"], k=1))
    >>> campaign.observe_table([("a", 5.0), ("b", 1.0), ("a", 5.5)])
    all 3 rows taken
    >>> [t for t, _ in ErrorCurve().follow(campaign).points]
    [1, 2, 3]
    """

    def __init__(self, seconds: float = _MAX_SECONDS) -> None:
        if not isfinite(seconds) or seconds <= 0:
            raise ParameterError(f"seconds must be a positive number, got {seconds!r:.40}")
        self.seconds = seconds
        self._policy: Policy | None = None
        self._version: tuple[object, int] | None = None  # header and number of corrections of the campaign

    def follow(self, campaign: Campaign) -> ErrorCurve:
        """Add points for new results, and return the curve; start again after a correction."""
        with campaign._reading():
            version, results = (campaign.header, campaign._corrections), campaign._ledger.results
            if self._policy is None or self._version != version:
                self._version, self.points, self.left_out = version, list[tuple[int, float]](), 0
                self._n_rows, self._next_samples = 0, 1
                # Only the posterior is needed, and it is the same for all policies: take the cheapest one.
                self._policy = policy_class("top-two")(
                    campaign.problem, streams=Streams([named_seed(campaign.header["seed"], "policy")])
                )
            policy, self._policy = self._policy, None  # after an exception, the next update starts again
            new = results.counted()
            new = new[new >= self._n_rows]
            samples = policy.samples + np.cumsum(results.count[new])
            noise, sem = campaign.problem.noise[results.arm[new]], results.sem[new]
            weights = np.where(sem > 0.0, (noise / np.where(sem > 0.0, sem, 1.0)) ** 2, results.count[new])
            ends = self._segment_ends(samples)
            begin = perf_counter()
            for i, (first, end) in enumerate(zip([0, *ends], [*ends, len(new)], strict=True)):
                rows = new[first:end]
                policy.learn_many(results.arm[rows], results.y[rows], weights[first:end], results.count[rows])
                if i == len(ends):
                    break
                # Each point has an equal share of the time, so that points that are left out are spread evenly.
                if perf_counter() - begin <= self.seconds * (i + 1) / len(ends):
                    self._add_point(policy, campaign)
                else:
                    self.left_out += 1
            self._policy, self._n_rows = policy, len(results)
        return self

    def _segment_ends(self, samples: np.ndarray) -> list[int]:
        """Return how many of the new results each grid point includes, and advance the grid beyond the last one."""
        ends = []
        while len(samples) and self._next_samples <= samples[-1]:
            end = int(np.searchsorted(samples, self._next_samples)) + 1
            ends.append(end)
            while self._next_samples <= samples[end - 1]:
                self._next_samples = max(self._next_samples + 1, ceil(_GRID_RATIO * self._next_samples))
        return ends

    def _add_point(self, policy: Policy, campaign: Campaign) -> None:
        snapshot = policy.without_cache()
        try:
            view = View(snapshot, snapshot.streams.named(0, "look", snapshot.samples))
            self.points.append((snapshot.samples, view.error_probability(campaign.epsilon)))
        except ComboPepsError:  # a sampler may give up; later points may be easier
            self.left_out += 1


# Numbers of entries that the page lists.
_MAX_ARMS, _MAX_TOP_ANSWERS, _MAX_QUERIES, _MAX_PARTS, _MAX_RESULTS, _MAX_UNCERTAIN = 20, 6, 50, 200, 12, 8
_MAX_SLACK = 1e-6  # of an answer that differs in a component, relative to the sum of |theta|
_MIN_DOUBT = 0.01  # of a component: the probability that the answer is wrong about it
_MAX_CHART_POINTS = 60  # of the looks of a run
# Lengths in characters.
_MAX_HEADLINE, _MAX_ANSWER = 110, 1_500
# Most probable answers are listed for at most so many components, or below this error probability.
_MAX_DIM_OF_TOP_ANSWERS, _MAX_ERROR_OF_TOP_ANSWERS = 100, 0.97


def report_data(found: Campaign | Result, *, curve: ErrorCurve | None = None, title: str = "") -> ReportData:
    """Return the contents of the report page; takes about as long as one look of the stopping rule.

    Parameters
    ----------
    found
        The campaign, or the result of `identify`.
    curve
        Error probabilities of the campaign so far. Pass the same object again to compute new points only.
    title
        Title of the page; by default the name of the problem.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> noise = np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: "cab".index(x) + noise.normal())
    >>> facts = report_data(result)
    >>> facts.kind, facts.answer.short, facts.stop
    ('The best 1 of 3', 'b', True)
    """
    if isinstance(found, Result):
        return _of_result(found, title)
    if not isinstance(found, Campaign):
        raise ParameterError(f"found must be a Campaign or a Result, got {type(found).__name__}")
    return _of_campaign(found, ErrorCurve() if curve is None else curve, title)


def _of_campaign(campaign: Campaign, curve: ErrorCurve, title: str) -> ReportData:
    status = campaign.status()
    curve.follow(campaign)
    problem, document = campaign.problem, campaign.header["problem"]
    name = str(document.get("title") or document.get("name") or "")
    last = [(status.samples, status.error_probability)] if status.samples else []
    points = [point for point in curve.points if point[0] < status.samples] + last
    level = level_text(campaign.stopping, status.delta, status.epsilon)
    return _report_data(
        problem,
        status,
        campaign.posterior,
        status.top_answers if _shows_top_answers(problem, status) else [],
        title=title or ("" if name == "campaign" else name),
        cost=status.cost if _has_costs(problem) else None,
        verdict=status.claim if status.stop else f"the rule “{campaign.stopping}” at {level} is not satisfied",
        stop=status.stop,
        why_not_stopped="" if status.stop else why_not_stopped(campaign.stopping, status, campaign.posterior),
        rule=campaign.stopping,
        policy=campaign.policy_name,
        seed=campaign.seed,
        warning=status.warning,
        queries=status.open_queries,
        leases=status.leases,
        chart=log_chart(points, None if campaign.stopping == "loss" else status.delta, curve.left_out),
        is_campaign=True,
        recent_results=tuple(_recent_results(campaign)),
        corrections=status.corrections,
    )


def _of_result(result: Result, title: str) -> ReportData:
    points = [
        (look.t, look.error_probability) for look in result.looks if look.error_probability == look.error_probability
    ]  # without NaN: not every rule computes the probability at every look
    if len(points) > _MAX_CHART_POINTS:
        points = [points[i] for i in np.unique(np.linspace(0, len(points) - 1, _MAX_CHART_POINTS).astype(int))]
    points = [point for point in points if point[0] < result.samples] + [(result.samples, result.error_probability)]
    reasons = {
        "budget": "the budget is spent",
        "interrupted": "the run was interrupted",
        "indistinguishable": f"{len(result.tied):,} answers cannot be distinguished from this one",
    }
    reason = reasons.get(result.stop_reason, f"the run ended: {result.stop_reason}")
    problem, policy, stop = result.session.problem, result.session.policy, result.evidence.stop
    return _report_data(
        problem,
        result,
        result.posterior,
        result.top_answers if _shows_top_answers(problem, result) else [],
        title=title,
        cost=result.cost if _has_costs(problem) else None,
        verdict=result.claim if stop and result.claim else reason,
        stop=stop,
        rule=result.rule,
        policy=policy if isinstance(policy, str) else type(policy).__name__,
        seed=result.seed,
        warning=result.warning,
        queries=result.session.open_queries,
        leases={},
        chart=log_chart(points if result.samples else [], None if result.rule == "loss" else result.delta),
        is_campaign=False,
    )


def _report_data(
    problem: Problem,
    found: Status | Result,
    posterior: GaussianPosterior,
    top_answers: Sequence[TopAnswer],
    *,
    title: str,
    warning: str,
    queries: Sequence[Query],
    leases: Mapping[int, Lease],
    **fields: Any,
) -> ReportData:
    """Return report data: what campaigns and results have in common, and the other fields as given."""
    oracle, kind = problem.oracle, kind_of(problem.oracle)
    pulls = np.array(list(found.pulls.values()), dtype=float)
    most_measured, other_arms = _most_measured(problem, posterior, pulls)
    runner_up = None if found.runner_up is None else _answer(found.runner_up, oracle)
    return ReportData(
        title=clipped_label(title or kind.name),
        kind=clipped_label(kind.name),
        size=problem_text(oracle),
        answer=_answer(found.answer, oracle),
        runner_up=runner_up,
        difference="" if runner_up is None else _difference(found.answer, found.runner_up, oracle),
        error_probability=found.error_probability,
        error_interval=found.error_interval,
        delta=found.delta,
        epsilon=found.epsilon,
        samples=found.samples,
        actions=found.actions,
        warnings=(warning,) if warning else (),
        noise="" if found.noise_estimate is None else str(found.noise_estimate),
        value=found.value_text,
        gap="" if runner_up is None else found.gap_text,
        loss=found.loss_text,
        top_answers=tuple(_top_answers(top_answers, found, oracle)),
        uncertain=_uncertain_components(found, posterior, problem),
        most_measured=most_measured,
        other_arms=other_arms,
        open_queries=tuple(_open_queries(queries[:_MAX_QUERIES], leases, action_oracle(problem))),
        unlisted_queries=tuple(query.id for query in queries[_MAX_QUERIES:]),
        picture=picture_of(PictureData.of(problem, found, posterior, pulls)),
        **fields,
    )


def why_not_stopped(rule: str, status: Status, posterior: GaussianPosterior) -> str:
    """Return why the rule is not satisfied although the error probability is at most delta; else an empty string."""
    if rule == "loss" or not status.error_probability <= status.delta:
        return ""
    estimate = probability_text(status.error_probability, status.error_interval, percent=True)
    delta = probability_text(status.delta, percent=True)
    if rule != "posterior":
        without = "" if rule == "heuristic" else ", by the measurements alone, without the prior"
        return f"{estimate} is an estimate; the rule “{rule}” applies a stricter test{without}, which is not passed yet"
    if posterior.dof[0] < MIN_DOF:
        return (
            f"{estimate} is at most {delta}, but the size of the noise is estimated, too, and for that there are "
            "too few repetitions yet"
        )
    return (
        f"{estimate} is itself an estimate, from random draws; the rule “posterior” stops when the upper end of its "
        f"margin of error is clearly below {delta}, too"
    )


def _answer(answer: Any, oracle: ArgmaxOracle) -> AnswerText:
    """Return an answer with as many parts as fit into a heading, and in full."""
    full = _with_ellipses(answer_text(answer, oracle, most=400, arrow="→"))
    full = full if len(full) <= _MAX_ANSWER else full[: _MAX_ANSWER - 1] + "…"
    if len(full) <= _MAX_HEADLINE:
        return AnswerText(full)
    for most in (12, 8, 6, 4, 2):
        short = _with_ellipses(answer_text(answer, oracle, most=most, arrow="→"))
        if len(short) <= _MAX_HEADLINE:
            break
    return AnswerText(short if len(short) <= _MAX_HEADLINE else short[: _MAX_HEADLINE - 1] + "…", full)


def _difference(answer: Any, other: Any, oracle: ArgmaxOracle) -> str:
    """Return what another answer contains in place of parts of this one; empty where they have nothing in common."""
    if not isinstance(answer, (list, dict, set, frozenset, tuple)):
        return ""
    try:
        text = _with_ellipses(difference_text(answer, other, oracle, most=6, arrow="→"))
    except (ComboPepsError, KeyError, TypeError, ValueError):  # answers of custom oracles may be of any type
        return ""
    if text == f"{_answer(other, oracle).short} instead of {_answer(answer, oracle).short}":
        return ""
    return text if len(text) <= 3 * _MAX_HEADLINE else text[: 3 * _MAX_HEADLINE - 1] + "…"


def _with_ellipses(text: str) -> str:
    """Replace three dots by the ellipsis character where parts were cut out."""
    return re.sub(r"\.\.\. ([\d,]+) more \.\.\.", r"… \1 more …", text)


def _top_answers(
    top_answers: Sequence[TopAnswer], found: Recommendation, oracle: ArgmaxOracle
) -> Iterable[TopAnswerRow]:
    for one in top_answers[:_MAX_TOP_ANSWERS]:
        is_answer = np.array_equal(one.z, found.z)
        difference = "" if is_answer else _difference(found.answer, one.answer, oracle)
        value = mean_std_text(one.value, one.value_std)
        yield TopAnswerRow(_answer(one.answer, oracle).short, difference, one.probability, one.interval, value)


def _uncertain_components(found: Recommendation, posterior: GaussianPosterior, problem: Problem) -> Uncertain:
    """Return the components of which it is least certain whether the best answer contains them."""
    oracle = problem.oracle
    doubt = np.minimum(found.inclusion, 1.0 - found.inclusion)
    order = np.argsort(-doubt, kind="stable")
    order = order[doubt[order] >= _MIN_DOUBT]
    shown, theta_hat = order[:_MAX_UNCERTAIN], posterior.theta_hat[0]
    changes = _decisive_values(problem, theta_hat, found.z, shown)
    rows = [
        ComponentRow(
            clipped_label(oracle.components[i]), bool(found.z[i] != 0.0), float(found.inclusion[i]),
            mean_std_text(float(theta_hat[i]), float(posterior.std[0, i])), change,
        )
        for i, change in zip(shown.tolist(), changes, strict=True)
    ]  # fmt: skip
    return Uncertain(tuple(rows), len(order) - len(rows))


def _decisive_values(problem: Problem, theta_hat: Array, z: Array, components: NDArray[np.intp]) -> list[str]:
    """Return beyond which value of each component another answer is best, all other estimates being right.

    The margin of a component is the gap between z and the best answer that differs from z in this component. Empty
    where that answer cannot be computed quickly.
    """
    oracle, theta = problem.oracle, problem.space.project(theta_hat)
    if not (oracle.quick and can_constrain(oracle) and len(components)):
        return [""] * len(components)
    other = constrained_argmax(oracle, theta, flip_one_component(components, z))
    margin = (z - other.answers) @ theta
    known = other.is_feasible & (margin >= 0.0) & (other.slack <= _MAX_SLACK * np.abs(theta).sum())
    change = np.where(z[components] != 0.0, -margin, margin) / oracle.unit
    return [
        f"{'above' if by > 0.0 else 'below'} {value:.4g}" if is_known else ""
        for by, value, is_known in zip(change, theta[components] + change, known, strict=True)
    ]


def _most_measured(problem: Problem, posterior: GaussianPosterior, pulls: Array) -> tuple[tuple[ArmRow, ...], str]:
    """Return the arms with the most measurements, and a sentence about the others."""
    order = np.argsort(-pulls, kind="stable")[:_MAX_ARMS]
    order = order[pulls[order] > 0]
    arms = problem.arms
    mean = arms.dot(posterior.theta_hat)[0]
    std = np.sqrt(posterior.arm_widths()[0]) * problem.noise
    rows = [ArmRow(clipped_label(arms.labels[i]), int(pulls[i]), float(mean[i]), float(std[i])) for i in order.tolist()]
    others, never = int((pulls > 0).sum()) - len(rows), int((pulls == 0).sum())
    rest = int(pulls.sum()) - sum(row.count for row in rows)
    sentences = [f"and {rest:,} on {others:,} others"] if others else []
    sentences += [f"never measured: {never:,} of {len(pulls):,}"] if never else []
    return tuple(rows), "; ".join(sentences)


def _recent_results(campaign: Campaign) -> Iterable[ResultRow]:
    with campaign._reading():
        results, labels = campaign._ledger.results, campaign.problem.arms.labels
        rows = np.flatnonzero(results.count[: len(results)])[::-1][:_MAX_RESULTS]
        for row in rows.tolist():
            event = results.event.item(row)
            label, single = clipped_label(labels[results.arm.item(row)]), len(results.rows_of_event(event)) == 1
            yield ResultRow(event, label, results.y.item(row), not results.active.item(row), single)


def _open_queries(
    queries: Sequence[Query], leases: Mapping[int, Lease], actions: ArgmaxOracle | None
) -> Iterable[QueryRow]:
    for query in queries:
        lease = leases.get(query.id)
        holder, until = ("", None) if lease is None else (clipped_label(lease.client), lease.until)
        if query.action is not None and actions is not None:
            is_listed = len(query.components) <= _MAX_PARTS
            parts = tuple(map(clipped_label, query.components)) if is_listed else ()
            unlisted = 0 if is_listed else len(query.components)
            yield QueryRow(query.id, _answer(query.label, actions).short, parts, holder, until, unlisted)
        else:
            yield QueryRow(query.id, clipped_label(query.label), (), holder, until)


def _shows_top_answers(problem: Problem, found: Status | Result) -> bool:
    """Return whether some answers stand out: early in a large problem, nearly every draw has another best answer."""
    is_small = problem.oracle.dim <= _MAX_DIM_OF_TOP_ANSWERS
    return found.samples > 0 and (is_small or found.error_probability <= _MAX_ERROR_OF_TOP_ANSWERS)


def _has_costs(problem: Problem) -> bool:
    """Return whether the total cost differs from the number of measurements."""
    actions = problem.actions
    if actions is not None:
        return actions.cost != 1.0 or bool(actions.part_cost.any())
    return bool((problem.cost != 1.0).any())
