"""Covariates in units in which they can be compared."""

import numpy as np
import pytest

from pymc_ksd.samples.covariates import Column


@pytest.mark.parametrize("labels", [False, True])
def test_numbers_far_from_zero_stay_apart_in_single_precision(labels):
    """As times in seconds since 1970 do, of which single precision knows every 128th."""
    values = 1.7e9 + np.arange(400) * (1 if labels else 1.5)
    scaled = Column("time", values, labels).scaled()
    near = Column("time", values - 1.7e9, labels).scaled()
    np.testing.assert_allclose(scaled, near, atol=1e-7)
    assert len(np.unique(scaled.astype(np.float32))) == 400
