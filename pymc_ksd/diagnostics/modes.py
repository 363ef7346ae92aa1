"""Modes of a posterior, how much of it each holds, and whether draws visit them as they should."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ksd.diagnostics.mode_results import FoundModes, Visits, modes_dataset
from pymc_ksd.diagnostics.mode_starts import rough_scales, starting_points
from pymc_ksd.diagnostics.score import Score, target_of
from pymc_ksd.diagnostics.scoring import score_points
from pymc_ksd.engine.progress import progress_bar
from pymc_ksd.models.target import Target
from pymc_ksd.options import check_alpha, check_count, seeded_generator
from pymc_ksd.samples.chains import autocorrelation_time_of, autocorrelation_times
from pymc_ksd.samples.containers import holds_draws, values_of
from pymc_ksd.samples.data import checked_samples
from pymc_ksd.samples.draws import read_draws
from pymc_ksd.samples.sample import Sample
from pymc_ksd.stats.ascent import ScoreAndDensity, climb
from pymc_ksd.stats.balance import (
    Orbits,
    balanced_shares,
    effective_times,
    moves_of,
    orbits_of,
    tail_probabilities,
)
from pymc_ksd.stats.local_modes import distinct_modes
from pymc_ksd.stats.mode_shares import ROUNDS_IN_ALL, Shares, estimate_shares
from pymc_ksd.stats.zero_means import family_wise

#: Draws that are moved between modes; more are thinned.
_MOST_DRAWS = 10_000
#: Coordinates of a density whose modes are looked for.
_MOST_COORDINATES = 500
#: Steps of an ascent.
_MOST_STEPS = 300
#: The part of the mass below which a mode without draws is left out.
_NEGLIGIBLE = 1e-4
#: Draws that have to be moved for shares by balance, and the largest error these may have.
_FEWEST_MOVED, _MOST_ERROR = 50, 0.1
#: The variance of the number of draws at a mode from which on it should be told from a wrong one.
_TELLING = 10
#: By how much more than by chance draws may differ from shares that no move calls wrong.
_CONTRADICTED = 0.2
#: How many coordinates a density may have for its modes to be looked for unasked, and how many
#: numbers it may compute for one point. Some 20,000 points then take a few seconds. No clock
#: decides, which would give the same draws another level from run to run.
_CHEAP_COORDINATES, _CHEAP_NUMBERS = 50, 50_000


def ksd_modes(
    model: pm.Model | Score | None = None,
    data: Any = None,
    *,
    starts: Any = None,
    n_starts: int = 50,
    max_modes: int = 20,
    alpha: float = 0.05,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
    compile_kwargs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    r"""Find modes, estimate the share of each, and test whether draws visit them in proportion.

    A score cannot see how much mass each of several separated modes has, so that draws that have
    missed one altogether pass every test made of scores. Here modes are looked for by optimisers
    from scattered starting points, and draws are compared with what they would be after moves from
    mode to mode.

    Parameters
    ----------
    model : pm.Model, bambi.Model or Score, optional
        The model, by default the one whose context is active, or a score with a log density.
    data : DataTree, InferenceData, Dataset, array_like or mapping, optional
        A sampler's draws of all free variables, or independent points. Without them modes are found
        and nothing is tested.
    starts : array_like, mapping, DataFrame or Dataset, optional
        Points to look for modes from, on the scale of the model, beside those that are made up.
    n_starts : int, default 50
        Number of starting points that are made up: draws from the prior, where it can be sampled,
        else points around zero in unconstrained coordinates; with `data` also chain means, some
        draws, and points scattered widely around them.
    max_modes : int, default 20
        Largest number of modes.
    alpha : float, default 0.05
        Level of the test.
    random_seed : int or numpy.random.Generator, optional
        Makes the result repeatable.
    progressbar : bool, default True
        Show a progress bar when the work is long.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.

    Returns
    -------
    xarray.Dataset
        With the dim ``mode``, the one with most of the posterior first: each variable under its own
        name, where the mode is, on the scale of the model; ``place``, the same in words;
        ``log_density`` and, by ``coordinate``, ``local_sd``, both in unconstrained coordinates;
        ``share_of_posterior`` near it with its standard error ``mcse``, NaN where it cannot be
        told. With `data` also ``share_of_draws``, ``mode_p_value``, adjusted for the number of
        modes, and the scalar ``p_value``, the smallest of them. The attributes hold ``status``
        ("unknown" without `data`), with ``reason`` where it is "cannot tell", ``n_lost``, the
        number of starts from which no mode was reached, and settings.

    Notes
    -----
    Affine maps, with centre and covariance of each mode's mass, carry draws from the neighbourhood
    of one mode to those of all others. Given these points, a draw from the density is at mode k
    with a known probability, in proportion to the density there times the volume of the
    neighbourhood: the balance of moves there and back [1]_. The number of draws at a mode is
    compared with the sum of these probabilities, for modes of any shape. Autocorrelation of the
    visits counts. Shares of the posterior come from importance sampling around the modes or, where
    its weights are too uneven, from the same balance, solved for the shares [2]_.

    No mode is found that no optimiser reaches. A density that grows without bound, as that of
    hierarchical models does where a scale goes to zero, has no mode there and may have little mass.
    Permuted components of a mixture (label switching) are modes of the posterior like others.

    References
    ----------
    .. [1] Barker, A. A. (1965). Monte Carlo calculations of the radial distribution functions for a
       proton-electron plasma. Australian Journal of Physics 18, 119-133. doi:10.1071/PH650119
    .. [2] Meng, X.-L. and Schilling, S. (2002). Warp bridge sampling. Journal of Computational and
       Graphical Statistics 11, 552-586. doi:10.1198/106186002457

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import pymc_ksd
    >>> with pm.Model() as model:
    ...     mu = pm.NormalMixture("mu", w=[0.6, 0.4], mu=[-2, 4], sigma=[1, 0.5])
    >>> one_mode = np.random.default_rng(0).normal(-2, 1, size=200)
    >>> modes = pm.ksd_modes(model, one_mode, random_seed=0)
    >>> modes["mu"].values.round(1)
    array([-2.,  4.])
    >>> modes["share_of_posterior"].values.round(1)
    array([0.6, 0.4])
    >>> modes.attrs["status"]
    'rejected'
    """
    alpha = check_alpha(alpha)
    n_starts = check_count(n_starts, "n_starts", 1)
    max_modes = check_count(max_modes, "max_modes", 1)
    seed, rng = seeded_generator(random_seed)
    target = _target_with_modes(model, compile_kwargs)
    sample = None if data is None else _read(target, data)
    _check_log_density(target)
    points = starting_points(target, sample, _given(target, starts), n_starts, rng)
    with progress_bar("Looking for modes", _MOST_STEPS + ROUNDS_IN_ALL, progressbar) as bar:
        found = find_modes(target.values, points, max_modes, rng, bar.advance)
    visits = None
    if sample is not None:
        sample = _thinned(sample)
        log_densities = score_points(target, sample.points, progressbar)[1]
        found, visits = _visited(target.values, found, sample, log_densities)
    else:
        found = _with_mass(found, np.empty(0, int))
    settings = {"alpha": alpha, "n_starts": len(points), "seed": seed}
    return modes_dataset(target, sample, found, visits, settings)


def modes_if_cheap(
    model: pm.Model | Score | None,
    data: Any,
    *,
    compile_kwargs: Mapping[str, Any] | None,
    **options: Any,
) -> xr.Dataset | None:
    """Return what :func:`ksd_modes` says of a sampler's draws, where nobody asked for it.

    None where modes cannot be looked for, where that would take long, or where fewer than two are
    found, which tells nothing about the draws.
    """
    try:
        target = _target_with_modes(model, compile_kwargs)
        if not _is_cheap(target):
            return None
        found = ksd_modes(model, data, compile_kwargs=compile_kwargs, **options)
    except (ValueError, TypeError, NotImplementedError):
        return None  # whoever tests the draws says what is wrong with them
    return found if found.sizes["mode"] > 1 else None


def _is_cheap(target: Target) -> bool:
    """Whether the log densities that it takes to find modes are a matter of seconds."""
    if target.dim > _CHEAP_COORDINATES or target.numbers_computed is None:
        return False
    return target.numbers_computed() <= _CHEAP_NUMBERS


def _target_with_modes(
    model: pm.Model | Score | None, compile_kwargs: Mapping[str, Any] | None
) -> Target:
    """Return the density, unless modes cannot be looked for."""
    target = target_of(model, None, None, compile_kwargs)
    names = ", ".join(target.names)
    if target.operator != "langevin":
        raise ValueError(
            f"The variable(s) {names} are discrete and have no gradient, by which modes are found."
        )
    if target.kind == "observed":
        raise ValueError(
            "`model` must have free variables, whose modes are looked for; this one has observed "
            f"variables only ({names})."
        )
    if target.dim > _MOST_COORDINATES:
        raise ValueError(
            f"`model` must have at most {_MOST_COORDINATES} unconstrained coordinates for modes to "
            f"be looked for, because each takes their covariance, got {target.dim:,}."
        )
    if target.circular:
        raise ValueError(
            f"The variable(s) {', '.join(target.circular)} live on a circle, where moves from mode "
            "to mode depend on where it is cut open."
        )
    return target


def _check_log_density(target: Target) -> None:
    if len(target.values(np.zeros((1, target.dim)))) < 2:
        raise ValueError(
            "`model` must have a log density, without which modes cannot be compared: give "
            "`log_density` to Score.from_callable."
        )


def _given(target: Target, starts: Any) -> np.ndarray:
    """Return starting points that a user has given, one or several."""
    if starts is None:
        return np.empty((0, target.dim))
    try:
        # A sample has two points or more.
        samples = {
            name: np.repeat(values, 2, axis=0)
            for name, values in values_of(starts, target.variables).items()
        }
        return target.unconstrained(checked_samples(samples, target.variables))[::2]
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`data`", "`starts`")) from error


def _read(target: Target, data: Any) -> Sample:
    """Return a sampler's draws, or independent points."""
    if holds_draws(data):
        return read_draws(target, data)
    variables = target.variables
    return Sample(target.unconstrained(checked_samples(values_of(data, variables), variables)))


def _thinned(sample: Sample) -> Sample:
    """Return some of the draws of every chain where there are very many."""
    step = -(-sample.n_points // _MOST_DRAWS)
    chains = sample.chains[:, ::step]
    points = chains.swapaxes(0, 1).reshape(-1, chains.shape[2])
    return replace(sample, points=points, values=(), scores="model")


def find_modes(
    function: ScoreAndDensity,
    starts: np.ndarray,
    most: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda steps: None,
) -> FoundModes:
    """Find modes and how much of the density each holds.

    Parameters
    ----------
    function : callable
        Score and log density.
    starts : ndarray of shape (n, d)
        Where ascents begin.
    most : int
        Number of modes that are told apart at the most.
    rng : numpy.random.Generator
        Randomness for the shares.
    advance : callable, optional
        Is told the number of finished steps.

    Returns
    -------
    FoundModes
    """
    scales = rough_scales(starts)
    summits = climb(function, starts, scales, _MOST_STEPS, advance)
    modes, n_lost = distinct_modes(function, summits, scales, most)
    if modes.number < 2:
        shares = Shares(np.ones(modes.number), np.zeros(modes.number), True)
        return FoundModes(modes, shares, n_lost)
    modes, shares = estimate_shares(function, modes, rng, advance)
    return FoundModes(modes, shares, n_lost)


def _with_mass(found: FoundModes, visited: np.ndarray) -> FoundModes:
    """Leave out modes that are known to hold next to nothing, unless draws are there."""
    if not found.shares.are_known:
        return found
    rows = np.flatnonzero(found.shares.shares > _NEGLIGIBLE)
    return found.chosen(np.union1d(rows, visited))


def _visited(
    function: ScoreAndDensity, found: FoundModes, sample: Sample, log_densities: np.ndarray
) -> tuple[FoundModes, Visits]:
    """Compare how often draws are at each mode with how often they should be."""
    modes = found.modes
    if modes.number == 0:
        return found, Visits.of_no_test(0)
    found = _with_mass(found, np.unique(modes.nearest(sample.points)))
    modes = found.modes
    if modes.number == 1:
        return found, Visits.of_no_test(1)
    orbits = orbits_of(function, modes, sample.points, log_densities)
    if not found.shares.are_known:
        found = replace(found, shares=_shares_by_balance(orbits), by_balance=True)
    return found, _tested(orbits, found.shares, sample)


def _tested(orbits: Orbits, known: Shares, sample: Sample) -> Visits:
    """Test the number of draws at each mode."""
    n_modes = orbits.probabilities.shape[1]
    labels, within, times = sample.by_chain(orbits.nearest), 1.0, np.ones(n_modes)
    if sample.are_draws and not sample.independent:
        within = autocorrelation_time_of(_by_chain(sample, orbits.places))
        slowness = autocorrelation_times(_by_chain(sample, orbits.excess))
        times = effective_times(orbits, labels, slowness, within)
    p_values = tail_probabilities(orbits, times)
    # Of two modes the draws at one tell those at the other.
    adjusted = p_values if n_modes == 2 else family_wise(p_values)
    return Visits(
        shares=orbits.shares_of_draws(),
        p_values=adjusted,
        moves=moves_of(labels, n_modes),
        free_moves=2 * orbits.variances / within,
        information=_information(orbits, known, within),
    )


def _by_chain(sample: Sample, columns: np.ndarray) -> np.ndarray:
    """Arrange rows of numbers for each point by chain and draw."""
    return np.stack([sample.by_chain(column) for column in columns.T], axis=2)


def _information(orbits: Orbits, known: Shares, time: float) -> np.ndarray:
    """Return what moves tell, as a part of what they would if modes had one shape."""
    n, visits = len(orbits.nearest), orbits.shares_of_draws()
    if orbits.used.sum() < _FEWEST_MOVED:
        return np.zeros(len(visits))
    shares = known.shares if known.are_known else visits
    ones = np.maximum(shares * (1 - shares), visits * (1 - visits))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = orbits.variances / (n * ones)
    # Of a mode that holds next to nothing there is little to be told.
    part = np.where(n * ones / time > _TELLING, part, np.nan)
    if not known.are_known:
        return part
    # Shares that the draws contradict, without a move that would tell, are not to be relied on.
    chance = 5 * (known.errors + np.sqrt(ones * time / n))
    return np.where(np.abs(shares - visits) > _CONTRADICTED + chance, 0.0, part)


def _shares_by_balance(orbits: Orbits) -> Shares:
    """Return shares by which moves of the draws are in balance, if enough can be moved."""
    if orbits.used.sum() < _FEWEST_MOVED:
        nothing = np.full(orbits.probabilities.shape[1], np.nan)
        return Shares(nothing, nothing, False)
    shares, errors = balanced_shares(orbits)
    return Shares(shares, errors, bool((errors < _MOST_ERROR).all()))
