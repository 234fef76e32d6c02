"""Print the lowest versions that pyproject.toml allows for all extras and the group `test`, as constraints for pip.

Every `name>=version` becomes `name==version`, whatever extras of it are wanted (`name[extra]>=version`); what is for
some systems only (`; sys_platform ...`) stays so. `make test-lowest` installs these and runs the suite.
"""

import re
import tomllib
from pathlib import Path

_FLOOR = re.compile(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?>=([0-9.]+)(; sys_platform .*)?")
_EXTRAS = re.compile(r"combopeps\[([a-z,]+)\]")


def lowest(pyproject: dict, group: str = "test") -> list[str]:
    """One constraint per requirement of the package, of its extras, and of a dependency group."""
    project, pins = pyproject["project"], []
    requirements = [*project["dependencies"], *_of_extras(project), *_of_group(pyproject["dependency-groups"], group)]
    for requirement in dict.fromkeys(requirements):
        floor = _FLOOR.fullmatch(requirement)
        if floor is None:
            raise SystemExit(f"pyproject.toml: {requirement!r} is not of the form name>=version")
        pins.append("{}=={}{}".format(*floor.groups(default="")))
    return pins


def _of_extras(project: dict) -> list[str]:
    extras = project["optional-dependencies"].values()
    return [requirement for extra in extras for requirement in extra if not _EXTRAS.fullmatch(requirement)]


def _of_group(groups: dict, group: str) -> list[str]:
    found = []
    for requirement in groups[group]:
        found += [requirement] if isinstance(requirement, str) else _of_group(groups, requirement["include-group"])
    return found


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(lowest(tomllib.loads(text))))
