"""Lower bounds of the objective: how far above the best clusters a fit can be.

Each bound in `BOUNDS` is a proof: no clusters of these rows cost less, rounding included.  The
highest one counts.
"""

import os
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans.api.description import fingerprint
from dask_dpmeans.api.fitted_rows import rows_of
from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.api.prediction import rows_at
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.bounded import gap_of
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.geography import place_map
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.anticlusters import MOST_ROWS, pieces_bound
from dask_dpmeans.methods.dpmeans.relaxed_bound import relaxed_bound
from dask_dpmeans.methods.dpmeans.row_prices import NOTHING, PricesBound, prices_bound
from dask_dpmeans.selection.commands import sources as paths_of
from dask_dpmeans.sources import RowSource, Stored, one_blas_thread
from dask_dpmeans.storage import Result
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
    cluster_gaps: tuple[float, ...] | None = None
    """(k,), parts of the fitted clusters in `objective` - `value`: what each one costs less the prices
    that its rows pay.  None if the bound is not from prices of rows in up to four columns."""

    @property
    def gap(self) -> float:
        """How far the objective can be above the lowest one, over the lowest one, at most.

        Infinite if nothing is proved.
        """
        return gap_of(self.objective, self.value)


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
    costs: Float64Array
    """(n,), squared distances to the centers of the labels."""
    objective: float

    def cluster_gaps(self, paid: Float64Array) -> tuple[float, ...]:
        """Return what each cluster costs less what its rows pay, (n,): never below 0 but by rounding."""
        beyond = total(self.labels, self.weights * self.costs - paid, len(self.centers))
        return tuple(np.maximum(beyond + self.penalty, 0.0).tolist())

    def one_cluster(self) -> PricesBound:
        """Return what one cluster without inertia costs."""
        return PricesBound(self.penalty)

    def prices(self) -> PricesBound:
        """Return the bound by prices of rows."""
        data = self.rows, self.weights, self.penalty
        return prices_bound(*data, self.objective, self.centers)

    def relaxation(self) -> PricesBound:
        """Return the bound by relaxations of pieces of the rows; 0 of too many rows."""
        n = len(self.rows)
        if n > RELAXED_ROWS:
            return NOTHING
        work = RELAXED_WORK / -(-n // MOST_ROWS)
        data = self.rows, self.weights, self.penalty
        bound = partial(relaxed_bound, work=work)
        return PricesBound(pieces_bound(*data, self.labels, bound=bound))


BOUNDS: dict[str, Callable[[Fitted], PricesBound]] = {
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

    The result is the same, to the byte, for any chunking, threads and workers.  A run keeps the
    bound of its rows: a second call reads it.  A model has it in `lower_bound_`, `gap_` and
    `cluster_gaps_` until the next fit.

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
    found = _bound_of(source, model._centers().values, penalty)
    model._set_bound(found.value, found.objective, found.cluster_gaps)
    if result is not None and _may_keep(result, given):
        result.store.write_bound(asdict(found))
    return found


def _may_keep(result: Result, source: RowSource) -> bool:
    """Return whether a run can be written, and some rows are known to be its rows."""
    same = fingerprint(source.summary) == result.manifest.input.fingerprint
    return same and not result.store.location.read_only


def _bound_of(source: RowSource, centers: Float64Array, penalty: float) -> LowerBound:
    """Return the highest bound for some rows, and how far centers, (k, d), are above it."""
    n, d = source.plan.n_rows, centers.shape[1]
    if n * d > MOST_NUMBERS:
        raise InputError(
            f"X has {n:,} x {d:,} numbers, and a lower bound takes {MOST_NUMBERS:,} in memory at most: "
            "give a sample of the rows, and a fit of it at a penalty smaller in proportion"
        )
    gathered = source.fold(Gather(), name="gather")
    with one_blas_thread():
        return _highest(_fitted(gathered.rows, gathered.weights, penalty, centers))


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
    if not isinstance(model, DPMeans):
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
    return float(cast(LinearPrice, model.method().price).penalty)


def _fitted(rows: Any, weights: Float64Array, penalty: float, centers: Float64Array) -> Fitted:
    """Return the rows that have weight, at the nearest of some centers, (k, d)."""
    some = weights > 0
    rows, weights = np.ascontiguousarray(rows[some], np.float64), weights[some]
    labels, costs = assign(Block(0, rows, weights), Centers(centers))
    objective = float(weights @ costs) + penalty * len(centers)
    return Fitted(rows, weights, penalty, centers, labels, costs, objective)


def _searched(fitted: Fitted) -> Fitted:
    """Return the clusters after a search that begins with them: bounds are the nearer, the better it is."""
    search = DPMeans(fitted.penalty, search=True, init=fitted.centers, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any clusters will do
        centers = search.fit(fitted.rows, sample_weight=fitted.weights).cluster_centers_
    return _fitted(fitted.rows, fitted.weights, fitted.penalty, centers)


def _highest(fitted: Fitted) -> LowerBound:
    """Return the highest bound."""
    best, method = NOTHING, "none"
    if len(fitted.rows):
        searched = _searched(fitted)
        for name, bound in BOUNDS.items():
            found = bound(searched)
            if found.value > best.value:
                best, method = found, name
            if searched.objective <= (1 + PROVED) * best.value:
                break
    gaps = None if best.paid is None else fitted.cluster_gaps(best.paid)
    return LowerBound(float(best.value), fitted.objective, len(fitted.centers), method, gaps)
