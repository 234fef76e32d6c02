"""`facts_of`: what there is to say about a campaign, or the result of a run.

Why a rule is not satisfied, though the probability on the page is as small as was wanted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from combopeps.campaign import Campaign
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.posterior.gaussian import GaussianBelief
from combopeps.posterior.noise_level import ENOUGH
from combopeps.problem import Problem
from combopeps.session.queries import Query
from combopeps.session.result import Recommendation, Result, Status, TopAnswer
from combopeps.utils.formatting import probability_text
from combopeps.viz.describe import answer_text, asked_of, difference_text, kind_of, problem_text
from combopeps.viz.error_curve import Curve
from combopeps.viz.figures import picture_of
from combopeps.viz.svg import log_chart
from combopeps.viz.view_model import Facts, Leading, Recent, Said, Seen, Waiting, Went, clipped


def why_not_yet(rule: str, status: Status, belief: GaussianBelief) -> str:
    """A sentence or two; empty while the probability itself is too large."""
    if not status.error_probability <= status.delta:
        return ""
    now = probability_text(status.error_probability, status.error_interval, percent=True)
    wanted = probability_text(status.delta, percent=True)
    if rule != "posterior":
        without = "" if rule == "heuristic" else ", by the measurements alone, without the prior"
        return f"{now} is an estimate; the rule “{rule}” goes by a stricter test{without}, which is not passed yet"
    if belief.dof[0] < ENOUGH:
        return (
            f"{now} is no more than {wanted}, but how large the noise is has to be learnt, too, and for that there are "
            "too few repetitions yet"
        )
    return (
        f"{now} is itself an estimate, from random draws; the rule “posterior” stops when the upper end of its margin "
        f"of error is clearly below {wanted}, too"
    )


_ARMS, _LEADERS, _QUERIES, _PARTS = 20, 6, 50, 200  # that are shown
_LOOKS = 60  # of a result
_RECENT = 12  # results that can be corrected on the page
_SMALL, _OPEN = 100, 0.97  # components, or error probability, up to which some answers lead
_HEADLINE, _MAX_ANSWER = 110, 1_500  # characters of an answer


def facts_of(found: Campaign | Result, *, curve: Curve | None = None, title: str = "") -> Facts:
    """All that a page shows of a campaign or a result; takes as long as a look at it, or a little longer.

    Parameters
    ----------
    found
        The campaign, or what `identify` returned.
    curve
        Of a campaign: the error probabilities so far, which somebody keeps, so that only new ones are computed.
    title
        What to call it; by default the name of its problem.

    Examples
    --------
    >>> from combopeps import TopKOracle, identify
    >>> noise = np.random.default_rng(0)
    >>> result = identify(TopKOracle(["a", "b", "c"], k=1), lambda x: "cab".index(x) + noise.normal())
    >>> facts = facts_of(result)
    >>> facts.kind, facts.answer.short, facts.stop
    ('The best 1 of 3', 'b', True)
    """
    if isinstance(found, Result):
        return _of_result(found, title)
    if not isinstance(found, Campaign):
        raise ParameterError(f"a Campaign or a Result is wanted, got {type(found).__name__}")
    return _of_campaign(found, Curve() if curve is None else curve, title)


def _of_campaign(campaign: Campaign, curve: Curve, title: str) -> Facts:
    status = campaign.status()
    curve.follow(campaign)
    problem, document = campaign.problem, campaign.header["problem"]
    name = str(document.get("title") or document.get("name") or "")
    last = [(status.samples, status.error_probability)] if status.samples else []
    points = [point for point in curve.points if point[0] < status.samples] + last
    level = f"delta = {status.delta:g}" + (f", epsilon = {status.epsilon:g}" if status.epsilon else "")
    return _facts(
        problem,
        status,
        campaign.belief,
        status.top_answers if _some_lead(problem, status) else [],
        title=title or ("" if name == "campaign" else name),
        cost=status.cost if _costs(problem) else None,
        verdict=status.claim if status.stop else f"the rule “{campaign.stopping}” at {level} is not satisfied",
        stop=status.stop,
        why="" if status.stop else why_not_yet(campaign.stopping, status, campaign.belief),
        rule=campaign.stopping,
        policy=campaign.policy_name,
        seed=campaign.seed,
        warning=status.warning,
        queries=status.open_queries,
        leases=status.leases,
        chart=log_chart(points, status.delta, curve.left_out),
        is_campaign=True,
        recent=tuple(_recent(campaign)),
        corrections=status.corrections,
    )


def _of_result(result: Result, title: str) -> Facts:
    looks = [
        (look.t, look.error_probability) for look in result.looks if look.error_probability == look.error_probability
    ]
    if len(looks) > _LOOKS:
        looks = [looks[i] for i in np.unique(np.linspace(0, len(looks) - 1, _LOOKS).astype(int))]
    looks = [look for look in looks if look[0] < result.samples] + [(result.samples, result.error_probability)]
    ended = {"budget": "the budget is spent", "interrupted": "the run was interrupted"}
    ended["indistinguishable"] = f"{len(result.tied):,} answers cannot be told from this one"
    reason = ended.get(result.stop_reason, f"the run ended: {result.stop_reason}")
    stop = result.evidence.stop
    return _facts(
        result.session.problem,
        result,
        result.belief,
        result.top_answers if _some_lead(result.session.problem, result) else [],
        title=title,
        cost=result.cost if _costs(result.session.problem) else None,
        verdict=result.claim if stop and result.claim else reason,
        stop=stop,
        rule=result.rule,
        policy=_policy_name(result.session),
        seed=result.seed,
        warning=result.warning,
        queries=result.session.open_queries,
        leases={},
        chart=log_chart(looks if result.samples else [], result.delta),
        is_campaign=False,
    )


def _policy_name(session: Any) -> str:
    """Name of the policy of a session, or of a campaign."""
    return session.policy if isinstance(session.policy, str) else type(session.policy).__name__


def _facts(
    problem: Problem,
    found: Status | Result,
    belief: GaussianBelief,
    leaders: Sequence[TopAnswer],
    *,
    title: str,
    warning: str,
    queries: Sequence[Query],
    leases: Any,
    **said: Any,
) -> Facts:
    oracle, kind = problem.oracle, kind_of(problem.oracle)
    pulls = np.array(list(found.pulls.values()), dtype=float)
    went, more = _went(problem, belief, pulls)
    rival = None if found.runner_up is None else _answer(found.runner_up, oracle)
    return Facts(
        title=clipped(title or kind.name),
        kind=clipped(kind.name),
        size=problem_text(oracle),
        answer=_answer(found.answer, oracle),
        rival=rival,
        instead="" if rival is None else _instead(found.answer, found.runner_up, oracle),
        error_probability=found.error_probability,
        error_interval=found.error_interval,
        delta=found.delta,
        epsilon=found.epsilon,
        samples=found.samples,
        actions=found.actions,
        warnings=(warning,) if warning else (),
        noise="" if found.noise_estimate is None else str(found.noise_estimate),
        leaders=tuple(_leaders(leaders, found, oracle)),
        went=went,
        went_more=more,
        waiting=tuple(_waiting(queries[:_QUERIES], leases, asked_of(problem))),
        others=tuple(query.id for query in queries[_QUERIES:]),
        picture=picture_of(Seen.of(problem, found, belief, pulls)),
        **said,
    )


def _answer(answer: Any, oracle: ArgmaxOracle) -> Said:
    """With as many parts as a heading has room for, and whole."""
    whole = _dots(answer_text(answer, oracle, most=400, arrow="→"))
    whole = whole if len(whole) <= _MAX_ANSWER else whole[: _MAX_ANSWER - 1] + "…"
    if len(whole) <= _HEADLINE:
        return Said(whole)
    for most in (12, 8, 6, 4, 2):
        short = _dots(answer_text(answer, oracle, most=most, arrow="→"))
        if len(short) <= _HEADLINE:
            break
    return Said(short if len(short) <= _HEADLINE else short[: _HEADLINE - 1] + "…", whole)


def _instead(answer: Any, other: Any, oracle: ArgmaxOracle) -> str:
    """What another answer has instead of parts of this one; nothing where that is all of both."""
    if not isinstance(answer, (list, dict, set, frozenset, tuple)):
        return ""
    try:
        text = _dots(difference_text(answer, other, oracle, most=6, arrow="→"))
    except (ComboPepsError, KeyError, TypeError, ValueError):  # answers of somebody's own making
        return ""
    if text == f"{_answer(other, oracle).short} instead of {_answer(answer, oracle).short}":
        return ""
    return text if len(text) <= 3 * _HEADLINE else text[: 3 * _HEADLINE - 1] + "…"


def _dots(text: str) -> str:
    """With real ellipses where parts were cut out."""
    return re.sub(r"\.\.\. ([\d,]+) more \.\.\.", r"… \1 more …", text)


def _leaders(leaders: Sequence[TopAnswer], found: Recommendation, oracle: ArgmaxOracle) -> Iterable[Leading]:
    for leader in leaders[:_LEADERS]:
        same = np.array_equal(leader.z, found.z)
        instead = "" if same else _instead(found.answer, leader.answer, oracle)
        yield Leading(_answer(leader.answer, oracle).short, instead, leader.probability, leader.interval)


def _went(problem: Problem, belief: GaussianBelief, pulls: Array) -> tuple[tuple[Went, ...], str]:
    """The arms that were measured most, with what is expected of their results."""
    order = np.argsort(-pulls, kind="stable")[:_ARMS]
    order = order[pulls[order] > 0]
    arms = problem.arms
    mean = arms.dot(belief.theta_hat)[0]
    width = np.sqrt(belief.arm_widths()[0]) * problem.noise
    rows = [Went(clipped(arms.labels[i]), int(pulls[i]), float(mean[i]), float(width[i])) for i in order.tolist()]
    others, never = int((pulls > 0).sum()) - len(rows), int((pulls == 0).sum())
    rest = int(pulls.sum()) - sum(row.count for row in rows)
    more = [f"and {rest:,} on {others:,} others"] if others else []
    more += [f"never measured: {never:,} of {len(pulls):,}"] if never else []
    return tuple(rows), "; ".join(more)


def _recent(campaign: Campaign) -> Iterable[Recent]:
    with campaign._reading():
        results, labels = campaign._ledger.results, campaign.problem.arms.labels
        rows = np.flatnonzero(results.count[: len(results)])[::-1][:_RECENT]
        for row in rows.tolist():
            event = results.event.item(row)
            label, single = clipped(labels[results.arm.item(row)]), len(results.rows_of_event(event)) == 1
            yield Recent(event, label, results.y.item(row), not results.active.item(row), single)


def _waiting(queries: Sequence[Query], leases: Any, asked: ArgmaxOracle | None) -> Iterable[Waiting]:
    for query in queries:
        held = leases.get(query.id)
        holder, until = ("", None) if held is None else (clipped(held.client), held.until)
        if query.action is not None and asked is not None:
            listed = len(query.components) <= _PARTS
            parts = tuple(map(clipped, query.components)) if listed else ()
            many = 0 if listed else len(query.components)
            yield Waiting(query.id, _answer(query.label, asked).short, parts, holder, until, many)
        else:
            yield Waiting(query.id, clipped(query.label), (), holder, until)


def _some_lead(problem: Problem, found: Status | Result) -> bool:
    """Is it worth the time to look who leads? Early in a large problem every draw shows another answer."""
    return found.samples > 0 and (problem.oracle.dim <= _SMALL or found.error_probability <= _OPEN)


def _costs(problem: Problem) -> bool:
    """Is the cost another number than that of measurements?"""
    actions = problem.actions
    if actions is not None:
        return actions.cost != 1.0 or bool(actions.part_cost.any())
    return bool((problem.cost != 1.0).any())
