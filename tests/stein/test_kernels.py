import io
from html import escape

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from rich.console import Console

from pymc_ksd import IMQ, RBF, General, Kernel, Matern52, Radial
from pymc_ksd.compilation import compile_function
from pymc_ksd.stein.custom_kernels import get_kernel


def rational_quadratic(squared_distance, bandwidth, alpha):
    return (1 + squared_distance / (2 * alpha * bandwidth**2)) ** (-alpha)


KERNELS = [
    RBF(),
    IMQ(),
    IMQ(-0.3),
    Matern52(),
    Radial(rational_quadratic, alpha=0.7),
    RBF() + 0.5 * IMQ(bandwidth=2.0),
]


def profile_functions(kernel):
    squared = pt.dvector("squared")
    parameters = [pt.dscalar() for _ in kernel.parameter_values(1.0)]
    outputs = [
        kernel.profile(squared, parameters),
        *kernel.profile_derivatives(squared, parameters),
    ]
    function = compile_function([squared, *parameters], outputs)
    numbers = [np.asarray(value) for value in kernel.parameter_values(1.4)]
    return lambda values: function(values, *numbers)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_profile_derivatives_match_finite_differences(kernel):
    evaluate = profile_functions(kernel)
    squared = np.array([0.05, 0.3, 1.0, 4.0, 20.0])
    step = 1e-5
    below, at, above = (evaluate(squared + shift) for shift in (-step, 0, step))
    np.testing.assert_allclose(at[1], at[0], rtol=1e-14)
    # Central differences: the error is step² times a third derivative, plus rounding / step.
    np.testing.assert_allclose(at[2], (above[1] - below[1]) / (2 * step), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(at[3], (above[2] - below[2]) / (2 * step), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_profile_derivatives_at_zero_distance_are_limits(kernel):
    evaluate = profile_functions(kernel)
    at_zero, nearby = evaluate(np.zeros(1)), evaluate(np.full(1, 1e-12))
    # The second derivative of Matérn 5/2 approaches its limit like the distance, here 1e-6.
    np.testing.assert_allclose(at_zero, nearby, rtol=1e-5)


@pytest.mark.parametrize("kernel", [IMQ(), Matern52()], ids=repr)
def test_profile_derivatives_closed_form_matches_differentiation(kernel):
    squared = pt.dvector("squared")
    parameter = pt.dscalar()
    closed = kernel.profile_derivatives(squared, [parameter])
    by_pytensor = Kernel.profile_derivatives(kernel, squared, [parameter])
    function = compile_function([squared, parameter], [*closed, *by_pytensor])
    results = function(np.array([0.1, 1.0, 9.0]), np.asarray(0.8))
    np.testing.assert_allclose(results[:3], results[3:], rtol=1e-12)


def test_kernel_sum_flattens_and_weights():
    kernel = 2.0 * (RBF() + 0.5 * IMQ()) + Matern52(bandwidth=3)
    assert repr(kernel) == "2 * RBF() + IMQ() + Matern52(bandwidth=3)"
    assert kernel.radial
    assert kernel.parameter_values(0.5) == (2.0, -2.0, 1.0, 0.5, 1.0, 3.0)
    assert not (RBF() + General(lambda x, y: pt.dot(x, y))).radial


def test_kernel_structure_ignores_numbers():
    assert RBF().structure == RBF(bandwidth=2).structure
    assert IMQ(-0.3).structure == IMQ(-0.4).structure != IMQ().structure
    assert (RBF() + 0.1 * IMQ()).structure == (RBF() + 0.2 * IMQ(bandwidth=3)).structure


def test_general_kernel_must_return_a_scalar():
    kernel = General(lambda x, y: x * y, name="product")
    x = pt.dvector()
    with pytest.raises(ValueError, match=r"'product' must return a scalar .* got 1 dimension"):
        kernel.expression(x, x, [])


@pytest.mark.parametrize(
    ("kernel", "meaning"),
    [
        (RBF(), "exp(−r² / 2h²), r = |x − y|, h chosen by the test"),
        (IMQ(-0.3, bandwidth=2), "(1 + r² / h²)^-0.3, r = |x − y|, h = 2"),
        (
            Matern52(),
            "(1 + a + a²/3) exp(−a), a = √5 r/h, r = |x − y|, h chosen by the test",
        ),
        (
            RBF() + 0.5 * IMQ(),
            "exp(−r² / 2h²) + 0.5 · (1 + r² / h²)^-0.5, r = |x − y|, h chosen by the test",
        ),
        (
            RBF(bandwidth=1) + 0.5 * RBF(),
            "exp(−r² / 2h²), r = |x − y|, h = 1; plus 0.5 · "
            "exp(−r² / 2h²), r = |x − y|, h chosen by the test",
        ),
        (Radial(lambda r2: pt.exp(-r2), name="own"), "own(r²), r = |x − y|"),
        (General(lambda x, y: pt.dot(x, y), name="<i>"), "<i>(x, y)"),
    ],
    ids=str,
)
def test_kernels_show_their_formula_and_bandwidth(kernel, meaning):
    assert kernel.meaning == meaning
    assert kernel._repr_html_().endswith(escape(meaning))
    console = Console(file=io.StringIO(), width=300)
    console.print(kernel)
    assert console.file.getvalue().rstrip() == f"{kernel!r}  {meaning}"


def test_get_kernel_accepts_names_objects_and_functions():
    assert isinstance(get_kernel("IMQ"), IMQ)
    assert isinstance(get_kernel(Matern52), Matern52)
    kernel = RBF()
    assert get_kernel(kernel) is kernel
    assert isinstance(get_kernel(lambda x, y: pt.dot(x, y)), General)


def test_get_kernel_lists_the_valid_names():
    with pytest.raises(ValueError, match=r"`kernel` must be one of 'rbf', 'imq', 'matern52'.*'x'"):
        get_kernel("x")
    with pytest.raises(TypeError, match=r"`kernel` must be a name.*got int"):
        get_kernel(3)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: RBF(bandwidth=0), ValueError, "`bandwidth` must be positive and finite, got 0"),
        (lambda: RBF(bandwidth="wide"), TypeError, "`bandwidth` must be a number, got str"),
        (lambda: IMQ(0.5), ValueError, "`beta` must lie strictly between -1 and 0, got 0.5"),
        (lambda: -1.0 * RBF(), ValueError, "`weight` must be positive and finite, got -1.0"),
        (lambda: Radial(3), TypeError, "`function` must be callable, got int"),
        (
            lambda: Radial(lambda r2: pt.exp(-r2), bandwidth=2, name="fixed"),
            ValueError,
            "'fixed' has no argument of that name",
        ),
    ],
)
def test_kernel_bad_arguments(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_kernels_leave_the_global_mode_alone():
    assert pytensor.config.mode in ("Mode", "NUMBA", "CVM")
