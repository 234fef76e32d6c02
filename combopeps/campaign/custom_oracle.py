"""Fingerprints of user-defined oracles, which a database cannot hold and the user passes again.

    value_i = max_{z in Z} z @ theta_i,  i = 1..16

The thetas are seeded. Two oracles with the same components are the same if their answers have the same values: ties,
and another release of a solver, make no difference. Nothing in a file is ever imported or run.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property, partial
from typing import Any, NoReturn

import numpy as np

from combopeps.errors import OracleMismatchError, ParameterError
from combopeps.io.oracle_kinds import labels_as_json, read_oracle
from combopeps.io.parsing import Field
from combopeps.oracles.base import ArgmaxOracle, Array
from combopeps.oracles.runtime_checks import check_interface, checked_argmax
from combopeps.utils.formatting import short_repr

KIND = "own"
_N_THETAS = 16
_SEED = 20_240_229  # must not change: files hold values that depend on it
_ROUNDING = 1e-10  # tolerance of a value, relative to sum |theta| times the largest entry of an answer
_MAX_BATCH_ENTRIES = 2**22  # of the thetas of one batch
_CURE = "`Campaign.open(path, oracle=mine)`, or `--oracle package.module:factory` on the command line"
Reader = Callable[[Field], tuple[ArgmaxOracle, list[Hashable] | None]]


class CustomOracle:
    """A user-defined oracle and its fingerprint.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> print(CustomOracle(TopKOracle(["a", "b"], k=1)).document["components"])
    ['a', 'b']
    """

    def __init__(self, oracle: ArgmaxOracle) -> None:
        if not isinstance(oracle, ArgmaxOracle):
            raise ParameterError(f"oracle= takes an ArgmaxOracle, got {type(oracle).__name__}")
        check_interface(oracle)
        self.oracle = oracle

    @cached_property
    def document(self) -> dict[str, Any]:
        """The fingerprint that a header stores; `InstanceError` for labels that JSON cannot hold."""
        oracle = self.oracle
        return {
            "kind": KIND,
            "class": type(oracle).__name__,
            "components": labels_as_json(oracle.dim, oracle.components),
            "unit": float(oracle.unit),
            "domain": oracle.domain,
            "values": [value for value, _ in self._values],
        }

    @cached_property
    def _values(self) -> list[tuple[float, float]]:
        """The value of the answer at each theta, and the tolerance within which a correct answer may differ."""
        found = list[tuple[float, float]]()
        rows = max(1, _MAX_BATCH_ENTRIES // self.oracle.dim)
        for start in range(0, _N_THETAS, rows):
            thetas = _thetas(range(start, min(start + rows, _N_THETAS)), self.oracle)
            answers = checked_argmax(self.oracle, thetas)
            loss = 2 * self.oracle.resolution + _ROUNDING * np.abs(answers).max(axis=1)
            values, tolerances = (answers * thetas).sum(axis=1), loss * np.abs(thetas).sum(axis=1)
            found += list(zip(values.tolist(), tolerances.tolist(), strict=True))
        return found

    def check(self, field: Field) -> None:
        """Raise `OracleMismatchError` if a header was stored with another oracle."""
        part = field.record({"kind", "components", "unit", "domain", "values"}, {"class"})
        stored = part["components"].count_or_labels()
        labels = tuple(range(stored)) if isinstance(stored, int) else tuple(stored)
        unit, domain = part["unit"].number(), part["domain"].choice("real", "nonnegative")
        values = part["values"].numbers()
        if len(values) != _N_THETAS:
            part["values"].fail(f"must be {_N_THETAS} numbers, got {len(values)}")
        oracle = self.oracle
        if labels != oracle.components:
            self._raise_mismatch("components", _difference(labels, oracle.components))
        for name, here, there in (("unit", oracle.unit, unit), ("domain", oracle.domain, domain)):
            if here != there:
                self._raise_mismatch(name, f"its {name} is {here!r}, that of the campaign {there!r}")
        for (value, tolerance), expected in zip(self._values, values, strict=True):
            if not abs(value - expected) <= tolerance:
                why = f"the best value at a theta is {value:.6g}, and was {expected:.6g}"
                self._raise_mismatch("answers", f"it has the same components, but other answers: {why}")

    def _raise_mismatch(self, differs: str, why: str) -> NoReturn:
        name = type(self.oracle).__name__
        raise OracleMismatchError(f"this {name} is not the oracle that the campaign was created with: {why}", differs)


def reader(custom: CustomOracle | None) -> Reader:
    """Return a function that reads an oracle from its document, given the oracle that the user passes, if any."""
    return partial(_read_oracle, custom=custom)


def _read_oracle(field: Field, custom: CustomOracle | None) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    """Read an oracle from its document, or check the custom one against it."""
    stored = field.value if isinstance(field.value, dict) else {}
    if stored.get("kind") != KIND:
        oracle, order = read_oracle(field)
        if custom is not None:  # the stored oracle is used, and the given one must be the same
            custom.check(Field(CustomOracle(oracle).document, field.path))
        return oracle, order
    if custom is None:
        name = Field(stored.get("class"), f"{field.path}.class")
        kind = f", a {name.text()[:80]!r}" if name.value is not None else ""
        raise OracleMismatchError(f"the campaign was created with a user-defined oracle{kind}: open it with {_CURE}")
    custom.check(field)
    return custom.oracle, None


def _thetas(rows: range, oracle: ArgmaxOracle) -> Array:
    """Return thetas that are uniform on (0, 1), or on (-1, 1) for a real domain."""
    # From the raw bits of a generator, which are the same in all releases of numpy.
    bits = [np.random.PCG64([_SEED, row]).random_raw(oracle.dim) for row in rows]
    uniform = (np.array(bits) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
    return np.asarray(uniform if oracle.domain == "nonnegative" else 2.0 * uniform - 1.0)


def _difference(stored: tuple[Hashable, ...], given: tuple[Hashable, ...]) -> str:
    """Return in words how the given components differ from the stored ones."""
    stored_set, given_set = set(stored), set(given)
    missing = [label for label in stored if label not in given_set]
    added = [label for label in given if label not in stored_set]
    found = [f"{verb} {short_repr(labels, 200)}" for verb, labels in (("lacks", missing), ("adds", added)) if labels]
    return f"it {' and '.join(found)}" if found else "its components are the same in another order"
