"""The picture that suits a problem."""

from __future__ import annotations

from combopeps.oracles import ExplicitOracle, MatchingOracle, TopKOracle
from combopeps.page.intervals import components, listed, ranking
from combopeps.page.network import has_picture, network
from combopeps.page.pairs import matching
from combopeps.page.seen import Seen
from combopeps.page.shapes import Picture


def picture_of(seen: Seen) -> Picture:
    """A network, a matching, a ranking, listed answers; anything else by its components."""
    if isinstance(seen.oracle, TopKOracle):
        return ranking(seen)
    if has_picture(seen.oracle):
        return network(seen)
    if isinstance(seen.oracle, MatchingOracle):
        return matching(seen)
    return listed(seen) if isinstance(seen.oracle, ExplicitOracle) else components(seen)
