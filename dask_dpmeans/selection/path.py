"""A path of penalties: the clusters of each, and intervals with one number of clusters."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.checks import short_repr
from dask_dpmeans.errors import InputError, warn
from dask_dpmeans.estimators.base import RandomState
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.methods.dpmeans.path import (
    Fits,
    Halving,
    Interval,
    Solution,
    best_at_each,
    envelope,
    longest,
    runs,
)
from dask_dpmeans.selection.trial_fits import (
    FEW_ROWS,
    FitCheckpoint,
    FitOptions,
    TrialFits,
    check_options,
    describe_options,
    locked_checkpoint,
    rows_of_cube,
    seed_of_job,
    split_options,
    trial_fits,
)
from dask_dpmeans.storage.location import AnyPlace


@dataclass(frozen=True, repr=False)
class PenaltyPath:
    """Results of fits at p penalties."""

    penalties: Float64Array
    """(p,), rising, in squared units of the rows times weight."""
    n_clusters: Int64Array
    """(p,), number of clusters k at each penalty."""
    inertias: Float64Array
    """(p,), squared error, or what rows cost; if the fits saw a summary, an estimate for all rows."""
    objectives: Float64Array
    """(p,), inertia + penalty * k, or the price of k clusters with a discount."""
    centers: tuple[Float64Array, ...]
    """p arrays (k, d)."""
    intervals: tuple[Interval, ...]
    """Intervals of penalties with one number of clusters, rising: `n_clusters`, `low` and `high` of
    each."""
    stability: Float64Array | None
    """(p,), mean adjusted Rand index between fits of two halves of the rows; None without
    halvings."""
    search: bool
    """Whether the penalties are prices."""
    full: bool
    """Whether the numbers are exact for all rows."""
    rows_used: int
    """Number of rows that the fits saw: all, or the rows of the summary."""
    crowded: float
    """Up to this penalty, fits saw fewer than 32 rows of a summary for each cluster, and may be far
    off; 0 if none."""
    random_state: int
    """The seed."""
    asked: dict[str, Any]
    """Description of the call, for JSON: the `parameters` of `penalty_path`, the paths of the
    inputs as `sources`, and `input`, `column_names`, `checksummed` and `versions` as in the
    manifest of a run."""

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def caution(self) -> str:
        """Warning about crowded penalties; empty without them."""
        if not self.crowded:
            return ""
        few = f"fits saw a summary of fewer than {FEW_ROWS} rows a cluster"
        return f"at penalties up to {self.crowded:.6g} {few}: k and J may be far off"

    @property
    def longest(self) -> int | None:
        """k of the longest interval in the logarithm of the penalty, or None.

        Candidates have 2 <= k < the largest k.

        With ``search=True``, this is the number of clusters to look at first (Kulis & Jordan 2012,
        figure 2c).  With radii, k depends on the extent of the data, and the longest interval may
        mean little: on s1, which has 15 clusters, it had 5.
        """
        interval = longest(self.intervals)
        return None if interval is None else interval.n_clusters

    @property
    def penalty(self) -> float | None:
        """Geometric middle of the longest interval; None without one."""
        interval = longest(self.intervals)
        return None if interval is None else interval.middle


class PathOptions(FitOptions, total=False):
    """Keyword options of `penalty_path` that `stored_path` takes too."""

    search: bool
    full: bool
    sample_weight: ArrayLike | AnyPlace | None
    metric: str
    halvings: int
    summary_rows: int | None
    max_clusters: int | None
    random_state: RandomState


OWN_OPTIONS = PathOptions.__annotations__.keys() - FitOptions.__annotations__.keys()


@dataclass(frozen=True)
class PathParameters:
    """Checked parameters of a path, which it also stores."""

    penalties: tuple[float, ...] | None = None
    """Different penalties, rising; None for the default ones."""
    search: bool = False
    full: bool = False
    metric: str = "euclidean"
    halvings: int = 0
    summary_rows: int | None = None
    max_clusters: int | None = None

    @classmethod
    def checked(cls, penalties: ArrayLike | None, options: PathOptions) -> "PathParameters":
        """Return the parameters among the options, checked."""
        own: Any = {
            name: value for name, value in options.items() if name in cls.__dataclass_fields__
        }
        given = cls(**own)
        if metric_of(given.metric).encoded and not given.search:
            raise InputError(
                f"a path with metric={given.metric!r} needs search=True, got search=False: its "
                "penalties are then prices in square kilometers; as radii, fit DPMeans at each"
            )
        return cls(
            penalties=_checked_penalties(penalties),
            search=checks.switch("search", given.search),
            full=checks.switch("full", given.full),
            metric=given.metric,
            halvings=checks.integer("halvings", given.halvings, 0),
            summary_rows=checks.integer_or_none("summary_rows", given.summary_rows),
            max_clusters=checks.integer_or_none("max_clusters", given.max_clusters),
        )

    @property
    def fits_see_summary(self) -> bool:
        """Whether fits see a summary of many rows; with `full`, radii are fitted to all rows."""
        return self.search or not self.full

    def describe(self) -> dict[str, object]:
        """Return the parameters for JSON."""
        return asdict(self) | {
            "penalties": None if self.penalties is None else list(self.penalties)
        }


def penalty_path(
    X: ArrayLike | AnyPlace,
    penalties: ArrayLike | None = None,
    *,
    search: bool = False,
    full: bool = False,
    sample_weight: ArrayLike | AnyPlace | None = None,
    metric: str = "euclidean",
    halvings: int = 0,
    summary_rows: int | None = None,
    max_clusters: int | None = None,
    random_state: RandomState = None,
    checkpoint: AnyPlace | None = None,
    resume: bool = False,
    **where: Unpack[FitOptions],
) -> PenaltyPath:
    """Fit at many penalties, and find the intervals of penalties with one number of clusters.

    A number of clusters that stays the same over a long interval, in the logarithm of the penalty,
    is a good guess for the data (Kulis & Jordan 2012, figure 2c).  Penalties are radii, or prices
    with `search`, as in `DPMeans`:

    - As prices, each fit starts from the best clusters so far, from the highest penalty to the
      lowest and back.  The clusters of every fit are compared at every penalty.  So k falls as the
      penalty rises, and an interval ends at the exact penalty at which two numbers of clusters cost
      the same.
    - As radii, each fit is Algorithm 1 from the mean of all rows, as in ``DPMeans(penalty)``.  From
      other first centers it could give other numbers.  An interval is a run of penalties that were
      tried.

    **The fits see a summary if there are more than 2 x `summary_rows` rows**: a coreset (Bachem et
    al. 2015) of about `summary_rows` weighted rows.  For radii, use `full` then: far rows open
    clusters, and a summary does not have all of them.  If a penalty gives so many clusters that
    fits saw fewer than 32 rows of a summary for each, there is a warning, and `crowded` is the
    highest such penalty.

    Parameters
    ----------
    X : (n, d) rows, as for `DPMeans.fit`, or the path or URL of a Zarr array or ``.npy`` file
    penalties : numbers > 0, optional
        For example ``np.geomspace(1, 100, 30)``.  The default is 40 penalties in even steps of the
        logarithm, from one that gives about 50 clusters to one that gives one cluster.
    search : bool, read penalties as prices
    full : bool
        Fit all rows.  As radii, each penalty is fitted to all rows.  As prices, the fits of all
        rows start from the clusters of the summary.
    sample_weight : (n,), optional, weights >= 0
    metric : "euclidean", "cosine" or, with `search`, "haversine" as in `DPMeans`
    halvings : int
        How often to split the rows at random into two halves (the rows of the summary, also with
        `full`).  Both halves are fitted at each penalty, and the labels that they give to all rows
        are compared by the adjusted Rand index.  One cluster always agrees with itself.
    summary_rows : int, optional
        About how many rows a summary has.  The default is 16,384, or 64 for each cluster of the
        lowest penalty given if that is more, up to 2²⁸ bytes.
    max_clusters : int, optional, A penalty that gives more clusters raises `TooManyClustersError`
    random_state : int, RandomState instance or None, one seed is drawn, and stored in the result
    checkpoint : path or URL, optional
        Finished fits are saved here while others run; give the place where `write_path` will write
        the path, with ``force``.  Fits of an unfinished path in this place are removed, unless
        `resume` is set.  A finished path, or another job that uses the place, is an error.
    resume : bool
        Continue with the fits in the checkpoint.  The path is the same, to the bit.
    **where : columns, scale, client, threads, memory_limit, on_pass, as for `dask_dpmeans.fit`
        divergence, missing, smoothing, balance_columns, discount and outlier_penalty as in
        `DPMeans`; in place of an outlier_share, give the `outlier_penalty_` of a fit.
        samples, features, as in `DPMeans.fit` for a cube of xarray, and as in `dask_dpmeans.fit`, with
        variables, for the path of one

    Returns
    -------
    PenaltyPath

    Raises
    ------
    InputError
        A penalty is not a number > 0, or all rows are equal and penalties are not given.
    LockLostError
        Another job took the checkpoint, because this job did not respond for too long.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.penalty import penalty_path
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0]])
    >>> path = penalty_path(X, np.geomspace(0.1, 500, 20), search=True, random_state=0)
    >>> path.longest, [(each.n_clusters, round(each.low, 1), round(each.high, 1)) for each in path.intervals]
    (3, [(6, 0.1, 0.5), (3, 0.5, 64.0), (2, 64.0, 341.3), (1, 341.3, 500.0)])
    """
    check_options("penalty_path", where, FitOptions)
    X, sample_weight, where = rows_of_cube(X, sample_weight, where)
    options: PathOptions = {
        "search": search,
        "full": full,
        "sample_weight": sample_weight,
        "metric": metric,
        "halvings": halvings,
        "summary_rows": summary_rows,
        "max_clusters": max_clusters,
        "random_state": random_state,
        **where,
    }
    with locked_checkpoint(checkpoint, "path", [X, sample_weight], resume=resume) as kept:
        path = find_path(kept, X, penalties, options)
    warn_if_crowded(path)
    return path


def find_path(
    checkpoint: FitCheckpoint | None,
    X: ArrayLike | AnyPlace,
    penalties: ArrayLike | None,
    options: PathOptions,
) -> PenaltyPath:
    """Return the path; finished fits are saved in the checkpoint."""
    parameters = PathParameters.checked(penalties, options)
    sample_weight = options.get("sample_weight")
    seed = seed_of_job(checkpoint, options.get("random_state"))
    rest: Any = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    own, reading = split_options(rest)
    trial: TrialFits = trial_fits(
        X,
        sample_weight,
        reading,
        seed,
        parameters.summary_rows,
        search=parameters.search,
        metric=parameters.metric,
        max_clusters=parameters.max_clusters,
        **own,
    )
    asked = trial.describe(X, sample_weight, parameters.describe() | describe_options(own))
    trial = trial.with_checkpoint(checkpoint, "path", asked)
    if parameters.penalties and parameters.summary_rows is None and parameters.fits_see_summary:
        trial = trial.with_rows_for_penalty(parameters.penalties[0])
    fits = trial.fits(parameters.penalties or trial.default_penalties())
    heavier = 2.0 if parameters.search else 1.0
    halvings = [Halving(fits, seed, number, heavier) for number in range(parameters.halvings)]
    jobs: list[Callable[..., Any]] = [fits, *halvings]
    found, *indices = trial.source.run(jobs, trial.rows, "path")
    if parameters.full and not trial.whole:
        found = trial.refit_all_rows(fits.penalties, found)
    return _path_of(trial, parameters, fits, found, indices, asked)


def _path_of(
    trial: TrialFits,
    parameters: PathParameters,
    fits: Fits,
    found: list[Solution],
    indices: list[Float64Array],
    asked: dict[str, Any],
) -> PenaltyPath:
    """Return the path of some fits; `indices` are adjusted Rand indices, a (p,) array a halving."""
    penalties, ends = np.array(fits.penalties), best_at_each(fits, found)
    numbers, inertias = np.array([end.k for end in ends]), np.array([end.inertia for end in ends])
    if parameters.search:
        intervals = envelope(found, fits.penalties[0], fits.penalties[-1])
    else:
        intervals = runs(fits.penalties, numbers.tolist())
    rows_seen = trial.seen if parameters.fits_see_summary else math.inf
    exact = parameters.full or trial.whole
    return PenaltyPath(
        penalties=penalties,
        n_clusters=numbers,
        inertias=inertias,
        objectives=np.array(
            [end.objective(each) for end, each in zip(ends, fits.penalties, strict=True)]
        ),
        centers=tuple(trial.method.divergence.shown(end.centers) for end in ends),
        intervals=tuple(intervals),
        stability=np.mean(indices, axis=0) if indices else None,
        search=parameters.search,
        full=exact,
        rows_used=trial.rows_used(exact=exact),
        crowded=float(penalties[rows_seen < FEW_ROWS * numbers].max(initial=0.0)),
        random_state=trial.seed,
        asked=asked,
    )


def warn_if_crowded(path: PenaltyPath) -> None:
    """Warn the caller of the caller about crowded penalties."""
    if path.caution:
        warn(f"{path.caution}; raise summary_rows")


def _checked_penalties(penalties: ArrayLike | None) -> tuple[float, ...] | None:
    """Return the different penalties, rising."""
    if penalties is None:
        return None
    try:
        given = np.asarray(penalties, np.float64)
    except (OverflowError, TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not given.size or not ((given > 0) & (given < np.inf)).all():
        raise InputError(
            f"penalties must be a list of finite numbers > 0, got {checks.describe_value(penalties)}"
        )
    return tuple(np.unique(given).tolist())
