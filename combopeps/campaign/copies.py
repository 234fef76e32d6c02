"""What editors, shells and git do to a copy of a state file, and how to undo it.

Lines are ASCII without control characters, so that nothing can be lost by taking these changes back.
"""

from __future__ import annotations

import codecs

_MARKS = {  # the longer ones first: that of UTF-32 begins like that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_ENDS = "ends in a carriage return: an editor, or git's autocrlf, has changed the line ends"


def altered(line: bytes) -> str:
    """In words, what has happened to a line that is not as it was written; empty for nothing of this kind."""
    for mark, encoding in _MARKS.items():
        if line.startswith(mark):
            return f"begins with a byte order mark: an editor or a shell has saved the file as {encoding}"
    return _ENDS if line.endswith(b"\r") else ""


def restored(data: bytes) -> tuple[bytes, list[tuple[int, str]]]:
    """A file as it was written, and what has happened to it: the number of the first line concerned, and words."""
    faults = []
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            faults.append((1, altered(data)))
            data = data.decode(encoding, "replace").encode("ascii", "replace")
            break
    end = b"\r\n" if b"\n" in data else b"\r"
    if end in data:
        faults.append((1 + data[: data.index(end)].count(b"\n"), _ENDS))
        data = data.replace(end, b"\n")
    return data, faults
