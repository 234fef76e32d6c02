"""Measure pictures as arrays of pixels."""

import numpy as np
from matplotlib.colors import to_rgb


def _figure(ax):
    """Return the drawn figure; it is drawn only once, which is slow."""
    figure = ax.get_figure(root=True)
    if figure.stale:
        figure.canvas.draw()
    return figure


def pixels(ax):
    """Return the picture as an array of numbers in [0, 1], (height, width, 3)."""
    return np.asarray(_figure(ax).canvas.buffer_rgba())[..., :3] / 255.0


def share_of(image, colour):
    """Return the share of pixels of a colour, with a tolerance for anti-aliasing."""
    return float((np.abs(image - to_rgb(colour)).max(axis=2) < 0.02).mean())


def ink(ax):
    """Return the share of pixels inside the axes that are not background, without frame and grid."""
    ax.grid(False)
    image = pixels(ax)
    box = ax.get_window_extent()
    height, edge = len(image), 6
    rows = slice(round(height - box.y1) + edge, round(height - box.y0) - edge)
    inside = image[rows, round(box.x0) + edge : round(box.x1) - edge]
    return float((np.abs(inside - 1.0).max(axis=2) > 0.1).mean())


def overlapping(ax):
    """Return pairs of visible texts (ticks, labels, title, legend) whose boxes overlap by more than a pixel."""
    _figure(ax)
    texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.title, ax.xaxis.label, ax.yaxis.label]
    texts += ax.get_legend().get_texts() if ax.get_legend() else []
    if not ax.axison:
        texts = [text for text in texts if text not in (*ax.get_xticklabels(), *ax.get_yticklabels())]
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent().padded(-1)) for text in shown]
    return [(a, b) for i, (a, box) in enumerate(boxes) for b, other in boxes[:i] if box.overlaps(other)]
