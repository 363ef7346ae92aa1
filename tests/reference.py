"""Slow implementations written from the formulas alone; they share no code with the package."""

import numpy as np


def rbf(x, y, h):
    """k, its gradients and its mixed second derivatives, one pair of points."""
    difference = x - y
    k = np.exp(-difference @ difference / (2 * h**2))
    return (
        k,
        -difference / h**2 * k,
        difference / h**2 * k,
        k * (1 / h**2 - difference**2 / h**4),
    )


def imq(x, y, h, beta=-0.5):
    difference = x - y
    base = 1 + difference @ difference / h**2
    gradient = 2 * beta * difference / h**2 * base ** (beta - 1)
    mixed = -2 * beta / h**2 * base ** (beta - 1) - 4 * beta * (
        beta - 1
    ) * difference**2 / h**4 * base ** (beta - 2)
    return base**beta, gradient, -gradient, mixed


def matern52(x, y, h):
    difference = x - y
    r = np.sqrt(difference @ difference)
    a = np.sqrt(5) * r / h
    k = (1 + a + a**2 / 3) * np.exp(-a)
    # dk/dr = -(5 r / 3 h²)(1 + a) exp(-a); gradients follow from r's own.
    slope = -5 / (3 * h**2) * (1 + a) * np.exp(-a)
    curvature = 25 / (3 * h**4) * np.exp(-a)
    return k, slope * difference, -slope * difference, -slope - curvature * difference**2


def stein_coordinates(kernel, x, s, y, t, h):
    """Every coordinate's term of the Stein kernel of one pair."""
    k, kx, ky, mixed = kernel(x, y, h)
    return s * t * k + s * ky + t * kx + mixed


def stein_matrix(kernel, x, s, h):
    """All n × n × d terms, by a double loop."""
    n = len(x)
    terms = np.empty((n, n, x.shape[1]))
    for i in range(n):
        for j in range(n):
            terms[i, j] = stein_coordinates(kernel, x[i], s[i], x[j], s[j], h)
    return terms


def u_statistic(u):
    n = len(u)
    return sum(u[i, j] for i in range(n) for j in range(n) if i != j) / (n * (n - 1))


def v_statistic(u):
    return u.sum() / len(u) ** 2
