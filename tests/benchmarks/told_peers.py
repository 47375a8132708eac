"""Peers of the search that are told its number of clusters, or left to find one, on rows in memory.

Each gets its own best settings.  KMeans of scikit-learn has ten starts or one; faiss takes all rows, not the sample of
256 a cluster that is its default; `flspp` makes local search steps after its start (Conrads et al. 2024); Breathing
k-means breathes with m = 5 (Fritzke 2020); HG-means has its paper's population of 10 and 5,000 iterations (Gribel &
Vidal 2019).  HDBSCAN and Leiden are told nothing of J, so that a setting is chosen for them before they are timed:
the `min_cluster_size` of lowest J for `fast_hdbscan`, and for igraph's Leiden, which works on the graph of
15 nearest neighbors, the resolution whose number of clusters is nearest to the search's.  The centers
of both are the means of their clusters; rows that HDBSCAN leaves out are charged at the nearest of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from out_of_core import peak_memory
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.neighbors import kneighbors_graph

from dask_dpmeans.methods.dpmeans.batch import inertia_of
from dask_dpmeans.sources import as_source

CORES = 2
WARM_ROWS = 1_000
"""Rows of the fit before the one that is timed."""
LEAST_SIZES = (5, 10, 20, 50, 100, 200)
"""What HDBSCAN tries as `min_cluster_size`."""
LEIDEN_NEIGHBORS = 15
LEIDEN_TRIES = 8
"""Resolutions that are tried for a number of clusters."""
TEN, ONE = "KMeans, 10 starts", "KMeans, 1 start"

Rows = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """What a competitor is told."""

    path: Path
    """Of the rows: a .npy file, or a Zarr array."""
    penalty: float
    k: int = 0
    """Clusters, for those that do not find it."""
    iterations: int = 0
    """For those that are told it."""
    pdc_python: str | None = None
    """The Python that has `pdc-dp-means`."""
    chunks: int = 1_000
    """Of a Dask array."""

    def rows(self) -> npt.NDArray[np.float32]:
        """All of them, in memory."""
        loaded: npt.NDArray[np.float32] = np.load(self.path)
        return loaded


@dataclass(frozen=True)
class Fitted:
    """What a competitor answers."""

    seconds: float
    """Of the fit."""
    centers: npt.NDArray[np.float64]
    passes: float
    memory: int
    """Bytes, the peak."""
    iterations: int = 0
    """Sweeps of a fit of this package; 0 for a peer."""
    first: float = 0.0
    """Seconds of the first fit of the process, if that was of the same rows; 0 otherwise."""


Competitor = Callable[[Task, Callable[[], None]], Fitted]
"""Warms up, calls what it is given when it starts to be timed, and answers."""


def timed_fit(
    fit: Callable[[Any], Any], warm: Any, rows: Any, ready: Callable[[], None]
) -> tuple[Any, float]:
    """What a fit of the rows answers, and its seconds, after one of a few rows."""
    fit(warm)
    ready()
    started = perf_counter()
    model = fit(rows)
    return model, perf_counter() - started


def told_k(make: Callable[[int], Any], task: Task, ready: Callable[[], None]) -> Fitted:
    """A k-means with the attributes of scikit-learn's."""
    rows = task.rows()
    model, seconds = timed_fit(
        lambda rows: make(min(task.k, len(rows))).fit(rows), rows[:WARM_ROWS], rows, ready
    )
    return Fitted(
        seconds,
        model.cluster_centers_.astype(np.float64),
        getattr(model, "n_iter_", 1),
        peak_memory(),
    )


def kmeans_10(task: Task, ready: Callable[[], None]) -> Fitted:
    """Ten starts of scikit-learn's KMeans, told k."""
    return told_k(lambda k: KMeans(k, n_init=10, random_state=0), task, ready)


def kmeans_1(task: Task, ready: Callable[[], None]) -> Fitted:
    """One start."""
    return told_k(lambda k: KMeans(k, n_init=1, random_state=0), task, ready)


def minibatch(task: Task, ready: Callable[[], None]) -> Fitted:
    """Batches, as scikit-learn chooses them."""
    return told_k(lambda k: MiniBatchKMeans(k, n_init=1, random_state=0), task, ready)


def faiss_kmeans(task: Task, ready: Callable[[], None]) -> Fitted:
    """All rows, not the sample of 256 a cluster that faiss takes by default; its own 25 iterations."""
    faiss: Any = import_module("faiss")
    faiss.omp_set_num_threads(CORES)
    rows = task.rows()

    def fit(rows: npt.NDArray[np.float32]) -> Any:
        k = min(task.k, len(rows))
        model = faiss.Kmeans(
            rows.shape[1],
            k,
            seed=0,
            min_points_per_centroid=1,
            max_points_per_centroid=ceil(len(rows) / k),
        )
        model.train(rows)
        return model

    model, seconds = timed_fit(fit, rows[:WARM_ROWS], rows, ready)
    return Fitted(seconds, model.centroids.astype(np.float64), model.cp.niter, peak_memory())


def flspp(task: Task, ready: Callable[[], None]) -> Fitted:
    """Local search steps after a start of k-means++."""
    return told_k(lambda k: import_module("flspp").FLSpp(k, random_state=0), task, ready)


def breathing(task: Task, ready: Callable[[], None]) -> Fitted:
    """Breathing k-means."""
    return told_k(
        lambda k: import_module("bkmeans").BKMeans(n_clusters=k, random_state=0), task, ready
    )


def means_of(rows: Rows, labels: Labels) -> npt.NDArray[np.float64]:
    """The means, (k, d), of clusters; -1 is none.  One cluster has all rows if there are none."""
    if not (labels >= 0).any():
        labels = np.zeros(len(rows), np.int64)
    inside, numbers = labels >= 0, np.unique(labels[labels >= 0])
    places = np.searchsorted(numbers, labels[inside])
    sums = np.stack(
        [np.bincount(places, column[inside].astype(np.float64)) for column in rows.T], axis=1
    )
    return np.asarray(sums / np.bincount(places)[:, np.newaxis])


def hg_means(task: Task, ready: Callable[[], None]) -> Fitted:
    """HG-means, as its paper runs it; its random numbers cannot be set."""
    module, rows = import_module("hgmeans"), task.rows()

    def fit(rows: Rows) -> Labels:
        k = min(task.k, len(rows))
        answer = module.PyHGMeans().Go(rows.tolist(), [0] * len(rows), 10, 5_000, 1, [k], 0)
        return np.array(answer[0])

    labels, seconds = timed_fit(fit, rows[:WARM_ROWS], rows, ready)
    return Fitted(seconds, means_of(rows, labels), 1, peak_memory())


def hdbscan(task: Task, ready: Callable[[], None]) -> Fitted:
    """The `min_cluster_size` of lowest J."""
    method, rows = import_module("fast_hdbscan").HDBSCAN, task.rows()

    def fit(rows: Rows, size: int) -> Labels:
        return np.asarray(method(min_cluster_size=size).fit(rows).labels_, np.int64)

    def objective(size: int) -> float:
        centers = means_of(rows, fit(rows, size))
        return inertia_of(as_source(rows), centers) + task.penalty * len(centers)

    best = min(LEAST_SIZES, key=objective)
    labels, seconds = timed_fit(lambda rows: fit(rows, best), rows[:WARM_ROWS], rows, ready)
    return Fitted(seconds, means_of(rows, labels), 1, peak_memory())


def leiden(task: Task, ready: Callable[[], None]) -> Fitted:
    """Modularity on the graph of nearest neighbors, at the resolution that gives about k clusters."""
    igraph, rows = import_module("igraph"), task.rows()

    def graph(rows: Rows) -> Any:
        links = kneighbors_graph(rows, min(LEIDEN_NEIGHBORS, len(rows) - 1), n_jobs=CORES)
        return igraph.Graph(len(rows), np.stack(links.nonzero(), axis=1)).simplify()

    def clusters(graph: Any, resolution: float) -> Labels:
        igraph.set_random_number_generator(Random(0))
        parts = graph.community_leiden("modularity", resolution=resolution, n_iterations=-1)
        return np.array(parts.membership)

    whole, low, high = graph(rows), 1e-3, 1e4
    tried = dict[float, int]()
    for _ in range(LEIDEN_TRIES):
        middle = (low * high) ** 0.5
        tried[middle] = int(clusters(whole, middle).max()) + 1
        low, high = (low, middle) if tried[middle] >= task.k else (middle, high)
    best = min(tried, key=lambda each: abs(tried[each] - task.k))
    labels, seconds = timed_fit(
        lambda rows: clusters(graph(rows), best), rows[:WARM_ROWS], rows, ready
    )
    return Fitted(seconds, means_of(rows, labels), 1, peak_memory())


@dataclass(frozen=True)
class Peer:
    """A peer of the search."""

    name: str
    """Of its lines."""
    fit: Competitor
    module: str = "sklearn"
    """What has to be installed."""


PEERS: Mapping[str, Peer] = {
    "kmeans10": Peer(TEN, kmeans_10),
    "kmeans1": Peer(ONE, kmeans_1),
    "minibatch": Peer("MiniBatchKMeans", minibatch),
    "faiss": Peer("faiss Kmeans", faiss_kmeans, "faiss"),
    "flspp": Peer("FLS++", flspp, "flspp"),
    "hgmeans": Peer("HG-means", hg_means, "hgmeans"),
    "bkmeans": Peer("Breathing k-means", breathing, "bkmeans"),
    "hdbscan": Peer("fast_hdbscan", hdbscan, "fast_hdbscan"),
    "leiden": Peer("Leiden of igraph", leiden, "igraph"),
}
"""By the name of the option."""
