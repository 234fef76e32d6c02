"""Compiled loops over the facets of a cone: weights from scratch, and Karp-Luby draws.

Facet f is the row y_f = z_f - z_hat, stored sparsely: `indices[p], data[p]` for p in `indptr[f] : indptr[f + 1]`.

    gap_f = -y_f @ theta_hat,   width_f = y_f' S y_f,   b_f = gap_f sqrt(eta / width_f),   log_w_f = ln Phi(-b_f)

Its half-space is {theta : y_f @ theta > 0}, of probability Phi(-b_f) under N(theta_hat, S / eta). `rows` is the tuple
(size, indptr, indices, data). `spread` is that of the posterior: the variances of its components (one axis), or L with
S = L L' (two axes). `weight` is exp(log_w - reference); `blocks` holds its sums over blocks of `BLOCK` facets.

Functions that end in `_batch` take the facets of R replications, sizes[r] of them; their arrays have a leading
replication axis.
"""

from __future__ import annotations

import numpy as np

from combopeps.posterior.normal_tails import draw_tail, log_ndtr
from combopeps.random import fill_normals, uniform
from combopeps.utils.jit import exp, log, njit, sqrt

NEGLIGIBLE = 50.0  # nats: a term so far below the largest one cannot change a sum in double precision
BLOCK = 256  # facets per partial sum of weights
_GAP_MARGIN = 0.001  # relative; so that rounding hides no facet
_MIN_WEIGHT_RATIO = exp(-NEGLIGIBLE)  # of a facet to all of them, below which it is not evaluated
_MIN_ENTRIES_TO_LIST = 64  # entries of the facets of moved components, from which facets by weight are listed at all


def _count_weight_steps(start, stop, indptr, indices, data, theta, spread, *_):
    entries = indptr[stop] - indptr[start]
    return 3 * (stop - start) + (entries if spread.ndim == 1 else entries * len(theta))


@njit(inline="always", inner=True)  # a call takes longer than the sum of a short facet
def dot(f, indptr, indices, data, vector):
    """Return y_f @ vector."""
    total = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        total += data[p] * vector[indices[p]]
    return total


@njit(steps=_count_weight_steps)
def compute_weights(start, stop, indptr, indices, data, theta, spread, eta, gap, width, log_w):
    """Compute gaps, widths and log-weights of facets `start : stop` from scratch."""
    if spread.ndim == 1:
        for f in range(start, stop):
            g, v = 0.0, 0.0
            for p in range(indptr[f], indptr[f + 1]):
                g -= data[p] * theta[indices[p]]
                v += data[p] * data[p] * spread[indices[p]]
            gap[f], width[f] = g, v
            log_w[f] = log_ndtr(-g * sqrt(eta / v))
    else:
        d, nearest = len(theta), np.inf
        half = np.empty(d)
        for f in range(start, stop):
            g, v = 0.0, 0.0
            half[:] = 0.0  # L' y_f, of which the width is the squared norm
            for p in range(indptr[f], indptr[f + 1]):
                g -= data[p] * theta[indices[p]]
                for j in range(d):
                    half[j] += data[p] * spread[indices[p], j]
            for j in range(d):
                v += half[j] * half[j]
            gap[f], width[f] = g, v
            log_w[f] = g * sqrt(eta / v)  # b_f for now
            nearest = min(nearest, log_w[f])
        nearest = max(nearest, 0.0)
        far = sqrt(nearest * nearest + 4.0 * NEGLIGIBLE)
        for f in range(start, stop):
            b = log_w[f]
            log_w[f] = -0.5 * b * b if b > far else log_ndtr(-b)  # beyond `far` it is negligible either way


@njit(steps=lambda size, *_: 3 * size)
def log_weights_at(size, gap, width, eta, log_w):
    """Compute ln Phi(-b_f) at another eta."""
    for f in range(size):
        log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))


@njit(steps=lambda start, size, *_: size - start + BLOCK * (size > BLOCK))
def sum_weights(start, size, log_w, reference, weight, blocks):
    """Compute the weights of facets `start : size` and the sums of their blocks; return the sum of all weights.

    A loop with a running sum is not vectorised, so that exponentials are the same bits with every vector library.
    """
    for b in range(start // BLOCK, (size + BLOCK - 1) // BLOCK):
        block_total = 0.0
        for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
            if f >= start:
                weight[f] = exp(log_w[f] - reference)
            block_total += weight[f]
        blocks[b] = block_total
    total = 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        total += blocks[b]
    return total


@njit(inner=True)
def reduce_slack(f, indptr, indices, data, gap, slack):
    """Reduce `slack` to what facet f allows."""
    bound = (gap[f] - _GAP_MARGIN * abs(gap[f])) / (indptr[f + 1] - indptr[f])
    for p in range(indptr[f], indptr[f + 1]):
        side, limit = (0, bound / data[p]) if data[p] > 0.0 else (1, -bound / data[p])
        if limit < slack[side, indices[p]]:
            slack[side, indices[p]] = limit


@njit(steps=lambda size, indptr, *_: 2 * indptr[size])
def compute_slack(size, indptr, indices, data, gap, slack):
    """Compute how far each component may move, up or down, before a facet has to be evaluated.

    y_f @ (theta - theta_hat) > gap_f requires a component with y_fi (theta_i - theta_hat_i) > gap_f / |y_f|_0.
    """
    slack[:] = np.inf
    for f in range(size):
        reduce_slack(f, indptr, indices, data, gap, slack)


@njit
def exits_through_known_facets(rows, base, directions, exits, exit_facet):
    """Lower exits[r] to the s at which base + s directions[r] leaves the cone through a known facet.

    exit_facet[r] is set to the number of that facet.
    """
    size, indptr, indices, data = rows
    gap = np.empty(size)
    for f in range(size):
        gap[f] = max(0.0, -dot(f, indptr, indices, data, base))
    for r in range(len(directions)):
        for f in range(size):
            slope = dot(f, indptr, indices, data, directions[r])
            if slope > 0.0 and gap[f] < exits[r] * slope:
                exits[r], exit_facet[r] = gap[f] / slope, f


@njit(inner=True)
def pick_facet(state, size, weight, blocks, total):
    """Return a facet with probability proportional to its weight."""
    target, last = uniform(state) * total, (size + BLOCK - 1) // BLOCK - 1
    b = 0
    while b < last and target >= blocks[b]:
        target -= blocks[b]
        b += 1
    while b > 0 and blocks[b] == 0.0:  # rounding may take the target past the last weight
        b -= 1
    chosen = b * BLOCK
    for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
        if weight[f] > 0.0:
            chosen = f
            if target < weight[f]:
                break
            target -= weight[f]
    return chosen


@njit(inner=True)
def draw_in_half_space(state, f, indptr, indices, data, theta_hat, spread, eta, gap, width, theta):
    """Draw theta ~ N(theta_hat, S / eta) conditioned on y_f @ theta > 0: a free draw, then moved along S y_f."""
    sigma = sqrt(width[f] / eta)
    t = draw_tail(state, gap[f] / sigma)
    d = len(theta)
    if spread.ndim == 1:
        fill_normals(state, theta)
        for i in range(d):
            theta[i] *= sqrt(spread[i] / eta)
        move = (t - dot(f, indptr, indices, data, theta) / sigma) / sigma
        for i in range(d):
            theta[i] += theta_hat[i]
        for p in range(indptr[f], indptr[f + 1]):
            theta[indices[p]] += move * spread[indices[p]] / eta * data[p]
    else:  # with theta = theta_hat + L w the half-space is a @ w > b, a = L' y / |L' y|
        a, w = np.zeros(d), np.empty(d)
        for p in range(indptr[f], indptr[f + 1]):
            for j in range(d):
                a[j] += data[p] * spread[indices[p], j]
        along = 0.0
        fill_normals(state, w)
        for j in range(d):
            a[j] /= sqrt(width[f])
            along += a[j] * w[j]
        for j in range(d):
            w[j] = (w[j] + (t - along) * a[j]) / sqrt(eta)
        for i in range(d):
            theta[i] = theta_hat[i]
            for j in range(d):
                theta[i] += spread[i, j] * w[j]


@njit(inner=True)
def _in_box(theta, low, high):
    inside = True
    for i in range(len(theta)):
        inside &= low[i] <= theta[i] <= high[i]
    return inside


@njit(inner=True)
def _find_moved(theta, theta_hat, slack, column, moved, moved_indices):
    """List the components that have moved beyond their slack into `moved_indices`.

    Returns how many there are, and how many entries the facets that contain them have.
    """
    count, entries = 0, 0
    for i in range(len(theta)):
        shift = theta[i] - theta_hat[i]
        moved[i] = shift > slack[0, i] or -shift > slack[1, i]
        if moved[i]:
            moved_indices[count] = i
            count += 1
            entries += column[i + 1] - column[i]
    return count, entries


@njit(inner=True)
def _count_violated(count, moved_indices, moved, column, facet, indptr, indices, data, theta):
    """Count the facets with y @ theta > 0 among those that contain one of the `count` moved components.

    Each facet is evaluated at its first moved component only, so that none is counted twice.
    """
    violated = 0
    for k in range(count):
        i = moved_indices[k]
        for p in range(column[i], column[i + 1]):
            f, value, first = facet[p], 0.0, True
            for q in range(indptr[f], indptr[f + 1]):
                j = indices[q]
                if j < i and moved[j]:
                    first = False
                    break
                value += data[q] * theta[j]
            violated += first and value > 0.0
    return violated


@njit
def karp_luby(
    state,
    rows,
    index,
    theta_hat,
    spread,
    eta,
    gap,
    width,
    weight,
    blocks,
    total,
    slack,
    low,
    high,
    cap,
    scratch,
    thetas,
):
    """Fill `thetas` with draws from the posterior restricted to the union of the half-spaces (and to a box).

    Pick a facet by weight, draw theta in its half-space, keep it with probability 1 / N(theta) if it lies in the box,
    where N counts the half-spaces that contain theta. Facets that no component has moved towards are not evaluated.
    `low` of length zero means no box; `slack` of length zero means that all facets of non-negligible weight are
    evaluated. `scratch` are arrays of d booleans, d indices and one index per facet.

    Returns the number of rows filled, the number of proposals, the sum and sum of squares of 1{box} / N, and the number
    of facets evaluated.
    """
    size, indptr, indices, data = rows
    column, facet, indexed = index
    moved, moved_indices, listed = scratch
    n_listed = -1  # number of `listed` facets of non-negligible weight, once they are needed
    filled, proposals, acceptance_sum, acceptance_squares, evaluated = 0, 0, 0.0, 0.0, 0
    while total > 0.0 and filled < len(thetas) and proposals < cap:
        theta = thetas[filled]  # a rejected proposal is overwritten by the next one
        f = pick_facet(state, size, weight, blocks, total)
        draw_in_half_space(state, f, indptr, indices, data, theta_hat, spread, eta, gap, width, theta)
        proposals += 1
        if len(low) > 0 and not _in_box(theta, low, high):
            continue
        count, entries = 0, size
        if slack.shape[1] > 0:
            count, entries = _find_moved(theta, theta_hat, slack, column, moved, moved_indices)
        if n_listed < 0 and (slack.shape[1] == 0 or entries > max(_MIN_ENTRIES_TO_LIST, size // 8)):
            n_listed = 0
            for g in range(size):
                if weight[g] >= _MIN_WEIGHT_RATIO * total:
                    listed[n_listed] = g
                    n_listed += 1
        violated = 0
        # Evaluate either the facets of non-negligible weight, or those of moved components: what is fewer.
        if n_listed >= 0 and (slack.shape[1] == 0 or n_listed <= entries):
            for k in range(n_listed):
                violated += dot(listed[k], indptr, indices, data, theta) > 0.0
            evaluated += n_listed
        else:
            violated = _count_violated(count, moved_indices, moved, column, facet, indptr, indices, data, theta)
            for g in range(indexed, size):  # facets that are not in the index yet
                violated += dot(g, indptr, indices, data, theta) > 0.0
            evaluated += entries + size - indexed
        acceptance = 1.0 / max(1, violated)  # 0: rounding took theta out of the half-space of f
        acceptance_sum += acceptance
        acceptance_squares += acceptance * acceptance
        filled += uniform(state) < acceptance
    return filled, proposals, acceptance_sum, acceptance_squares, evaluated


@njit
def gaps_and_widths_batch(sizes, indptr, indices, data, theta, covariance, gap, width):
    """Compute gap = -y @ theta and width = y' C y of all facets; C is (R, d), or (R, d, d) and symmetric.

    Entries beyond the number of facets are set to an infinite gap and width 1.
    """
    d = theta.shape[1]
    for r in range(len(theta)):
        bounds, index, value, mean, spread = indptr[r], indices[r], data[r], theta[r], covariance[r]
        gap[r, sizes[r] :], width[r, sizes[r] :] = np.inf, 1.0
        for f in range(sizes[r]):
            g, v = 0.0, 0.0
            start, stop = bounds[f], bounds[f + 1]
            if covariance.ndim == 2:
                for p in range(start, stop):
                    g -= value[p] * mean[index[p]]
                    v += value[p] * value[p] * spread[index[p]]
            elif stop - start == d:  # a full row: its indices are 0 .. d-1, and skipping them halves the time
                y = value[start:stop]
                for i in range(d):
                    g -= y[i] * mean[i]
                    along = 0.5 * spread[i, i] * y[i]
                    for j in range(i):
                        along += spread[i, j] * y[j]
                    v += 2.0 * y[i] * along
            else:
                for p in range(start, stop):
                    k = index[p]
                    g -= value[p] * mean[k]
                    along = 0.5 * spread[k, k] * value[p]
                    for q in range(start, p):
                        along += spread[k, index[q]] * value[q]
                    v += 2.0 * value[p] * along
            gap[r, f], width[r, f] = g, v


@njit
def gather_rows_batch(indptr, indices, data, facet, y):
    """Write row facet[r] of replication r into y[r]; y must be zero on entry."""
    for r in range(len(facet)):
        for p in range(indptr[r, facet[r]], indptr[r, facet[r] + 1]):
            y[r, indices[r, p]] = data[r, p]


@njit
def karp_luby_batch(states, sizes, indptr, indices, data, theta_hat, spread, eta, thetas, proposals, log_p):
    """Run `karp_luby` on R^d for R replications with few facets each, all weights computed from scratch."""
    R, capacity = len(indptr), indptr.shape[1] - 1
    gap, width, log_w, weight, blocks = (
        np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(capacity), np.empty(capacity // BLOCK + 1)
    )  # fmt: skip
    for r in range(R):
        bounds, index, value, mean, scale, state = indptr[r], indices[r], data[r], theta_hat[r], spread[r], states[r]
        F = sizes[r]
        compute_weights(0, F, bounds, index, value, mean, scale, eta, gap, width, log_w)
        top, acceptance_sum = log_w[:F].max(), 0.0
        total = sum_weights(0, F, log_w, top, weight, blocks)
        for k in range(thetas.shape[1]):
            theta, accepted = thetas[r, k], False
            while not accepted:
                f = pick_facet(state, F, weight, blocks, total)
                draw_in_half_space(state, f, bounds, index, value, mean, scale, eta, gap, width, theta)
                violated = 0
                for g in range(F):
                    violated += dot(g, bounds, index, value, theta) > 0.0
                acceptance = 1.0 / max(1, violated)
                acceptance_sum += acceptance
                proposals[r] += 1
                accepted = uniform(state) < acceptance
        log_p[r] = top + log(total) + log(acceptance_sum / proposals[r])
