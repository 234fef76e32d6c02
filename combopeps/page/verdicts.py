"""Why a rule is not satisfied, though the probability on the page is as small as was wanted."""

from __future__ import annotations

from combopeps.belief import GaussianBelief
from combopeps.belief.level import ENOUGH
from combopeps.forms import probability_text
from combopeps.session.result import Status


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
