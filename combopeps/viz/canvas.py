"""A figure to draw on, without a window, and colours that everyone can tell apart."""

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

# Okabe and Ito's palette, which survives all common kinds of colour blindness.
ANSWER, RIVAL, OTHER = "#0072B2", "#D55E00", "#9A9A9A"
DARK, FAINT = "#707070", "#DADADA"  # on large maps: measured, and never
CYCLE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442", "#7F7F7F"]
# Nobody has to tell lines apart by colour alone.
STYLES, MARKERS = ["-", "--", "-.", ":"], ["o", "s", "^", "D", "v", "P"]


def new_axes(width: float = 8.0, height: float = 5.0) -> Axes:
    """Empty axes on a figure of their own; no window is opened and no global state is touched.

    Examples
    --------
    >>> new_axes().get_figure().get_size_inches().tolist()
    [8.0, 5.0]
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise DependencyError("pictures need matplotlib; install it: pip install 'combopeps[plot]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.add_subplot()


def two_axes() -> tuple[Axes, Axes]:
    """Two empty axes side by side on a figure of their own."""
    alone = new_axes(10.0, 4.2)
    figure = alone.get_figure(root=True)
    assert figure is not None
    alone.remove()
    left, right = figure.subplots(1, 2)
    return left, right


def save(ax: Axes, path: str | os.PathLike[str]) -> None:
    """Write the figure of the axes; the format is told by the suffix (.png, .svg, .pdf)."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    check_picture(path)
    picture = io.BytesIO()
    try:
        figure.savefig(picture, format=_format(path), dpi=130)
    except ValueError as cause:
        raise FileFormatError(f"{path}: the picture cannot be written: {cause}", str(path)) from None
    files.replace(path, picture.getvalue())


def check_picture(path: str | os.PathLike[str]) -> None:
    """Refuse what `save` would, before the work that is to be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    files.check_target(path)
    known = FigureCanvasBase.get_supported_filetypes()
    if _format(path) not in known:
        cure = f"its format is told by the suffix, one of {', '.join(f'.{name}' for name in known)}"
        raise FileFormatError(f"{path}: the picture cannot be written: {cure}", str(path))


def axes_for(path: str | os.PathLike[str] | None) -> Axes | None:
    """New axes for a picture that will be saved there, if one is wanted; refused now if it cannot be."""
    if path is None:
        return None
    axes = new_axes()
    check_picture(path)
    return axes


def _format(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix[1:].lower()


def legend_below(ax: Axes, *keys: tuple[str, Any, str, Array]) -> None:
    """Colour, line style and name of what is there: the last part of a key says which lines are of it."""
    from matplotlib.lines import Line2D

    there = [key for key in keys if key[3].any()]
    handles = [
        Line2D([], [], color=colour, linestyle=style, linewidth=2, label=name) for colour, style, name, _ in there
    ]
    if handles:
        ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4, frameon=False, fontsize=9)


def short(label: object) -> str:
    """A label that fits beside a picture."""
    text = str(label)
    text = text if text.isprintable() else repr(text)
    return literal(text if len(text) <= 24 else text[:23] + "…")


def literal(text: str) -> str:
    r"""Text that matplotlib shows as it is: between two dollars it would read a formula.

    Examples
    --------
    >>> print(literal("$5 or $6"))
    \$5 or \$6
    """
    return text.replace("$", r"\$")
