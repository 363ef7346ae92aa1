import numpy as np
import pytest

import pymc_ksd


@pytest.fixture(scope="module", params=["multinomial", "normal"])
def result(request):
    score = pymc_ksd.Score.from_callable(lambda x: -x, dim=1)
    data = np.random.default_rng(0).normal(0.4, 1, size=100)
    statistic = "linear" if request.param == "normal" else "u"
    return pymc_ksd.ksd_test(score, data, statistic=statistic, random_seed=0)


@pytest.mark.parametrize("backend", ["matplotlib", "bokeh", "plotly", "none"])
def test_plot_ksd_test_draws_every_visual_on_every_backend(result, backend):
    pc = pymc_ksd.plot_ksd_test(result, backend=backend)
    for visual in ("null", "critical_value", "statistic", "xlabel", "title"):
        assert visual in pc.viz.children, visual


def test_plot_ksd_test_shows_the_numbers(result):
    import matplotlib.pyplot as plt

    pymc_ksd.plot_ksd_test(result, backend="matplotlib")
    (axis,) = plt.gcf().axes
    positions = sorted(line.get_xdata()[0] for line in axis.lines)
    expected = sorted([float(result["critical_value"]), float(result["statistic"])])
    np.testing.assert_allclose(positions, expected)
    (histogram,) = axis.collections
    extent, null = histogram.get_datalim(axis.transData), result["null_distribution"]
    np.testing.assert_allclose([extent.x0, extent.x1], [float(null.min()), float(null.max())])
    assert "p = " in axis.get_title()
    plt.close("all")


def test_plot_ksd_test_leaves_visuals_out(result):
    pc = pymc_ksd.plot_ksd_test(result, backend="none", visuals={"title": False, "label": False})
    assert "title" not in pc.viz.children
    with pytest.raises(ValueError, match=r"`visuals` must have keys among 'null'.*got 'bars'"):
        pymc_ksd.plot_ksd_test(result, backend="none", visuals={"bars": False})


def test_plot_ksd_test_wants_a_test_result(result):
    with pytest.raises(ValueError, match="it has no variable 'null_distribution'"):
        pymc_ksd.plot_ksd_test(result.drop_vars("null_distribution"))
