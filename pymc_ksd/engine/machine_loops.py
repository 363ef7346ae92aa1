"""Loops over a block of pairs of points, compiled with numba for some radial kernels at a time.

This module is a template and never imported: :mod:`pymc_ksd.engine.machine_code` copies it for each
set of kernels. What stands between two marks is repeated for every kernel, with its number in the
place of 0; a kernel's own code, generated from its PyTensor expression, replaces ``profile_0``.
"""

import numpy as np
from numba import njit

# mypy: ignore-errors
#: Results may be summed in any order, but not-a-number and infinity are kept.
_OPTIONS = {
    "fastmath": {"reassoc", "contract", "arcp", "nsz"},
    "nogil": True,
    "error_model": "numpy",
    "cache": True,
}
#: log₂ e; log 2 in two parts, the first with trailing zeros; a number whose last bits count units.
_LOG2_E, _LOG_2, _LOG_2_REST = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
_UNITS = 6755399441055744.0


@njit(**{**_OPTIONS, "fastmath": {"contract"}})
def exp(x):
    """Return the exponential with instructions that work on several numbers at once."""
    bounded = 709.0 if x > 709.0 else -709.0 if x < -709.0 else x
    shifted = bounded * _LOG2_E + _UNITS
    power = shifted - _UNITS
    r = (bounded - power * _LOG_2) - power * _LOG_2_REST
    series = 1.6059043836821613e-10
    series = series * r + 2.08767569878681e-09
    series = series * r + 2.505210838544172e-08
    series = series * r + 2.755731922398589e-07
    series = series * r + 2.7557319223985893e-06
    series = series * r + 2.48015873015873e-05
    series = series * r + 0.0001984126984126984
    series = series * r + 0.001388888888888889
    series = series * r + 0.008333333333333333
    series = series * r + 0.041666666666666664
    series = series * r + 0.16666666666666666
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    exponent = np.float64(shifted).view(np.int64) << 52
    value = np.int64(np.float64(series).view(np.int64) + exponent).view(np.float64)
    # Numbers next to the smallest would make all that follows slow.
    return 0.0 if x < -700.0 else value


# <kernel>
# <profile>
@njit(**_OPTIONS)
def profile_0(squared, parameters):
    """Return the kernel and its first two derivatives at a squared distance."""
    return squared, squared, squared


@njit(**_OPTIONS)
def parameters_0(row):
    """Return the kernel's parameters."""
    return (row[0],)


# </profile>


@njit(**_OPTIONS)
def fill_short_0(i, inputs, row, u):
    """Fill in the Stein kernel of a row where there is one coordinate, in a single walk."""
    parameters = parameters_0(row)
    a, b, ys, ts = inputs.x[i, 0], inputs.s[i, 0], inputs.y[0], inputs.t[0]
    for j in range(u.shape[0]):
        difference = a - ys[j]
        k0, k1, k2 = profile_0(difference * difference, parameters)
        u[j] = k0 * (b * ts[j]) + 2 * k1 * (difference * (ts[j] - b) - 1)
        u[j] -= 4 * k2 * (difference * difference)


@njit(**_OPTIONS)
def fill_0(dim, row, squared, scores, cross, u):
    """Fill in the Stein kernel of a row."""
    parameters = parameters_0(row)
    for j in range(u.shape[0]):
        k0, k1, k2 = profile_0(squared[j], parameters)
        u[j] = k0 * scores[j] + 2 * k1 * (cross[j] - dim) - 4 * k2 * squared[j]


@njit(**_OPTIONS)
def derive_0(row, squared, value, first, second):
    """Fill in the kernel, twice its first and four times its second derivative."""
    parameters = parameters_0(row)
    for j in range(value.shape[0]):
        value[j], slope, curve = profile_0(squared[j], parameters)
        first[j] = 2 * slope
        second[j] = 4 * curve


# </kernel>


@njit(**_OPTIONS)
def compare(i, inputs, squared, scores, cross):
    """Fill in the squared distances of a row from all columns, s·t and (x − y)·(t − s)."""
    m = squared.shape[0]
    if inputs.products.shape[1]:
        products, xx, xs, yy, yt = inputs.products, inputs.xx[i], inputs.xs[i], inputs.yy, inputs.yt
        for j in range(m):
            squared[j] = max(xx + yy[j] - 2 * products[0, i, j], 0.0)
            scores[j] = products[1, i, j]
            cross[j] = products[2, i, j] - xs - yt[j]
        return
    a, b, ys, ts = inputs.x[i, 0], inputs.s[i, 0], inputs.y[0], inputs.t[0]
    for j in range(m):
        difference = a - ys[j]
        squared[j] = difference * difference
        scores[j] = b * ts[j]
        cross[j] = difference * (ts[j] - b)
    for k in range(1, inputs.x.shape[1]):
        a, b, ys, ts = inputs.x[i, k], inputs.s[i, k], inputs.y[k], inputs.t[k]
        for j in range(m):
            difference = a - ys[j]
            squared[j] += difference * difference
            scores[j] += b * ts[j]
            cross[j] += difference * (ts[j] - b)


@njit(**_OPTIONS)
def tilt(i, inputs, scores, cross, tilted_scores, tilted_cross):
    """Fill in s·t and (x − y)·(t − s) of scores that are multiplied by factors of points."""
    m, own, factors = scores.shape[0], inputs.row_factors[i], inputs.column_factors
    along = tilted_cross  # (x − y)·s
    if inputs.products.shape[1]:
        products, xs = inputs.products, inputs.xs[i]
        for j in range(m):
            along[j] = xs - products[3, i, j]
    else:
        for j in range(m):
            along[j] = 0.0
        for k in range(inputs.x.shape[1]):
            a, b, ys = inputs.x[i, k], inputs.s[i, k], inputs.y[k]
            for j in range(m):
                along[j] += (a - ys[j]) * b
    for j in range(m):
        tilted_scores[j] = own * factors[j] * scores[j]
        tilted_cross[j] = factors[j] * (cross[j] + along[j]) - own * along[j]


@njit(**_OPTIONS)
def combine(dim, squared, products, derivatives, u):
    """Fill in the Stein kernel of a row from the kernel and its derivatives."""
    (scores, cross), (value, first, second) = products, derivatives
    for j in range(u.shape[0]):
        u[j] = value[j] * scores[j] + first[j] * (cross[j] - dim) - second[j] * squared[j]


@njit(**_OPTIONS)
def put(i, k, inputs, outputs, u):
    """Put the Stein kernel of a row where it is wanted."""
    m = u.shape[0]
    if outputs.u.shape[1]:
        for j in range(m):
            outputs.u[k, i, j] = u[j]
    if outputs.small.shape[1]:
        small = outputs.small[k, i]
        scale = inputs.scales[k] * (2.0 if inputs.position >= 0 else 1.0)
        for j in range(m):
            number = u[j] * scale
            # Next to the smallest numbers arithmetic is slow, and they add nothing.
            small[j] = 0.0 if abs(number) < 1e-30 else number
        if inputs.position >= 0:
            small[: inputs.position + i + 1] = 0.0
    if outputs.before.shape[2]:
        group, others = inputs.row_groups[i], inputs.column_groups
        for j in range(inputs.position + i + 1 if inputs.position >= 0 else 0, m):
            outputs.before[k, 0, j] += u[j]
            outputs.before[k, 1, j] += u[j] if others[j] == group else 0.0


@njit(**_OPTIONS)
def add_coordinates(i, k, inputs, outputs, value, first, second):
    """Keep the kernel's derivatives of a row, or add each coordinate's term."""
    m = value.shape[0]
    if outputs.values.shape[2]:
        for j in range(m):
            outputs.values[k, 0, i, j] = value[j]
            outputs.values[k, 1, i, j] = first[j]
            outputs.values[k, 2, i, j] = second[j]
    if outputs.sums.shape[1]:
        slopes = 0.0
        for j in range(m):
            slopes += first[j]
        for c in range(outputs.sums.shape[1]):
            a, b = inputs.standard_x[i, c], inputs.standard_s[i, c]
            ys, ts = inputs.standard_y[c], inputs.standard_t[c]
            part = 0.0
            for j in range(m):
                difference = a - ys[j]
                part += value[j] * b * ts[j] + difference * (
                    first[j] * (ts[j] - b) - second[j] * difference
                )
            outputs.sums[k, c] += part - slopes * inputs.metric[c]


@njit(**_OPTIONS)
def reduce_block(inputs, outputs):
    """Evaluate the Stein kernels of all pairs of rows and columns, and add up each.

    Parameters
    ----------
    inputs : BlockInputs
        Points, scores and what else is known, see :mod:`pymc_ksd.engine.machine_block`.
    outputs : BlockOutputs
        Arrays to fill.
    """
    n, dim = inputs.x.shape
    m = inputs.y.shape[1]
    squared, scores, cross, u = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    tilted_scores, tilted_cross = np.empty(m), np.empty(m)
    value, first, second = np.empty(m), np.empty(m), np.empty(m)
    n_members, any_tilted = inputs.kinds.shape[0], inputs.tilted.any()
    detailed = outputs.sums.shape[1] or outputs.values.shape[2]
    # A single coordinate of a single kernel needs no second walk along the columns.
    short = n_members * dim == 1 and not (inputs.products.shape[1] or detailed or any_tilted)
    for i in range(n):
        if not short:
            compare(i, inputs, squared, scores, cross)
        if any_tilted:
            tilt(i, inputs, scores, cross, tilted_scores, tilted_cross)
        for k in range(n_members):
            kind, row = inputs.kinds[k], inputs.parameters[k]
            # <kernel>
            if kind == 0:
                if short:
                    fill_short_0(i, inputs, row, u)
                elif detailed:
                    derive_0(row, squared, value, first, second)
                elif inputs.tilted[k]:
                    fill_0(dim, row, squared, tilted_scores, tilted_cross, u)
                else:
                    fill_0(dim, row, squared, scores, cross, u)
            # </kernel>
            if detailed:
                products = (tilted_scores, tilted_cross) if inputs.tilted[k] else (scores, cross)
                combine(dim, squared, products, (value, first, second), u)
            if inputs.tilted[k]:
                for j in range(m):
                    u[j] *= inputs.row_tilts[i] * inputs.column_tilts[j]
            part = 0.0
            for j in range(m):
                part += u[j]
            outputs.totals[k] += part
            put(i, k, inputs, outputs, u)
            if detailed:
                add_coordinates(i, k, inputs, outputs, value, first, second)
