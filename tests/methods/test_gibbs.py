"""The sampler draws from the posterior, which is enumerated here, partition by partition."""

from collections.abc import Callable
from functools import partial
from math import exp, fsum, isclose, log

import numpy as np
import pytest
from optimum import labelings
from scipy import stats

from dask_dpmeans import InputError, reference
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.methods.gibbs import Method, limit_concentration

ROWS = np.array([[0.0, 0.5], [1.0, 0.5], [2.5, -1.0], [3.0, 2.0]])
RHO = 4.0


def log_prior(labels: tuple[int, ...], alpha: float) -> float:
    """Customers of a Chinese restaurant, one after the other."""
    total = 0.0
    for number, label in enumerate(labels):
        others = labels[:number].count(label)
        total += log((others or alpha) / (number + alpha))
    return total


def log_density(labels: tuple[int, ...], sigma: float) -> float:
    """Each column of a cluster is one draw of a normal distribution whose rows share a mean."""
    total = 0.0
    for label in set(labels):
        members = ROWS[np.array(labels) == label]
        m = len(members)
        shared = stats.multivariate_normal(np.zeros(m), sigma * np.eye(m) + RHO * np.ones((m, m)))
        total += sum(shared.logpdf(column) for column in members.T)
    return total


def expected(
    sigma: float,
    alpha: float,
    sigma_prior: Callable[[float], float] | None,
    alpha_prior: Callable[..., float] | None,
) -> dict[tuple[int, ...], float]:
    """The posterior probability of each partition; what has a prior is integrated out on a grid of logarithms."""
    grid = np.geomspace(1e-3, 1e3, 301)
    found = {}
    for labels in map(tuple, labelings(len(ROWS)).tolist()):
        alphas = (
            [(alpha, 1.0)]
            if alpha_prior is None
            else [(each, each * alpha_prior(each)) for each in grid]
        )
        sigmas = (
            [(sigma, 1.0)]
            if sigma_prior is None
            else [(each, each * sigma_prior(each)) for each in grid]
        )
        prior = fsum(weight * exp(log_prior(labels, each)) for each, weight in alphas)
        density = fsum(weight * exp(log_density(labels, each)) for each, weight in sigmas)
        found[labels] = prior * density
    return {labels: value / fsum(found.values()) for labels, value in found.items()}


def opened(labels: list[int]) -> tuple[int, ...]:
    """The same partition, numbered in order of first rows."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(label, len(numbers)) for label in labels)


def drawn(method: Method, rows: np.ndarray = ROWS) -> dict[tuple[int, ...], float]:
    """How often each partition is drawn."""
    found: dict[tuple[int, ...], float] = {}
    for step in iterate(InMemoryRows(rows, None), method):
        labels = opened(step.state.labels.tolist())
        found[labels] = found.get(labels, 0.0) + 1 / method.max_iter
    return found


def inverse_gamma(shape: float, scale: float) -> Callable[[float], float]:
    return partial(stats.invgamma.pdf, a=shape, scale=scale)


def gamma(shape: float, rate: float) -> Callable[[float], float]:
    return partial(stats.gamma.pdf, a=shape, scale=1 / rate)


@pytest.mark.parametrize(
    ("sigma_prior", "alpha_prior"),
    [(None, None), ((2.0, 1.5), None), (None, (1.5, 0.5))],
    ids=["fixed", "variance", "concentration"],
)
def test_partitions_are_drawn_as_often_as_their_posterior_says(sigma_prior, alpha_prior):
    method = Method(
        1.0,
        0.7,
        RHO,
        variance_prior=sigma_prior,
        concentration_prior=alpha_prior,
        max_iter=8000,
        seed=1,
    )
    wanted = expected(
        1.0, 0.7, sigma_prior and inverse_gamma(*sigma_prior), alpha_prior and gamma(*alpha_prior)
    )
    found = drawn(method)
    apart = {labels: abs(found.get(labels, 0.0) - share) for labels, share in wanted.items()}
    assert max(apart.values()) < 0.02
    assert sum(apart.values()) < 0.08


def test_the_objective_is_the_joint_density_of_rows_and_labels():
    for step in iterate(InMemoryRows(ROWS, None), Method(0.8, 0.7, RHO, max_iter=30, seed=2)):
        labels = opened(step.state.labels.tolist())
        assert isclose(
            step.state.objective, -log_prior(labels, 0.7) - log_density(labels, 0.8), rel_tol=1e-12
        )


def test_the_objective_counts_what_has_a_prior():
    method = Method(
        0.8,
        0.7,
        RHO,
        variance_prior=(2.0, 1.5),
        concentration_prior=(1.5, 0.5),
        max_iter=30,
        seed=2,
    )
    for step in iterate(InMemoryRows(ROWS, None), method):
        labels, state = opened(step.state.labels.tolist()), step.state
        joint = log_prior(labels, state.concentration) + log_density(labels, state.variance)
        joint += log(inverse_gamma(2.0, 1.5)(state.variance)) + log(
            gamma(1.5, 0.5)(state.concentration)
        )
        assert isclose(state.objective, -joint, rel_tol=1e-12)


def test_what_is_drawn_without_clusters_to_choose_has_its_conditional_distribution():
    """One row is always one cluster: its mean is N(rho x / (sigma + rho), sigma rho / (sigma + rho))."""
    method = Method(2.0, 1.0, RHO, max_iter=3000, seed=3)
    means = [
        step.state.centers[0, 0] for step in iterate(InMemoryRows(np.array([[3.0]]), None), method)
    ]
    assert (
        stats.kstest(
            means, stats.norm(3.0 * RHO / (2.0 + RHO), np.sqrt(2.0 * RHO / (2.0 + RHO))).cdf
        ).pvalue
        > 0.01
    )


def test_a_cluster_opens_at_a_mean_drawn_given_its_one_row():
    seats = Method(mean_variance=RHO).seats(
        np.full((4000, 1), 3.0), 2.0, 1.0, np.random.default_rng(0)
    )
    spread = np.sqrt(2.0 * RHO / (2.0 + RHO))
    assert (
        stats.kstest(seats.fresh[:, 0], stats.norm(3.0 * RHO / (2.0 + RHO), spread).cdf).pvalue
        > 0.01
    )


def test_a_draw_belongs_together():
    rows = np.random.default_rng(0).standard_normal((50, 2)) * 3
    before = 1
    for step in iterate(InMemoryRows(rows, None), Method(max_iter=100, seed=4)):
        state = step.state
        assert np.array_equal(state.weights, np.bincount(state.labels))
        assert state.weights.min() > 0
        assert state.inertias == pytest.approx(
            [
                ((rows[state.labels == c] - center) ** 2).sum()
                for c, center in enumerate(state.centers)
            ]
        )
        assert len(state.weights) == before + state.births - state.deaths
        assert not step.converged
        before = len(state.weights)
    assert state.step == 100


def test_the_same_bytes_for_a_seed_and_others_for_another():
    rows = np.random.default_rng(0).standard_normal((40, 2)) * 3

    def bytes_of(seed: int) -> list[bytes]:
        method = Method(
            variance_prior=(1.0, 1.0), concentration_prior=(1.0, 1.0), max_iter=20
        ).seeded(seed)
        states = [step.state for step in iterate(InMemoryRows(rows, None), method)]
        return [state.labels.tobytes() + state.centers.tobytes() for state in states]

    assert bytes_of(5) == bytes_of(5)
    assert bytes_of(5) != bytes_of(6)


def test_with_a_small_variance_its_sweeps_are_those_of_dp_means():
    """Kulis & Jordan 2012, section 3.1, on groups that no draw of a mean takes a row across."""
    rng, penalty, sigma = np.random.default_rng(0), 9.0, 0.01
    corners = 6.0 * rng.permutation([[a, b] for a in range(3) for b in range(2)])
    rows = (corners[:, np.newaxis] + rng.uniform(-0.5, 0.5, (6, 4, 2))).reshape(-1, 2)
    rows = rows[rng.permutation(len(rows))]
    alpha = limit_concentration(penalty, sigma, 2)
    states = [
        step.state for step in iterate(InMemoryRows(rows, None), Method(sigma, alpha, max_iter=4))
    ]
    sweeps = reference.dpmeans(rows.tolist(), penalty)
    for state, sweep in zip(states, [*sweeps, *[sweeps[-1]] * 4], strict=False):
        assert opened(state.labels.tolist()) == opened(sweep.labels)
    assert len(states[-1].weights) == len(sweeps[-1].means) == 6
    assert (
        np.abs(
            states[-1].centers - np.array(sweeps[-1].means)[np.argsort(order_of(sweeps[-1].labels))]
        ).max()
        < 0.3
    )


def order_of(labels: list[int]) -> list[int]:
    """The labels by which clusters are numbered, in order of first rows."""
    return list(dict.fromkeys(labels))


def test_the_concentration_of_the_limit_follows_the_paper():
    assert isclose(limit_concentration(2.0, 0.5, 3, 10.0), 21**1.5 * exp(-2.0))
    with pytest.raises(
        InputError,
        match=r"alpha is exp\(-499\d\d\), less than float64 can hold: raise the variance",
    ):
        limit_concentration(1.0, 1e-5, 2)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"variance": 0.0}, "variance must be a finite number > 0, got 0.0"),
        ({"concentration": np.inf}, "concentration must be a finite number > 0, got inf"),
        ({"mean_variance": "1"}, "mean_variance must be a finite number > 0, got '1'"),
        (
            {"variance_prior": (1.0, 0.0)},
            r"variance_prior must be None or \(shape, scale\), both finite and > 0, got",
        ),
        (
            {"concentration_prior": 1.0},
            r"concentration_prior must be None or \(shape, rate\), both finite and > 0",
        ),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
    ],
)
def test_what_is_no_model_is_refused(asked, message):
    with pytest.raises(InputError, match=message):
        Method(**asked)


def test_weights_are_refused():
    with pytest.raises(InputError, match="rows that count once each: leave sample_weight out"):
        Method().init(InMemoryRows(ROWS, np.array([1.0, 2.0, 1.0, 1.0])))
