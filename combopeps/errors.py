"""Every error of the package, under one base class: `except ComboPepsError` catches them all."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST_MESSAGE = 2_000  # characters: labels and values from files may have millions


class ComboPepsError(Exception):
    """Base class of everything this package raises on purpose.

    A message of more than 2,000 characters loses its middle.
    """

    def __init__(self, message: object = "", *args: object) -> None:
        text = message
        if isinstance(message, str) and len(message) > LONGEST_MESSAGE:
            half = LONGEST_MESSAGE // 2 - 25
            text = f"{message[:half]} [... {len(message) - 2 * half} characters ...] {message[-half:]}"
        super().__init__(text, *args)


class ParameterError(ComboPepsError, ValueError):
    """An option is outside its range or of the wrong kind."""


class DependencyError(ComboPepsError, ImportError):
    """An optional package is not installed."""


class LabelError(ComboPepsError, ValueError):
    """Labels are unhashable, repeated or missing."""


class ThetaError(ComboPepsError, ValueError):
    """A parameter vector has the wrong shape, type or values."""


class DomainError(ThetaError):
    """A finite parameter vector lies outside the space on which the oracle can maximise."""


class GraphError(ComboPepsError, ValueError):
    """A graph cannot define a set of routes, or of trees."""


class MatchingError(ComboPepsError, ValueError):
    """A bipartite graph has no matching that saturates the left side.

    Attributes
    ----------
    left_set
        Left nodes that together have fewer neighbours than members (Hall's condition fails on them).
    neighbours
        All right nodes adjacent to `left_set`.
    """

    def __init__(self, message: str, left_set: Sequence[Hashable] = (), neighbours: Sequence[Hashable] = ()) -> None:
        super().__init__(message)
        self.left_set = list(left_set)
        self.neighbours = list(neighbours)


class ProgramError(ComboPepsError, ValueError):
    """Constraints cannot define a set of answers: they are malformed, contradict each other, or bound nothing."""


class AnswerError(ComboPepsError, ValueError):
    """A vector or a decoded answer is not a member of Z."""


class OracleError(ComboPepsError, RuntimeError):
    """An oracle broke its contract.

    Attributes
    ----------
    theta
        The parameter vector (or batch) that brought the fault to light, for a reproduction; None when
        the fault does not depend on one.
    """

    def __init__(self, message: str, theta: NDArray[np.float64] | None = None) -> None:
        super().__init__(message)
        self.theta = theta


class SolverError(OracleError):
    """A solver gave up before it had the best answer: its time was over, or its numbers cannot be trusted."""


class SpaceError(ComboPepsError, ValueError):
    """A parameter space is empty, of the wrong shape, or larger than the oracle can maximise over."""


class PriorWarning(UserWarning):
    """Results contradict the stated prior: error probabilities and claims that rest on it do not hold."""


class NoiseWarning(UserWarning):
    """Repeated measurements of one arm scatter more than the stated noise allows, and no claim holds; or far less."""


class FitWarning(UserWarning):
    """The means of the arms contradict each other: they are no linear function of the rows, and no claim holds."""


class QueryError(ComboPepsError, ValueError):
    """A query is unknown, closed, or was answered differently before.

    Attributes
    ----------
    unknown
        True if there never was such a query.
    """

    def __init__(self, message: str, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class ActionError(ComboPepsError, ValueError):
    """Actions that cannot be measured, or that do not show what answers are made of."""


class RewardError(ComboPepsError, ValueError):
    """A measurement is not a number, not finite, or out of all proportion to the noise."""


class ImplausibleValueError(RewardError):
    """A measurement is far from all results so far; it is recorded only if it is confirmed."""


class ConcurrentUseError(ComboPepsError, RuntimeError):
    """The process was forked while another thread was changing the session."""


class StateFileError(ComboPepsError, ValueError):
    """A campaign's state file is damaged, of a newer schema, or not a state file at all.

    Attributes
    ----------
    line
        Number of the line at fault, from 1; 0 when it is no single line.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class ConnectionLostError(StateFileError):
    """A campaign's database cannot be reached, or not any more; the next call connects again.

    Attributes
    ----------
    unknown
        True if the connection was lost while something was being recorded, so that nobody knows whether it was.
    """

    def __init__(self, message: str, line: int = 0, unknown: bool = False) -> None:
        super().__init__(message, line)
        self.unknown = unknown


class OtherOracleError(ComboPepsError, ValueError):
    """A campaign was begun with an oracle of somebody's own, and it was opened with another one, or with none.

    Attributes
    ----------
    differs
        In what: "components", "unit", "domain" or "answers"; empty when there is no oracle to compare.
    """

    def __init__(self, message: str, differs: str = "") -> None:
        super().__init__(message)
        self.differs = differs


class LockError(ComboPepsError, TimeoutError):
    """Another process held a campaign's state file for longer than we were willing to wait."""


class AccessError(ComboPepsError):
    """A server does not know a token, or does not allow its bearer to do this."""


class LimitError(ComboPepsError):
    """More was asked of a server than it does at once, or so soon after what came before."""


class ServerError(ComboPepsError, RuntimeError):
    """A server cannot do now what it was asked for: it is about to stop, or a part of it has died."""


class RemoteError(ComboPepsError, ConnectionError):
    """A campaign's server cannot be reached, or what answers there is no server of campaigns.

    Attributes
    ----------
    status
        What it answered, as a number of HTTP; 0 when there was no answer.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class ReachError(ComboPepsError, ValueError):
    """No amount of measuring the arms tells some answers apart.

    Attributes
    ----------
    direction
        A unit vector of R^d, orthogonal to every arm, along which two answers differ.
    """

    def __init__(self, message: str, direction: NDArray[np.float64] | None = None) -> None:
        super().__init__(message)
        self.direction = direction


class TieError(ComboPepsError, ValueError):
    """Two answers are equally good, where the best one must be unique."""


class NoAlternativeError(ComboPepsError):
    """No alternative exists: under every parameter of the space, the current answer is a best one."""


class SamplerCapError(ComboPepsError):
    """A sampler reached its cap of draws without finding what it was asked for.

    Attributes
    ----------
    draws
        How many parameter vectors were drawn in vain.
    """

    def __init__(self, message: str, draws: int = 0) -> None:
        super().__init__(message)
        self.draws = draws


class InstanceError(ComboPepsError, ValueError):
    """An instance is unknown, or a part of it makes no sense.

    Attributes
    ----------
    field
        The path of the offending part, such as `oracle.edges[3][1]`; empty when it is the whole.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class FileFormatError(ComboPepsError, ValueError):
    """A file cannot be read or written, or holds what its format does not allow.

    Attributes
    ----------
    file, line, field
        Where: the path, the line (None when unknown) and the field or column (empty when it is the whole line).
    """

    def __init__(self, message: str, file: str = "", line: int | None = None, field: str = "") -> None:
        super().__init__(message)
        self.file, self.line, self.field = file, line, field
