"""One step of a policy: by one thread at a time, and never half.

A measurement goes into several arrays and books. A second thread, or a Ctrl-C, in the middle of that would leave them
in contradiction to each other, and every later answer wrong.
"""

from __future__ import annotations

from _signal import SIGINT, getsignal, signal  # type: ignore[import-not-found]  # `signal` takes ten times as long
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

from combopeps.errors import ConcurrentUseError
from combopeps.forks import is_lost, renew_after_fork

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Turn:
    """Whose turn it is to use a policy: a lock that its thread may take again, and whose copies are free."""

    __slots__ = ("__weakref__", "acquire", "changing", "lost", "release")

    def __init__(self) -> None:
        self.changing = False  # a step is under way
        self.lost = False  # in a child process: by a thread that exists in the parent only
        self._renew()
        renew_after_fork(self)

    def _renew(self) -> None:
        lock = RLock()
        self.acquire, self.release = lock.acquire, lock.release

    def after_fork(self) -> None:
        """In a child process: free, unless another thread was in the middle of a step, which nobody will complete."""
        if is_lost(self):
            self._renew()
            self.lost = self.changing
            if self.lost:
                self.acquire = _never

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()

    def refuse(self) -> ConcurrentUseError:
        """The error for a call that cannot have its turn."""
        if self.lost:
            return ConcurrentUseError(
                "this process was forked while a thread of its parent was changing the policy, and has half of that "
                "change: make the policy anew in this process, or fork while no thread is inside ask, tell or observe"
            )
        return ConcurrentUseError(
            "another thread is using this policy, which serves one at a time: hold a lock of your own around every "
            "call, let one thread do all asking and telling, or use a Campaign"
        )


def _never(blocking: bool = True, timeout: float = -1.0) -> bool:
    return False


class Step:
    """A context that no other thread enters meanwhile, and in which Ctrl-C waits for the end.

    Only handlers written in Python are held back, and only in the main thread: elsewhere none are run.
    """

    __slots__ = ("_held", "_turn", "_usual", "_within")

    def __init__(self, turn: Turn) -> None:
        self._turn, self._held, self._within = turn, False, False
        self._usual: Callable[[int, Any], Any] | None = None

    def __enter__(self) -> None:
        usual = getsignal(SIGINT)
        if callable(usual):
            try:
                signal(SIGINT, self._hold)
                self._usual = usual
            except ValueError:  # not the main thread
                pass
        if not self._turn.acquire(False):
            self._let_go()
            raise self._turn.refuse()
        self._within, self._turn.changing = self._turn.changing, True

    def __exit__(self, *exception: object) -> None:
        self._turn.changing = self._within
        self._turn.release()
        self._let_go()

    def _hold(self, number: int, frame: Any) -> None:
        self._held = True

    def _let_go(self) -> None:
        if self._usual is not None:
            signal(SIGINT, self._usual)
            if self._held:
                self._usual(SIGINT, None)


def exclusive(method: _Method) -> _Method:
    """A method that is refused while another thread is inside its object; it may be interrupted."""

    @wraps(method)
    def alone(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        turn: Turn = self.turn
        try:  # acquired inside: a Ctrl-C right after it must not leave the turn taken for ever
            if not turn.acquire(False):
                raise turn.refuse()
            return method(self, *args, **kwargs)
        finally:
            try:  # noqa: SIM105, for the same reason: nothing may be called before `release`
                turn.release()
            except RuntimeError:  # it is somebody else's
                pass

    return cast(_Method, alone)
