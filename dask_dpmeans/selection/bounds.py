"""Lower bounds of the objective: how far above the best clusters a fit can be.

A bound is a proof: no clusters of these rows cost less, rounding included.  The highest of several
counts (`methods.lower_bound.bounds`).
"""

import math
import os
import warnings
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans.api.description import fingerprint
from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.api.prediction import rows_at
from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError, LockLostError, warn
from dask_dpmeans.estimators.bounded import gap_of
from dask_dpmeans.estimators.checked_rows import rows_of
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.geography import place_map
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.lower_bound.bounds import Fitted, clusters_at, highest
from dask_dpmeans.methods.lower_bound.micro_prices import fitted_micro
from dask_dpmeans.methods.lower_bound.row_prices import MOST_AXES, NOTHING
from dask_dpmeans.registry import has_bound
from dask_dpmeans.selection.commands import sources as paths_of
from dask_dpmeans.sources import RowSource, Stored, check_option_names, one_blas_thread
from dask_dpmeans.storage import Result
from dask_dpmeans.storage.location import AnyPlace, Location
from dask_dpmeans.storage.lock import only_job
from dask_dpmeans.storage.run_store import RunStore

MOST_NUMBERS = 2**27
"""Numbers, rows times columns, that are held in memory: 1 GB."""
SAME = 1e-5
"""Objectives that differ by a greater share are not of the same rows."""
NOT_WRITTEN = OSError, InputError, LockLostError
"""Errors of a run that cannot be written, or at which another job is at work: the bound is true all the same."""
MANY_ROWS = 2**15
"""More rows in few columns are known by their micro-clusters alone."""


@dataclass(frozen=True)
class LowerBound:
    """Result of `lower_bound`."""

    value: float
    """No clusters of these rows have a lower objective."""
    objective: float
    """Objective of the fitted centers on these rows."""
    n_clusters: int
    """Number of fitted centers."""
    method: str
    """Where the bound is from: a name in `BOUNDS`."""
    cluster_gaps: tuple[float, ...] | None = None
    """(k,), parts of the fitted clusters in `objective` - `value`: what each one costs less the prices
    that its rows pay.  None if the bound is not from prices of rows in up to four columns."""

    @property
    def gap(self) -> float:
        """How far the objective can be above the lowest one, over the lowest one, at most.

        Infinite if nothing is proved.
        """
        return gap_of(self.objective, self.value)


def lower_bound(
    model: Any,
    X: ArrayLike | AnyPlace | None = None,
    sample_weight: ArrayLike | AnyPlace | None = None,
    **where: Unpack[Stored],
) -> LowerBound:
    """Return a proved lower bound of the objective, and how far above it a fit is.

    No clusters of these rows have inertia + penalty * k below the bound, whatever their number.
    The rounding of all that is computed is part of the proof.

    Up to four columns, *prices of rows* are mostly within .1 % of the optimum: if each row pays a
    price such that no center anywhere gains more than the penalty, all rows together pay at most
    the optimum.  This is the dual of a linear program with a column for each possible cluster (du
    Merle, Hansen, Jaumard & Mladenovic 1999); boxes of centers prove the prices.  More than 32,768
    rows are read in two passes, and known by the moments of about as many micro-clusters, with an
    upper bound of what their rows gain (Scarf 1958).  Of more columns the four main axes are
    taken, of rows in memory.  Up to 131,072 rows of any number of columns, the *relaxation* of
    Peng & Wei (2007) with a price is solved, of all rows up to about 860, else of pieces of some
    430 to 690 rows, side by side.  It has cuts and branching as in Piccialli, Sudoso & Wiegele
    (2022) and pieces as in Croella, Piccialli & Sudoso (2025), and takes some 10 ms of a processor
    for each row of pieces.  The highest bound counts; of more than 1,500 rows the first one whose gap
    is at most 5 %.  More than 131,072 rows of many columns have only a low bound, more than 3,000
    clusters often none but the penalty.  All bounds begin with a search from the fitted centers.

    The result is the same, to the byte, for any chunking, threads and workers.  A run keeps the
    bound of its rows: a second call reads it.  If a call for more than 32,768 rows is stopped, the
    next one continues from the passes and prices that it saved.  A model has the bound of its own
    rows in `lower_bound_`, `gap_` and `cluster_gaps_` until the next fit.

    Parameters
    ----------
    model : fitted `DPMeans`, or path or URL of its run
        With one price for each cluster, no outliers, no missing values and no other divergence than
        squared distances.  With the metrics "cosine" and "haversine" the bound is of centers
        anywhere, also inside of the sphere: true, and near if clusters are small on it.
    X : (n, d) rows as for `DPMeans.fit`, or a path or URL; for a run, its own rows by default
    sample_weight : (n,), optional, weights >= 0; for a run, its own weights by default
    **where : client, threads, memory_limit, on_pass, storage_options, as for `dask_dpmeans.fit`

    Returns
    -------
    LowerBound

    Raises
    ------
    InputError
        The model has another objective, its rows are not given, or they have more than four columns
        and 134,217,728 numbers: then give a sample of them, fitted at a penalty smaller in proportion.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import DPMeans, lower_bound
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    >>> model = DPMeans(penalty=4.0, search=True).fit(X)
    >>> found = lower_bound(model, X)
    >>> model.objective_, round(found.value, 5), found.gap < 1e-6
    (9.0, 9.0, True)
    """
    check_option_names("lower_bound", where, Stored)
    result = None
    if isinstance(model, str | os.PathLike | Location | LoadedRun):
        run = model
        if not isinstance(run, LoadedRun):
            run = open_run(run, where.get("storage_options"))
        model, result = run.model, run.result
        known = result.store.bound()
        if known is not None and X is None and sample_weight is None:
            return LowerBound(**known)
        X, sample_weight = _rows_of_run(result, X, sample_weight)
    if not hasattr(model, "fit"):
        raise InputError(
            f"model must be a fitted DPMeans, or the path of its run, got {describe_value(model, 40)}: "
            "the rows come after it"
        )
    check_is_fitted(model)
    penalty = _penalty(model)
    if X is None:
        raise InputError("X must be given: the rows that the model was fitted to")
    places = place_map(model.metric)
    seen = model
    if places is not None:  # the rows of the fit are degrees
        seen = copy(model)
        seen.features_ = None
    given = rows_of(X, seen, sample_weight, **where)
    source = given if places is None else places.fit(given, 0).source
    store = None  # of a run that may be written, if these are its rows
    if result is not None and not result.store.location.read_only:
        same = fingerprint(given.summary) == result.manifest.input.fingerprint
        store = result.store if same else None
    if store is not None:
        source = replace(source, checkpoints=BoundCheckpoints(store))
    found = _bound_of(source, model._centers().values, penalty)
    if math.isclose(found.objective, model.objective_, rel_tol=SAME):
        model._set_bound(found.value, found.objective, found.cluster_gaps)
    if store is not None:
        _keep(store, found)
    return found


@dataclass(frozen=True)
class BoundCheckpoints:
    """The passes and prices of a bound that a finished run keeps until the bound is known."""

    store: RunStore

    def load(self, name: str) -> bytes | None:
        """Return the checkpoint of this name; None if there is none."""
        return self.store.steps.checkpoints().load(name)

    def save(self, name: str, content: bytes) -> None:
        """Write a checkpoint, if the run can be written and no other job is at work on it."""
        with suppress(*NOT_WRITTEN), only_job(self.store.location) as lock:
            if self.store.finished():
                self.store.steps.checkpoints(lock.holder).save(name, content)


def _keep(store: RunStore, found: LowerBound) -> None:
    """Write a bound into a run, or warn that it is not kept."""
    try:
        store.write_bound(asdict(found))
    except NOT_WRITTEN as error:
        warn(f"the bound is not kept in {store.shown}: {error}")


def _bound_of(source: RowSource, centers: Float64Array, penalty: float) -> LowerBound:
    """Return the highest bound for some rows, and how far centers, (k, d), are above it."""
    n, d = source.plan.n_rows, centers.shape[1]
    if n > MANY_ROWS and d <= MOST_AXES:
        return _bound_of_many(source, centers, penalty)
    if n * d > MOST_NUMBERS:
        raise InputError(
            f"X has {n:,} x {d:,} numbers, and a lower bound takes {MOST_NUMBERS:,} in memory at most "
            f"of more than {MOST_AXES} columns: give a sample of the rows, and a fit of it at a penalty "
            "smaller in proportion"
        )
    gathered = source.fold(Gather(), name="gather")
    with one_blas_thread():
        return _highest(clusters_at(gathered.rows, gathered.weights, penalty, centers, source))


def _bound_of_many(source: RowSource, centers: Float64Array, penalty: float) -> LowerBound:
    """Return the bound by prices of micro-clusters, in two passes over the rows."""
    fitted = fitted_micro(source, centers, penalty)
    if fitted is None:
        raise InputError(
            "squared distances of X times weights are beyond the range of float64: scale its columns or weights"
        )
    micro = fitted.micro
    with one_blas_thread():
        better = _better(micro.rows, micro.weights, fitted.penalty, fitted.centers)
        found = source.here(partial(fitted.prices, better), "prices")
    figures = fitted.objective, len(centers)
    if found.value <= penalty or found.paid is None:
        return LowerBound(penalty, *figures, "one cluster")
    return LowerBound(found.value, *figures, "prices of rows", fitted.cluster_gaps(found.paid))


def _rows_of_run(result: Result, X: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return the rows of a run and their weights, if they are not given."""
    manifest, found = result.manifest, paths_of(result.manifest)
    if X is None and found["data"] is None:
        raise InputError("the rows of this run were in memory: give them as X, or --data")
    if sample_weight is None and manifest.input.weighted:
        sample_weight = found["sample_weight"]
        if sample_weight is None:
            raise InputError(
                "the weights of this run were in memory: give them as sample_weight, or --weights"
            )
    return rows_at(result, found["data"] if X is None else X), sample_weight


def _penalty(model: Any) -> float:
    """Return the price of a cluster; refuse models with another objective."""
    if not has_bound(model):
        raise InputError(
            f"a lower bound is known for the objective of DPMeans, got {type(model).__name__}: "
            "other objectives have none yet"
        )
    for reason, there in {
        f"divergence={model.divergence!r}: costs must be squared distances": (
            model._divergence.general is not None and model.missing == "error"
        ),
        f"missing={model.missing!r}: rows must be whole": model.missing != "error",
        f"discount={model.discount!r}: all clusters must have one price": bool(model.discount),
        "a price of outliers: all rows must belong to clusters": model.outlier_penalty_ is not None,
    }.items():
        if there:
            raise InputError(f"a lower bound is not known with {reason}; fit without it")
    return float(model.penalty_)


def _better(
    rows: Float64Array, weights: Float64Array, penalty: float, centers: Float64Array
) -> Float64Array:
    """Return the centers, (m, d), after a search that begins with them: bounds are nearer at those."""
    search = DPMeans(penalty, search=True, init=centers, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any clusters will do
        return np.asarray(search.fit(rows, sample_weight=weights).cluster_centers_)


def _highest(fitted: Fitted) -> LowerBound:
    """Return the highest bound, and what it says of the fitted centers."""
    best, method = NOTHING, "none"
    if len(fitted.rows):
        data = fitted.rows, fitted.weights, fitted.penalty
        best, method = highest(clusters_at(*data, _better(*data, fitted.centers), fitted.source))
    gaps = None if best.paid is None else fitted.cluster_gaps(best.paid)
    return LowerBound(float(best.value), fitted.objective, len(fitted.centers), method, gaps)
