"""The mixture of a finished fit: its variance, without what overlap takes from the inertia."""

import numpy as np
import pytest
from scipy.special import iv

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.divergence import SQUARED, Divergence
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.methods.dpmeans.mixture import mixture_of, neighbor_distances, overlap_losses


class Absolute(Divergence):
    """A cost without a mixture."""

    def costs(self, rows, centers, labels):
        return np.sqrt(squared_distances(rows, centers, labels))


def lloyd(rows, centers):
    """Centers, weights and inertia when nothing changes any more."""
    while True:
        labels = ((rows[:, np.newaxis] - centers) ** 2).sum(axis=2).argmin(axis=1)
        means = np.array([rows[labels == c].mean(axis=0) for c in range(len(centers))])
        if np.allclose(means, centers, atol=1e-3):
            return means, np.bincount(labels) * 1.0, ((rows - means[labels]) ** 2).sum()
        centers = means


GRID = np.array([[i, j] for i in range(3) for j in range(3)]) * 1.0
TRUE_CENTERS = {
    "two": np.array([[0.0], [3.0]]),
    "two in eight columns": 3 * np.eye(2, 8),
    "a triangle": 3 * np.array([[0, 0], [1, 0], [0.5, 0.866]]),
    "a grid": 3 * GRID,
    "apart": 20 * GRID,
}


@pytest.mark.parametrize("kind", TRUE_CENTERS)
@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_the_variance_is_that_of_the_gaussians_where_they_overlap(kind, scale):
    rng = np.random.default_rng(0)
    centers = TRUE_CENTERS[kind]
    rows = centers[rng.integers(len(centers), size=20_000)]
    rows = scale * (rows + rng.normal(size=rows.shape))
    means, weights, inertia = lloyd(rows, scale * centers)
    mixture = mixture_of(means, weights, inertia, SQUARED)
    assert 1 / mixture.precision == pytest.approx(scale**2, rel=0.08)
    np.testing.assert_allclose(np.exp(mixture.log_weights).sum(), 1)


@pytest.mark.parametrize("apart", [1.0, 2.0, 3.0, 5.0])
def test_the_loss_of_two_normal_clusters_is_what_a_cut_between_them_takes(apart):
    rows = np.linspace(-20, 20, 400_001)
    density = np.exp(-0.5 * (rows - apart / 2) ** 2) + np.exp(-0.5 * (rows + apart / 2) ** 2)
    density /= density.sum()
    mean = (density * abs(rows)).sum()
    cut = (density * (abs(rows) - mean) ** 2).sum()
    assert overlap_losses(np.array([mean]))[0] == pytest.approx(1 - cut, abs=1e-4)


def test_the_loss_ends_where_clusters_do_not_touch_and_never_is_negative():
    losses = overlap_losses(np.linspace(0, 30, 1000))
    assert (losses >= 0).all()
    assert losses[-1] == 0


def test_neighbors_are_those_without_a_third_center_between():
    clusters, distances = neighbor_distances(GRID + 1e-9 * np.arange(18).reshape(9, 2) ** 2)
    np.testing.assert_allclose(distances, 1, rtol=1e-6)
    assert np.bincount(clusters).tolist() == [2, 3, 2, 3, 4, 3, 2, 3, 2]
    assert [len(each) for each in neighbor_distances(np.zeros((1, 3)))] == [0, 0]


def test_pieces_of_centers_do_not_show(monkeypatch):
    centers = np.random.default_rng(1).normal(size=(70, 3))
    whole = neighbor_distances(centers)
    monkeypatch.setattr("dask_dpmeans.methods.dpmeans.mixture.CHUNK_ELEMENTS", 1)
    for one, other in zip(whole, neighbor_distances(centers), strict=True):
        assert one.tobytes() == other.tobytes()


def test_centers_that_tile_the_rows_keep_half_of_the_variance_at_least():
    centers = np.arange(50.0)[:, np.newaxis]
    variance = 1 / mixture_of(centers, np.ones(50), 50 / 12, SQUARED).precision
    assert 1 / 12 < variance <= 2 / 12 + 1e-12


@pytest.mark.parametrize("inertia", [0.0, 5e-324])
def test_rows_on_their_centers_have_no_variance(inertia):
    assert mixture_of(GRID, np.ones(9), inertia, SQUARED).precision == np.inf


@pytest.mark.parametrize("concentration", [2.0, 20.0, 500.0])
def test_the_concentration_of_directions_is_that_of_von_mises_and_fisher(concentration):
    cosine = iv(1.5, concentration) / iv(0.5, concentration)
    if concentration > 100:
        cosine = 1 / np.tanh(concentration) - 1 / concentration
    cost = 2 * (1 - cosine)
    found = mixture_of(np.eye(1, 3), np.array([7.0]), 7 * cost, METRICS["cosine"]).precision
    assert found == pytest.approx(concentration, rel=0.1)


def test_directions_without_any_concentration_are_all_as_probable():
    assert mixture_of(np.eye(2), np.ones(2), 4.0, METRICS["cosine"]).precision == 0


def test_a_cost_without_a_mixture_is_an_error():
    with pytest.raises(
        InputError, match="no mixture is known whose small-variance limit is Absolute"
    ):
        mixture_of(GRID, np.ones(9), 1.0, Absolute())
