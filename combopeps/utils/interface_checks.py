"""Run a set of named checks on an implementation of an interface, and report all violations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from combopeps.errors import ComboPepsError
from combopeps.utils.formatting import ShortRepr

__all__ = ["ContractError", "ContractReport"]

Probe = TypeVar("Probe")


@dataclass(frozen=True, repr=False)
class ContractReport(ShortRepr):
    """Names of the checks that passed, and a description of the violations of every other check."""

    subject: str
    passed: list[str] = field(default_factory=list)
    violations: dict[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether all checks passed."""
        return not self.violations

    def __str__(self) -> str:
        lines = [f"{self.subject}: {len(self.passed)} checks passed, {len(self.violations)} failed"]
        names: dict[str, list[str]] = {}
        for name, message in self.violations.items():
            names.setdefault(message, []).append(name)
        lines += [f"  {', '.join(same)}: {message}" for message, same in names.items()]
        return "\n".join(lines)


class ContractError(ComboPepsError):
    """A contract check found violations, listed in `report`."""

    def __init__(self, report: ContractReport) -> None:
        super().__init__(str(report))
        self.report = report

    def __reduce__(self) -> tuple[type[ContractError], tuple[ContractReport]]:
        return type(self), (self.report,)


def run_checks(
    subject: str, probe: Probe, checks: Mapping[str, Callable[[Probe], Iterator[str]]], *, raises: bool
) -> ContractReport:
    """Run every check on `probe`; its messages, or else the exception it raises, are its violations."""
    report = ContractReport(subject)
    for name, check in checks.items():
        messages: dict[str, None] = {}  # an ordered set
        try:
            for message in check(probe):
                messages[message] = None
        except Exception as error:
            if not messages:
                hint = "; likely cause: theta is changed in place, work on a copy" if "read-only" in str(error) else ""
                messages[f"raised {type(error).__name__}: {error}{hint}"] = None
        if messages:
            report.violations[name] = "; and ".join(messages)
        else:
            report.passed.append(name)
    if raises and not report.ok:
        raise ContractError(report)
    return report
