"""The scikit-learn estimator of the Dirichlet process mixture, a baseline for DP-means."""

from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from dask_dpmeans import sources
from dask_dpmeans.engine.history import History
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import Progress, follow
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import ClustersMixin, RandomState, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.checked_rows import checked_rows, names_in
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import CENTERS, MethodSpec
from dask_dpmeans.methods.gibbs import Method, State, gather_rows, limit_concentration
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

__all__ = ["GibbsMixture", "State", "limit_concentration"]

PARAMETERS = [each.name for each in fields(Method) if each.name != "seed"]
NO_CUBES = (
    "GibbsMixture takes no cubes, got one along {}: stack the samples' dimensions, as "
    "X.stack(sample=['lat', 'lon']).transpose('sample', 'time').dropna('sample') does"
)


class GibbsMixture(ClustersMixin, BaseEstimator):
    """A Dirichlet process mixture of Gaussians, sampled by Gibbs sweeps in memory, as a baseline.

    The model and the sampler of Kulis & Jordan 2012, section 2.2.  Rows are N(mean of the cluster,
    variance I), means are N(0, mean_variance I), and clusters follow a Chinese restaurant process.
    A sweep takes each row, in order, out of its cluster.  The row joins another cluster by its size
    and density, or opens one.  Then the means are drawn, and the variance and the concentration if
    they have priors.  The chain starts with all rows in one cluster, at their mean, and runs for
    `max_iter` sweeps.  Whether it has reached the posterior is for you to judge, by `history_`.

    The prior of the means is around 0, mostly within two square roots of `mean_variance`.  So
    subtract the mean of the rows first, and scale them, unless their units are meant so.

    Parameters
    ----------
    variance : float, default 1.0
        Variance of each column within a cluster, in squared units of the rows: sigma of the paper.
        With a prior, the start.
    concentration : float, default 1.0
        Concentration of the Chinese restaurant process: alpha.  With a prior, the start.
        `limit_concentration` returns the value of the paper's section 3, with which the sampler
        becomes ``DPMeans(penalty)`` as the variance goes to 0.
    mean_variance : float, default 100.0
        Variance of each column of the clusters' means, in squared units of the rows: rho.
    variance_prior : (shape, scale), optional
        Inverse gamma prior; the variance is drawn given the clusters, once a sweep.
    concentration_prior : (shape, rate), optional
        Gamma prior; the concentration is drawn given the number of clusters (Escobar & West 1995),
        once a sweep.
    max_iter : int, default 1000
        Sweeps.
    random_state : int, RandomState instance or None, default None
        Seed of the chain, drawn once and stored in `random_state_`.

    Attributes
    ----------
    labels_ : (n,) int32
        The clusters of the last draw.
    cluster_centers_ : (k, d) float64
        Their means, as drawn.
    cluster_weights_ : (k,) float64
        Number of rows of each cluster.
    cluster_inertias_ : (k,) float64
        Squared error of each cluster.
    n_clusters_ : int
    variance_, concentration_ : float
        Values of the last draw.
    inertia_ : float
        Sum of `cluster_inertias_`.
    objective_ : float
        Minus the logarithm of the joint density of rows, labels and drawn parameters, with the
        means integrated out.
    n_iter_ : int
        Sweeps.
    n_passes_ : float
        Passes over the rows.
    history_ : list of `dask_dpmeans.engine.history.Record`
        One record for each sweep; the objective goes up and down.
    random_state_, n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.estimators.gibbs import GibbsMixture
    >>> X = np.array([[-5.0], [-5.1], [-4.9], [5.0], [5.1]])
    >>> model = GibbsMixture(variance=0.1, concentration=1e-3, max_iter=50, random_state=0)
    >>> model.fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    @without_row_options
    def __init__(
        self,
        variance: float = 1.0,
        concentration: float = 1.0,
        *,
        mean_variance: float = 100.0,
        variance_prior: tuple[float, float] | None = None,
        concentration_prior: tuple[float, float] | None = None,
        max_iter: int = 1000,
        random_state: RandomState = None,
    ) -> None:
        self.variance = variance
        self.concentration = concentration
        self.mean_variance = mean_variance
        self.variance_prior = variance_prior
        self.concentration_prior = concentration_prior
        self.max_iter = max_iter
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: object, y: object = None) -> Self:
        """Draw `max_iter` times, and keep the last draw.

        Parameters
        ----------
        X : (n, d), as for `DPMeans.fit`; it must fit in memory
        y : ignored

        Returns
        -------
        self
        """
        method = self.method()
        tasks = Tasks.of(self, X, y, most=method.max_iter)
        rows = self._rows(X)
        self._drive(rows, method.seeded(self.random_state_), tasks, GibbsMixture._note)
        tasks.end()
        return self

    def _note(self, progress: Progress[State]) -> None:
        state = progress.state
        self.labels_ = state.labels
        self.cluster_centers_ = state.centers
        self.variance_, self.concentration_ = state.variance, state.concentration
        self._set_fitted(state.weights, state.inertias, progress.history)

    def draws(self, X: object) -> Iterator[State]:
        """Yield the state after each of `max_iter` sweeps: labels, means, variance, concentration.

        ``itertools.islice(model.draws(X), 1000, None, 10)`` leaves out the first 1,000, and takes
        every tenth after them.  `history_` grows along.

        Parameters
        ----------
        X : (n, d), as for `fit`
        """
        method, rows = self.method(), self._rows(X)
        self.history_ = History()
        for progress in follow(rows, method.seeded(self.random_state_)):
            self.history_ = progress.history
            yield progress.state

    def _rows(self, X: object) -> InMemoryRows:
        """Return the rows in memory, and draw the seed."""
        if sources.is_cube(X) and len(getattr(X, "dims", ())) > 2:
            raise InputError(NO_CUBES.format(", ".join(map(repr, getattr(X, "dims", ())))))
        given = checked_rows(self, X, reset=True)
        rows = gather_rows(sources.as_source(given, known_names=names_in(self)))
        self.random_state_ = seed_of(self.random_state)
        return InMemoryRows(rows, None)

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        self.cluster_centers_ = result.arrays["cluster_centers"]
        self.variance_ = float(result.arrays["variance"][0])
        self.concentration_ = float(result.arrays["concentration"][0])

    def description(self) -> Description:
        names = ("variance", "concentration", "mean_variance")
        mixture = ", ".join(f"{name.replace('_', ' ')} {getattr(self, name):g}" for name in names)
        clusters = ""
        if hasattr(self, "n_clusters_"):
            clusters = f"{self.n_clusters_:,} in the last draw"
        return Description(
            penalty_name="variance",
            objective_name="objective, minus the log joint density",
            objective_parts="-log of the joint density",
            has_end=False,
            centers=vars(self).get("cluster_centers_"),
            inertias=vars(self).get("cluster_inertias_"),
            settings={"mixture": mixture},
            clusters=clusters,
        )

    def method(self) -> Method:
        """Return the checked parameters as an algorithm."""
        return Method(**parameters_of(self))


def parameters_of(model: GibbsMixture) -> dict[str, Any]:
    """Return the parameters of the model and of the chain, in Python's own types."""
    return {name: _plain(getattr(model, name)) for name in PARAMETERS}


def _plain(value: object) -> object:
    """Return a number that JSON can hold; a prior, which JSON has as a list, becomes a tuple."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, np.generic):
        return value.item()
    return value


def _predictor(result: "Result") -> Kernel:
    raise InputError(
        "the clusters of the run are a draw given its own rows, whose labels are in it"
    )


def _parameters(model: GibbsMixture, method: Method) -> dict[str, Any]:
    return {**parameters_of(model), "random_state": model.random_state}


DRAWN = (ArraySpec("variance", ("draw",)), ArraySpec("concentration", ("draw",)))
"""sigma and alpha of the last draw."""

SPEC = MethodSpec(GibbsMixture, _predictor, arrays=(*CENTERS, *DRAWN), parameters=_parameters)
