"""The scikit-learn estimator of graph cuts: clusters of the nodes of a graph."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from dask_dpmeans import checks, sources
from dask_dpmeans.engine.loop import Progress
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.auto import AutoMixin
from dask_dpmeans.estimators.base import RandomState, limits_of, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import CLUSTERS, STABILITY, MethodSpec
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.choice import AUTO
from dask_dpmeans.methods.graph_cut import multilevel, sweep
from dask_dpmeans.methods.graph_cut.choice import AutoCut, CutChoice
from dask_dpmeans.methods.graph_cut.parts import FINEST
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

UNITS = {"normalized": "link end", "ratio": "node"}
"""Unit of the weights of clusters by `cut`."""
CUTS = tuple(UNITS)
METHODS: dict[str, type[multilevel.Method] | type[sweep.Method]] = {
    "coarsen": multilevel.Method,
    "mean": sweep.Method,
}
"""Algorithms by `init`."""


class GraphCutDPMeans(AutoMixin, BaseEstimator):
    """Cluster the nodes of a graph by a cut and a price for each cluster.

    Minimizes cut + penalty * k (Kulis & Jordan 2012, section 5.2).  A cluster adds to the
    normalized cut the share of its links that leave it, and to the ratio cut the weight of these
    links divided by its nodes.  By theorem 5.3 this is weighted kernel DP-means.  The result is the
    same, to the byte, for any chunking, threads and workers.

    A note that the paper leaves out: a cut is 0 for one cluster and grows with their number, so
    with a penalty of 0 or more one cluster is best.  Useful penalties are negative.  In the
    normalized cut each cluster then pays 1 + penalty and earns the share of its links that stay
    inside, so useful penalties are between -1 and 0.  For the same reason no birth at a threshold
    pays, and Algorithm 1 stays at its one cluster.  So here nodes start as clusters, and merge.

    Parameters
    ----------
    penalty : float or "auto", default "auto"
        The price of a cluster, in units of the cut: lambda' of the paper.  The nearer to 0, the
        fewer clusters.

        "auto" chooses it from the links.  Clusters that nodes and merges find at -.75 are merged on,
        best changes of the cut first, and each number of clusters k is best over an interval of
        penalties.  The one with the greatest log(low / high) * sqrt(k), times the agreement of
        merges by halves of the links where this is close, is chosen, at the geometric mean of its
        interval.  If that product is below 1, or if random graphs with the same degrees divide
        about as well, the components of the graph are its clusters.  Penalties between -.003 and 0
        are not tried.  In the ratio cut both limits are multiples of the mean degree of the nodes.
        The fit is then the same, to the byte, as with that penalty.  It moves nodes on, so it may
        have a few clusters more or less than the choice says.
    cut : {"normalized", "ratio"}, default "normalized"
        The cut.  The normalized cut weighs clusters by their degrees, the ratio cut by their nodes.
    init : {"coarsen", "mean"}, default "coarsen"
        The start of the fit.  "coarsen": every node is a cluster.  Clusters merge, move nodes and
        split by their exact effect on the objective.  A fit that converges is never above one with
        "mean".  "mean": one cluster of all nodes, Algorithm 1 of the paper to the letter, for
        comparison.  Nodes go to the nearest mean in the kernel's space, and open clusters if
        weight * distance^2 > lambda.
    max_iter : int, default 300
        The most steps.  At the limit, a `sklearn.exceptions.ConvergenceWarning`.
    tol : float, default 1e-4
        The fit has converged when a step after the last merges lowers the objective by less than
        this share of cut + abs(penalty) * k.
    max_clusters : int, optional
        More clusters in the end are a `TooManyClustersError`.
    random_state : int, RandomState instance or None, default None
        Seed for which nodes move together, drawn once and stored in `random_state_`.

    Attributes
    ----------
    penalty_ : float
        The penalty, chosen or given.
    choice_ : `dask_dpmeans.methods.graph_cut.choice.CutChoice` or None
        Why the penalty was chosen, and what else might be; None if it was given.
        ``GraphCutDPMeans(choice_.alternatives[1].penalty)`` fits the next best number.
    cluster_stability_ : (k,) float64 or None
        Stability of each cluster, at most 1: the mean Jaccard index with the cluster most like it
        by half of the links; None if the penalty was given.
    labels_ : (n,) int32
        The cluster of each node.  A node without links has no part in a normalized cut, and the
        label -1; in the ratio cut it is a cluster of its own.
    n_clusters_ : int
    cluster_weights_ : (k,) float64
        The degrees of the clusters, with links inside counted from both ends; the nodes of the
        clusters for the ratio cut.
    cluster_inertias_ : (k,) float64
        The part of each cluster in the cut.
    sigma_ : float
        With ``init="mean"``: the number added to the diagonal of the kernel to make it positive
        semidefinite, by Gershgorin's circles.
    cut_, inertia_ : float
        The cut: sum of `cluster_inertias_`.
    objective_ : float
        ``cut_ + penalty * n_clusters_``.
    n_iter_ : int
        Steps.
    n_passes_ : float
        Passes over the links.
    history_ : list of `dask_dpmeans.engine.history.Record`
        One record for each step; inertia is the cut.
    random_state_ : int
    n_features_in_ : int
        Number of nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import GraphCutDPMeans
    >>> triangle = np.ones((3, 3)) - np.eye(3)
    >>> graph = np.kron(np.eye(2), triangle)
    >>> graph[2, 3] = graph[3, 2] = 1
    >>> model = GraphCutDPMeans(penalty=-0.5, random_state=0).fit(graph)
    >>> model.labels_.tolist(), round(model.cut_, 6)
    ([0, 0, 0, 1, 1, 1], 0.285714)

    Without a penalty, the links of more nodes tell how many clusters there are:

    >>> clique = np.ones((8, 8)) - np.eye(8)
    >>> graph = np.kron(np.eye(5), clique)
    >>> graph[range(0, 40, 8), range(-8, 32, 8)] = graph[range(-8, 32, 8), range(0, 40, 8)] = 1
    >>> GraphCutDPMeans(random_state=0).fit(graph).n_clusters_
    5
    """

    _auto_type, _choice_type = AutoCut, CutChoice
    _allowed, _unchosen = "< 0", -FINEST
    penalty_: float
    choice_: CutChoice | None
    cluster_stability_: Float64Array | None

    @without_row_options
    def __init__(
        self,
        penalty: float | str = AUTO,
        *,
        cut: str = "normalized",
        init: str = "coarsen",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.penalty = penalty
        self.cut = cut
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: object, y: object = None) -> Self:
        """Cluster the nodes of a graph.

        Parameters
        ----------
        X : (n, n) matrix of the weights of links, symmetric, >= 0
            A scipy sparse matrix or array, NumPy array, Dask array of CSR chunks, CSR in a Zarr
            group (the layout of anndata), networkx graph, or the path of a ``.npz``, of a Matrix
            Market ``.mtx`` or of such a group.  A link of a node to itself always stays inside.
        y : ignored

        Returns
        -------
        self
        """
        method = self.method()
        tasks = Tasks.of(self, X, y, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        source = sources.as_source(as_graph(X), sparse=True)
        self.n_features_in_ = source.plan.n_rows
        algorithm, chosen = self._choose(MappedRows(source), method.seeded(self.random_state_))

        def note(model: Self, progress: Progress[Any]) -> None:
            model._note(progress)
            model._note_choice(algorithm, source, progress.state, chosen)

        self._drive(source, algorithm, tasks, note)
        tasks.end()
        return self

    def _note(self, progress: Progress[Any]) -> None:
        state = progress.state
        self.labels_ = state.labels
        self._set_fitted(state.weights, state.inertias, progress.history)
        if METHODS[self.init] is sweep.Method:
            self.sigma_ = state.sigma

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.pairwise = tags.input_tags.positive_only = True
        return tags

    @property
    def cut_(self) -> float:
        """The cut, the sum of `cluster_inertias_`."""
        return self.inertia_

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        if "sigma" in result.arrays:
            self.sigma_ = float(result.arrays["sigma"][0])

    def description(self) -> Description:
        choice = getattr(self, "choice_", None)
        return Description(
            row="node",
            passes_over="links",
            weight_unit=UNITS.get(self.cut, "node"),
            weights_count_rows=self.cut == "ratio",
            inertia_name="cut",
            radii_are_cuts=True,
            objective_parts="cut {inertia:.9g} + penalty x clusters",
            settings={"penalty": self._describe_penalty()} | self._describe_choice(),
            json={} if choice is None else {"choice": choice.as_json()},
            pictures=("graph",),
        )

    def _describe_penalty(self) -> str:
        of_cut = f"on the {self.cut} cut"
        if not self._chooses:
            return f"{self.penalty:g} {of_cut}"
        if getattr(self, "choice_", None) is None:
            return f"{AUTO} {of_cut}"
        return f"{self.penalty_:g} {of_cut}, chosen from the links"

    def method(self) -> multilevel.Method | sweep.Method:
        """Return the checked parameters as an algorithm."""
        checks.choice("cut", self.cut, CUTS)
        return METHODS[checks.choice("init", self.init, METHODS)](
            penalty=checks.number("penalty", self._numbers["penalty"], ""),
            normalized=self.cut == "normalized",
            **limits_of(self),
        )


def as_graph(graph: Any) -> Any:
    """Return a graph as rows of its adjacency matrix, in a form that `as_source` takes."""
    if hasattr(graph, "edges") and hasattr(graph, "is_directed"):
        return _adjacency(graph)
    graph = sources.unwrap(graph, "graph")
    if sources.frame_of(graph, "graph") is not None:
        raise InputError(
            "the graph is a data frame: pass its numbers, as graph.to_numpy() gives, with the nodes "
            "in one order along rows and columns"
        )
    if isinstance(graph, np.ma.MaskedArray) or not isinstance(graph, np.ndarray | list):
        return graph
    try:
        array = np.asarray(graph)
        if array.dtype == object:  # converted as scikit-learn does
            sources.refuse_inexact(array, "graph")
            array = array.astype(np.float64)
    except InputError:
        raise
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"graph is no array of numbers: {error}") from error
    sources.working_dtype(array.dtype, "graph")
    if array.ndim != 2:
        raise InputError(f"the graph must be a square matrix, n x n, got shape {array.shape}")
    if array.dtype == np.float16:  # SciPy has no such sparse arrays
        array = array.astype(np.float32)
    return csr_array(array)


def _adjacency(graph: Any) -> csr_array:
    """Return the adjacency matrix, (n, n), of a networkx graph.

    Nodes keep their order.  The weights of several links between two nodes are added up.
    """
    if graph.is_directed():
        advice = "cuts are of undirected graphs; take graph.to_undirected()"
        raise InputError(f"the graph is directed: {advice}")
    numbers = {node: number for number, node in enumerate(graph)}
    edges = graph.edges(data="weight", default=1.0)
    links = [(numbers[a], numbers[b], weight) for a, b, weight in edges]
    first, second, weights = np.array(links, np.float64).reshape(-1, 3).T
    a, b = first.astype(np.int64), second.astype(np.int64)
    other = a != b
    rows, columns = np.concatenate([a, b[other]]), np.concatenate([b, a[other]])
    values = np.concatenate([weights, weights[other]])
    return csr_array((values, (rows, columns)), shape=(len(numbers),) * 2)


def _predictor(result: "Result") -> Kernel:
    raise InputError(
        "the clusters of the run are of the nodes of its graph, whose labels are in it"
    )


WEIGHTS = "a graph: its links have weights themselves"

SPEC = MethodSpec(
    GraphCutDPMeans,
    _predictor,
    arrays=(*CLUSTERS, STABILITY, ArraySpec("sigma", ("kernel",))),
    read=as_graph,
    sparse=True,
    refuses={"sample_weight": WEIGHTS, "columns": WEIGHTS, "scale": WEIGHTS},
)
