"""A tree of clusters: weighted DP-means on the centers of a fit, at rising penalties.

Maurer (2015, section 4) proposes to cluster base clusters into meta clusters with one joint model,
mu_ij ~ N(nu_i, sigma I) with nu_i ~ N(0, rho I).  This module does not fit that model: each level
keeps the clusters of the level below as they are, and a meta cluster never changes them.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from dask_dpmeans import checks
from dask_dpmeans.api.description import versions
from dask_dpmeans.checks import short_repr
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.description import description_of
from dask_dpmeans.kernels.block import Float64Array, IntegerArray
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.batch import checked_penalty
from dask_dpmeans.storage.location import AnyPlace, shown_path
from dask_dpmeans.storage.output import new_output, open_output

FIGURES = ("penalty", "n_clusters", "inertia", "objective")
CLUSTER_FIGURES = ("cluster_centers", "cluster_weights", "cluster_inertias")
ATTRIBUTES = ("random_state", "asked")
"""Arrays over levels, arrays over the clusters of all levels, and attributes of a stored tree."""


class Level(NamedTuple):
    """The clusters of one penalty; each is a union of clusters of the level below."""

    penalty: float
    """In units of the costs of the fit: squared units of the rows times weight."""
    clusters: npt.NDArray[np.int32]
    """(clusters of the fit,), the cluster of this level for each; numbered in the order of their
    first members."""
    centers: Float64Array
    """(k, d), in the units of the centers of the fit."""
    weights: Float64Array
    """(k,), sums of the weights of the rows."""
    inertias: Float64Array
    """(k,), squared errors, or divergences, of the rows about the centers."""

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def n_clusters(self) -> int:
        """Number of clusters k."""
        return len(self.weights)

    @property
    def inertia(self) -> float:
        """Cost of all rows."""
        return float(self.inertias.sum())

    @property
    def objective(self) -> float:
        """Inertia + penalty * k."""
        return self.inertia + self.penalty * self.n_clusters

    def labels(self, labels: Any) -> Any:
        """Return the clusters of this level for labels of the fit, both (n,); -1 stays -1.

        Dask arrays stay lazy.
        """
        if hasattr(labels, "map_blocks"):
            return labels.map_blocks(self.labels, dtype=self.clusters.dtype)
        given = np.asarray(labels)
        return np.where(given < 0, np.int32(-1), self.clusters[given])


class ClusterTree(NamedTuple):
    """Levels of clusters."""

    leaves: Level
    """Clusters of the fit, with penalty 0."""
    levels: tuple[Level, ...]
    """Levels with rising penalties and fewer and fewer clusters."""
    random_state: int
    """The seed."""
    asked: dict[str, Any]
    """Description of the call, for JSON: `run`, the path of the model; `penalties` as given;
    `versions`."""

    def __repr__(self) -> str:
        return short_repr(self)


def cluster_tree(
    model: Any, penalties: ArrayLike | None = None, *, run: AnyPlace | None = None
) -> ClusterTree:
    """Build a tree of the clusters of a fit: DP-means on its centers, then on the new centers, ...

    Each center counts with the weight of its cluster.

    Penalties are prices, as with ``search=True``.  No row is read: the squared error about a center
    of centers is the squared error about the old centers, plus the squared error of the old centers
    about the new one.  The same holds for other divergences, and with missing values (Banerjee et
    al. 2005, section 3).  This is exact if the centers of the fit are the means of their rows, as
    with ``tol=0``.  After fits with the default tolerance, it was wrong by up to .0014 of itself
    (s1, a1, and 20,000 Gaussian rows).  Outliers of the fit belong to no cluster of any level.

    Parameters
    ----------
    model : fitted estimator with `cluster_centers_`, for example as `load` returns it
    penalties : numbers > 0, rising, optional
        One level each.  By default they double, starting from the cost of the cheapest merge of two
        clusters, until one cluster is left; levels without a merge are left out.
    run : path or URL, optional
        The store of the model.  The tree keeps it as its source.

    Returns
    -------
    ClusterTree

    Raises
    ------
    InputError
        The model has no centers, or a penalty is not a number > 0.

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
    words = description_of(model)
    centers, inertias = words.centers, words.inertias
    if hasattr(model, "cluster_tree_"):
        raise InputError(
            f"a fit of {type(model).__name__} has its own tree, of its micro-clusters: it is in cluster_tree_, and its "
            "report shows it"
        )
    if centers is None or inertias is None:
        needed = "a tree needs centers, weights and squared errors of clusters"
        raise InputError(
            f"{needed}, and {type(model).__name__} has not all of them: fit it, or use another method"
        )
    divergence = getattr(model, "_divergence", metric_of(words.metric))
    if divergence.encoded:
        centers = model.cluster_averages_
    numbers = np.arange(len(centers), dtype=np.int32)
    leaves = Level(0.0, numbers, np.asarray(centers), model.cluster_weights_, inertias)
    seed = model.random_state_
    clustering = _Clustering(divergence, seed)
    given = None if penalties is None else _rising(penalties)
    levels = clustering.doubling(leaves) if given is None else clustering.at(leaves, given)
    asked = {"run": shown_path(run), "penalties": given, "versions": versions()}
    shown = [each._replace(centers=divergence.shown(each.centers)) for each in (leaves, *levels)]
    return ClusterTree(shown[0], tuple(shown[1:]), seed, asked)


def _rising(penalties: ArrayLike) -> list[float]:
    """Return rising numbers > 0."""
    given: Any = penalties
    if isinstance(penalties, np.ndarray):
        given = np.ravel(penalties).tolist()
    refusal = f"penalties must be rising numbers > 0, got {checks.describe_value(penalties)}"
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InputError(refusal)
    found = [checked_penalty(each, "penalties") for each in given]
    if not found or found != sorted(set(found)):
        raise InputError(refusal)
    return found


@dataclass(frozen=True)
class _Clustering:
    """DP-means on the centers of a level."""

    divergence: Divergence
    seed: int

    def at(self, level: Level, penalties: list[float]) -> Iterator[Level]:
        """Yield one level for each penalty."""
        for penalty in penalties:
            level = self.above(level, penalty)
            yield level

    def doubling(self, level: Level) -> Iterator[Level]:
        """Yield the levels at which clusters merge, for doubling penalties, up to one cluster."""
        penalty = self.cheapest_merge(level)
        while level.n_clusters > 1:
            penalty *= 2
            above = self.above(level, penalty)
            if above.n_clusters < level.n_clusters:
                level = above
                yield level

    def cheapest_merge(self, level: Level) -> float:
        """Return the least cost > 0 that a merge of two clusters adds.

        Return 1 if all centers are equal.
        """
        k, masses, least = level.n_clusters, self.masses(level), np.inf
        for number in range(k - 1):
            pairs = np.column_stack([np.full(k - number - 1, number), np.arange(number + 1, k)])
            costs = self.divergence.rises(masses[pairs], level.centers[pairs])
            least = min(least, costs[costs > 0].min(initial=np.inf))
        return float(least) if np.isfinite(least) else 1.0

    def masses(self, level: Level) -> Float64Array:
        """Return the weights of the centers, (k,).

        For directions, return the lengths of the sums of their rows.
        """
        if self.divergence.spherical:
            return level.weights - level.inertias / (2 * self.divergence.length**2)
        return level.weights

    def above(self, below: Level, penalty: float) -> Level:
        """Return the clusters of the centers of a level.

        The search starts from each center as one cluster.
        """
        points = np.ascontiguousarray(self.divergence.points(below.centers), np.float64)
        source, starts = (
            InMemoryRows(points, self.masses(below)),
            self.divergence.shown(below.centers),
        )
        method = search.Method(penalty, learned=self.divergence, centers=starts, seed=self.seed)
        *_, last = iterate(source, method)
        labels = np.empty(below.n_clusters, np.int32)

        def store(start: int, answer: tuple[npt.NDArray[Any], ...]) -> None:
            labels[start : start + len(answer[0])] = answer[0]

        source.map(method.labels(source, last.state), store)
        # In the order of their first members.
        kept = labels[np.sort(np.unique(labels, return_index=True)[1])]
        k, numbers = len(kept), np.empty(labels.max() + 1, np.int32)
        numbers[kept] = np.arange(k)
        parents = numbers[labels]
        centers, rises = last.state.centers[kept], last.state.inertias[kept]
        if self.divergence.general is not None:
            centers, rises = self._means(below, parents, k)
        return Level(
            penalty,
            parents[below.clusters],
            centers,
            total(parents, below.weights, k),
            total(parents, below.inertias, k) + rises,
        )

    def _means(
        self, below: Level, parents: IntegerArray, k: int
    ) -> tuple[Float64Array, Float64Array]:
        """Return the averages of k clusters of centers, (k, d), and what centers cost at them, (k,).

        Centers of a fit with missing values count by their observed shares, which a search that
        starts at them does not keep.
        """
        weights = below.weights
        sums = [total(parents, weights * column, k) for column in below.centers.T]
        averages = np.stack(sums, axis=1) / total(parents, weights, k)[:, np.newaxis]
        costs = self.divergence.between(below.centers, averages[parents])
        return averages, total(parents, weights * costs, k)


def write_tree(
    tree: ClusterTree,
    out: AnyPlace,
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a tree as a Zarr group.

    The arrays are ``penalty``, ``n_clusters``, ``inertia`` and ``objective`` of the levels;
    ``clusters`` (level, cluster of the fit); and ``cluster_centers``, ``cluster_weights`` and
    ``cluster_inertias``, one level after the other.

    Parameters
    ----------
    tree : ClusterTree as `cluster_tree` returns it
    out : path or URL of a new group, for example ``run.tree.zarr``
    force : bool, remove a tree that is there
    storage_options : mapping, optional, options of fsspec for a URL

    Raises
    ------
    InputError
        Something else is there.
    """
    checks.instance("tree", tree, ClusterTree, "cluster_tree")
    levels = (tree.leaves, *tree.levels)
    names = (*FIGURES, "clusters", *CLUSTER_FIGURES)
    attributes = {name: getattr(tree, name) for name in ATTRIBUTES}
    with new_output(
        out, "tree", attributes, names, force=force, storage_options=storage_options
    ) as new:
        for name in (*FIGURES, "clusters"):
            values = np.array([getattr(level, name) for level in levels])
            new.write(name, values, ("level", "leaf")[: values.ndim])
        for name in CLUSTER_FIGURES:
            parts = [getattr(level, name.removeprefix("cluster_")) for level in levels]
            values = np.concatenate(parts)
            new.write(name, values, ("cluster", "feature")[: values.ndim])


def read_tree(path: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> ClusterTree:
    """Read a tree that `write_tree` wrote, to the bit.

    Parameters
    ----------
    path : path or URL of the group
    storage_options : mapping, optional, options of fsspec for a URL

    Returns
    -------
    ClusterTree

    Raises
    ------
    InputError
        There is no finished tree.
    CorruptStoreError
        An array is missing or does not match its checksum.
    """
    with open_output(path, "tree", storage_options) as found:
        names = ("penalty", "n_clusters", "clusters")
        penalties, numbers, clusters = found.read_equally_long(names)
        ends = np.cumsum(numbers)[:-1]
        stacked = found.read_equally_long(CLUSTER_FIGURES, int(numbers.sum()))
        each = [np.split(values, ends) for values in stacked]
        parts = zip(penalties.tolist(), clusters, *each, strict=True)
        leaves, *levels = itertools.starmap(Level, parts)
        kept = {name: found.attributes[name] for name in ATTRIBUTES}
        return ClusterTree(leaves, tuple(levels), **kept)
