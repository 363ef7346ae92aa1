"""How much work a log density is, counted in its graph, against counts by hand."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.op import Op

from pymc_ksd import compile_score
from pymc_ksd.models.operations import numbers_computed


class BlackBox(Op):
    """The square of a number, of which nobody sees how it is computed."""

    itypes = otypes = (pt.dscalar,)

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] ** 2)


def test_numbers_are_those_of_all_operations_that_depend_on_the_inputs():
    x = pt.dvector("x", shape=(7,))
    constant = pt.exp(pt.as_tensor(np.ones(7))).sum()
    # Seven exponentials, products and sums each, and one total; what is constant is computed once.
    assert numbers_computed((pt.exp(x) * 2.0 + constant).sum(), {x: (7,)}) == 22
    # Shapes that the graph leaves open are those of the inputs.
    free = pt.dvector("free")
    assert numbers_computed((pt.exp(free) * 2.0).sum(), {free: (7,)}) == 15


def test_loops_count_a_hundredfold_and_black_boxes_cannot_be_counted():
    x = pt.dscalar("x")
    steps = pytensor.scan(
        lambda before: before + x,
        outputs_info=[x],
        n_steps=20,
        return_updates=False,
    )
    assert 100 * 20 <= numbers_computed(steps.sum(), {x: ()}) <= 100 * 20 * 5
    assert numbers_computed(BlackBox()(x) + 1.0, {x: ()}) == np.inf


@pytest.mark.parametrize("exchangeable", [False, True])
def test_numbers_of_a_model_grow_with_its_data(exchangeable):
    def computed(n):
        with pm.Model() as model:
            mu = pm.Normal("mu")
            data = np.zeros(n)
            pm.Normal("y", mu, 1.0, observed=pm.Data("data", data) if exchangeable else data)
        return compile_score(model)._target.numbers_computed()

    # Minus the mean, divided, squared, and so on.
    assert 4 <= (computed(1_010) - computed(10)) / 1_000 <= 12
    assert computed(10) == computed(10)
