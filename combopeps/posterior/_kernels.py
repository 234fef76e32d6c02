"""Compiled loops over the arms of a belief."""

from __future__ import annotations

from combopeps.utils.jit import njit


@njit(cache=True, nogil=True)
def narrow_units(variance, sigma, component, coefficient, square, out):
    """Compute `GaussianBelief.narrowing` for arms that measure one component each; `square` is (R, d)."""
    for r in range(len(out)):
        for k in range(len(component)):
            i, x = component[k], coefficient[k] / sigma[r]
            along = variance[r, i] * x
            out[r, k] = along * along * square[r, i] / (1.0 + x * along)
