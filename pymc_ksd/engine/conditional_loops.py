"""Loops over a block of pairs of many samples at once, with kernels of covariates.

Like :mod:`pymc_ksd.engine.machine_loops`, to a copy of which all below the last mark is added,
this is a template and never imported. Scores are compared in double precision. Rates of counts are
compared in single precision, if their steps are not too short for it: a step up or down takes four
kernels for every pair, of which a processor evaluates twice as many at a time.
"""

import numpy as np
from numba import njit

from pymc_ksd.engine.machine_loops import _OPTIONS, exp, fill_0, parameters_0

# mypy: ignore-errors


def single_0(squared, parameters):
    """Return the kernel at a squared distance, in single precision."""
    return squared


# <added>
#: The numbers of the double exponential in single precision.
_LOG2_E_32, _LOG_2_32 = np.float32(1.4426950408889634), np.float32(0.693359375)
_LOG_2_REST_32, _UNITS_32 = np.float32(-2.12194440e-4), np.float32(12582912.0)


@njit(**{**_OPTIONS, "fastmath": {"contract"}})
def exp_single(x):
    """Return the exponential in single precision, see ``exp``."""
    bounded = np.float32(87.0) if x > np.float32(87.0) else x
    bounded = np.float32(-87.0) if bounded < np.float32(-87.0) else bounded
    shifted = bounded * _LOG2_E_32 + _UNITS_32
    power = shifted - _UNITS_32
    r = (bounded - power * _LOG_2_32) - power * _LOG_2_REST_32
    series = np.float32(1.98756915e-4)
    series = series * r + np.float32(1.3981999507e-3)
    series = series * r + np.float32(8.3334519073e-3)
    series = series * r + np.float32(4.1665795894e-2)
    series = series * r + np.float32(1.6666665459e-1)
    series = series * r + np.float32(5.0000001201e-1)
    series = series * r * r + r + np.float32(1.0)
    exponent = np.float32(shifted).view(np.int32) << 23
    value = np.int32(np.float32(series).view(np.int32) + exponent).view(np.float32)
    return np.float32(0.0) if x < np.float32(-86.0) else value


# <kernel>
@njit(**_OPTIONS)
def fill_rates_0(point, others, row, rest, u):
    """Add the term of one coordinate to the Stein kernel of a row, for steps up and down."""
    x, up, down, step = point
    ys, ups, downs, steps = others
    parameters = parameters_0(row)
    for j in range(u.shape[0]):
        apart = x - ys[j]
        both, ahead, behind = apart + (step - steps[j]), apart + step, apart - steps[j]
        far = rest[j]
        rising = ups[j] * single_0(far + both * both, parameters)
        rising -= downs[j] * single_0(far + ahead * ahead, parameters)
        falling = ups[j] * single_0(far + behind * behind, parameters)
        falling -= downs[j] * single_0(far + apart * apart, parameters)
        u[j] += up * rising - down * falling


# </kernel>


@njit(**_OPTIONS)
def weigh(i, begin, covariates, weights):
    """Fill in the kernel of covariates between a row and the columns from one on."""
    for j in range(weights.shape[0]):
        weights[j] = 0.0
    for c in range(covariates.shape[0]):
        own, others = covariates[c, i], covariates[c, begin : begin + weights.shape[0]]
        for j in range(weights.shape[0]):
            difference = own - others[j]
            weights[j] += difference * difference
    for j in range(weights.shape[0]):
        weights[j] = exp(-0.5 * weights[j])


@njit(**_OPTIONS)
def weigh_single(i, begin, covariates, weights):
    """Do the same in single precision."""
    for j in range(weights.shape[0]):
        weights[j] = 0.0
    for c in range(covariates.shape[0]):
        own, others = covariates[c, i], covariates[c, begin : begin + weights.shape[0]]
        for j in range(weights.shape[0]):
            difference = own - others[j]
            weights[j] += difference * difference
    for j in range(weights.shape[0]):
        weights[j] = exp_single(np.float32(-0.5) * weights[j])


@njit(**_OPTIONS)
def total(u):
    """Return the sum of a row."""
    part = np.float32(0.0)
    for j in range(u.shape[0]):
        part += u[j]
    return part


@njit(**_OPTIONS)
def weighted(u, w):
    """Return the sum of a row with weights."""
    part = np.float32(0.0)
    for j in range(u.shape[0]):
        part += u[j] * w[j]
    return part


@njit(**_OPTIONS)
def collect(u, w, column):
    """Add a row with weights to what the columns have part in."""
    for j in range(u.shape[0]):
        column[j] += u[j] * w[j]


@njit(**_OPTIONS)
def collect_all(u, column):
    """Add a row to what the columns have part in."""
    for j in range(u.shape[0]):
        column[j] += u[j]


@njit(**_OPTIONS)
def reduce_row(u, place, weights, outputs):
    """Add a row of one member, draw and sample to all sums.

    Parameters
    ----------
    u : ndarray of shape (m,)
        The Stein kernel.
    place : tuple of int
        The member, draw and sample, the row of the block, and the first of its columns.
    weights : tuple of ndarray
        Kernels of covariates: of all rows and columns, and of this row.
    outputs : tuple of ndarray
        Sums, and what rows and columns have part in.
    """
    k, draw, q, i, first = place
    fixed, changing = weights
    sums, rows, columns = outputs
    m, n_fixed = u.shape[0], fixed.shape[0]
    part = total(u)
    sums[k, draw, q, 0] += part
    if q == 0:
        rows[k, 0, i] += part
        collect_all(u, columns[k, 0, first : first + m])
    for c in range(n_fixed + changing.shape[0]):
        w = fixed[c, i, first : first + m] if c < n_fixed else changing[c - n_fixed, :m]
        part = weighted(u, w)
        sums[k, draw, q, c + 1] += part
        if q == 0:
            rows[k, c + 1, i] += part
            collect(u, w, columns[k, c + 1, first : first + m])


@njit(**_OPTIONS)
def compare_scores(i, begin, x, s, products):
    """Fill in squared distances of a row from columns, s·t and (x − y)·(t − s)."""
    squared, scores, cross = products
    m = squared.shape[0]
    for j in range(m):
        squared[j] = 0.0
        scores[j] = 0.0
        cross[j] = 0.0
    for k in range(x.shape[0]):
        a, b = x[k, i], s[k, i]
        ys, ts = x[k, begin : begin + m], s[k, begin : begin + m]
        for j in range(m):
            difference = a - ys[j]
            squared[j] += difference * difference
            scores[j] += b * ts[j]
            cross[j] += difference * (ts[j] - b)


@njit(**_OPTIONS)
def fill_fixed(block, covariates, fixed):
    """Fill in kernels of covariates that are the same for all draws."""
    start, stop, begin, end = block
    for c in range(fixed.shape[0]):
        for i in range(start, stop):
            weigh(i, begin, covariates[c], fixed[c, i - start, : end - begin])


@njit(**_OPTIONS)
def fill_fixed_single(block, covariates, fixed):
    """Do the same in single precision."""
    start, stop, begin, end = block
    for c in range(fixed.shape[0]):
        for i in range(start, stop):
            weigh_single(i, begin, covariates[c], fixed[c, i - start, : end - begin])


@njit(**_OPTIONS)
def add_scores(points, members, covariates, block, outputs):
    """Add up the Stein kernels of scores for all pairs of a block, of many samples.

    Parameters
    ----------
    points : tuple of ndarray of shape (draws, samples, d, n)
        Positions and scores.
    members : tuple of ndarray
        Kinds and parameters of the kernels.
    covariates : tuple of ndarray of shape (kernels, columns, n) and (kernels, draws, columns, n)
        In bandwidths, the same for all draws or not.
    block : tuple of int
        First and last row, first and last column.
    outputs : tuple of ndarray
        Sums, and what rows and columns have part in, see ``reduce_row``.
    """
    (x, s), (kinds, parameters), (same, changing) = points, members, covariates
    start, stop, begin, end = block
    size, dim = end - begin, x.shape[2]
    fixed = np.empty((same.shape[0], stop - start, size))
    fill_fixed(block, same, fixed)
    own = np.empty((changing.shape[0], size))
    squared, scores, cross, u = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    for draw in range(x.shape[0]):
        for i in range(start, stop):
            first = i + 1 if start == begin else begin
            m = end - first
            for c in range(own.shape[0]):
                weigh(i, first, changing[c, draw], own[c, :m])
            for q in range(x.shape[1]):
                products = (squared[:m], scores[:m], cross[:m])
                compare_scores(i, first, x[draw, q], s[draw, q], products)
                for k in range(kinds.shape[0]):
                    kind, row = kinds[k], parameters[k]
                    # <kernel>
                    if kind == 0:
                        fill_0(dim, row, squared[:m], scores[:m], cross[:m], u[:m])
                    # </kernel>
                    reduce_row(u[:m], (k, draw, q, i - start, first - begin), (fixed, own), outputs)


@njit(**_OPTIONS)
def add_rates(points, members, covariates, block, outputs):
    """Add up the Stein kernels of steps up and down, in single precision; see ``add_scores``.

    Points are positions, rates up and down, and the lengths of steps.
    """
    (x, ups, downs, steps), (kinds, parameters) = points, members
    same, changing = covariates
    start, stop, begin, end = block
    size, dim = end - begin, x.shape[2]
    fixed = np.empty((same.shape[0], stop - start, size), np.float32)
    fill_fixed_single(block, same, fixed)
    own = np.empty((changing.shape[0], size), np.float32)
    squared, u = np.empty(size, np.float32), np.empty(size, np.float32)
    rest = np.zeros(size, np.float32)
    for draw in range(x.shape[0]):
        for i in range(start, stop):
            first = i + 1 if start == begin else begin
            m = end - first
            for c in range(own.shape[0]):
                weigh_single(i, first, changing[c, draw], own[c, :m])
            for q in range(x.shape[1]):
                if dim > 1:
                    squared[:m] = 0.0
                    for k in range(dim):
                        for j in range(m):
                            difference = x[draw, q, k, i] - x[draw, q, k, first + j]
                            squared[j] += difference * difference
                for k in range(kinds.shape[0]):
                    kind, row = kinds[k], parameters[k]
                    u[:m] = 0.0
                    for c in range(dim):
                        a = x[draw, q, c, i]
                        if dim > 1:
                            for j in range(m):
                                difference = a - x[draw, q, c, first + j]
                                rest[j] = max(squared[j] - difference * difference, np.float32(0))
                        point = (a, ups[draw, q, c, i], downs[draw, q, c, i], steps[draw, q, c, i])
                        others = (
                            x[draw, q, c, first:end],
                            ups[draw, q, c, first:end],
                            downs[draw, q, c, first:end],
                            steps[draw, q, c, first:end],
                        )
                        # <kernel>
                        if kind == 0:
                            fill_rates_0(point, others, row, rest[:m], u[:m])
                        # </kernel>
                    reduce_row(u[:m], (k, draw, q, i - start, first - begin), (fixed, own), outputs)
