"""How graphs become functions of NumPy."""

from decimal import Decimal, localcontext

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.elemwise import Elemwise
from scipy import special

from pymc_ksd.compilation import compile_function, replaced_in


def exact(sign, x):
    """Return the logarithm of one plus or minus an exponential, with 400 digits on the way."""
    with localcontext(prec=400):
        return float((1 + sign * Decimal(float(x)).exp()).ln())


@pytest.mark.parametrize(
    ("write", "sign", "values", "slope"),
    [
        (pt.softplus, 1, [-700.0, -40, -1, 0, 2, 20, 800], special.expit),
        (pt.log1mexp, -1, [-700.0, -40, -1, -0.5, -1e-10], lambda x: -1 / np.expm1(-x)),
    ],
)
def test_functions_that_numpy_lacks_are_written_with_others(write, sign, values, slope):
    """PyTensor would call them once for every element, a thousand times as slowly."""
    x = pt.vector("x")
    graph = write(x)
    assert isinstance(graph.owner.op.scalar_op, Log1mexp | Softplus)
    function = compile_function([x], [graph, pt.grad(graph.sum(), x)])
    values = np.array(values)
    found, found_slope = function(values)
    np.testing.assert_allclose(found, [exact(sign, one) for one in values], rtol=1e-14)
    np.testing.assert_allclose(found_slope, slope(values), rtol=1e-9)
    nodes = function.maker.fgraph.apply_nodes
    kinds = [type(node.op.scalar_op) for node in nodes if isinstance(node.op, Elemwise)]
    assert kinds
    assert not {Log1mexp, Softplus} & set(kinds)


def test_log_likelihood_of_log_odds_is_that_of_scipy():
    logits = pt.matrix("logits")
    function = compile_function([logits], -pt.softplus(-logits))
    values = np.random.default_rng(0).normal(scale=30, size=(40, 3))
    np.testing.assert_allclose(function(values), special.log_expit(values), rtol=1e-13)


def test_replaced_in_keeps_what_is_not_replaced():
    x, y, z = pt.scalars("x", "y", "z")
    scale = 2 * x
    same, other, both = replaced_in([y, x + 1, scale + 3 * scale * x], {x: z, scale: y})
    assert same is y
    function = compile_function([y, z], [other, both])
    np.testing.assert_allclose(function(np.array(5.0), np.array(2.0)), [3.0, 35.0])
