"""Exceptions and warnings of the package; all exceptions derive from `ComboPepsError`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

MAX_MESSAGE_LENGTH = 2_000  # characters; labels and values from files may have millions


class ComboPepsError(Exception):
    """Base class of all exceptions of this package.

    The middle of a message with more than 2,000 characters is omitted.
    """

    def __init__(self, message: object = "", *args: object) -> None:
        text = message
        if isinstance(message, str) and len(message) > MAX_MESSAGE_LENGTH:
            half = MAX_MESSAGE_LENGTH // 2 - 25
            text = f"{message[:half]} [... {len(message) - 2 * half} characters ...] {message[-half:]}"
        super().__init__(text, *args)


class ParameterError(ComboPepsError, ValueError):
    """A parameter has an invalid value or type."""


class DependencyError(ComboPepsError, ImportError):
    """An optional package is not installed."""


class LabelError(ComboPepsError, ValueError):
    """Labels are unhashable, repeated or missing."""


class ThetaError(ComboPepsError, ValueError):
    """A parameter vector has the wrong shape, type or values."""


class DomainError(ThetaError):
    """A finite parameter vector lies outside the space on which the oracle can maximise."""


class GraphError(ComboPepsError, ValueError):
    """A graph does not define a set of paths or spanning trees."""


class MatchingError(ComboPepsError, ValueError):
    """A bipartite graph has no matching that saturates the left side.

    Attributes
    ----------
    left_set
        Left nodes with fewer neighbours than members, a violation of Hall's condition.
    neighbours
        All right nodes adjacent to `left_set`.
    """

    def __init__(self, message: str, left_set: Sequence[Hashable] = (), neighbours: Sequence[Hashable] = ()) -> None:
        super().__init__(message)
        self.left_set = list(left_set)
        self.neighbours = list(neighbours)


class ProgramError(ComboPepsError, ValueError):
    """Constraints do not define a set of answers: they are malformed, infeasible or unbounded."""


class AnswerError(ComboPepsError, ValueError):
    """A vector or a decoded answer is not a member of Z."""


class OracleError(ComboPepsError, RuntimeError):
    """An oracle violates its contract.

    Attributes
    ----------
    theta
        The parameter vector, or batch, that reproduces the error; None if it does not depend on one.
    """

    def __init__(self, message: str, theta: NDArray[np.float64] | None = None) -> None:
        super().__init__(message)
        self.theta = theta


class SolverError(OracleError):
    """A solver ended without a proven optimum: it reached its time limit, or lost its numerical accuracy."""


class SpaceError(ComboPepsError, ValueError):
    """A parameter space is empty, of the wrong shape, or larger than the oracle can maximise over."""


class PriorWarning(UserWarning):
    """Results contradict the stated prior: error probabilities and claims under this prior do not hold."""


class NoiseWarning(UserWarning):
    """Repeated measurements of an arm scatter more (no claim holds) or far less than the stated noise."""


class LinearityWarning(UserWarning):
    """The means of the arms are not a linear function of their rows, so that no claim holds."""


class QueryError(ComboPepsError, ValueError):
    """A query is unknown, closed, or was answered differently before.

    Attributes
    ----------
    unknown
        Whether the query never existed.
    """

    def __init__(self, message: str, unknown: bool = False) -> None:
        super().__init__(message)
        self.unknown = unknown


class ActionError(ComboPepsError, ValueError):
    """Actions are invalid, or do not measure the components of answers."""


class RewardError(ComboPepsError, ValueError):
    """A measurement is not a number, not finite, or implausibly large compared to the noise."""


class ImplausibleValueError(RewardError):
    """A measurement is far from all earlier results; it is recorded only if confirmed."""


class ConcurrentUseError(ComboPepsError, RuntimeError):
    """The process was forked while another thread was changing the session."""


class StateFileError(ComboPepsError, ValueError):
    """A campaign's state file is damaged, of a newer schema, or not a state file at all.

    Attributes
    ----------
    line
        Number of the invalid line, from 1; 0 if the error does not concern a single line.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class ConnectionLostError(StateFileError):
    """The connection to a campaign's database failed; the next call reconnects.

    Attributes
    ----------
    unknown
        Whether the connection was lost during a write, so that its outcome is unknown.
    """

    def __init__(self, message: str, line: int = 0, unknown: bool = False) -> None:
        super().__init__(message, line)
        self.unknown = unknown


class OracleMismatchError(ComboPepsError, ValueError):
    """A campaign created with a custom oracle was opened with a different oracle, or with none.

    Attributes
    ----------
    differs
        The property that differs: "components", "unit", "domain" or "answers"; empty if there is no oracle to compare.
    """

    def __init__(self, message: str, differs: str = "") -> None:
        super().__init__(message)
        self.differs = differs


class LockError(ComboPepsError, TimeoutError):
    """A campaign's state file was locked by another process until the timeout."""


class AuthorizationError(ComboPepsError):
    """A token is unknown to a server, or does not permit the request."""


class RateLimitError(ComboPepsError):
    """A server refused a request because of its limits on size or rate."""


class ServerError(ComboPepsError, RuntimeError):
    """A server cannot process a request now: it is shutting down, or one of its workers has failed."""


class RemoteError(ComboPepsError, ConnectionError):
    """A campaign's server cannot be reached, or the address is not that of a campaign server.

    Attributes
    ----------
    status
        HTTP status code of the response; 0 without a response.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class IdentifiabilityError(ComboPepsError, ValueError):
    """Some answers cannot be distinguished by any number of measurements of the arms.

    Attributes
    ----------
    direction
        A unit vector of R^d, orthogonal to every arm, along which two answers differ.
    """

    def __init__(self, message: str, direction: NDArray[np.float64] | None = None) -> None:
        super().__init__(message)
        self.direction = direction


class TieError(ComboPepsError, ValueError):
    """Two answers are equally good, although the best answer must be unique."""


class NoAlternativeError(ComboPepsError):
    """There are no alternatives: the current answer is optimal for every parameter in the space."""


class SamplerCapError(ComboPepsError):
    """A sampler reached its maximum number of draws without an accepted one.

    Attributes
    ----------
    draws
        Number of rejected parameter vectors.
    """

    def __init__(self, message: str, draws: int = 0) -> None:
        super().__init__(message)
        self.draws = draws


class InstanceError(ComboPepsError, ValueError):
    """An instance is unknown or invalid.

    Attributes
    ----------
    field
        Path of the invalid part, such as `oracle.edges[3][1]`; empty for the whole instance.
    """

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class FileFormatError(ComboPepsError, ValueError):
    """A file cannot be read or written, or has an invalid format.

    Attributes
    ----------
    file, line, field
        Location of the error: path, line (None if unknown), and field or column (empty for the whole line).
    """

    def __init__(self, message: str, file: str = "", line: int | None = None, field: str = "") -> None:
        super().__init__(message)
        self.file, self.line, self.field = file, line, field
