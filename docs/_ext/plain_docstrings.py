"""Numpydoc sections, and plain text: docstrings are written for `help()`, and look here as they do there.

An indented block of prose is an equation and stays as typed; |Z| is a size and no substitution.
"""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, NumpyDocstring

# Called directly: as an extension, napoleon would take the words before a colon in an attribute's docstring for a type.
_SECTIONS = Config(napoleon_attr_annotations=False, napoleon_custom_sections=[("Attributes", "params_style")])
_QUOTED = re.compile(r"(``.*?``|`.*?`)")


def read_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """From one docstring to reStructuredText."""
    rule = next((i for i, line in enumerate(lines) if re.fullmatch(r"-{4,}", line)), len(lines) + 1)
    examples = lines.index("Examples") if "Examples" in lines else len(lines)
    prose, sections = lines[: rule - 1], lines[rule - 1 : examples]
    text = [*_equations(prose), *map(_escape, sections), *lines[examples:]]
    lines[:] = NumpyDocstring(text, _SECTIONS, app, "object", name, obj, options).lines()


def _equations(prose: list[str]) -> list[str]:
    """Prose, with its indented blocks marked as literal."""
    marked: list[str] = []
    before = ""  # the last line that was not blank
    for line in prose:
        indented = line.startswith("    ")
        if indented and not before.startswith("    "):
            marked += ["::", ""]
        marked.append(line if indented else _escape(line))
        before = line or before
    return marked


def _escape(line: str) -> str:
    line = re.sub(r"^(\s*)(\w\.(\s|$))", r"\1\\\2", line)  # "Z." opens no list
    return "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in _QUOTED.split(line))


def skip_fields(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Fields of named tuples have docstrings that say nothing."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both."""
    app.connect("autodoc-process-docstring", read_docstring)
    app.connect("autodoc-skip-member", skip_fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
