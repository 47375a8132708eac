"""Gibbs sampling of a Dirichlet process mixture of Gaussians.

DP-means is its limit for a small variance.

The model of Kulis & Jordan 2012, section 2.2: clusters come of a Chinese restaurant process of
concentration alpha, their means of N(0, rho I), rows of N(mean, sigma I).  The sampler is the one
described there, Algorithm 2 of Neal 2000: a sweep draws the cluster of each row given the others
and the means of the clusters, then the means given the rows.  Of section 6.1 are an inverse gamma
prior on sigma and a gamma prior on alpha, drawn after Escobar & West 1995.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Float64Array, Int64Array, Labels
from dask_dpmeans.kernels.gibbs import Seats, reseat
from dask_dpmeans.kernels.graph_cut.gains import GivenLabels
from dask_dpmeans.kernels.moments import Moments, total
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.common import BaseMethod, BaseState
from dask_dpmeans.methods.dpmeans.batch import clusters_of

Prior = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class State(BaseState):
    """A draw: the chain after a number of sweeps.

    The objective is minus the logarithm of the joint density of rows, labels, sigma and alpha.  The
    means are integrated out, so that draws of any number of clusters compare.  Fixed sigma or alpha
    do not count.
    """

    labels: Labels
    """(n,), the cluster of each row; clusters are numbered in the order in which they opened."""
    centers: Float64Array
    """(k, d), the drawn means of the clusters."""
    variance: float
    """Sigma, in squared units of the rows."""
    concentration: float
    """Alpha."""
    births: int = 0
    """Clusters opened in this sweep."""


def moments_of(rows: Float64Array, labels: Int64Array, k: int) -> Moments:
    """Return the moments of k clusters of rows, (n, d), by labels, (n,), about their averages."""
    counts = np.bincount(labels, minlength=k)
    weights = counts.astype(np.float64)
    sums = np.column_stack([total(labels, column, k) for column in rows.T])
    squares = squares_about(sums / weights[:, np.newaxis], rows, labels)
    return Moments(counts, weights, sums, squares)


def squares_about(centers: Float64Array, rows: Float64Array, labels: Int64Array) -> Float64Array:
    """Return the squared error of rows, (n, d), about the centers, (k, d), of their labels."""
    differences = rows - centers[labels]
    return total(labels, np.einsum("ij,ij->i", differences, differences), len(centers))


@dataclass(frozen=True)
class Method(BaseMethod):
    """Gibbs sampling, with the parameters of the model."""

    name: ClassVar[str] = "gibbs"
    state: ClassVar[type[State]] = State
    draws: ClassVar[bool] = True

    variance: float = 1.0
    """Sigma of each column, in squared units of the rows; its start if it has a prior."""
    concentration: float = 1.0
    """Alpha; its start if it has a prior."""
    mean_variance: float = 100.0
    """Rho, of each column of the clusters' means, in squared units of the rows."""
    variance_prior: Prior | None = None
    """Shape and scale of the inverse gamma prior on sigma; None for a fixed sigma."""
    concentration_prior: Prior | None = None
    """Shape and rate of the gamma prior on alpha; None for a fixed alpha."""
    max_iter: int = 1000
    """Sweeps."""
    seed: int = 0
    """Seed of all random numbers."""

    def __post_init__(self) -> None:
        for name in ("variance", "concentration", "mean_variance"):
            object.__setattr__(self, name, checks.number(name, getattr(self, name)))
        for name, second in (("variance_prior", "scale"), ("concentration_prior", "rate")):
            prior = getattr(self, name)
            if prior is not None:
                object.__setattr__(self, name, _checked_prior(name, prior, second))
        object.__setattr__(self, "max_iter", checks.integer("max_iter", self.max_iter))

    def init(self, source: Source) -> State:
        """Return the state with all rows in one cluster, at their mean."""
        if (source.fold(Gather(columns=False), name="gather").weights != 1).any():
            raise InputError("the mixture is of rows that count once each: leave sample_weight out")
        rows = gather_rows(source)
        n = len(rows)
        found = moments_of(rows, np.zeros(n, np.int64), 1)
        return State(
            labels=np.zeros(n, np.int32),
            centers=found.sums / n,
            weights=found.weights,
            inertias=found.inertias,
            variance=self.variance,
            concentration=self.concentration,
            objective=self.objective(found, self.variance, self.concentration),
            rows_read=3 * n,
        )

    def step(self, source: Source, state: State) -> State:
        """Return the state after a sweep: labels one by one, then means, sigma and alpha."""
        random = stream(self.seed, Stream.GIBBS_SWEEP, state.step + 1)
        rows, before = gather_rows(source), state.labels.astype(np.int64)
        seats = self.seats(rows, state.variance, state.concentration, random)
        labels, means, counts = reseat(seats, before, state.centers, random)
        alive = counts > 0
        labels = (np.cumsum(alive) - 1)[labels]
        found = moments_of(rows, labels, int(np.count_nonzero(alive)))
        centers = self.draw_means(found, state.variance, random)
        inertias = squares_about(centers, rows, labels)
        variance = self.draw_variance(inertias, rows.size, state.variance, random)
        numbers = len(centers), len(rows)
        concentration = self.draw_concentration(*numbers, state.concentration, random)
        return State(
            step=state.step + 1,
            labels=labels.astype(np.int32),
            centers=centers,
            weights=found.weights,
            inertias=inertias,
            variance=variance,
            concentration=concentration,
            objective=self.objective(found, variance, concentration),
            births=len(means) - len(state.centers),
            deaths=int(np.count_nonzero(~alive)),
            rows_read=state.rows_read + len(rows),
        )

    def seats(
        self, rows: Float64Array, variance: float, concentration: float, random: np.random.Generator
    ) -> Seats:
        """Return the choices of rows, (n, d), with a drawn mean for the cluster that each may open.

        A row opens a cluster by alpha N(row; 0, (rho + sigma) I) over N(row; row, sigma I).
        """
        n, d = rows.shape
        rho = self.mean_variance
        shrunk, spread = rho / (rho + variance), math.sqrt(variance * rho / (variance + rho))
        prior = math.log(concentration) - d / 2 * math.log1p(rho / variance)
        opening = prior - np.einsum("ij,ij->i", rows, rows) / (2 * (rho + variance))
        means = shrunk * rows + spread * random.standard_normal((n, d))
        return Seats(rows, means, opening, 1 / (2 * variance))

    def draw_means(
        self, found: Moments, variance: float, random: np.random.Generator
    ) -> Float64Array:
        """Draw means, (k, d), from N(rho sum / (sigma + rho n), sigma rho / (sigma + rho n) I)."""
        precision = (variance + self.mean_variance * found.weights)[:, np.newaxis]
        middles = self.mean_variance * found.sums / precision
        noise = random.standard_normal(middles.shape)
        drawn: Float64Array = middles + np.sqrt(variance * self.mean_variance / precision) * noise
        return drawn

    def draw_variance(
        self, inertias: Float64Array, size: int, variance: float, random: np.random.Generator
    ) -> float:
        """Draw sigma from an inverse gamma, given squared errors, (k,), of `size` numbers."""
        if self.variance_prior is None:
            return variance
        shape, scale = self.variance_prior
        return float((scale + math.fsum(inertias) / 2) / random.standard_gamma(shape + size / 2))

    def draw_concentration(
        self, k: int, n: int, concentration: float, random: np.random.Generator
    ) -> float:
        """Draw alpha given k, by a beta variable (Escobar & West 1995, eq. 13 and 14)."""
        if self.concentration_prior is None:
            return concentration
        shape, rate = self.concentration_prior
        rate -= math.log(random.beta(concentration + 1, n))
        odds = (shape + k - 1) / (n * rate)
        shape += k if random.random() < odds / (1 + odds) else k - 1
        return float(random.standard_gamma(shape) / rate)

    def done(self, before: State, after: State) -> bool:
        """Return False: a chain has no end of its own."""
        return False

    def objective(self, found: Moments, variance: float, concentration: float) -> float:
        """Return minus the logarithm of the joint density; see `State.objective`."""
        density = log_partition(found.weights, concentration)
        density += log_likelihood(found, variance, self.mean_variance)
        if self.variance_prior is not None:
            density += log_inverse_gamma(variance, *self.variance_prior)
        if self.concentration_prior is not None:
            density += log_gamma(concentration, *self.concentration_prior)
        return -density

    def score(self, source: Source, state: State) -> float:
        """Return the objective of a state on these rows, from one pass."""
        found = moments_of(gather_rows(source), state.labels.astype(np.int64), len(state.centers))
        return self.objective(found, state.variance, state.concentration)

    def labels(self, source: Source, state: State) -> Kernel:
        """Return the kernel of a map that gives each row its label in a state."""
        return GivenLabels(state.labels)

    def result(self, source: Source, state: State) -> NamedArrays:
        """Return the arrays of the result."""
        return clusters_of(state) | {
            "variance": (np.array([state.variance]), ("draw",)),
            "concentration": (np.array([state.concentration]), ("draw",)),
        }


def limit_concentration(
    penalty: float, variance: float, n_features: int, mean_variance: float = 100.0
) -> float:
    """Return the alpha at which the sampler becomes DP-means as sigma goes to 0.

    See Kulis & Jordan 2012, section 3.1.

    Parameters
    ----------
    penalty : lambda, in squared units of the rows
    variance : sigma
    n_features : d
    mean_variance : rho

    Raises
    ------
    InputError
        Alpha is too small a number for float64.
    """
    penalty, variance = checks.number("penalty", penalty), checks.number("variance", variance)
    n_features = checks.integer("n_features", n_features)
    mean_variance = checks.number("mean_variance", mean_variance)
    logarithm = n_features / 2 * math.log1p(mean_variance / variance) - penalty / (2 * variance)
    if not logarithm > math.log(np.finfo(np.float64).tiny):
        raise InputError(
            f"alpha is exp({logarithm:.0f}), less than float64 can hold: raise the variance {variance:g}"
        )
    return math.exp(logarithm)


def gather_rows(source: Source) -> Float64Array:
    """Return all rows in memory, (n, d)."""
    return source.fold(Gather(), name="gather").rows.astype(np.float64, copy=False)


def log_partition(counts: Float64Array, concentration: float) -> float:
    """Return the log probability of cluster sizes, (k,), by a Chinese restaurant process."""
    n, k = counts.sum(), len(counts)
    weights = k * math.log(concentration) + gammaln(counts).sum()
    return float(weights + gammaln(concentration) - gammaln(concentration + n))


def log_likelihood(found: Moments, variance: float, mean_variance: float) -> float:
    """Return the log density of rows given their clusters, the means integrated out."""
    counts, d = found.weights, found.sums.shape[1]
    shrinkage = variance / (variance + mean_variance * counts)
    averages = np.einsum("ij,ij->i", found.sums, found.sums) / counts
    exponents = (found.inertias + shrinkage * averages) / (2 * variance)
    scales = d / 2 * (counts * math.log(2 * math.pi * variance) - np.log(shrinkage))
    return -math.fsum(exponents + scales)


def log_gamma(value: float, shape: float, rate: float) -> float:
    """Return the log density of the gamma distribution."""
    constant = shape * math.log(rate) - math.lgamma(shape)
    return constant + (shape - 1) * math.log(value) - rate * value


def log_inverse_gamma(value: float, shape: float, scale: float) -> float:
    """Return the log density of the inverse gamma distribution."""
    constant = shape * math.log(scale) - math.lgamma(shape)
    return constant - (shape + 1) * math.log(value) - scale / value


def _checked_prior(name: str, prior: object, second: str) -> Prior:
    """Return the two numbers of a prior."""
    numbers: tuple[float, ...] = ()
    if isinstance(prior, list | tuple):
        numbers = tuple(map(checks.as_float, prior))
    if len(numbers) != 2 or not all(0 < number < math.inf for number in numbers):
        got = checks.describe_value(prior)
        raise InputError(
            f"{name} must be None or (shape, {second}), both finite and > 0, got {got}"
        )
    return numbers[0], numbers[1]
