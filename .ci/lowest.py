"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

Every `name>=version` becomes `name==version`, whatever extras of it are wanted (`name[extra]>=version`); what is for
some systems only (`; sys_platform ...`) stays so. `make test-lowest` installs these and runs the suite.
"""

import re
import tomllib
from pathlib import Path

_FLOOR = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)(; sys_platform .*)?")
_EXTRA = re.compile(r"combopeps\[([a-z]+)\]")


def lowest(project: dict, extra: str = "test") -> list[str]:
    """One constraint per requirement of the package and of an extra, with the extras that it takes in."""
    pins = []
    for requirement in [*project["dependencies"], *_requirements(project, extra)]:
        floor = _FLOOR.fullmatch(requirement)
        if floor is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} is not of the form name>=version")
        pins.append("{}=={}{}".format(*floor.groups(default="")))
    return pins


def _requirements(project: dict, extra: str) -> list[str]:
    found = []
    for requirement in project["optional-dependencies"][extra]:
        inner = _EXTRA.fullmatch(requirement)
        found += [requirement] if inner is None else _requirements(project, inner[1])
    return found


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(lowest(tomllib.loads(text)["project"])))
