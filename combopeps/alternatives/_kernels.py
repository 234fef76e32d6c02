"""Compiled loops over the facets of a cone: weights, Karp-Luby draws, information matrices.

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
_MIN_WIDTH_RATIO = 1e-6  # new width over old: below it, too many digits have cancelled
_MIN_WEIGHT_RATIO = exp(-NEGLIGIBLE)  # of a facet to all of them, below which it is not evaluated
_MIN_ENTRIES_TO_LIST = 64  # entries of the facets of moved components, from which facets by weight are listed at all


@njit(cache=True, nogil=True, inline="always")  # a call takes longer than the sum of a short facet
def dot(f, indptr, indices, data, vector):
    """Return y_f @ vector."""
    total = 0.0
    for p in range(indptr[f], indptr[f + 1]):
        total += data[p] * vector[indices[p]]
    return total


@njit(cache=True, nogil=True)
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
        far = sqrt(max(nearest, 0.0) ** 2 + 4.0 * NEGLIGIBLE)
        for f in range(start, stop):
            b = log_w[f]
            log_w[f] = -0.5 * b * b if b > far else log_ndtr(-b)  # beyond `far` it is negligible either way


@njit(cache=True, nogil=True)
def log_weights_at(size, gap, width, eta, log_w):
    """Compute ln Phi(-b_f) at another eta."""
    for f in range(size):
        log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))


@njit(cache=True, nogil=True)
def sum_weights(start, size, log_w, reference, weight, blocks):
    """Compute the weights of facets `start : size` and the sums of their blocks; return the sum of all weights."""
    for f in range(start, size):
        weight[f] = exp(log_w[f] - reference)
    for b in range(start // BLOCK, (size + BLOCK - 1) // BLOCK):
        blocks[b] = weight[b * BLOCK : min(size, (b + 1) * BLOCK)].sum()
    return blocks[: (size + BLOCK - 1) // BLOCK].sum()


@njit(cache=True, nogil=True)
def update_weights(
    theta, variance, last_theta, last_variance, column, facet, value, rows, eta, gap, width, log_w, reference, weight,
    blocks, stale, slack,
):  # fmt: skip
    """Update gaps, widths and weights after a change of some components; return the sum of all weights.

    `last_theta` and `last_variance` hold the values of the last call; `column, facet, value` is the transpose of the
    rows. `stale` marks blocks whose sums are to be recomputed.
    """
    size, indptr, indices, data = rows
    for i in range(len(theta)):
        shift, growth = theta[i] - last_theta[i], variance[i] - last_variance[i]
        if shift == 0.0 and growth == 0.0:
            continue
        last_theta[i], last_variance[i] = theta[i], variance[i]
        for p in range(column[i], column[i + 1]):
            f, v = facet[p], value[p]
            gap[f] -= v * shift
            old_width, width[f] = width[f], width[f] + v * v * growth
            if width[f] < _MIN_WIDTH_RATIO * old_width:
                gap[f], width[f] = 0.0, 0.0
                for q in range(indptr[f], indptr[f + 1]):
                    j = indices[q]
                    gap[f] -= data[q] * last_theta[j]
                    width[f] += data[q] * data[q] * last_variance[j]
            log_w[f] = log_ndtr(-gap[f] * sqrt(eta / width[f]))
            weight[f] = exp(log_w[f] - reference)
            stale[f // BLOCK] = True
            if slack.shape[1] > 0:
                _reduce_slack(f, indptr, indices, data, gap, slack)
    total = 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        if stale[b]:
            blocks[b] = weight[b * BLOCK : min(size, (b + 1) * BLOCK)].sum()
            stale[b] = False
        total += blocks[b]
    return total


@njit(cache=True, nogil=True)
def _reduce_slack(f, indptr, indices, data, gap, slack):
    """Reduce `slack` to what facet f allows."""
    bound = (gap[f] - _GAP_MARGIN * abs(gap[f])) / (indptr[f + 1] - indptr[f])
    for p in range(indptr[f], indptr[f + 1]):
        side, limit = (0, bound / data[p]) if data[p] > 0.0 else (1, -bound / data[p])
        if limit < slack[side, indices[p]]:
            slack[side, indices[p]] = limit


@njit(cache=True, nogil=True)
def compute_slack(size, indptr, indices, data, gap, slack):
    """Compute how far each component may move, up or down, before a facet has to be evaluated.

    y_f @ (theta - theta_hat) > gap_f requires a component with y_fi (theta_i - theta_hat_i) > gap_f / |y_f|_0.
    """
    slack[:] = np.inf
    for f in range(size):
        _reduce_slack(f, indptr, indices, data, gap, slack)


@njit(cache=True, nogil=True)
def information(rows, weight, width, out):
    """Compute sum_f weight_f y_f y_f' / width_f into `out`; the diagonal only if `out` has one axis."""
    out[:] = 0.0
    for f in range(rows[0]):
        if weight[f] > 0.0:
            _add_outer_product(f, rows, weight[f] / width[f], out)


@njit(cache=True, nogil=True)
def sampled_information(rows, weight, blocks, total, width, shift, picks, out):
    """Estimate `information` from `picks` facets, drawn in proportion to their weights by systematic sampling.

    The points are (shift + k) total / picks, k = 0, 1, ..., on the cumulative weights.
    """
    size, out[:] = rows[0], 0.0
    step = total / picks
    target, reached = shift * step, 0.0
    for b in range((size + BLOCK - 1) // BLOCK):
        if reached + blocks[b] <= target:
            reached += blocks[b]
            continue
        for f in range(b * BLOCK, min(size, (b + 1) * BLOCK)):
            reached += weight[f]
            while target < reached:
                _add_outer_product(f, rows, 1.0 / width[f], out)
                target += step


@njit(cache=True, nogil=True)
def _add_outer_product(f, rows, factor, out):
    """Add factor y_f y_f' to `out`, or its diagonal."""
    _, indptr, indices, data = rows
    for p in range(indptr[f], indptr[f + 1]):
        if out.ndim == 1:
            out[indices[p]] += factor * data[p] * data[p]
        else:
            for q in range(indptr[f], indptr[f + 1]):
                out[indices[p], indices[q]] += factor * data[p] * data[q]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _in_box(theta, low, high):
    inside = True
    for i in range(len(theta)):
        inside &= low[i] <= theta[i] <= high[i]
    return inside


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _count_violated(moved_indices, moved, column, facet, indptr, indices, data, theta):
    """Count the facets with y @ theta > 0 among those that contain a moved component.

    Each facet is evaluated at its first moved component only, so that none is counted twice.
    """
    violated = 0
    for i in moved_indices:
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


@njit(cache=True, nogil=True)
def karp_luby(
    state, rows, index, theta_hat, spread, eta, gap, width, weight, blocks, total, slack, low, high, cap, thetas
):
    """Fill `thetas` with draws from the posterior restricted to the union of the half-spaces (and to a box).

    Pick a facet by weight, draw theta in its half-space, keep it with probability 1 / N(theta) if it lies in the box,
    where N counts the half-spaces that contain theta. Facets that no component has moved towards are not evaluated.
    `low` of length zero means no box; `slack` of length zero means that all facets of non-negligible weight are
    evaluated.

    Returns the number of rows filled, the number of proposals, the sum and sum of squares of 1{box} / N, and the number
    of facets evaluated.
    """
    size, indptr, indices, data = rows
    column, facet, indexed = index
    d = len(theta_hat)
    moved, moved_indices = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.int64)
    listed, n_listed = np.empty(0, np.int64), -1  # facets of non-negligible weight, once they are needed
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
            listed, n_listed = np.empty(size, dtype=np.int64), 0
            for g in range(size):
                if weight[g] >= _MIN_WEIGHT_RATIO * total:
                    listed[n_listed] = g
                    n_listed += 1
        violated = 0
        # Evaluate either the facets of non-negligible weight, or those of moved components: what is fewer.
        if n_listed >= 0 and (slack.shape[1] == 0 or n_listed <= entries):
            for g in listed[:n_listed]:
                violated += dot(g, indptr, indices, data, theta) > 0.0
            evaluated += n_listed
        else:
            violated = _count_violated(moved_indices[:count], moved, column, facet, indptr, indices, data, theta)
            for g in range(indexed, size):  # facets that are not in the index yet
                violated += dot(g, indptr, indices, data, theta) > 0.0
            evaluated += entries + size - indexed
        acceptance = 1.0 / max(1, violated)  # 0: rounding took theta out of the half-space of f
        acceptance_sum += acceptance
        acceptance_squares += acceptance * acceptance
        filled += uniform(state) < acceptance
    return filled, proposals, acceptance_sum, acceptance_squares, evaluated


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def gather_rows_batch(indptr, indices, data, facet, y):
    """Write row facet[r] of replication r into y[r]; y must be zero on entry."""
    for r in range(len(facet)):
        for p in range(indptr[r, facet[r]], indptr[r, facet[r] + 1]):
            y[r, indices[r, p]] = data[r, p]


@njit(cache=True, nogil=True)
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
