"""scikit-learn's face of the Dirichlet process mixture: what DP-means is compared with."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import ClustersMixin, checked_rows, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.spec import CENTERS, MethodSpec
from dask_dpmeans.methods.gibbs import Method, State, gathered, limit_concentration
from dask_dpmeans.sources import as_source
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.run_store import Result

__all__ = ["GibbsMixture", "State", "limit_concentration"]

PARAMETERS = ("variance", "concentration", "mean_variance", "variance_prior", "concentration_prior", "max_iter")


class GibbsMixture(ClustersMixin, BaseEstimator):
    """A Dirichlet process mixture of Gaussians, sampled by Gibbs sweeps in memory: a baseline to measure others by.

    The model and the sampler of Kulis & Jordan 2012, section 2.2.  Rows are N(mean of the cluster, variance I), means
    are N(0, mean_variance I), and clusters come of a Chinese restaurant process.  A sweep goes through the rows in
    their order, and takes each out of its cluster: it joins another by its size and density, or opens one; then the
    means are drawn, and the variance and the concentration if they have priors.  The chain starts with all rows in one
    cluster, at their mean.  It goes on for `max_iter` sweeps, and whether it has come to the posterior is for you to
    say: look at `history_`.

    The prior of the means stands around 0, and most of it within two square roots of `mean_variance`: subtract the
    mean of the rows first, and scale them, unless their units are meant so.

    Parameters
    ----------
    variance : float, default 1.0
        Of each column within a cluster, in squared units of the rows: sigma of the paper.  With a prior, its start.
    concentration : float, default 1.0
        Of the Chinese restaurant process: alpha.  With a prior, its start.  `limit_concentration` gives that of the
        paper's section 3, at which the sampler becomes ``DPMeans(penalty)`` as the variance goes to 0.
    mean_variance : float, default 100.0
        Of each column of the clusters' means, in squared units of the rows: rho.
    variance_prior : (shape, scale), optional
        Of an inverse gamma distribution, from which the variance is drawn given the clusters, once a sweep.
    concentration_prior : (shape, rate), optional
        Of a gamma distribution, from which the concentration is drawn given the number of clusters (Escobar & West
        1995), once a sweep.
    max_iter : int, default 1000
        Sweeps.
    random_state : int, RandomState instance or None, default None
        Drawn once and kept in `random_state_`.

    Attributes
    ----------
    labels_ : (n,) int32
        The clusters of the last draw.
    cluster_centers_ : (k, d) float64
        Their means, as they were drawn.
    cluster_weights_ : (k,) float64
        Their rows.
    cluster_inertias_ : (k,) float64
        Squared errors of the clusters.
    n_clusters_ : int
    variance_, concentration_ : float
        Those of the last draw.
    inertia_ : float
        Squared error of the rows about `cluster_centers_`.
    objective_ : float
        Minus the logarithm of the joint density of rows, labels and what else has a prior, means integrated out.
    n_iter_ : int
        Sweeps.
    n_passes_ : float
        Passes over the rows.
    history_ : list of `dask_dpmeans.engine.history.Record`
        One a sweep; the objective goes up and down.
    random_state_, n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.estimators.gibbs import GibbsMixture
    >>> X = np.array([[-5.0], [-5.1], [-4.9], [5.0], [5.1]])
    >>> GibbsMixture(variance=0.1, concentration=1e-3, max_iter=50, random_state=0).fit(X).labels_.tolist()
    [0, 0, 0, 1, 1]
    """

    def __init__(
        self,
        variance: float = 1.0,
        concentration: float = 1.0,
        *,
        mean_variance: float = 100.0,
        variance_prior: tuple[float, float] | None = None,
        concentration_prior: tuple[float, float] | None = None,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.variance = variance
        self.concentration = concentration
        self.mean_variance = mean_variance
        self.variance_prior = variance_prior
        self.concentration_prior = concentration_prior
        self.max_iter = max_iter
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw `max_iter` times, and keep the last draw.

        Parameters
        ----------
        X : (n, d), anything that `DPMeans.fit` takes and memory holds
        y : ignored

        Returns
        -------
        self
        """
        tasks = Tasks.of(self, X, y, most=self.method().max_iter)
        draws, stopped = self.draws(X), False
        while not stopped:
            task = tasks.step()
            state = next(draws)
            stopped = task.end(partial(self._reached, partial(GibbsMixture._note, state=state)))
            stopped = stopped or state.step == self.max_iter
        self._note(state)
        tasks.end()
        return self

    def _note(self, state: State) -> None:
        """Note a draw."""
        self.labels_ = state.labels
        self.cluster_centers_ = state.centers
        self.variance_, self.concentration_ = state.variance, state.concentration
        self._set_fitted(state.weights, state.inertias, list(self.history_))

    def draws(self, X: Any) -> Iterator[State]:
        """Yield the state after each sweep, `max_iter` of them: labels, means, variance, concentration.

        ``itertools.islice(model.draws(X), 1000, None, 10)`` leaves the first 1,000 out, and takes every tenth after
        that.  `history_` grows along.

        Parameters
        ----------
        X : as `fit` takes it
        """
        method = self.method()
        rows = gathered(as_source(checked_rows(self, X, reset=True)))
        self.random_state_ = seed_of(self.random_state)
        self.history_: list[Record] = []
        for step in iterate(HeldRows(rows, None), method.seeded(self.random_state_)):
            self.history_.append(Record.of(step.state, len(rows), step.seconds))
            yield step.state

    def _restore(self, result: Result) -> None:
        """Note what a run came to."""
        self._restore_clusters(result)
        self.cluster_centers_ = result.arrays["cluster_centers"]
        self.variance_ = float(result.arrays["variance"][0])
        self.concentration_ = float(result.arrays["concentration"][0])

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        numbers = {name: getattr(self, name) for name in ("variance", "concentration", "mean_variance")}
        return Description(
            penalty_name="variance",
            objective_name="objective, minus the log joint density",
            objective_parts="-log of the joint density",
            has_end=False,
            settings={"mixture": ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in numbers.items())},
            clusters=f"{self.n_clusters_:,} in the last draw" if hasattr(self, "n_clusters_") else "",
        )

    def method(self) -> Method:
        """The parameters, checked, as the library's core takes them."""
        return Method(**parameters_of(self.get_params()))


def parameters_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the model and of the chain among those given, in Python's own types."""
    return {name: _plain(given[name]) for name in PARAMETERS}


def _plain(value: Any) -> Any:
    """Numbers that JSON can hold, and priors as tuples, which it has as lists."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


def _predictor(result: Result) -> Kernel:
    raise InputError("the clusters of the run are a draw given its own rows, whose labels are in it")


def _parameters(model: GibbsMixture, method: Method) -> dict[str, Any]:
    return {**parameters_of(model.get_params(deep=False)), "random_state": model.random_state}


DRAWN = (ArraySpec("variance", ("draw",)), ArraySpec("concentration", ("draw",)))
"""sigma and alpha of the last draw."""

SPEC = MethodSpec(GibbsMixture, (Method,), _predictor, arrays=(*CENTERS, *DRAWN), parameters=_parameters)
