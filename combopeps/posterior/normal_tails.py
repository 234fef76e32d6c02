"""Compiled functions of the normal distribution that are accurate in its tails, without underflow at 1e-300."""

from __future__ import annotations

from math import inf

from combopeps.random import exponential, normal, uniform
from combopeps.utils.jit import erfc, exp, expm1, log, log1p, njit, sqrt

_LOG_ROOT_2PI = 0.9189385332046727  # ln sqrt(2 pi)


@njit
def log_ndtr(x):
    """ln Phi(x); beyond -25 by the asymptotic series, whose next term is below 1e-13 there."""
    if x > 5.0:
        return log1p(-0.5 * erfc(x / sqrt(2.0)))
    if x > -25.0:
        return log(0.5 * erfc(-x / sqrt(2.0)))
    if x == -inf:
        return -inf
    return log_phi(x) - log(-x) + log(_mills_series(x))


@njit(inner=True)
def log_phi(x):
    """ln of the standard normal density."""
    return -0.5 * x * x - _LOG_ROOT_2PI


@njit
def log_interval(a, b):
    """ln (Phi(b) - Phi(a)) for a < b, in the tail without cancellation; by the midpoint rule for short intervals."""
    if b == inf:
        return log_ndtr(-a)
    if a == -inf:
        return log_ndtr(b)
    if b - a < 1e-3 / (1.0 + abs(a)):
        middle, width = 0.5 * (a + b), b - a
        return log_phi(middle) + log(width) + log1p((middle * middle - 1.0) * width * width / 24.0)
    if a > 0.0:
        a, b = -b, -a
    low, high = log_ndtr(a), log_ndtr(b)
    if low == -inf:
        return high
    return high + log(-expm1(low - high))


@njit(inner=True)
def interval_mean(a, b, log_mass):
    """Mean of a standard normal conditioned on [a, b], whose log-probability is given."""
    mean = 0.0
    if a > -inf:
        mean += exp(log_phi(a) - log_mass)
    if b < inf:
        mean -= exp(log_phi(b) - log_mass)
    return mean


@njit(inner=True)
def interval_variance(a, b, log_mass, mean):
    """Variance of a standard normal conditioned on [a, b]; clipped to bounds that cancellation may violate."""
    out = max(a, -b, 1.0)
    width = b - a
    second = 1.0
    if a > -inf:
        second += a * exp(log_phi(a) - log_mass)
    if b < inf:
        second -= b * exp(log_phi(b) - log_mass)
    return max(min(second - mean * mean, 1.0 / (out * out), 0.25 * width * width), 1e-9 / (out * out))


@njit(inner=True)
def log_mills(c):
    """ln (Phi(-c) / phi(c)), without cancellation for large c."""
    if c < 25.0:
        return log_ndtr(-c) - log_phi(c)
    return -log(c) + log(_mills_series(c))


@njit(inner=True)
def _mills_series(c):
    """c Phi(-c) / phi(c) by its asymptotic series."""
    r = 1.0 / (c * c)
    return 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r * (1.0 - 11.0 * r)))))


@njit(inner=True)
def tilted_mean(a, b, tilt):
    """ln of the integral of phi(x) exp(tilt x) over [a, b], and the mean of x under that density.

    The density is a normal around `tilt`, truncated to [a, b]. If the tilt lies outside at a distance c from the nearer
    end, the density is proportional to exp(-c u - u^2 / 2) in the distance u from that end.
    """
    if a <= tilt <= b:
        mass = log_interval(a - tilt, b - tilt)
        return 0.5 * tilt * tilt + mass, tilt + interval_mean(a - tilt, b - tilt, mass)
    end, c = (b, tilt - b) if tilt > b else (a, a - tilt)
    width = b - a
    drop = c * width + 0.5 * width * width  # infinite if the interval has no other end
    near = log_mills(c)
    lost = 0.0 if drop > 700.0 else exp(log_mills(c + width) - near - drop)
    if lost > 0.999:  # nearly flat
        log_total, offset = log(width), 0.5 * width
    else:
        log_total = near + log1p(-lost)
        remaining = 1.0 if drop > 700.0 else -expm1(-drop)
        offset = remaining * exp(-log_total) - c
        if c > 1e4:
            offset = 1.0 / c  # the difference above cancels
        offset = min(max(offset, 0.0), width)
    return tilt * end + log_phi(end) + log_total, end - offset if tilt > b else end + offset


@njit(inner=True)
def tilted_moments(a, b, tilt):
    """`tilted_mean`, and the variance of x, or a bound of it if the tilt lies outside [a, b]."""
    mass, mean = tilted_mean(a, b, tilt)
    if a <= tilt <= b:
        return mass, mean, interval_variance(a - tilt, b - tilt, mass - 0.5 * tilt * tilt, mean - tilt)
    c = tilt - b if tilt > b else a - tilt
    return mass, mean, min(1.0, 1.0 / (1.0 + c * c), 0.25 * (b - a) * (b - a))


@njit(inner=True)
def draw_tail(state, a):
    """Draw a standard normal conditioned on x > a, by rejection (Robert 1995)."""
    if a < 0.4:
        while True:
            x = normal(state)
            if x > a:
                return x
    rate = 0.5 * (a + sqrt(a * a + 4.0))
    while True:
        x = a + exponential(state) / rate
        if uniform(state) <= exp(-0.5 * (x - rate) * (x - rate)):
            return x


@njit
def draw_interval(state, a, b):
    """Draw a standard normal conditioned on [a, b], a < b."""
    if a > 0.0:
        return _draw_positive_interval(state, a, b)
    if b < 0.0:
        return -_draw_positive_interval(state, -b, -a)
    if b - a > 1.0:  # zero inside, and at least a third of the mass
        while True:
            x = normal(state)
            if a <= x <= b:
                return x
    while True:  # nearly flat
        x = a + (b - a) * uniform(state)
        if uniform(state) <= exp(-0.5 * x * x):
            return x


@njit(inner=True)
def _draw_positive_interval(state, a, b):
    """Draw for 0 < a < b: from the tail, or by a uniform proposal if the interval is short."""
    if b - a < 1.0 / (a + 1.0):
        while True:
            x = a + (b - a) * uniform(state)
            if uniform(state) <= exp(0.5 * (a - x) * (a + x)):
                return x
    while True:
        x = draw_tail(state, a)
        if x <= b:
            return x
