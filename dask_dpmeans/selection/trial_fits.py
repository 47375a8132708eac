"""Fits at trial penalties, on all rows or on a summary of them in memory, and the store of finished ones."""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.api.description import fingerprint, request_of, sources_of
from dask_dpmeans.api.resuming import check_resumable, seed_for
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import RandomState, seed_of
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.given_rows import given_rows
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans import batch, search, starts
from dask_dpmeans.methods.dpmeans.bisection import Aimed, PriceFor, RadiusFor
from dask_dpmeans.methods.dpmeans.farthest_first import traverse
from dask_dpmeans.methods.dpmeans.path import (
    USUAL_PENALTIES,
    Prices,
    Radii,
    Solution,
    best_at_each,
    summary_of,
)
from dask_dpmeans.sources import (
    CubePath,
    Dimensions,
    Reading,
    RowSource,
    as_source,
    check_option_names,
)
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.lock import Lock
from dask_dpmeans.storage.manifest import Manifest, with_article
from dask_dpmeans.storage.output import Output, remove

FIGURES = ("penalty", "n_clusters", "inertia", "objective")
ENDS = ("interval_clusters", "interval_low", "interval_high")
PATH_ARRAYS = (*FIGURES, "stability", "cluster_centers", *ENDS)
"""Arrays of a stored path over penalties, over intervals, and all of them."""


@dataclass(frozen=True)
class FitCheckpoint:
    """A store for finished fits, and its lock, which this job has acquired."""

    store: Output
    lock: Lock
    resume: bool
    """Whether to continue with the fits in the store."""

    def begin(self, request: Manifest) -> None:
        """Continue with the stored fits if `resume` is set and the manifests match.

        Otherwise start an empty store.
        """
        if self.resume and self.store.begun() and self.store.steps.has_checkpoints():
            check_resumable(self.store, request)
            return
        self.lock.check()
        self.remove_fits()
        self.store.begin(request.as_json())

    def remove_fits(self) -> None:
        """Remove the fits, and a path that is there."""
        remove(self.store, PATH_ARRAYS)


@contextmanager
def locked_checkpoint(
    place: AnyPlace | None,
    kind: str,
    inputs: Sequence[object],
    *,
    resume: bool,
    force: bool | None = None,
) -> Iterator[FitCheckpoint | None]:
    """Hold the lock of a checkpoint, or yield None without one.

    With `force` any output of this kind is replaced, by default an unfinished one, with False none.
    """
    if place is None:
        yield None
        return
    store = Output.at(place, name="checkpoint")
    with store.locked(kind, inputs, force=force is not False, resume=resume) as lock:
        if store.finished() and not force:
            raise InputError(
                f"{store.path} holds {with_article(kind)}: force=True removes it first, read_path reads it"
            )
        yield FitCheckpoint(store, lock, resume)


SUMMARY_ROWS, ROWS_A_CLUSTER = starts.LEAST_CORESET, starts.ROWS_A_CLUSTER
"""Default rows of a summary, in all and for each cluster; the coreset of the search has the same
defaults."""
MOST_BYTES = 2**28
"""Upper limit, in float64, for a summary that grows with the clusters."""
FEW_ROWS = 32
"""A summary with fewer rows a cluster gives a warning.  On birch1, k and J of fits of a summary,
divided by k and J of fits of all rows, were .95 to 1.01 and .98 at 91 and 48 rows a cluster, .93
and .97 at 27, .91 and .95 at 14, .79 and .96 at 10, .46 and .81 at 4."""
USUAL_CLUSTERS = 50
"""About how many clusters the lowest of the default penalties gives."""


class RowOptions(Reading, total=False):
    """Options for reading, and what rows cost, as in `DPMeans`."""

    divergence: object
    missing: str
    smoothing: float
    balance_columns: bool | None


class FitOptions(RowOptions, total=False):
    """These options, and what clusters and outliers cost, as in `DPMeans`."""

    discount: float
    outlier_penalty: float | None
    samples: Dimensions
    features: Dimensions
    variables: Dimensions


CUBE_OPTIONS = ("samples", "features", "variables")
"""Options that make rows of a cube."""
MODEL_OPTIONS = FitOptions.__annotations__.keys() - Reading.__annotations__.keys() - {*CUBE_OPTIONS}
"""Options that are parameters of `DPMeans`."""


def check_options(function: str, options: Mapping[str, object], known: type) -> None:
    """Raise an error if a function is given options that it does not know, or a share of outliers."""
    if "outlier_share" in options:
        raise InputError(
            "outlier_share cannot be used here, since its price of outliers changes with the penalty: "
            "give the outlier_penalty_ of a fit as outlier_penalty"
        )
    check_option_names(function, options, known)


def split_options(options: FitOptions | RowOptions) -> tuple[dict[str, Any], Reading]:
    """Return the parameters of `DPMeans` among the options, and the options for reading."""
    own = {name: value for name, value in options.items() if name in MODEL_OPTIONS}
    reading: Any = {name: value for name, value in options.items() if name not in MODEL_OPTIONS}
    return own, reading


def rows_of_cube(X: Any, sample_weight: Any, options: FitOptions) -> tuple[Any, Any, Any]:
    """Return rows, weights and the other options, after a cube or its path was made to rows."""
    names: dict[str, Any] = {name: options.get(name) for name in CUBE_OPTIONS}
    rest = {name: value for name, value in options.items() if name not in CUBE_OPTIONS}
    if isinstance(X, str | os.PathLike):
        named = any(value is not None for value in names.values())
        return CubePath(os.fspath(X), **names) if named else X, sample_weight, rest
    if names.pop("variables") is not None:
        raise InputError("variables are for the path of a cube: choose them, as X[['u', 'v']] does")
    missing = options.get("missing", "error") == "observed"
    given = given_rows(X, sample_weight, **names, missing=missing)
    if given.cube is None:
        return X, sample_weight, rest  # names of columns are read with the rows
    return given.rows, given.sample_weight, rest


def describe_options(own: dict[str, Any]) -> dict[str, Any]:
    """Return parameters of `DPMeans` for JSON, without those at their defaults."""
    plain = DPMeans().get_params(deep=False)
    found = {name: value for name, value in own.items() if value != plain[name]}
    if isinstance(found.get("divergence"), Mapping):
        divergences = found["divergence"].items()
        found["divergence"] = {str(column): _named(each) for column, each in divergences}
    elif "divergence" in found:
        found["divergence"] = _named(found["divergence"])
    return found


def _named(divergence: object) -> str:
    return divergence if isinstance(divergence, str) else repr(divergence)


@dataclass(frozen=True)
class TrialFits(ABC):
    """The rows, the rows in memory that the fits use, and the method."""

    source: RowSource
    mean: Float64Array
    """(1, d), mean of all rows."""
    size: int
    """Number of rows that the summary should have, about."""
    rows: InMemoryRows
    """All rows of positive weight, or a summary."""
    whole: bool
    """Whether `rows` are all of them."""
    method: batch.Method | search.Method
    """The method; its penalty is replaced at each trial."""
    seed: int

    @property
    def seen(self) -> float:
        """Rows of the summary that the fits see; infinity if they see all rows."""
        return math.inf if self.whole else len(self.rows.rows)

    def rows_used(self, *, exact: bool) -> int:
        """Return the number of rows that the last fits saw: all if they are exact."""
        return self.source.plan.n_rows if exact else len(self.rows.rows)

    def describe(
        self, X: object, sample_weight: object, parameters: dict[str, object]
    ) -> dict[str, Any]:
        """Return the description of a job for a result, such as `parameters` and `input`."""
        source, weighted = self.source, sample_weight is not None
        request = request_of(
            self.method, 0, source, scaled=source.scale is not None, weighted=weighted
        )
        job = request.as_json()
        kept = {name: job[name] for name in ("input", "column_names", "checksummed", "versions")}
        return {"parameters": parameters, "sources": sources_of(X, None, sample_weight), **kept}

    def with_checkpoint(
        self, checkpoint: FitCheckpoint | None, kind: str, asked: dict[str, Any]
    ) -> Self:
        """Return these fits with a checkpoint, which saves finished fits for a later start."""
        if checkpoint is None:
            return self
        asked["input"] |= {"fingerprint": fingerprint(self.source.summary)}
        request = {"kind": kind, "method": kind, "random_state": self.seed, **asked}
        checkpoint.begin(Manifest.from_json(request))
        store = checkpoint.store.steps.checkpoints(checkpoint.lock.holder)
        return replace(self, source=replace(self.source, checkpoints=store))

    def with_rows_for_penalty(self, lowest: float) -> Self:
        """Return these fits with a summary of enough rows for the lowest penalty."""
        if self.whole:
            return self
        [found] = self.source.run([self.fits((lowest,))], self.rows, "path")
        larger = self.with_rows_for(found[0].k)
        return self if larger is self else larger.with_rows_for_penalty(lowest)

    def with_rows_for(self, k: int) -> Self:
        """Return these fits with a summary of enough rows for k clusters, within `MOST_BYTES`."""
        size = min(ROWS_A_CLUSTER * k, MOST_BYTES // (8 * self.source.n_features))
        if self.whole or size <= self.size:
            return self
        most, general = self.method.most, self.method.divergence.general
        rows, whole = summary_of(self.source, size, self.seed, most, general)
        return replace(self, size=size, rows=rows, whole=whole)

    def fits(self, penalties: tuple[float, ...]) -> Prices | Radii:
        """Return the job that fits at some penalties."""
        for penalty in penalties:
            # Raises if no row can open a cluster at this penalty.
            replace(self.method, penalty=penalty)
        return self._fits(penalties)

    def default_penalties(self) -> tuple[float, ...]:
        """Return penalties from about `USUAL_CLUSTERS` clusters, or all possible, to one."""
        general = self.method.divergence.general
        most = traverse(self.rows, self.mean, USUAL_CLUSTERS, general, fewer=True).squared
        if not len(most):
            raise InputError("all rows are equal: there is one cluster at any penalty")
        return tuple(np.unique(np.geomspace(*self._ends(most), USUAL_PENALTIES)).tolist())

    def bisect(self, wanted: int, *, on_all_rows: bool) -> Aimed:
        """Return the penalty that gives `wanted` clusters, of the rows in memory or of all rows."""
        n_rows = len(self.rows.rows)
        if wanted > n_rows and not self.whole:
            raise InputError(
                f"{wanted:,} clusters are more than the {n_rows:,} rows of the summary: raise summary_rows"
            )
        general = self.method.divergence.general
        traverse(self.rows, self.mean, wanted, general)  # raises if fewer rows differ
        return self.source.run([self._fits_for(wanted)], self.rows, "aim")[0]

    @abstractmethod
    def refit_all_rows(self, penalties: tuple[float, ...], found: list[Solution]) -> list[Solution]:
        """Fit all rows, (p,) results."""

    @abstractmethod
    def _fits(self, penalties: tuple[float, ...]) -> Prices | Radii: ...

    @abstractmethod
    def _fits_for(self, wanted: int) -> RadiusFor | PriceFor:
        """Return the job that finds the penalty of a number of clusters."""

    @abstractmethod
    def _ends(self, most: Float64Array) -> tuple[float, float]:
        """Return the lowest and the highest default penalty.

        `most` are the squared distances, falling, of a traversal.
        """


@dataclass(frozen=True)
class RadiusFits(TrialFits):
    """Fits by Algorithm 1; each penalty is fitted anew."""

    method: batch.Method

    def bisect(self, wanted: int, *, on_all_rows: bool) -> Aimed:
        if on_all_rows:
            return self.source.here(self._fits_for(wanted), "aim")
        return super().bisect(wanted, on_all_rows=False)

    def refit_all_rows(self, penalties: tuple[float, ...], found: list[Solution]) -> list[Solution]:
        return self.source.here(self._fits(penalties), "path")

    def _fits(self, penalties: tuple[float, ...]) -> Radii:
        return Radii(self.method, penalties)

    def _fits_for(self, wanted: int) -> RadiusFor:
        return RadiusFor(self._fits(()), wanted, tuple(self.mean[0].tolist()))

    def _ends(self, most: Float64Array) -> tuple[float, float]:
        return float(most[-1]), min(float(most[0]), self.method.divergence.farthest)


@dataclass(frozen=True)
class PriceFits(TrialFits):
    """Fits by searches, each from clusters that are already known."""

    method: search.Method

    def bisect(self, wanted: int, *, on_all_rows: bool) -> Aimed:
        found = super().bisect(wanted, on_all_rows=False)
        if not on_all_rows:
            return found
        [solution] = self.refit_all_rows((found.penalty,), [found.solution])
        return replace(found, solution=solution)

    def refit_all_rows(self, penalties: tuple[float, ...], found: list[Solution]) -> list[Solution]:
        """Fit all rows, (p,) results.

        Each different solution is the start of one fit, at the middle of the penalties at which it
        is best.
        """
        fits = self._fits(penalties)
        ends, exact = best_at_each(fits, found), replace(fits, optimism=0.0)
        last_of = {id(end): number for number, end in enumerate(ends)}
        refitted = {}
        for number in sorted(last_of.values()):
            end = ends[number]
            best_at = [
                penalty for penalty, other in zip(penalties, ends, strict=True) if other is end
            ]
            middle = math.sqrt(best_at[0]) * math.sqrt(best_at[-1])
            refitted[id(end)] = exact.at(self.source, middle, end)
        return [refitted[id(end)] for end in ends]

    def _fits(self, penalties: tuple[float, ...]) -> Prices:
        return Prices(self.method, penalties, 0.0 if self.whole else starts.OPTIMISM)

    def _fits_for(self, wanted: int) -> PriceFor:
        return PriceFor(self._fits(()), wanted)

    def _ends(self, most: Float64Array) -> tuple[float, float]:
        high = self._fits(()).cost_at_mean(self.source)
        return min(high, self.bisect(len(most), on_all_rows=False).penalty), high


FITS: dict[bool, type[Any]] = {False: RadiusFits, True: PriceFits}
"""Fits by `search`."""


def seed_of_job(checkpoint: FitCheckpoint | None, random_state: RandomState) -> int:
    """Return the seed that was given, the seed of the checkpoint to continue with, or a new one."""
    is_number = random_state is None or isinstance(random_state, int | np.integer)
    if checkpoint is None or not is_number:
        return seed_of(random_state)
    given = None if random_state is None else seed_of(random_state)
    return seed_for(checkpoint.store, given, checkpoint.resume)


def trial_fits(
    X: ArrayLike | AnyPlace,
    sample_weight: ArrayLike | AnyPlace | None,
    reading: Reading,
    seed: int,
    summary_rows: int | None,
    **parameters: Any,
) -> RadiusFits | PriceFits:
    """Return the fits of some rows, with parameters of `DPMeans`.

    `summary_rows` is None for the default size.
    """
    model = DPMeans(1.0, **parameters)
    model.method()  # refuses parameters that cannot be used
    size = SUMMARY_ROWS if summary_rows is None else summary_rows
    checks.integer("summary_rows", size, or_none=" or None")
    source, mean, method = rows_and_mean(X, sample_weight, model, reading, seed)
    rows, whole = summary_of(source, size, seed, method.most, method.divergence.general)
    fits: RadiusFits | PriceFits = FITS[model.search](
        source, mean, size, rows, whole, method.seeded(seed), seed
    )
    return fits


def rows_and_mean(
    X: ArrayLike | AnyPlace,
    sample_weight: ArrayLike | AnyPlace | None,
    model: DPMeans,
    reading: Reading,
    seed: int = 0,
) -> tuple[RowSource, Float64Array, batch.Method | search.Method]:
    """Return the rows as a method sees them, their mean, (1, d), and the method of a model."""
    method, feature_map = model.method(), model._feature_map()
    source = as_source(X, sample_weight, features=method.features, **model._accepts(), **reading)
    mapped = MappedRows(source) if feature_map is None else feature_map.fit(source, seed)
    source, method = mapped.source, mapped.method(method)
    average = source.summary.mean[np.newaxis]
    return source, method.divergence.means(average, np.eye(1, source.n_features)), method
