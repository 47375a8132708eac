"""Clusters of clusters within one data set: weighted DP-means on the centers of a fit, at rising penalties.

Maurer (2015, section 4) wishes for base clusters that are clustered into meta clusters, by one joint model:
mu_ij ~ N(nu_i, sigma I) with nu_i ~ N(0, rho I).  This is no fit of that model: level by level the clusters below stay
as they are, and no meta cluster moves one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dask_dpmeans import checks
from dask_dpmeans.api.description import versions
from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.divergence import metric_of
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.batch import checked_penalty
from dask_dpmeans.storage.location import AnyPlace, Location, check_options, shown_path
from dask_dpmeans.storage.run_store import RunStore, new_group
from dask_dpmeans.text import brief

FIGURES = ("penalty", "n_clusters", "inertia", "objective")
OF_CLUSTERS = ("cluster_centers", "cluster_weights", "cluster_inertias")
SAID = ("random_state", "asked")
"""Of a stored tree: arrays over levels, arrays over the clusters of all levels, and attributes."""


class Level(NamedTuple):
    """The clusters of one penalty: unions of those of the level below."""

    penalty: float
    """In squared units of the rows times weight."""
    clusters: npt.NDArray[np.int32]
    """(clusters of the fit,), the cluster here of each; numbered in the order of the first of these."""
    centers: Float64Array
    """(k, d), in the units of the fit's centers."""
    weights: Float64Array
    """(k,), of the rows."""
    inertias: Float64Array
    """(k,), squared errors of the rows about these centers."""

    def __repr__(self) -> str:
        return brief(self)

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.weights)

    @property
    def inertia(self) -> float:
        """The squared error of all rows."""
        return float(self.inertias.sum())

    @property
    def objective(self) -> float:
        """Inertia + penalty * k."""
        return self.inertia + self.penalty * self.n_clusters

    def labels(self, labels: Any) -> Any:
        """The clusters here of rows that have these labels of the fit, (n,); lazy where they are."""
        if hasattr(labels, "map_blocks"):
            return labels.map_blocks(self.labels, dtype=self.clusters.dtype)
        return self.clusters[np.asarray(labels)]


class ClusterTree(NamedTuple):
    """Clusters of clusters."""

    leaves: Level
    """The clusters of the fit; their penalty is 0."""
    levels: tuple[Level, ...]
    """The penalties rise, the clusters grow fewer."""
    random_state: int
    """The seed."""
    asked: dict[str, Any]
    """`run`, where the clusters are stored; `penalties`, those that were given; `versions`.  As JSON holds it."""

    def __repr__(self) -> str:
        return brief(self)


def cluster_tree(model: Any, penalties: Any = None, *, run: AnyPlace | None = None) -> ClusterTree:
    """A tree of the clusters of a fit: DP-means on its centers, by their weights, then on those of that, and so on.

    Penalties are prices, as with ``search=True``.  No row is read: the squared error of rows about a center of centers
    is that about these, plus theirs about it.  That is exact where the centers of the fit are the means of their rows,
    as with ``tol=0``; after fits that ended at the usual tolerance it was up to .0014 of itself off (s1, a1, and
    20,000 Gaussian rows).

    Parameters
    ----------
    model : fitted estimator with `cluster_centers_`, or what `load` gives
    penalties : numbers > 0, rising, optional
        One level each.  By default they double from what the cheapest merge of two clusters costs on until one
        cluster is left, and levels at which nothing merges are left out.
    run : path or URL, optional
        Where the model is stored, for the tree to say what it is of.

    Returns
    -------
    ClusterTree

    Raises
    ------
    InputError
        A model without centers, and penalties that are none.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import DPMeans
    >>> from dask_dpmeans.selection.tree import cluster_tree
    >>> model = DPMeans(0.5, random_state=0).fit(np.array([[0.0], [1.0], [10.0], [12.0]]))
    >>> tree = cluster_tree(model, [10.0, 1000.0])
    >>> [(level.n_clusters, level.inertia, level.clusters.tolist()) for level in tree.levels]
    [(2, 2.5, [0, 0, 1, 1]), (1, 112.75, [0, 0, 0, 0])]
    """
    if not all(hasattr(model, f"cluster_{name}_") for name in ("centers", "weights", "inertias")):
        needed = "a tree needs centers, weights and squared errors of clusters"
        raise InputError(f"{needed}, and {type(model).__name__} has not all of them: fit it, or another method")
    metric = getattr(model, "metric", "euclidean")
    weights, inertias = model.cluster_weights_, model.cluster_inertias_
    numbers = np.arange(len(weights), dtype=np.int32)
    leaves = Level(0.0, numbers, np.asarray(model.cluster_centers_), weights, inertias)
    seed = int(getattr(model, "random_state_", 0))
    given = None if penalties is None else _rising(penalties)
    levels = _doubling(leaves, metric, seed) if given is None else _given(leaves, given, metric, seed)
    return ClusterTree(
        leaves, tuple(levels), seed, {"run": shown_path(run), "penalties": given, "versions": versions()}
    )


def _rising(penalties: Any) -> list[float]:
    given = np.ravel(penalties).tolist() if isinstance(penalties, np.ndarray) else penalties
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InputError(f"penalties must be rising numbers > 0, got {checks.shown(penalties)}")
    found = [checked_penalty(each, "penalties") for each in given]
    if not found or found != sorted(set(found)):
        raise InputError(f"penalties must be rising numbers > 0, got {checks.shown(penalties)}")
    return found


def _given(level: Level, penalties: list[float], metric: str, seed: int) -> Iterator[Level]:
    for penalty in penalties:
        level = _above(level, penalty, metric, seed)
        yield level


def _doubling(level: Level, metric: str, seed: int) -> Iterator[Level]:
    penalty = _cheapest(level, metric)
    while level.n_clusters > 1:
        penalty *= 2
        above = _above(level, penalty, metric, seed)
        if above.n_clusters < level.n_clusters:
            level = above
            yield level


def _cheapest(level: Level, metric: str) -> float:
    """What the cheapest merge of two clusters adds to the squared error; more than nothing."""
    k, masses, least = level.n_clusters, _masses(level, metric), np.inf
    for number in range(k - 1):
        pairs = np.column_stack([np.full(k - number - 1, number), np.arange(number + 1, k)])
        costs = metric_of(metric).rises(masses[pairs], level.centers[pairs])
        least = min(least, costs[costs > 0].min(initial=np.inf))
    return float(least) if np.isfinite(least) else 1.0


def _masses(level: Level, metric: str) -> Float64Array:
    """What centers weigh when they are clustered; of directions the lengths of the sums of rows, as inertias tell."""
    return level.weights - level.inertias / 2 if metric == "cosine" else level.weights


def _above(below: Level, penalty: float, metric: str, seed: int) -> Level:
    """The clusters that DP-means makes of centers at a penalty, from each alone: J is no higher than if none merged."""
    source = HeldRows(np.ascontiguousarray(below.centers, np.float64), _masses(below, metric))
    method = search.Method(penalty, metric=metric, centers=below.centers, seed=seed)
    *_, last = iterate(source, method)
    found = np.empty(below.n_clusters, np.int32)

    def note(start: int, answer: tuple[npt.NDArray[Any], ...]) -> None:
        found[start : start + len(answer[0])] = answer[0]

    source.map(method.labels(source, last.state), note)
    kept = found[np.sort(np.unique(found, return_index=True)[1])]  # numbered by their first clusters below
    k, numbers = len(kept), np.empty(found.max() + 1, np.int32)
    numbers[kept] = np.arange(k)
    parents = numbers[found]
    return Level(
        penalty,
        parents[below.clusters],
        last.state.centers[kept],
        total(parents, below.weights, k),
        total(parents, below.inertias, k) + last.state.inertias[kept],
    )


def write_tree(
    tree: ClusterTree,
    out: AnyPlace,
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a tree as a Zarr group.

    ``penalty``, ``n_clusters``, ``inertia`` and ``objective`` of the levels; ``clusters``, (level, cluster of the fit);
    and ``cluster_centers``, ``cluster_weights`` and ``cluster_inertias``, those of one level after the other.

    Parameters
    ----------
    tree : what `cluster_tree` found
    out : path or URL of a new group, such as ``run.tree.zarr``
    force : remove the tree of ours that is there
    storage_options : what fsspec takes for a URL

    Raises
    ------
    InputError
        Where something else is there.
    """
    checks.instance("tree", tree, ClusterTree, "cluster_tree")
    check_options(storage_options, out)
    levels = (tree.leaves, *tree.levels)
    said = {name: getattr(tree, name) for name in SAID}
    with new_group(Location.at(out, storage_options), "tree", said, force=force) as draft:
        for name in FIGURES:
            draft.write(name, np.array([getattr(level, name) for level in levels]), ("level",))
        draft.write("clusters", np.array([level.clusters for level in levels]), ("level", "leaf"))
        for name in OF_CLUSTERS:
            values = np.concatenate([getattr(level, name.removeprefix("cluster_")) for level in levels])
            draft.write(name, values, ("cluster", "feature")[: values.ndim])


def read_tree(path: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> ClusterTree:
    """A tree that `write_tree` wrote, to the bit.

    Parameters
    ----------
    path : path or URL of the group
    storage_options : what fsspec takes for a URL

    Raises
    ------
    InputError
        Where there is no whole tree of ours.
    CorruptStoreError
        Where an array is missing, or is not what was written.
    """
    check_options(storage_options, path)
    store = RunStore.at(path, storage_options)
    with store.whole("tree") as found:
        penalties, numbers, clusters = found.side_by_side(("penalty", "n_clusters", "clusters"))
        places = np.cumsum(numbers)[:-1]
        each = [np.split(values, places) for values in found.side_by_side(OF_CLUSTERS, int(numbers.sum()))]
        leaves, *levels = (Level(*parts) for parts in zip(penalties.tolist(), clusters, *each, strict=True))
        return ClusterTree(leaves, tuple(levels), **{name: found.manifest[name] for name in SAID})
