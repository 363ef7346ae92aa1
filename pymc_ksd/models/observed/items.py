r"""A single vector of counts by the items that were counted.

The :math:`N` items of a Multinomial vector are independent, and any order of them is as likely as
any other, so that nothing but how often every kind occurs can be told from them: comparing items is
comparing all shares with those that the model expects. In a DirichletMultinomial vector an item
depends on those before it, as balls of Pólya's urn do. Very many items are put into parcels at
random, which are vectors of counts again.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.multivariate import DirichletMultinomialRV
from pytensor.tensor.random.basic import MultinomialRV
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.models.log_density import evaluate_shapes
from pymc_ksd.models.observed.layout import Places
from pymc_ksd.models.observed.part import Part, observed_values

#: Most items that are compared one by one, and most parcels of items.
MOST_PARCELS = 100
#: By what items are put into parcels: always the same, whatever the seed of a check.
_SEED = 20160524


def items_part(model: pm.Model, rv: TensorVariable) -> Part | None:
    """Return the items of a single vector of counts, None for other variables."""
    op = rv.owner.op
    if not isinstance(op, MultinomialRV | DirichletMultinomialRV):
        return None
    (shape,) = evaluate_shapes([rv])
    counts = observed_values(model, rv).astype(np.int64)
    if np.prod(shape[:-1]) != 1 or counts.size != shape[-1] or counts.sum() < 2:
        return None
    parcels = in_parcels(counts.ravel())
    sizes = parcels.sum(axis=1)
    # Kinds have the last axis, and a single vector may have others of length one.
    shares = op.dist_params(rv.owner)[1].reshape((-1, shape[-1]))[-1]
    name = str(rv.name)
    if isinstance(op, MultinomialRV):
        items = pm.Multinomial.dist(n=sizes, p=pt.broadcast_to(shares, parcels.shape))
    else:
        earlier = np.cumsum(parcels, axis=0) - parcels
        items = pm.DirichletMultinomial.dist(n=sizes, a=shares + earlier)
    n = len(parcels)
    dim = f"{name}_{'item' if sizes.max() == 1 else 'parcel'}"
    return Part(
        name=name,
        rv=items,
        data=lambda: parcels,
        key=("items", counts.tobytes()),
        axes=(0,),
        searched=(),
        places=Places(name, np.arange(n), (dim,), {}, (n,), (0,)),
        dims=tuple(map(str, model.named_vars_to_dims.get(name, ())[-1:])) or None,
    )


def in_parcels(counts: np.ndarray) -> np.ndarray:
    """Put items into parcels at random, shape (parcels, kinds): one each, if they are few."""
    rng = np.random.default_rng(_SEED)
    total = int(counts.sum())
    n = min(total, MOST_PARCELS)
    sizes = np.full(n, total // n) + (np.arange(n) < total % n)
    rest, parcels = counts.copy(), []
    for size in sizes:
        parcels.append(rng.multivariate_hypergeometric(rest, size, method="marginals"))
        rest = rest - parcels[-1]
    return np.array(parcels)
