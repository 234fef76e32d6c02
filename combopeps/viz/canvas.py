"""Figures without a window, saving them, and what all plots share: colours, line styles, legends, short labels."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from combopeps.errors import DependencyError, FileFormatError
from combopeps.utils import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from combopeps.oracles.base import Array

# The palette of Okabe and Ito, which is distinguishable with all common kinds of colour blindness.
ANSWER, RUNNER_UP, OTHER = "#0072B2", "#D55E00", "#9A9A9A"
DARK, FAINT = "#707070", "#DADADA"  # edges of large maps: measured, not measured
CYCLE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442", "#7F7F7F"]
# Lines differ in style and markers, too: colour alone is not enough for every reader and printer.
STYLES, MARKERS = ["-", "--", "-.", ":"], ["o", "s", "^", "D", "v", "P"]
_MAX_LABEL_LENGTH = 24


def new_axes(width: float = 8.0, height: float = 5.0) -> Axes:
    """Return empty axes on a new figure; no window is opened, and no global state of matplotlib is changed.

    Parameters
    ----------
    width, height
        Size of the figure in inches.

    Examples
    --------
    >>> new_axes().get_figure().get_size_inches().tolist()
    [8.0, 5.0]
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DependencyError("plots need matplotlib; install it: pip install 'combopeps[plot]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def two_axes() -> tuple[Axes, Axes]:
    """Return two empty axes side by side on a new figure."""
    single = new_axes(10.0, 4.2)
    figure = single.get_figure(root=True)
    assert figure is not None
    single.remove()
    left, right = figure.subplots(1, 2)
    return left, right


def save(ax: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure of the axes to a file; its suffix determines the format (.png, .svg, .pdf)."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    check_picture(path)
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=_format(path), dpi=130)
    except ValueError as cause:
        raise FileFormatError(f"{path}: the picture cannot be written: {cause}", str(path)) from None
    files.write_atomically(path, picture.getvalue())


def check_picture(path: str | os.PathLike[str]) -> None:
    """Raise if `save` could not write to the path; called before expensive work."""
    from matplotlib.backend_bases import FigureCanvasBase

    files.check_target(path)
    known = FigureCanvasBase.get_supported_filetypes()
    if _format(path) not in known:
        cure = f"its format is told by the suffix, one of {', '.join(f'.{name}' for name in known)}"
        raise FileFormatError(f"{path}: the picture cannot be written: {cure}", str(path))


def axes_for(path: str | os.PathLike[str] | None) -> Axes | None:
    """Return new axes for a picture to be saved at the path, or raise if it could not be; None without a path."""
    if path is None:
        return None
    axes = new_axes()
    check_picture(path)
    return axes


def _format(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix[1:].lower()


def legend_below(ax: Axes, *entries: tuple[str, Any, str, Array]) -> None:
    """Add a legend below the axes.

    Each entry is a colour, a line style, a name, and flags of the lines that are drawn so: without any, it is left out.
    """
    from matplotlib.lines import Line2D

    used = [entry for entry in entries if entry[3].any()]
    handles = [
        Line2D([], [], color=colour, linestyle=style, linewidth=2, label=name) for colour, style, name, _ in used
    ]
    if handles:
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False, fontsize=9)


def short(label: object) -> str:
    """Return a label as text of at most 24 printable characters."""
    text = str(label)
    text = text if text.isprintable() else repr(text)
    return literal(text if len(text) <= _MAX_LABEL_LENGTH else text[: _MAX_LABEL_LENGTH - 1] + "…")


def literal(text: str) -> str:
    r"""Escape dollar signs, between which matplotlib would expect a formula.

    Examples
    --------
    >>> print(literal("$5 or $6"))
    \$5 or \$6
    """
    return text.replace("$", r"\$")
