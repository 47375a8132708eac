"""Probabilities of the components of a mixture, against a softmax of all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import TAME, rows_and_centers, seeds, table

from dask_dpmeans.kernels import membership, numba_support
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.membership import Margins, Memberships, Mixture, SoftPredictions
from dask_dpmeans.kernels.sparse_rows import SparseRows, pack


def mixture(centers, precision=1.0, weights=None, groups=None):
    if weights is None:
        weights = np.full(len(centers), 1 / len(centers))
    return Mixture(Centers(centers), np.log(weights), precision, groups)


def with_label_as_mode(shares, label):
    """The shares of one row, of which those above the label's are averaged with it, greatest first."""
    shares = shares.copy()
    pooled = [label]
    for other in np.argsort(-shares):
        if other != label and shares[other] > np.mean(shares[pooled]):
            pooled.append(other)
    shares[pooled] = np.mean(shares[pooled])
    return shares


def softmax(rows, mixed):
    """(n, k), the probabilities of all clusters in float64, the slow way."""
    answers = []
    for row in rows.astype(np.float64):
        squared = ((row - mixed.centers.values) ** 2).sum(axis=1)
        exponents = mixed.log_weights - mixed.precision / 2 * (squared - squared.min())
        shares = np.exp(exponents - exponents.max())
        shares, label = shares / shares.sum(), squared.argmin()
        if mixed.groups is not None:
            groups = range(mixed.n_clusters)
            shares = np.array([shares[mixed.groups == group].sum() for group in groups])
            label = mixed.groups[label]
        answers.append(with_label_as_mode(shares, label))
    return np.array(answers)


def answers(rows, mixed, top):
    return Memberships(mixed, top)(Block(0, rows, None, Scratch()))


def dense(rows, mixed, top=None):
    labels, shares = answers(rows, mixed, top or mixed.n_clusters)
    sink = SparseRows.empty(*labels.shape)
    return sink.join([sink(0, pack(labels, shares))], mixed.n_clusters).toarray()


def grouped(mixed, n_groups, seed=0):
    """The mixture, with its components in groups, none empty."""
    groups = np.random.default_rng(seed).permutation(np.arange(len(mixed.centers)) % n_groups)
    return Mixture(mixed.centers, mixed.log_weights, mixed.precision, groups)


@st.composite
def mixtures(draw, least=1, most=80):
    """Rows, and a mixture of centers among them at any scale of overlap."""
    k, d = draw(st.integers(least, most)), draw(st.integers(1, 6))
    dtype, seed = draw(st.sampled_from([np.float32, np.float64])), draw(seeds)
    rows = table(draw(st.sampled_from(["clouds", "offset"])), (25, d), dtype, seed)
    rng = np.random.default_rng(seed)
    centers = rows[rng.integers(len(rows), size=k)] + rng.normal(size=(k, d))
    precision = draw(st.sampled_from([1e-3, 0.1, 1.0, 30.0]))
    return rows, mixture(centers, precision, rng.dirichlet(np.full(k, 0.5)) + 1e-9)


@given(mixtures())
def test_probabilities_are_a_softmax_of_which_the_label_is_the_mode(drawn):
    rows, mixed = drawn
    np.testing.assert_allclose(dense(rows, mixed), softmax(rows, mixed), atol=2e-6)


@given(mixtures(), st.integers(1, 8))
def test_the_top_clusters_are_the_most_probable_of_all(drawn, top):
    rows, mixed = drawn
    k = mixed.n_clusters
    labels, shares = answers(rows, mixed, min(top, k))
    every, all_shares = answers(rows, mixed, k)
    assert labels.tobytes() == np.ascontiguousarray(every[:, :top]).tobytes()
    assert shares.tobytes() == np.ascontiguousarray(all_shares[:, :top]).tobytes()
    assert (np.diff(shares, axis=1) <= 0).all()
    assert ((labels >= 0) == (all_shares[:, :top] > 0)).all()


@given(rows_and_centers(columns=(1, 24)), seeds, st.sampled_from([1e-3, 1.0, np.inf]))
def test_the_label_is_the_first_the_greatest_and_that_of_the_scan(drawn, seed, precision):
    rows, centers = drawn
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(centers))) + 1e-12
    mixed = mixture(centers, precision, weights)
    labels, _ = answers(rows, mixed, len(centers))
    expected = nearest(rows, mixed.centers)
    np.testing.assert_array_equal(labels[:, 0], expected)
    np.testing.assert_array_equal(dense(rows, mixed).argmax(axis=1), expected)


@given(
    rows_and_centers(columns=(1, 24)),
    st.sampled_from([0.0, 1e-3, 1.0, 1e4, np.inf]),
    st.integers(1, 5),
)
def test_compiled_loops_answer_the_same_bytes(drawn, precision, top):
    rows, centers = drawn
    weights = 1.0 + np.arange(len(centers))
    mixed = mixture(centers, precision, weights / weights.sum())
    found = answers(rows, mixed, min(top, len(centers)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        expected = answers(rows, mixed, min(top, len(centers)))
    assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]


@pytest.mark.parametrize("kind", TAME)
@pytest.mark.parametrize("k", [1, 31, 32, 33, 70])
def test_pieces_and_heights_do_not_show(kind, k, monkeypatch):
    rows = table(kind, (700, 3), np.float32, 0)
    mixed = mixture(rows[:k].astype(np.float64), 0.5)
    whole = answers(rows, mixed, min(3, k))
    monkeypatch.setattr(membership, "PIECE_ELEMENTS", 1)
    parts = [answers(rows[start : start + 97], mixed, min(3, k)) for start in range(0, 700, 97)]
    for one, other in zip(whole, map(np.concatenate, zip(*parts, strict=True)), strict=True):
        assert one.tobytes() == other.tobytes()


def test_without_variance_the_nearest_has_all_and_equally_near_ones_share():
    centers = np.array([[0.0], [2.0], [9.0], [2.0]])
    labels, shares = answers(np.array([[0.5], [1.0], [2.0]]), mixture(centers, np.inf), 4)
    assert labels.tolist() == [[0, -1, -1, -1], [0, 1, 3, -1], [1, 3, -1, -1]]
    third = np.float32(1 / 3)
    assert shares.tolist() == [[1, 0, 0, 0], [third, third, third, 0], [0.5, 0.5, 0, 0]]


def test_a_heavier_cluster_shares_equally_where_the_mixture_prefers_it():
    mixed = mixture(np.array([[0.0], [3.0]]), 1.0, np.array([0.1, 0.9]))
    labels, shares = answers(np.array([[1.4], [1.6]]), mixed, 2)
    assert labels.tolist() == [[0, 1], [1, 0]]
    assert shares[0].tolist() == [0.5, 0.5]
    assert shares[1, 0] == pytest.approx(0.9 / (0.9 + 0.1 * np.exp(-0.3)))
    (margins,) = Margins(mixed)(Block(0, np.array([[1.4], [1.6]]), None))
    assert margins.tolist() == (shares[:, 0] - shares[:, 1]).tolist()


def test_the_label_is_above_a_lower_number_that_rounds_to_the_same():
    centers = np.array([[np.nextafter(1.0, 2)], [-1.0]])
    labels, shares = answers(np.array([[0.0]]), mixture(centers), 2)
    assert labels.tolist() == [[1, 0]]
    assert shares[0, 0] > shares[0, 1] == pytest.approx(0.5)


@given(mixtures(2, 30), st.integers(1, 5), seeds)
def test_the_probability_of_a_group_is_the_sum_over_its_components(drawn, n_groups, seed):
    rows, mixed = drawn
    joined = grouped(mixed, min(n_groups, len(mixed.centers)), seed)
    np.testing.assert_allclose(dense(rows, joined), softmax(rows, joined), atol=2e-6)
    labels, _ = answers(rows, joined, joined.n_clusters)
    np.testing.assert_array_equal(labels[:, 0], joined.groups[nearest(rows, mixed.centers)])


@given(mixtures(2, 60), st.integers(1, 9), seeds)
def test_groups_are_the_same_bytes_compiled(drawn, n_groups, seed):
    rows, mixed = drawn
    joined = grouped(mixed, min(n_groups, len(mixed.centers)), seed)
    found = answers(rows, joined, joined.n_clusters)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        expected = answers(rows, joined, joined.n_clusters)
    assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]


@given(mixtures(2, 60), st.integers(1, 9), seeds, st.integers(1, 4))
def test_soft_predictions_of_groups_begin_with_plain_ones(drawn, n_groups, seed, top):
    rows, mixed = drawn
    joined = grouped(mixed, min(n_groups, len(mixed.centers)), seed)
    block = Block(0, rows, None)
    soft = SoftPredictions(joined, 2.0, min(top, joined.n_clusters))(block)
    plain = Predictions(mixed.centers, 2.0, groups=joined.groups)(block)
    assert [each.tobytes() for each in soft[:3]] == [each.tobytes() for each in plain]


@pytest.mark.parametrize("top", [1, 2])
def test_margins_do_not_depend_on_the_number_of_clusters_asked_for(top):
    rows = table("clouds", (50, 2), np.float32, 3)
    mixed = mixture(rows[:6].astype(np.float64))
    *_, tops, shares, margins = SoftPredictions(mixed, 1.0, top)(Block(0, rows, None))
    assert tops.shape == shares.shape == (50, top)
    assert margins.tobytes() == Margins(mixed)(Block(0, rows, None))[0].tobytes()


def test_one_cluster_is_certain():
    mixed = mixture(np.zeros((1, 2)))
    assert Margins(mixed)(Block(0, np.ones((3, 2)), None))[0].tolist() == [1, 1, 1]
