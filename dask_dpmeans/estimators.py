"""scikit-learn's face of DP-means, and the way from stores to stores: thin, no logic of its own."""

import os
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, Unpack, get_args

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, estimate
from dask_dpmeans import run as runs
from dask_dpmeans.algorithms import dpmeans, gibbs, hdp_search, kernel_search, search
from dask_dpmeans.callbacks import Tasks, with_callbacks
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimate import Estimate
from dask_dpmeans.face import CentersMixin, checked_rows, note_columns, seed_of
from dask_dpmeans.gibbs import GibbsMixture, parameters_of
from dask_dpmeans.graph import METHODS, GraphCutDPMeans, as_graph
from dask_dpmeans.groups import HDPMeans
from dask_dpmeans.kernel import KernelDPMeans
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.location import AnyPlace, Location, check_options
from dask_dpmeans.loop import Algorithm
from dask_dpmeans.manifest import as_written
from dask_dpmeans.sources import Reading, check_centers, check_option_names, lazy_rows, names_of
from dask_dpmeans.spectral import SpectralDPMeans
from dask_dpmeans.store import Record, Result, RunStore


class DPMeans(CentersMixin, BaseEstimator):
    """DP-means clustering: the number of clusters follows from the penalty of one.

    Minimizes inertia + penalty * k by Algorithm 1 of Kulis & Jordan 2012: a row farther than the square root of the
    penalty from every center opens a cluster, rows go to the nearest center, centers become means, and a cluster left
    without weight dies, until nothing changes.  The result is the same, to the byte, for any chunking, threads and
    workers.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in squared units of the rows (lambda of the paper); its square root is a radius that no
        row of weight 1 or more lies beyond.  With ``metric="cosine"`` it is 2 (1 - cos) of an angle that no row of
        weight 1 or more is away from its center: 2 is a right angle, and beyond 4 no row would open a cluster, which is
        an error without `search`.  Any `numbers.Real` but a bool will do, such as a `fractions.Fraction`.
    search : bool, default False
        Take the penalty as a price, and search for the lowest objective with splits, merges, deletes and trials of
        them (after Odashima et al. 2016 and Fritzke 2020), beside births.  Data of more than 32,768 rows is searched
        on a coreset (Bachem et al. 2015) first, twice, with crossovers of the two ends (Gribel & Vidal 2019); up to
        524,288 rows all rows see a few trials then, and above moves and means alone.  With centers as `init` the search
        starts from them, without a coreset.  Up to 8,192 rows, of 1,048,576 numbers in all, it ends with moves of
        single rows (Hartigan 1975).  Without a coreset births alone are run too, with the same parameters, and the
        search goes on from these if they are lower: where it converges, it ends no higher (with "cosine"
        to rounding).  Up to 8,192 rows they go on until centers repeat, whatever `tol`.  They are left out where they
        open more than `max_clusters`, and where the penalty is beyond 4 with ``metric="cosine"``, which would be
        errors.  A search that stops at `max_iter`, or that began on a coreset, may end above births alone.
    metric : "euclidean" or "cosine", default "euclidean"
        With "cosine" rows are compared by direction alone, as embeddings are: each is brought to unit length (after
        its columns were divided, where they are), so that squared distances are 2 (1 - cosine), and centers are the
        directions of sums of rows, of unit length (spherical k-means, Dhillon & Modha 2001).  Rows whose sum is 0, or
        less than 1e-12 of their weight, leave their center where it was, and the first one at the first axis.
        `InputError` for a row that is 0 in every column.
    init : "mean", array of shape (k, d), path or fitted DPMeans, default "mean"
        The first centers: the mean of all rows as in the paper, centers, or those of an earlier run or fit.  With
        ``metric="cosine"`` their directions.
    max_iter : int, default 300
        The most sweeps, or steps of the search; `sklearn.exceptions.ConvergenceWarning` where they are reached.  A fit
        keeps the centers of its last pass, on which its labels and figures are exact, and not the means that follow
        from them: after one sweep these are the first centers, and those that opened.  A loop that goes on from the
        centers of the fit before, with `init`, moves by one sweep a turn with ``max_iter=2``, and never with 1.
    tol : float, default 1e-4
        The fit has converged when a sweep opens nothing and lowers the objective by less than ``tol`` times it.  With 0
        it goes on until the centers repeat to the bit.  The search settles to a fifth of ``tol``, and when no trial
        lowers the objective goes on to a hundredth of it, on up to 524,288 rows.
    max_clusters : int, optional
        `TooManyClustersError` where the penalty opens more.
    random_state : int, RandomState instance or None, default None
        Drawn once and kept in `random_state_`.  Nothing but the search draws from it.

    Attributes
    ----------
    cluster_centers_ : (k, d) float64
        Clusters are numbered in the order in which they opened; a split opens the second of its halves.  With
        ``metric="cosine"`` they are of unit length, to the rounding of the rows' own precision.
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; a lazy Dask array where the input is one, or a
        ``zarr.Array``.
    cluster_weights_ : (k,) float64
        Rows of each cluster, by weight.
    cluster_inertias_ : (k,) float64
        Weighted sum of squared distances of the rows of each cluster to its center.
    n_clusters_ : int
    inertia_ : float
        Weighted sum of squared distances of the rows to their centers; with ``metric="cosine"`` of 2 (1 - cosine).
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.
    n_iter_ : int
        Sweeps, or steps of the search.
    n_passes_ : float
        Passes over the rows; one over a part of them counts as that part.
    history_ : list of `dask_dpmeans.store.Record`
        One a sweep or step: objective, inertia, clusters, births, deaths, moves of the search and what they gained,
        passes, seconds.
    random_state_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import DPMeans
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    >>> model = DPMeans(penalty=4.0).fit(X)
    >>> model.labels_.tolist(), model.objective_
    ([0, 0, 1, 1], 9.0)
    """

    def __init__(
        self,
        penalty: float,
        *,
        search: bool = False,
        metric: str = "euclidean",
        init: Any = "mean",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.search = search
        self.metric = metric
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d) NumPy array, scipy.sparse array, Dask array (of either) or DataFrame, ``zarr.Array``
            Or a ``zarr.Group`` of CSR rows.
        y : ignored
        sample_weight : (n,), optional
            Weights >= 0.  A row of weight w opens a cluster iff min(1, w) times its squared distance exceeds the
            penalty, so that integer weights equal repeated rows.

        Returns
        -------
        self
        """
        method: Algorithm[Any] = self.method()
        tasks = Tasks.of(self, X, y, sample_weight, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        rows = checked_rows(self, X, reset=True)
        check_centers(center_names(self.init), getattr(self, "feature_names_in_", None), None)
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, sample_weight=sample_weight)
        tasks.end()
        return self

    def method(self) -> dpmeans.Method | search.Method:
        """The parameters, checked, as the library's core takes them."""
        checks.switch("search", self.search)
        return (search.Method if self.search else dpmeans.Method)(
            penalty=self.penalty,
            metric=self.metric,
            centers=first_centers(self.init),
            max_iter=self.max_iter,
            tol=self.tol,
            max_clusters=self.max_clusters,
        )


INIT = 'init must be "mean", centers (k, d), a fitted DPMeans or HDPMeans, or the path of a finished run'
"""What first centers may be given as."""
KERNEL = ("kernel", "gamma", "degree", "coef0", "approximation", "n_components")
"""Parameters of kernels and their approximations that a run keeps beside those of its method."""

Model = DPMeans | HDPMeans | KernelDPMeans | SpectralDPMeans | GraphCutDPMeans | GibbsMixture
AnyModel = TypeVar("AnyModel", bound=Model)


class FitOptions(Reading, total=False):
    """What else `fit` may be told."""

    on_step: Callable[[int, Record, int], None]


def fit(
    data: Any,
    run: AnyPlace,
    method: AnyModel,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[FitOptions],
) -> AnyModel:
    """Fit from a store to a store, and open the result.

    Parameters
    ----------
    data : path or URL of a Zarr array, of a Zarr group of CSR rows, or of a ``.npy`` or ``.npz`` file
        Or anything that `DPMeans.fit` takes.
    run : path of the run store to write
    method : an estimator, its parameters; callbacks that it was given are not called
    groups : like `data`, one-dimensional: the number of each row's data set, for `HDPMeans`
    sample_weight : like `data`, one-dimensional, optional
    resume : go on with the run that is there from its last committed step
    force : remove the run that is there; nothing but a run of ours is ever removed
    **options : columns (sequence of int), scale ("std"), client (distributed.Client), worker_timeout (seconds
        to wait where the cluster has no worker), threads, memory_limit (bytes of this process), storage_options (what
        fsspec takes for URLs: endpoints, credentials), on_step (called each step with its number, its
        `dask_dpmeans.store.Record` and the number of rows), on_pass (called while a pass runs, up to four times a
        second, with a `dask_dpmeans.sources.Pass`)

    Returns
    -------
    A fitted estimator, as `load` gives it.
    """
    check_option_names("fit", options, FitOptions)
    if not isinstance(method, Model):
        names = ", ".join(each.__name__ for each in get_args(Model))
        raise InputError(f"method must be one of {names}, with its parameters, got {checks.shown(method)}")
    if groups is not None and not isinstance(method, HDPMeans):
        raise InputError(f"groups number the data sets of HDPMeans, {type(method).__name__} has no use for them")
    if isinstance(method, GraphCutDPMeans):
        refused = {"sample_weight": sample_weight, **{name: options.get(name) for name in ("columns", "scale")}}
        given = [name for name, value in refused.items() if value is not None]
        if given:
            raise InputError(f"{' and '.join(given)} cannot be used on a graph: its links have weights themselves")
    check_options(options.get("storage_options"), data, run, groups, sample_weight, getattr(method, "init", None))
    runs.fit(
        as_graph(data) if isinstance(method, GraphCutDPMeans) else data,
        run,
        method.method(),
        seed=None if method.random_state is None else seed_of(method.random_state),
        groups=groups,
        sample_weight=sample_weight,
        recipe=method._recipe(),
        center_names=center_names(method.init) if isinstance(method, DPMeans) else None,
        resume=resume,
        force=force,
        **options,
    )
    found: Any = load(Location.at(run, options.get("storage_options")))  # of the class of `method`, which was stored
    return found


def dry_run(
    data: Any,
    run: AnyPlace,
    method: DPMeans,
    *,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Unpack[Reading],
) -> Estimate:
    """What `fit` would work on with the same arguments, and what a pass would cost; nothing is written.

    It refuses what `fit` refuses, as far as the metadata and the first rows tell: at most 8 blocks of the first shard
    are read and scanned, with the clusters that they open.  An existing run is not refused, but noted.

    Parameters
    ----------
    data : as `fit` takes it, but no Dask array or DataFrame
    run, method, sample_weight, resume, force, **options : as `fit` takes them, `on_step` excepted

    Returns
    -------
    Estimate
    """
    if not isinstance(method, DPMeans):
        raise InputError(f"method: a dry run tells what DPMeans costs, it cannot tell that of {type(method).__name__}")
    return estimate.dry_run(
        data,
        run,
        method.method(),
        seed=None if method.random_state is None else seed_of(method.random_state),
        sample_weight=sample_weight,
        center_names=center_names(method.init),
        resume=resume,
        force=force,
        **options,
    )


def load(run: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> Model:
    """The fitted estimator of a finished run; its labels are a lazy Dask array.

    Parameters
    ----------
    run : path or URL of the run store
    storage_options : what fsspec takes for a URL: endpoints, credentials

    Raises
    ------
    InputError
        Where there is no finished run of ours.
    CorruptStoreError
        Where something in it is missing or does not match its checksum.
    """
    check_options(storage_options, run)
    result = RunStore.at(run, storage_options).result()
    with as_written(result.store.location):
        return _loaded(result)


def _loaded(result: Result) -> Model:
    """The fitted estimator of a result."""
    model = _unfitted(result)
    model.method()  # which refuses parameters that are none
    model.random_state_ = result.manifest["random_state"]
    note_columns(model, result.manifest["input"]["shape"][1], result.manifest.get("column_names"))
    model.feature_columns_ = result.manifest["input"]["columns"]
    model.feature_scale_ = result.arrays.get("feature_scale")
    model.features_ = runs.features_of(result)
    model._restore(result)
    model.n_passes_ = result.manifest["n_passes"]
    model.labels_ = lazy_rows(result.open_labels())
    return model


def _unfitted(result: Result) -> Model:
    """The estimator that a run was asked for."""
    parameters, method = result.manifest["parameters"], result.manifest["method"]
    if method == gibbs.Method.name:
        return GibbsMixture(**parameters_of(parameters), random_state=result.manifest["random_state"])
    shared = {name: parameters[name] for name in ("max_iter", "tol", "max_clusters")}
    shared["random_state"] = result.manifest["random_state"]
    shared["search"] = method in (search.Method.name, hdp_search.Method.name, kernel_search.Method.name)
    asked = {name: parameters[name] for name in KERNEL if name in parameters}
    if result.shared:
        return HDPMeans(parameters["local_penalty"], parameters["global_penalty"], **asked, **shared)
    if asked:
        return KernelDPMeans(parameters["penalty"], **asked, **shared)
    if "normalized" in parameters:
        del shared["search"]
        cut = "normalized" if parameters["normalized"] else "ratio"
        init = next(name for name, each in METHODS.items() if each.name == method)
        return GraphCutDPMeans(parameters["penalty"], cut=cut, init=init, **shared)
    if "spectrum" in parameters:
        return SpectralDPMeans(**parameters["spectrum"], threshold=parameters["penalty"], **shared)
    return DPMeans(
        parameters["penalty"],
        metric=parameters["metric"],
        init="mean" if parameters["centers"] is None else result.arrays["first_centers"],
        **shared,
    )


def first_centers(init: Any) -> Float64Array | None:
    """What `init` stands for: centers in the units of the input, or None for the mean of all rows."""
    if isinstance(init, str) and init == "mean":
        return None
    init = _earlier(init)
    checks.no_matrix("init", init)
    if isinstance(init, DPMeans | HDPMeans):
        check_is_fitted(init)
        if getattr(init, "approximation", None) is not None:
            raise InputError("the centers of init are among features of a kernel, which the rows are not: leave it out")
        scale = init.feature_scale_
        return np.array(init.cluster_centers_ if scale is None else init.cluster_centers_ * scale)
    try:
        return np.array(init, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{INIT}, got {checks.shown(init)}") from error


def center_names(init: Any) -> tuple[str, ...] | None:
    """What the columns of first centers are called, where `init` tells."""
    if isinstance(init, str) and init == "mean":
        return None
    init = _earlier(init)
    if not isinstance(init, DPMeans | HDPMeans):
        return names_of(init)
    names, columns = getattr(init, "feature_names_in_", None), init.feature_columns_
    if names is None:
        return None
    return tuple(names.tolist() if columns is None else names[columns].tolist())


def _earlier(init: Any) -> Any:
    """The fit that is stored at a path, or what else was given."""
    if not isinstance(init, str | os.PathLike | Location):
        return init
    try:
        return load(init)
    except InputError as error:
        raise InputError(f"{INIT}, got {getattr(init, 'shown', init)!r}: {error}") from error
