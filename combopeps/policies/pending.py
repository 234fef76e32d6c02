"""`Pending`: choosing while other measurements are still under way.

Whoever chooses twice from the same state of knowledge asks the same question twice. So an open query counts as if it
had been answered with what the belief expects: V += x x', theta_hat as it is, one more pull. Its arm has less to tell
then, and the next choice goes elsewhere.

Only a twin of the policy believes that. The policy itself never holds an imagined belief, not for a moment: whatever
interrupts a choice, what was really measured is all it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from combopeps.actions import Mask

if TYPE_CHECKING:
    from combopeps.policies.base import Policy

_T = TypeVar("_T")


class Pending:
    """Choices of a policy with one replication, one after the other, with the arms of queries that are open.

    While there are none, the policy chooses itself: nothing is copied.
    """

    def __init__(self, policy: Policy, arms: Iterable[int]) -> None:
        self._policy = policy
        self._twin: Policy | None = None
        self._news = list(arms)  # open, but not imagined yet

    def choose(self, prepare: Callable[[Policy], None] = lambda policy: None) -> int:
        """The next arm; `prepare` is called before, with whoever chooses. It is not open before it is added."""
        return self._ask(prepare, lambda chooser: int(chooser.next_arms()[0]))

    def choose_action(self, prepare: Callable[[Policy], None] = lambda policy: None) -> Mask:
        """The next action, where measurements are actions."""
        return self._ask(prepare, lambda chooser: chooser.next_actions()[0])

    def _ask(self, prepare: Callable[[Policy], None], choose: Callable[[Policy], _T]) -> _T:
        if self._news:
            if self._twin is None:
                self._twin = self._policy.imagined()
            self._twin.expect(self._news)
            self._news = []
        twin = self._twin
        if twin is None:
            prepare(self._policy)
            return choose(self._policy)
        prepare(twin)
        chosen = choose(twin)
        self._policy.remember(twin)
        return chosen

    def add(self, *arms: int) -> None:
        """One more query is open, of an arm or of several."""
        self._news.extend(arms)
