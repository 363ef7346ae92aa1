"""Save draws, warm-up included, and their discrepancy with the stack at hand, for the other one.

``python tests/data/save_draws.py`` writes ``draws_pymc5.nc`` or ``draws_pymc6.nc`` beside itself.
"""

from pathlib import Path

import numpy as np
import pymc as pm

from pymc_ksd import ksd

FOLDER = Path(__file__).parent


def model():
    """Return a small model with labels, a bounded variable and a simplex."""
    with pm.Model(coords={"group": ["a", "b", "c"]}) as model:
        mu = pm.Normal("mu", 0, 2, dims="group")
        sigma = pm.HalfNormal("sigma", 2)
        weights = pm.Dirichlet("weights", np.ones(3), dims="group")
        pm.Normal("y", (mu * weights).sum(), sigma, observed=[0.3, 1.1, -0.4, 0.8])
    return model


def main():
    """Sample, measure and save."""
    with model() as density:
        draws = pm.sample(
            draws=100,
            tune=60,
            chains=2,
            cores=1,
            step=pm.Slice(),
            random_seed=1,
            discard_tuned_samples=False,
            progressbar=False,
            compute_convergence_checks=False,
        )
    measures = ksd(density, draws)
    draws["posterior"].attrs["ksd"] = float(measures["ksd"])
    draws["posterior"].attrs["ess_ksd"] = float(measures["ess_ksd"])
    name = f"draws_pymc{pm.__version__.split('.')[0]}.nc"
    draws.to_netcdf(str(FOLDER / name))


if __name__ == "__main__":
    main()
