"""Oracles of the user's own: the database keeps a fingerprint, and a user who opens it brings the oracle.

    value_i = max_{z in Z} z @ theta_i,  i = 1..16

The thetas are seeded. Answers are compared by what they are worth, so that ties, and another release of a solver, make
no difference. Nothing in a file is ever imported or run.
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
from combopeps.oracles.validation import check_interface, checked_argmax
from combopeps.utils.formatting import short_repr

KIND = "own"
_THETAS = 16
_SEED = 20_240_229  # what was once given stays: files hold what came of it
_ROUNDING = 1e-10  # of a value, relative to sum |theta| times the largest entry of an answer
_NUMBERS = 2**22  # in one batch of thetas
_CURE = "`Campaign.open(path, oracle=mine)`, or `--oracle package.module:factory` on the command line"
Reader = Callable[[Field], tuple[ArgmaxOracle, list[Hashable] | None]]


class Own:
    """A user-defined oracle, and what it is known by.

    Examples
    --------
    >>> from combopeps import TopKOracle
    >>> print(Own(TopKOracle(["a", "b"], k=1)).document["components"])
    ['a', 'b']
    """

    def __init__(self, oracle: ArgmaxOracle) -> None:
        if not isinstance(oracle, ArgmaxOracle):
            raise ParameterError(f"oracle= takes an ArgmaxOracle, got {type(oracle).__name__}")
        check_interface(oracle)
        self.oracle = oracle

    @cached_property
    def document(self) -> dict[str, Any]:
        """What a header holds of it; `InstanceError` for labels that JSON does not know."""
        oracle = self.oracle
        return {
            "kind": KIND,
            "class": type(oracle).__name__,
            "components": labels_as_json(oracle.dim, oracle.components),
            "unit": float(oracle.unit),
            "domain": oracle.domain,
            "values": [value for value, _ in self._worth],
        }

    @cached_property
    def _worth(self) -> list[tuple[float, float]]:
        """Of the answer at each theta: its value, and how much less an honest one may be worth."""
        found = []
        rows = max(1, _NUMBERS // self.oracle.dim)
        for start in range(0, _THETAS, rows):
            thetas = _thetas(range(start, min(start + rows, _THETAS)), self.oracle)
            answers = checked_argmax(self.oracle, thetas)
            loss = 2 * self.oracle.resolution + _ROUNDING * np.abs(answers).max(axis=1)
            worth = (answers * thetas).sum(axis=1), loss * np.abs(thetas).sum(axis=1)
            found += list(zip(*(part.tolist() for part in worth), strict=True))
        return found

    def check(self, field: Field) -> None:
        """Refuse this oracle where a file was begun with another one, and say what differs."""
        part = field.record({"kind", "components", "unit", "domain", "values"}, {"class"})
        stored = part["components"].count_or_labels()
        labels = tuple(range(stored)) if isinstance(stored, int) else tuple(stored)
        unit, domain = part["unit"].number(), part["domain"].choice("real", "nonnegative")
        values = part["values"].numbers()
        if len(values) != _THETAS:
            part["values"].fail(f"must be {_THETAS} numbers, got {len(values)}")
        oracle = self.oracle
        if labels != oracle.components:
            self._refuse("components", _difference(labels, oracle.components))
        for name, here, there in (("unit", oracle.unit, unit), ("domain", oracle.domain, domain)):
            if here != there:
                self._refuse(name, f"its {name} is {here!r}, that of the campaign {there!r}")
        for (value, tolerance), wanted in zip(self._worth, values, strict=True):
            if not abs(value - wanted) <= tolerance:
                why = f"one of the campaign's is worth {wanted:.6g} where its best is worth {value:.6g}"
                self._refuse("answers", f"it has the same components, but other answers: {why}")

    def _refuse(self, differs: str, why: str) -> NoReturn:
        name = type(self.oracle).__name__
        raise OracleMismatchError(f"this {name} is not the oracle that the campaign was begun with: {why}", differs)


def reader(own: Own | None) -> Reader:
    """What makes an oracle of its document, for a user who brought one or none."""
    return partial(_read, own=own)


def _read(field: Field, own: Own | None) -> tuple[ArgmaxOracle, list[Hashable] | None]:
    stored = field.value if isinstance(field.value, dict) else {}
    if stored.get("kind") != KIND:
        oracle, order = read_oracle(field)
        if own is not None:  # the file's own is used, and must be the same
            own.check(Field(Own(oracle).document, field.path))
        return oracle, order
    if own is None:
        name = Field(stored.get("class"), f"{field.path}.class")
        made = f", a {name.text()[:80]!r}" if name.value is not None else ""
        raise OracleMismatchError(
            f"the campaign was begun with an oracle of somebody's own{made}: open it with {_CURE}"
        )
    own.check(field)
    return own.oracle, None


def _thetas(rows: range, oracle: ArgmaxOracle) -> Array:
    """Uniform on (0, 1), or (-1, 1): from the raw bits of a generator, which no release of numpy may change."""
    bits = [np.random.PCG64([_SEED, row]).random_raw(oracle.dim) for row in rows]
    uniform = (np.array(bits) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
    return np.asarray(uniform if oracle.domain == "nonnegative" else 2.0 * uniform - 1.0)


def _difference(theirs: tuple[Hashable, ...], ours: tuple[Hashable, ...]) -> str:
    known, new = set(theirs), set(ours)
    lost = [label for label in theirs if label not in new]
    more = [label for label in ours if label not in known]
    found = [f"{verb} {short_repr(labels, 200)}" for verb, labels in (("lacks", lost), ("adds", more)) if labels]
    return f"it {' and '.join(found)}" if found else "its components are the same in another order"
