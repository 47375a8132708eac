"""Lower bounds of the objective: how far above the best clusters a fit can be.

Each bound in `BOUNDS` is a proof: no clusters of these rows cost less, rounding included.  The
highest one counts.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans.api.fitted_rows import rows_of
from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.api.prediction import rows_at
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.anticlusters import MOST_ROWS, pieces_bound
from dask_dpmeans.methods.dpmeans.relaxed_bound import relaxed_bound
from dask_dpmeans.methods.dpmeans.row_prices import prices_bound
from dask_dpmeans.selection.commands import sources as paths_of
from dask_dpmeans.sources import Stored, one_blas_thread
from dask_dpmeans.storage.location import AnyPlace, Location

MOST_NUMBERS = 2**27
"""Numbers, rows times columns, that are held in memory: 1 GB."""
RELAXED_ROWS = 1500
"""More rows have no bound by relaxation: the work of its pieces would be split too often."""
RELAXED_WORK = 2**34
"""Work of the relaxations of all pieces; see `relaxed_bound`."""
PROVED = 1e-6
"""A bound this near to the lowest objective known, over the bound, is the last."""


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

    @property
    def gap(self) -> float:
        """How far the objective can be above the lowest one, over the lowest one, at most.

        Infinite if nothing is proved.
        """
        return max(0.0, self.objective / self.value - 1) if self.value > 0 else np.inf


@dataclass(frozen=True)
class Fitted:
    """Rows in memory, and the clusters that a fit found of them."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    penalty: float
    centers: Float64Array
    """(k, d)."""
    labels: IndexArray
    """(n,)."""
    objective: float

    def one_cluster(self) -> float:
        """Return what one cluster without inertia costs."""
        return self.penalty

    def prices(self) -> float:
        """Return the bound by prices of rows."""
        data = self.rows, self.weights, self.penalty
        return prices_bound(*data, self.objective, self.centers)

    def relaxation(self) -> float:
        """Return the bound by relaxations of pieces of the rows; 0 of too many rows."""
        n = len(self.rows)
        if n > RELAXED_ROWS:
            return 0.0
        work = RELAXED_WORK / -(-n // MOST_ROWS)
        data = self.rows, self.weights, self.penalty
        return pieces_bound(*data, self.labels, bound=partial(relaxed_bound, work=work))


BOUNDS: dict[str, Callable[[Fitted], float]] = {
    "one cluster": Fitted.one_cluster,
    "prices of rows": Fitted.prices,
    "relaxation": Fitted.relaxation,
}
"""Bounds by name, the quicker ones first."""


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
    Merle, Hansen, Jaumard & Mladenovic 1999); boxes of centers prove the prices.  Of more columns
    the four main axes are taken.  Up to 1,500 rows of any number of columns, the *relaxation* of
    Peng & Wei (2007) with a price is solved for pieces of at most 300 rows each, with cuts and
    branching as in Piccialli, Sudoso & Wiegele (2022) and pieces as in Croella, Piccialli & Sudoso
    (2025).  The highest bound counts.  Many rows of many columns have only a low bound.  All bounds
    begin with a search from the fitted centers.

    The result is the same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    model : fitted `DPMeans`, or path or URL of its run
        With squared distances, one price for each cluster, no outliers and no missing values.
    X : (n, d) rows as for `DPMeans.fit`, or a path or URL; for a run, its own rows by default
    sample_weight : (n,), optional, weights >= 0; for a run, its own weights by default
    **where : client, threads, memory_limit, on_pass, storage_options, as for `dask_dpmeans.fit`

    Returns
    -------
    LowerBound

    Raises
    ------
    InputError
        The model has another objective, its rows are not given, or they have more than 134,217,728
        numbers: then give a sample of them, fitted at a penalty smaller in proportion.

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
    if isinstance(model, str | os.PathLike | Location | LoadedRun):
        model, X, sample_weight = _run(model, X, sample_weight, where)
    check_is_fitted(model)
    penalty = _penalty(model)
    if X is None:
        raise InputError("X must be given: the rows that the model was fitted to")
    source = rows_of(X, model, sample_weight, **where)
    n, d = source.plan.n_rows, model.cluster_centers_.shape[1]
    if n * d > MOST_NUMBERS:
        raise InputError(
            f"X has {n:,} x {d:,} numbers, and a lower bound takes {MOST_NUMBERS:,} in memory at most: "
            "give a sample of the rows, and a fit of it at a penalty smaller in proportion"
        )
    gathered = source.fold(Gather(), name="gather")
    with one_blas_thread():
        fitted = _fitted(gathered.rows, gathered.weights, penalty, model.cluster_centers_)
        return _highest(fitted)


def _run(
    run: AnyPlace | LoadedRun,
    X: ArrayLike | AnyPlace | None,
    sample_weight: ArrayLike | AnyPlace | None,
    where: Stored,
) -> tuple[Any, Any, Any]:
    """Return the model of a run, its rows and their weights."""
    loaded = run
    if not isinstance(loaded, LoadedRun):
        loaded = open_run(loaded, where.get("storage_options"))
    manifest, found = loaded.result.manifest, paths_of(loaded.result.manifest)
    if X is None and found["data"] is None:
        raise InputError("the rows of this run were in memory: give them as X, or --data")
    if sample_weight is None and manifest.input.weighted:
        sample_weight = found["sample_weight"]
        if sample_weight is None:
            raise InputError(
                "the weights of this run were in memory: give them as sample_weight, or --weights"
            )
    return loaded.model, rows_at(loaded.result, found["data"] if X is None else X), sample_weight


def _penalty(model: Any) -> float:
    """Return the price of a cluster; refuse models with another objective."""
    method = model.method()
    price, divergence = getattr(method, "price", None), getattr(method, "divergence", None)
    plain = model.features_ is None and divergence is not None and divergence.general is None
    most = getattr(method, "most", np.inf)
    if not (plain and isinstance(price, LinearPrice) and most == np.inf):
        raise InputError(
            "a lower bound is known for DPMeans with squared distances, one price for each cluster, "
            f"no outliers and no missing values, not for {model!r}"
        )
    return float(price.penalty)


def _fitted(rows: Any, weights: Float64Array, penalty: float, centers: Float64Array) -> Fitted:
    """Return the rows that have weight, at the nearest of some centers, (k, d)."""
    some = weights > 0
    rows, weights = np.ascontiguousarray(rows[some], np.float64), weights[some]
    labels, costs = assign(Block(0, rows, weights), Centers(centers))
    objective = float(weights @ costs) + penalty * len(centers)
    return Fitted(rows, weights, penalty, centers, labels, objective)


def _searched(fitted: Fitted) -> Fitted:
    """Return the clusters after a search that begins with them: bounds are the nearer, the better it is."""
    search = DPMeans(fitted.penalty, search=True, init=fitted.centers, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any clusters will do
        centers = search.fit(fitted.rows, sample_weight=fitted.weights).cluster_centers_
    return _fitted(fitted.rows, fitted.weights, fitted.penalty, centers)


def _highest(fitted: Fitted) -> LowerBound:
    """Return the highest bound."""
    best = LowerBound(0.0, fitted.objective, len(fitted.centers), "none")
    if not len(fitted.rows):
        return best
    searched = _searched(fitted)
    for name, bound in BOUNDS.items():
        value = float(bound(searched))
        if value > best.value:
            best = replace(best, value=value, method=name)
        if searched.objective <= (1 + PROVED) * best.value:
            break
    return best
