"""Public names: those with an entry in the reference (docs/api), and the objects they stand for."""

import re
from importlib import import_module
from pathlib import Path

API = Path(__file__).resolve().parents[2] / "docs" / "api"


def reference():
    """Full names of all entries of the reference."""
    names, module = [], ""
    for page in sorted(API.glob("*.md")):
        for kind, name in re.findall(
            r"^\.\. (currentmodule|auto(?:class|function|exception)):: (\S+)", page.read_text(), re.M
        ):
            if kind == "currentmodule":
                module = name
            else:
                names.append(name if name.startswith("combopeps.") else f"{module}.{name}")
    return names


def public_objects():
    """The objects of the reference, by their last name."""
    objects = {}
    for name in reference():
        module, _, last = name.rpartition(".")
        objects[last] = getattr(import_module(module), last)
    return objects
