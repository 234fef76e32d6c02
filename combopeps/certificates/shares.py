"""How a probability is spent over looks that may come at any number of measurements.

    share(t) = 2^-j / ((j + 1)(j + 2)),   j = floor(log2 t),   sum over t >= 1 of share(t) = 1

A share belongs to a number of measurements, not to a counter of looks: nothing has to be remembered from one look to
the next, and two looks at the same data, with the same random numbers, are one.
"""

from __future__ import annotations


def share_at(t: int) -> float:
    """The share of a look after t measurements.

    Examples
    --------
    >>> [round(share_at(t), 4) for t in (1, 2, 3, 4)]
    [0.5, 0.0833, 0.0833, 0.0208]
    >>> 0.9 < sum(share_at(t) for t in range(1, 4096)) < 1.0
    True
    """
    j = max(int(t), 1).bit_length() - 1
    return 1.0 / (2.0**j * (j + 1) * (j + 2))
