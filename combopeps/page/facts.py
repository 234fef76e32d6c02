"""`Facts`: all that a page shows, as plain data that other processes can be sent, and `facts_of`, which collects it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from combopeps.belief import GaussianBelief
from combopeps.belief.level import ENOUGH
from combopeps.campaign import Campaign
from combopeps.errors import ComboPepsError, ParameterError
from combopeps.forms import probability_text
from combopeps.oracles import ExplicitOracle, MatchingOracle, TopKOracle
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.page.aims import kind_of, problem_text
from combopeps.page.curve import Curve
from combopeps.page.intervals import components, listed, ranking
from combopeps.page.network import has_picture, network
from combopeps.page.pairs import matching
from combopeps.page.scale import log_chart
from combopeps.page.seen import Seen, clipped
from combopeps.page.shapes import Chart, Picture
from combopeps.page.words import answer_text, asked_of, difference_text
from combopeps.problem import Problem
from combopeps.session.queries import Query
from combopeps.session.result import Recommendation, Result, Status, TopAnswer

_ARMS, _LEADERS, _QUERIES, _PARTS = 20, 6, 50, 200  # that are shown
_LOOKS = 60  # of a result
_RECENT = 12  # results that can be corrected on the page
_SMALL, _OPEN = 100, 0.97  # components, or error probability, up to which some answers lead
_HEADLINE, _LONGEST = 110, 1_500  # characters of an answer


@dataclass(frozen=True)
class Said:
    """An answer in words: short enough for a heading, and whole (empty where that is the same)."""

    short: str
    whole: str = ""


@dataclass(frozen=True)
class Leading:
    """An answer that may be the best: in words, what it has that the answer has not, and its estimated probability."""

    text: str
    instead: str
    probability: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Went:
    """How often something was measured, and what is believed of it."""

    label: str
    count: int
    mean: float
    std: float


@dataclass(frozen=True)
class Recent:
    """A recorded result; `single` if it is the only one of its event."""

    event: int
    label: str
    y: float
    retracted: bool
    single: bool


@dataclass(frozen=True)
class Waiting:
    """An open query: its number, what is measured, what is to be read, and who has it until when (unix time).

    An action has parts; where they are too many to be listed, there is only their number, `many`.
    """

    id: int
    label: str
    parts: tuple[str, ...] = ()
    holder: str = ""
    until: float | None = None
    many: int = 0


@dataclass(frozen=True)
class Facts:
    """A campaign, or the result of a run, as a page shows it.

    Attributes
    ----------
    title, kind, size
        What the problem is called, what is looked for, and how many components and answers there are.
    answer, rival, instead
        The answer so far, the one most likely to be right instead, and what the rival has instead of it.
    error_probability, error_interval, delta, epsilon
        As in `Status`.
    stop, verdict, why
        Whether the rule is satisfied; then the claim, before that why not yet. Where the error probability is at most
        delta and the rule not satisfied all the same: why, in words.
    samples, actions, cost
        What was measured; actions and cost are None where they are not counted.
    rule, policy, seed
        How it is run; seed is None where that is not known.
    warnings, noise
        What results say against the model, and the estimate of unknown noise; empty for nothing.
    leaders
        Most probable answers.
    went, went_more
        Where measurements went, most first, and what was left out of the list, in words.
    waiting, others
        Open queries, oldest first, and the numbers of those that are left out.
    chart
        The probability of being wrong, over time.
    recent, corrections
        The latest results, newest first, and the number of those that were corrected or retracted.
    picture
        The problem itself.
    """

    title: str
    kind: str
    size: str
    answer: Said
    rival: Said | None
    instead: str
    error_probability: float
    error_interval: tuple[float, float]
    delta: float
    epsilon: float
    stop: bool
    verdict: str
    samples: int
    actions: int | None
    cost: float | None
    rule: str
    policy: str
    seed: int | None
    warnings: tuple[str, ...]
    noise: str
    leaders: tuple[Leading, ...]
    went: tuple[Went, ...]
    went_more: str
    waiting: tuple[Waiting, ...]
    others: tuple[int, ...]
    chart: Chart
    picture: Picture
    why: str = ""
    is_campaign: bool = True
    recent: tuple[Recent, ...] = ()
    corrections: int = 0

    @property
    def still_out(self) -> int:
        """How many queries are open."""
        return len(self.waiting) + len(self.others)


def facts_of(found: Campaign | Result, *, curve: Curve | None = None, title: str = "") -> Facts:
    """All that a page shows of a campaign or a result; takes as long as a look at it, or a little longer.

    Parameters
    ----------
    found
        The campaign, or what `identify` returned.
    curve
        Of a campaign: the error probabilities so far; one that is kept computes only what is new.
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
    **more_facts: Any,
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
        **more_facts,
    )


def _answer(answer: Any, oracle: ArgmaxOracle) -> Said:
    """With as many parts as a heading has room for, and whole."""
    whole = _dots(answer_text(answer, oracle, most=400, arrow="→"))
    whole = whole if len(whole) <= _LONGEST else whole[: _LONGEST - 1] + "…"
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
    except (ComboPepsError, KeyError, TypeError, ValueError):  # answers of a user-defined oracle
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


def picture_of(seen: Seen) -> Picture:
    """A network, a matching, a ranking, listed answers; anything else by its components."""
    if isinstance(seen.oracle, TopKOracle):
        return ranking(seen)
    if has_picture(seen.oracle):
        return network(seen)
    if isinstance(seen.oracle, MatchingOracle):
        return matching(seen)
    return listed(seen) if isinstance(seen.oracle, ExplicitOracle) else components(seen)
