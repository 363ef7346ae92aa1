"""Loops over a block of pairs of points, compiled with numba for one radial kernel at a time.

This module is a template and never imported: :mod:`pymc_ksd.kernel_code` copies it for each kernel
and puts the kernel's own code, generated from its PyTensor expression, between the marks.
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


# <profile>
@njit(**_OPTIONS)
def profile(squared, parameters):
    """Return the kernel and its first two derivatives at a squared distance."""
    return squared, squared, squared


# </profile>


@njit(**_OPTIONS)
def reduce_block(
    rows, columns, products, norms, parameters, u, small, scale, values, coordinates, sums, groups,
    position, before,
):  # fmt: skip
    """Evaluate the Stein kernel of all pairs of rows and columns and return its sum.

    Parameters
    ----------
    rows : pair of ndarray of shape (n, d)
        Points and scores of the rows.
    columns : pair of ndarray of shape (d, m)
        Those of the columns.
    products : ndarray of shape (3, n, m) or (3, 0, 0)
        Products x·y, s·t and x·t + s·y, where they are known.
    norms : tuple of ndarray
        With the products: x·x, y·y, x·s and y·t.
    parameters : tuple of float
        The kernel's parameters.
    u : ndarray of shape (n, m) or (0, 0)
        Where to put the Stein kernel.
    small, scale : ndarray of shape (n, m) or (0, 0), float
        Where to put it times a factor, in single precision and without a point's pair with itself.
    values : ndarray of shape (3, n, m) or (3, 0, 0)
        Where to put the kernel, twice its first and four times its second derivative.
    coordinates : tuple of ndarray
        Points and scores in standardised coordinates of the rows, then of the columns, and the
        squared lengths of these coordinates' unit vectors.
    sums : ndarray of shape (d,) or (0,)
        Where to add each standardised coordinate's term.
    groups : pair of ndarray
        Numbers of the rows' and of the columns' groups.
    position : int
        Which of the columns is the first row, where they are the same points, else -1.
    before : ndarray of shape (2, m) or (2, 0)
        Where to add u of the rows before each column, of all and of its own group.
    """
    x, s = rows
    y, t = columns
    n, dim = x.shape
    m = y.shape[1]
    squared, scores, cross = np.empty(m), np.empty(m), np.empty(m)
    value, first, second = np.empty(m), np.empty(m), np.empty(m)
    total = 0.0
    # A single coordinate needs no second walk along the columns.
    short = dim == 1 and not (products.shape[1] or sums.shape[0] or values.shape[1])
    for i in range(n):
        if short:
            a, b, ys, ts = x[i, 0], s[i, 0], y[0], t[0]
            for j in range(m):
                difference = a - ys[j]
                k0, k1, k2 = profile(difference * difference, parameters)
                cross[j] = k0 * (b * ts[j]) + 2 * k1 * (difference * (ts[j] - b) - 1)
                cross[j] -= 4 * k2 * (difference * difference)
        elif products.shape[1]:
            xx, xs, yy, yt = norms[0][i], norms[2][i], norms[1], norms[3]
            for j in range(m):
                squared[j] = max(xx + yy[j] - 2 * products[0, i, j], 0.0)
                scores[j] = products[1, i, j]
                cross[j] = products[2, i, j] - xs - yt[j]
        else:
            a, b, ys, ts = x[i, 0], s[i, 0], y[0], t[0]
            for j in range(m):
                difference = a - ys[j]
                squared[j] = difference * difference
                scores[j] = b * ts[j]
                cross[j] = difference * (ts[j] - b)
            for k in range(1, dim):
                a, b, ys, ts = x[i, k], s[i, k], y[k], t[k]
                for j in range(m):
                    difference = a - ys[j]
                    squared[j] += difference * difference
                    scores[j] += b * ts[j]
                    cross[j] += difference * (ts[j] - b)
        if short:
            pass
        elif sums.shape[0] or values.shape[1]:
            for j in range(m):
                value[j], slope, curve = profile(squared[j], parameters)
                first[j] = 2 * slope
                second[j] = 4 * curve
                cross[j] = (
                    value[j] * scores[j] + first[j] * (cross[j] - dim) - second[j] * squared[j]
                )
        else:
            for j in range(m):
                k0, k1, k2 = profile(squared[j], parameters)
                cross[j] = k0 * scores[j] + 2 * k1 * (cross[j] - dim) - 4 * k2 * squared[j]
        part = 0.0
        for j in range(m):
            part += cross[j]
        total += part
        if u.shape[0]:
            for j in range(m):
                u[i, j] = cross[j]
        if small.shape[0]:
            for j in range(m):
                number = cross[j] * scale
                # Next to the smallest numbers arithmetic is slow, and they add nothing.
                small[i, j] = 0.0 if abs(number) < 1e-30 else number
            if position >= 0:
                small[i, position + i] = 0.0
        if values.shape[1]:
            for j in range(m):
                values[0, i, j] = value[j]
                values[1, i, j] = first[j]
                values[2, i, j] = second[j]
        if sums.shape[0]:
            slopes = 0.0
            for j in range(m):
                slopes += first[j]
            for k in range(dim):
                a, b, ys, ts = (
                    coordinates[0][i, k], coordinates[1][i, k], coordinates[2][k], coordinates[3][k]
                )  # fmt: skip
                part = 0.0
                for j in range(m):
                    difference = a - ys[j]
                    part += value[j] * b * ts[j] + difference * (
                        first[j] * (ts[j] - b) - second[j] * difference
                    )
                sums[k] += part - slopes * coordinates[4][k]
        if before.shape[1]:
            group, others = groups[0][i], groups[1]
            for j in range(position + i + 1 if position >= 0 else 0, m):
                before[0, j] += cross[j]
                before[1, j] += cross[j] if others[j] == group else 0.0
    return total
