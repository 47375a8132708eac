"""Which penalty: from numbers of clusters, or from how many clusters each penalty gives."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Unpack

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.api.description import asked as asked_of
from dask_dpmeans.api.description import fingerprint, sources_of
from dask_dpmeans.api.job import check_resumable, seed_for
from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import seed_of
from dask_dpmeans.estimators.hdp import data_sets
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import metric_of
from dask_dpmeans.kernels.group_sums import Farthest, GroupSums
from dask_dpmeans.methods.dpmeans import batch, starts
from dask_dpmeans.methods.dpmeans import search as search_algorithm
from dask_dpmeans.methods.dpmeans.bisection import Aimed, PriceFor, RadiusFor
from dask_dpmeans.methods.dpmeans.farthest_first import traverse
from dask_dpmeans.methods.dpmeans.path import (
    Halving,
    Interval,
    Prices,
    Radii,
    Solution,
    best_at_each,
    envelope,
    longest,
    runs,
    summary_of,
)
from dask_dpmeans.methods.hdp.batch import check_sets
from dask_dpmeans.sources import Reading, RowSource, as_source
from dask_dpmeans.storage.location import AnyPlace, Location, check_options
from dask_dpmeans.storage.lock import Lock, only_job
from dask_dpmeans.storage.manifest import FORMAT
from dask_dpmeans.storage.run_store import Draft, RunStore, new_group, with_article
from dask_dpmeans.text import brief

SUMMARY_ROWS, ROWS_A_CLUSTER = starts.LEAST_CORESET, starts.ROWS_A_CLUSTER
"""Rows of a summary, about, or so many for each cluster: as the search's own coreset has them."""
MOST_BYTES = 2**28
"""Of a summary that grows with the clusters, in float64."""
FEW_ROWS = 32
"""A summary of fewer rows a cluster is warned of.  On birch1 k and J of a summary were .95 to 1.01 and .98 of those of
all rows at 91 and 48 rows a cluster, .93 and .97 at 27, .91 and .95 at 14, .79 and .96 at 10, .46 and .81 at 4."""
USUAL_PENALTIES, USUAL_CLUSTERS = 40, 50
"""Of a path without penalties: how many, and about how many clusters the lowest gives."""
FIGURES = ("penalty", "n_clusters", "inertia", "objective")
ENDS = ("interval_clusters", "interval_low", "interval_high")
SAID = ("search", "full", "rows_used", "crowded", "random_state", "asked")
"""Of a stored path: arrays over penalties, arrays over intervals, and attributes that are fields of a `PenaltyPath`."""

Method = batch.Method | search_algorithm.Method


class FarthestFirst(NamedTuple):
    """What `farthest_first` finds."""

    penalty: float
    """The squared distance of the last row taken, in squared units of the rows."""
    penalties: Float64Array
    """(k,), the same for every number of clusters from 1 to k; never rises."""
    rows: Int64Array
    """(k,), numbers of the rows that were taken, in order."""
    points: Float64Array
    """(k, d), these rows, as the fit would see them."""
    n_passes: int
    """Passes over the rows, after the one that checks them."""

    def __repr__(self) -> str:
        return brief(self)


def farthest_first(
    X: Any, k: int, *, sample_weight: Any = None, metric: str = "euclidean", **where: Unpack[Reading]
) -> FarthestFirst:
    """The penalty for about k clusters by farthest-first traversal (Kulis & Jordan 2012, section 6.1).

    The first point is the mean of all rows; then k times the row farthest from all points joins them.  The penalty is
    the squared distance at which the last one joined, read as a radius: ``DPMeans(penalty)``.  Outliers are what it
    finds first; `penalty_for` looks at what the fit makes of a penalty.

    A pass brings the rows that are farthest, up to 1,024, and takes points from among them as long as no other row can
    be farther.  The answer is that of the serial loop to the bit, with equal distances to the lowest row number, for
    any chunking, threads and workers.

    Parameters
    ----------
    X : (n, d) rows as `DPMeans.fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
    k : about how many clusters there should be
    sample_weight : (n,), optional
        Weights >= 0 for the mean of all rows; those without weight are not taken.
    metric : "euclidean" or "cosine"
        As `DPMeans` has it.
    **where : columns, scale, client, threads, memory_limit, on_pass, as `dask_dpmeans.fit` takes them

    Returns
    -------
    FarthestFirst

    Raises
    ------
    InputError
        Where there are fewer different rows than k.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.penalty import farthest_first
    >>> found = farthest_first(np.array([[0.0], [1.0], [8.0], [9.0]]), 3)
    >>> found.penalties.tolist(), found.rows.tolist()
    ([20.25, 20.25, 1.0], [0, 3, 1])
    """
    checks.integer("k", k)
    source, first = _rows_and_mean(X, sample_weight, metric, where)
    found = traverse(source, first, k)
    return FarthestFirst(float(found.squared[-1]), found.squared, found.numbers, found.rows, found.passes)


@dataclass(frozen=True, repr=False)
class PenaltyPath:
    """What fits at p penalties came to."""

    penalties: Float64Array
    """(p,), rising, in squared units of the rows times weight."""
    n_clusters: Int64Array
    """(p,)."""
    inertias: Float64Array
    """(p,), squared error; where rows of a summary stand for all, what all would have, about."""
    objectives: Float64Array
    """(p,), inertia + penalty * k."""
    centers: tuple[Float64Array, ...]
    """Of each penalty, (k, d)."""
    intervals: tuple[Interval, ...]
    """The penalties over which each number of clusters stands, rising; `n_clusters`, `low` and `high` of each."""
    stability: Float64Array | None
    """(p,), the mean adjusted Rand index of fits of halves, where these were asked for."""
    search: bool
    """Whether penalties are prices."""
    full: bool
    """Whether the figures are those of all rows."""
    rows_used: int
    """Rows that the fits saw, those of a summary where there are more."""
    crowded: float
    """Up to this penalty fits saw fewer than 32 rows of a summary for each cluster, and may be far off; 0 for none."""
    random_state: int
    """The seed."""
    asked: dict[str, Any]
    """The `parameters` of `penalty_path`; `sources`, the paths of what it read, and `input`, `column_names`,
    `checksummed` and `versions`, as the manifest of a run has them.  As JSON holds it."""

    def __repr__(self) -> str:
        return brief(self)

    @property
    def caution(self) -> str:
        """What to say of crowded penalties, where there are any."""
        few = f"a summary of fewer than {FEW_ROWS} rows a cluster"
        return f"at penalties up to {self.crowded:.6g} fits saw {few}: k and J may be far off" if self.crowded else ""

    @property
    def longest(self) -> int | None:
        """k of the longest interval in the logarithm of the penalty, among 2 <= k < the largest; None without any.

        With ``search=True`` it is the number of clusters to look at first (Kulis & Jordan 2012, figure 2c).  Where
        penalties are radii k follows the extent of the data, and the longest interval may say little: on s1, which has
        15 clusters, it was that of 5.
        """
        interval = longest(self.intervals)
        return None if interval is None else interval.n_clusters

    @property
    def penalty(self) -> float | None:
        """The middle of that interval, in the logarithm."""
        interval = longest(self.intervals)
        return None if interval is None else interval.middle


def penalty_path(
    X: Any,
    penalties: Any = None,
    *,
    search: bool = False,
    full: bool = False,
    sample_weight: Any = None,
    metric: str = "euclidean",
    halvings: int = 0,
    summary_rows: int | None = None,
    max_clusters: int | None = None,
    random_state: Any = None,
    checkpoint: AnyPlace | None = None,
    resume: bool = False,
    **where: Unpack[Reading],
) -> PenaltyPath:
    """How many clusters each penalty gives, and over which intervals of penalties a number stands.

    A number that stands over a long interval of penalties, in the logarithm, is one that the data has (Kulis & Jordan
    2012, figure 2c).  Penalties are read as radii, or as prices with `search`, as `DPMeans` has it:

    - As prices, each fit starts from the best clusters known, from the highest penalty to the lowest.  All clusters
      that any fit ended with are compared at every penalty, so that k falls as the penalty rises, and the ends of
      intervals are those penalties at which two numbers of clusters cost the same, not just penalties tried.
    - As radii, each fit is Algorithm 1 from the mean of all rows, which is what ``DPMeans(penalty)`` does; started from
      other centers it would end with other numbers.  Intervals are runs of penalties tried.

    **Fits see a summary of the rows where there are more than twice `summary_rows`**: a coreset (Bachem et al. 2015),
    about that many weighted rows.  Radii need `full` then: far rows, which open clusters, are not all in a summary.
    Where there are fewer rows, all are seen.  Where a penalty gives so many clusters that fits saw fewer than 32 rows
    of a summary for each, a warning says so, and `crowded` which penalties these are.

    Parameters
    ----------
    X : (n, d) rows as `DPMeans.fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
    penalties : numbers > 0, such as ``np.geomspace(1, 100, 30)``, optional
        By default 40 in even steps of the logarithm, from one that gives about 50 clusters to one that gives one.
    search : bool
        Take penalties as prices.
    full : bool
        Fit all rows: as radii anew at each penalty, as prices from the clusters that the summary led to.
    sample_weight : (n,), optional
        Weights >= 0.
    metric : "euclidean" or "cosine"
        As `DPMeans` has it.
    halvings : int
        How many times to cut the rows at random in two (those of the summary, with `full` too), fit both halves at each
        penalty, and see whether all get the same clusters from both: the mean adjusted Rand index, a second opinion.
        One cluster always agrees with itself.
    summary_rows : int, optional
        About how many rows a summary has.  By default 16,384, or 64 for each cluster that the lowest of the penalties
        given leads to, where that is more, up to 2²⁸ bytes.
    max_clusters : int, optional
        `TooManyClustersError` where a penalty gives more.
    random_state : int, RandomState instance or None
        Drawn once, and kept in the result.
    checkpoint : path or URL, optional
        Where fits that have ended are kept while others run: where `write_path` will write the path, with ``force``.
        What an unfinished path has kept there is removed, unless `resume`; a whole path is an error, and so is another
        job at work there.
    resume : bool
        Go on with what is kept there: the same path, to the bit.
    **where : columns, scale, client, threads, memory_limit, on_pass, as `dask_dpmeans.fit` takes them

    Returns
    -------
    PenaltyPath

    Raises
    ------
    InputError
        Penalties that are none, and rows that are all equal where penalties are not given.
    LockLostError
        Another job has taken the checkpoint, as this one stood still for too long.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.penalty import penalty_path
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0]])
    >>> path = penalty_path(X, np.geomspace(0.1, 500, 20), search=True, random_state=0)
    >>> path.longest, [(each.n_clusters, round(each.low, 1), round(each.high, 1)) for each in path.intervals]
    (3, [(6, 0.1, 0.5), (3, 0.5, 64.0), (2, 64.0, 341.3), (1, 341.3, 500.0)])
    """
    with _keeping(checkpoint, "path", [X, sample_weight], resume=resume) as kept:
        path = _path(
            kept,
            X,
            penalties,
            search=search,
            full=full,
            sample_weight=sample_weight,
            metric=metric,
            halvings=halvings,
            summary_rows=summary_rows,
            max_clusters=max_clusters,
            random_state=random_state,
            **where,
        )
    _warn_of(path)
    return path


def stored_path(
    X: Any, penalties: Any, out: AnyPlace, *, resume: bool = False, force: bool = False, **asked: Any
) -> PenaltyPath:
    """Find a path with its checkpoint at `out`, and write it there, as one job.

    Parameters
    ----------
    X, penalties, **asked : as `penalty_path` takes them
    out : path or URL of a new group
    resume : go on with the path that was begun there
    force : remove the path of ours that is there

    Returns
    -------
    PenaltyPath
    """
    inputs = [X, asked.get("sample_weight")]
    RunStore.at(out).check_target("path", inputs, force=force, resume=resume)
    with _keeping(out, "path", inputs, resume=resume, force=force) as kept:
        assert kept is not None
        kept.store.check_target("path", inputs, force=force, resume=resume)  # another may have ended just now
        path = _path(kept, X, penalties, **asked)
        draft = Draft(kept.store)
        _write_arrays(draft, path)
        kept.lock.check()
        kept.store.seal(draft, {"format": FORMAT, "kind": "path", **_said(path)})
    _warn_of(path)
    return path


def _warn_of(path: PenaltyPath) -> None:
    """Warn of crowded penalties, to the caller of the caller."""
    if path.caution:
        warnings.warn(f"{path.caution}; raise summary_rows", UserWarning, stacklevel=3)


def _path(
    kept: "_Keeping | None",
    X: Any,
    penalties: Any,
    *,
    search: bool = False,
    full: bool = False,
    sample_weight: Any = None,
    metric: str = "euclidean",
    halvings: int = 0,
    summary_rows: int | None = None,
    max_clusters: int | None = None,
    random_state: Any = None,
    **where: Unpack[Reading],
) -> PenaltyPath:
    """The path, as `penalty_path` says, with fits that are kept while others run."""
    checks.switch("search", search)
    checks.switch("full", full)
    checks.integer("halvings", halvings, 0)
    given = None if penalties is None else _checked_penalties(penalties)
    seed = _seed(kept, random_state)
    work = _Work.of(X, sample_weight, _method(search, metric, max_clusters), seed, summary_rows, where)
    asked = _asked(
        work,
        (X, sample_weight),
        penalties=None if given is None else list(given),
        search=bool(search),
        full=bool(full),
        metric=metric,
        halvings=int(halvings),
        summary_rows=None if summary_rows is None else int(summary_rows),
        max_clusters=None if max_clusters is None else int(max_clusters),
    )
    work = work.kept_in(kept, "path", asked)
    if given and summary_rows is None and (search or not full):
        work = work.roomy(given[0])
    fits = work.fits(given or work.usual())
    jobs: list[Callable[[HeldRows], Any]] = [fits]
    jobs += [Halving(fits, seed, number, 2.0 if search else 1.0) for number in range(halvings)]
    found, *indices = work.source.run(jobs, work.rows, "path")
    if full and not work.whole:
        found = work.on_all_rows(fits, found)
    ends, exact = best_at_each(fits, found), bool(full) or work.whole
    numbers, inertias = np.array([end.k for end in ends]), np.array([end.inertia for end in ends])
    used = fits.penalties
    seen = work.seen if search or not full else math.inf  # of radii in full no fit saw the summary
    intervals = envelope(found, used[0], used[-1]) if search else runs(used, numbers.tolist())
    return PenaltyPath(
        penalties=np.array(used),
        n_clusters=numbers,
        inertias=inertias,
        objectives=inertias + np.array(used) * numbers,
        centers=tuple(end.centers for end in ends),
        intervals=tuple(intervals),
        stability=np.mean(indices, axis=0) if indices else None,
        search=bool(search),
        full=exact,
        rows_used=work.source.plan.n_rows if exact else len(work.rows.rows),
        crowded=float(np.array(used)[seen < FEW_ROWS * numbers].max(initial=0.0)),
        random_state=seed,
        asked=asked,
    )


def write_path(
    path: PenaltyPath,
    out: AnyPlace,
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a path as a Zarr group.

    ``penalty``, ``n_clusters``, ``inertia``, ``objective`` and, where it is known, ``stability`` over the penalties;
    ``cluster_centers``, (center, feature), those of one penalty after the other; and ``interval_clusters``,
    ``interval_low`` and ``interval_high`` over the intervals.  All else is in the attributes.

    Parameters
    ----------
    path : what `penalty_path` found
    out : path or URL of a new group
    force : remove the path of ours that is there
    storage_options : what fsspec takes for a URL

    Raises
    ------
    InputError
        Where something else is there.
    """
    checks.instance("path", path, PenaltyPath, "penalty_path")
    check_options(storage_options, out)
    with new_group(Location.at(out, storage_options), "path", _said(path), force=force) as draft:
        _write_arrays(draft, path)


def _said(path: PenaltyPath) -> dict[str, Any]:
    """What the attributes of a stored path hold."""
    said: dict[str, Any] = {name: getattr(path, name) for name in (*SAID, "longest")}
    return said | {"stability": path.stability is not None}


def _write_arrays(draft: Draft, path: PenaltyPath) -> None:
    numbers = np.array([each.n_clusters for each in path.intervals], np.int64)
    ends = np.array([[each.low, each.high] for each in path.intervals]).reshape(-1, 2)
    figures = dict(zip(FIGURES, (path.penalties, path.n_clusters, path.inertias, path.objectives), strict=True))
    figures |= {} if path.stability is None else {"stability": path.stability}
    for name, values in figures.items():
        draft.write(name, values, ("penalty",))
    draft.write("cluster_centers", np.concatenate(path.centers), ("center", "feature"))
    for name, values in zip(ENDS, (numbers, ends[:, 0], ends[:, 1]), strict=True):
        draft.write(name, values, ("interval",))


def read_path(path: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> PenaltyPath:
    """A path that `write_path` wrote, to the bit.

    Parameters
    ----------
    path : path or URL of the group
    storage_options : what fsspec takes for a URL

    Raises
    ------
    InputError
        Where there is no whole path of ours.
    CorruptStoreError
        Where an array is missing, or is not what was written.
    """
    check_options(storage_options, path)
    store = RunStore.at(path, storage_options)
    with store.whole("path") as found:
        said = found.manifest
        names = (*FIGURES, "stability") if said["stability"] else FIGURES
        penalties, numbers, inertias, objectives, *stability = found.side_by_side(names)
        [centers] = found.side_by_side(["cluster_centers"], int(numbers.sum()))
        ends = (values.tolist() for values in found.side_by_side(ENDS))
        return PenaltyPath(
            penalties=penalties,
            n_clusters=numbers,
            inertias=inertias,
            objectives=objectives,
            centers=tuple(np.split(centers, np.cumsum(numbers)[:-1])),
            intervals=tuple(map(Interval, *ends)),
            stability=stability[0] if stability else None,
            **{name: said[name] for name in SAID},
        )


class PenaltyFor(NamedTuple):
    """What `penalty_for` finds."""

    penalty: float
    """In squared units of the rows times weight."""
    n_clusters: int
    """Clusters that it gave: other than wanted where no penalty tried gives that number, since k jumps."""
    wanted: int
    """Clusters asked for."""
    tried: tuple[tuple[float, int], ...]
    """Penalties, rising, and the numbers of clusters that they gave."""
    full: bool
    """Whether the number of clusters is that of all rows."""
    rows_used: int
    """Rows that the fits saw, those of a summary where there are more."""
    random_state: int
    """The seed."""

    def __repr__(self) -> str:
        return brief(self)


def penalty_for(
    X: Any,
    n_clusters: int,
    *,
    search: bool = False,
    full: bool = False,
    sample_weight: Any = None,
    metric: str = "euclidean",
    summary_rows: int | None = None,
    random_state: Any = None,
    checkpoint: AnyPlace | None = None,
    **where: Unpack[Reading],
) -> PenaltyFor:
    """The penalty at which a fit gives about so many clusters, by bisection.

    As a radius it starts from the penalty of farthest-first traversal, with Algorithm 1 at each penalty tried, until
    two are within a thousandth of each other.  As a price, with `search`, it looks between two numbers of clusters at
    the penalty at which both cost the same; the answer is the middle of the interval over which the number stands.
    Either number may jump over the one wanted: what was reached is in the result.

    **Fits see a summary of the rows where there are more than twice `summary_rows`**, as `penalty_path` has it; by
    default 16,384, or 64 for each cluster wanted, where that is more.

    Parameters
    ----------
    X : (n, d) rows as `DPMeans.fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
    n_clusters : the number wanted
    search : bool
        Take penalties as prices.
    full : bool
        Fit all rows: as radii at each penalty tried, as a price once, at the penalty that the summary led to.
    sample_weight, metric, summary_rows, random_state, **where : as `penalty_path` takes them
    checkpoint : path or URL, optional
        Where fits that have ended are kept until the penalty is found: the same call after a stop goes on from these.
        Another job at work there is an error.

    Returns
    -------
    PenaltyFor

    Raises
    ------
    InputError
        Where there are fewer different rows than clusters wanted.
    LockLostError
        Another job has taken the checkpoint, as this one stood still for too long.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.penalty import penalty_for
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0]])
    >>> found = penalty_for(X, 2, search=True, random_state=0)
    >>> found.n_clusters, round(found.penalty, 1)
    (2, 147.8)
    """
    checks.switch("search", search)
    checks.switch("full", full)
    n_clusters = checks.integer("n_clusters", n_clusters)
    with _keeping(checkpoint, "penalty", [X, sample_weight], resume=True) as kept:
        seed = _seed(kept, random_state)
        work = _Work.of(X, sample_weight, _method(search, metric, None), seed, summary_rows, where)
        asked = _asked(
            work,
            (X, sample_weight),
            n_clusters=n_clusters,
            search=bool(search),
            full=bool(full),
            metric=metric,
            summary_rows=None if summary_rows is None else int(summary_rows),
        )
        work = work.kept_in(kept, "penalty", asked)
        if summary_rows is None and (search or not full):
            work = work.enlarged(n_clusters)
        found = work.aim(n_clusters, everywhere=full and not work.whole)
        if kept is not None:
            kept.lock.check()
            kept.store.remove()
    if kept is not None:
        kept.store.location.remove_empty()
    if (search or not full) and work.seen < FEW_ROWS * n_clusters:
        few = f"fits saw a summary of fewer than {FEW_ROWS} rows a cluster"
        warnings.warn(f"{few}: the penalty may be far off; raise summary_rows", UserWarning, stacklevel=2)
    exact = bool(full) or work.whole
    rows_used = work.source.plan.n_rows if exact else len(work.rows.rows)
    return PenaltyFor(found.penalty, found.solution.k, n_clusters, found.tried, exact, rows_used, seed)


@dataclass(frozen=True)
class _Keeping:
    """Where fits that have ended are kept, and the lock of this place, which is held."""

    store: RunStore
    lock: Lock
    resume: bool
    """Whether to go on with what is kept."""

    def begin(self, manifest: dict[str, Any]) -> None:
        """Go on with what is kept, if that is asked for and it is of the same fits, or else begin anew."""
        if self.resume and self.store.begun() and self.store.keeps_searches():
            check_resumable(self.store, manifest)
            return
        self.lock.check()
        self.store.remove()
        self.store.begin(manifest)


@contextmanager
def _keeping(
    checkpoint: AnyPlace | None, kind: str, inputs: Sequence[Any], *, resume: bool, force: bool = False
) -> Iterator[_Keeping | None]:
    """Hold the lock of a checkpoint, if there is one; refuse a whole output that is there, unless `force` is set."""
    if checkpoint is None:
        yield None
        return
    store = RunStore.at(checkpoint, name="checkpoint")
    store.check_target(kind, inputs, force=True, resume=resume)
    with only_job(store.location) as lock:
        store.check_target(kind, inputs, force=True, resume=resume)  # another may have ended just now
        if store.finished() and not force:
            raise InputError(f"{store.path} holds {with_article(kind)}: --force removes it first, read_path reads it")
        yield _Keeping(store, lock, resume)


@dataclass(frozen=True)
class _Work:
    """Rows, what stands for them, and how they are fitted."""

    source: RowSource
    mean: Float64Array
    """(1, d)."""
    size: int
    """Rows that a summary was to have, about."""
    rows: HeldRows
    """All of positive weight, or a summary."""
    whole: bool
    """Whether they are all."""
    method: Method
    seed: int

    @classmethod
    def of(
        cls, X: Any, sample_weight: Any, method: Method, seed: int, summary_rows: int | None, where: Reading
    ) -> "_Work":
        size = SUMMARY_ROWS if summary_rows is None else summary_rows
        checks.integer("summary_rows", size)
        source, mean = _rows_and_mean(X, sample_weight, method.metric, where)
        return cls(source, mean, size, *summary_of(source, size, seed), method.seeded(seed), seed)

    def kept_in(self, kept: _Keeping | None, kind: str, asked: dict[str, Any]) -> "_Work":
        """The same, with fits that are kept in a store until the output is whole, and taken from there."""
        if kept is None:
            return self
        manifest = {"format": FORMAT, "kind": kind, "method": kind, "random_state": self.seed, **asked}
        manifest["input"] |= {"fingerprint": fingerprint(self.source.summary)}
        kept.begin(manifest)
        return replace(self, source=replace(self.source, shelf=kept.store.shelf(kept.lock.holder)))

    @property
    def seen(self) -> float:
        """Rows of the summary that fits see; infinitely many where it is none."""
        return math.inf if self.whole else len(self.rows.rows)

    def roomy(self, lowest: float) -> "_Work":
        """The same with a summary of enough rows for each cluster that the lowest penalty leads to."""
        if self.whole:
            return self
        [found] = self.source.run([self.fits((lowest,))], self.rows, "path")
        larger = self.enlarged(found[0].k)
        return self if larger is self else larger.roomy(lowest)

    def enlarged(self, k: int) -> "_Work":
        """The same with a summary of enough rows for each of k clusters, as far as memory goes."""
        size = min(ROWS_A_CLUSTER * k, MOST_BYTES // (8 * self.source.n_features))
        if self.whole or size <= self.size:
            return self
        rows, whole = summary_of(self.source, size, self.seed)
        return replace(self, size=size, rows=rows, whole=whole)

    def fits(self, penalties: tuple[float, ...]) -> Prices | Radii:
        """Fits at some penalties."""
        for penalty in penalties:
            replace(self.method, penalty=penalty)  # refuses what none would open a cluster at
        if isinstance(self.method, batch.Method):
            return Radii(self.method, penalties)
        return Prices(self.method, penalties, 0.0 if self.whole else starts.OPTIMISM)

    def usual(self) -> tuple[float, ...]:
        """Penalties from one that gives about `USUAL_CLUSTERS` clusters, or as many as there can be, to one for one."""
        most = traverse(self.rows, self.mean, USUAL_CLUSTERS, fewer=True).squared
        if not len(most):
            raise InputError("all rows are equal: there is one cluster at any penalty")
        if isinstance(self.method, batch.Method):
            low, high = float(most[-1]), min(float(most[0]), self.method.divergence.farthest)
        else:
            high = float(self.source.summary.squares.sum())
            low = min(high, self.aim(len(most), everywhere=False).penalty)
        return tuple(np.unique(np.geomspace(low, high, USUAL_PENALTIES)).tolist())

    def aim(self, wanted: int, *, everywhere: bool) -> Aimed:
        """The penalty for so many clusters; where `everywhere`, of all rows."""
        fits = self.fits(())
        job: RadiusFor | PriceFor
        if isinstance(fits, Radii):
            job = RadiusFor(fits, wanted, tuple(self.mean[0].tolist()))
            if everywhere:
                return self.source.here(job, "aim")
        else:
            job = PriceFor(fits, wanted)
        if wanted > len(self.rows.rows) and not self.whole:
            raise InputError(
                f"{wanted:,} clusters are more than the {len(self.rows.rows):,} rows of the summary: raise summary_rows"
            )
        traverse(self.rows, self.mean, wanted)  # refuses more than there are
        found = self.source.run([job], self.rows, "aim")[0]
        if not everywhere:
            return found
        at_it = replace(fits, penalties=(found.penalty,))
        return replace(found, solution=self.on_all_rows(at_it, [found.solution])[0])

    def on_all_rows(self, fits: Prices | Radii, found: list[Solution]) -> list[Solution]:
        """What fits of all rows come to: as prices from each of the clusters found, in the middle of the penalties."""
        if isinstance(fits, Radii):
            return self.source.here(fits, "path")
        ends = best_at_each(fits, found)
        exact = replace(fits, optimism=0.0)
        polished = {}
        for number in sorted({id(end): place for place, end in enumerate(ends)}.values()):
            at = [penalty for penalty, end in zip(fits.penalties, ends, strict=True) if end is ends[number]]
            middle = math.sqrt(at[0]) * math.sqrt(at[-1])
            polished[id(ends[number])] = exact.at(self.source, middle, ends[number])
        return [polished[id(end)] for end in ends]


def _seed(kept: _Keeping | None, random_state: Any) -> int:
    """The seed that was asked for, or of what is kept in a checkpoint."""
    if kept is None or (random_state is not None and not isinstance(random_state, int | np.integer)):
        return seed_of(random_state)
    asked = None if random_state is None else seed_of(random_state)
    return seed_for(kept.store, asked, kept.resume)


def _method(search: bool, metric: str, max_clusters: int | None) -> Method:
    """What fits at some penalty."""
    kind = search_algorithm.Method if search else batch.Method
    return kind(penalty=1.0, metric=metric, max_clusters=max_clusters)


def _asked(work: _Work, read: tuple[Any, Any], **parameters: Any) -> dict[str, Any]:
    """What a path keeps of what it was asked."""
    X, sample_weight = read
    source = work.source
    asked = asked_of(work.method, 0, source, scaled=source.scale is not None, weighted=sample_weight is not None)
    kept = {name: asked[name] for name in ("input", "column_names", "checksummed", "versions")}
    return {"parameters": parameters, "sources": sources_of(X, None, sample_weight), **kept}


def _rows_and_mean(X: Any, sample_weight: Any, metric: str, where: Reading) -> tuple[RowSource, Float64Array]:
    """The rows, and their mean, (1, d), as the metric has it."""
    geometry = metric_of(metric)
    source = as_source(X, sample_weight, features=geometry.features, **where)
    return source, geometry.means(source.summary.mean[np.newaxis], np.eye(1, source.n_features))


def _checked_penalties(penalties: Any) -> tuple[float, ...]:
    """Different penalties, rising."""
    try:
        given = np.asarray(penalties, np.float64)
    except (OverflowError, TypeError, ValueError):
        given = np.empty(0)
    if given.ndim != 1 or not given.size or not ((given > 0) & (given < np.inf)).all():
        raise InputError(f"penalties must be a list of finite numbers > 0, got {checks.shown(penalties)}")
    return tuple(np.unique(given).tolist())


class HDPPenalties(NamedTuple):
    """What `hdp_penalties` finds, in squared units of the rows times weight."""

    local_penalty: float
    global_penalty: float


def hdp_penalties(
    data: Any, local_clusters: int, global_clusters: int, *, groups: Any = None, **where: Unpack[Reading]
) -> HDPPenalties:
    """Penalties of the HDP from about how many clusters there should be: farthest-first traversals.

    Local: in each data set points are taken, first its mean, then time after time the row farthest from all points
    taken; the squared distance of the row number `local_clusters` is averaged over the sets.  Global: the first point
    is the mean of all rows; then that data set is looked for whose rows' squared distances to the points have the
    greatest sum, and its row farthest from the points is taken; the penalty is that sum, for the set number
    `global_clusters`.  (The paper does not say what joins the points in the global traversal.)

    Parameters
    ----------
    data : list of (n_j, d) arrays, one a data set; or (n, d) rows, with `groups`, as `HDPMeans.fit` takes them
    local_clusters : about how many a data set has
    global_clusters : about how many there are in all
    groups : (n,) integers >= 0, the data set of each row
    **where : columns, scale, client, threads, memory_limit, on_pass, as `dask_dpmeans.fit` takes them

    Returns
    -------
    HDPPenalties
        One pass over the rows for each of the clusters asked for, and two more.
    """
    checks.integer("local_clusters", local_clusters)
    checks.integer("global_clusters", global_clusters)
    rows, sets, _ = data_sets(data, groups)
    if sets is None:
        raise InputError("groups are missing: pass the number of each row's data set, or a list of data sets")
    source = as_source(rows, groups=sets, **where)
    check_sets(source.summary.n_groups, source.plan.n_rows)
    sums = source.fold(GroupSums(), name="groups")
    first = np.zeros((source.summary.n_groups, source.n_features))
    first[sums.uses] = sums.moments.means
    points, found = [first], None
    for _ in range(local_clusters):
        found = source.fold(Farthest(tuple(points)), name="farthest")
        points.append(np.zeros_like(first))
        points[-1][found.groups] = found.rows
    assert found is not None
    taken, total = [source.summary.mean[np.newaxis]], 0.0
    for _ in range(global_clusters):
        farthest = source.fold(Farthest(tuple(taken)), name="farthest")
        dearest = int(farthest.totals.argmax())
        total = float(farthest.totals[dearest])
        taken.append(farthest.rows[dearest][np.newaxis])
    penalties = HDPPenalties(float(found.squared.mean()), total)
    if not min(penalties) > 0:
        raise InputError(f"the data sets have fewer different rows than {local_clusters} or {global_clusters} clusters")
    return penalties
