"""Lemma 5.1 and theorem 5.2 of Kulis & Jordan 2012, and the embeddings that follow from them."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.sparse import block_diag, csr_array, diags_array, eye_array
from scipy.spatial.distance import cdist
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from strategies import seeds

from dask_dpmeans import reference
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.methods import spectral
from dask_dpmeans.methods.dpmeans.batch import Method
from dask_dpmeans.methods.spectral import (
    Spectrum,
    all_pairs,
    lanczos,
    linear,
    nystroem,
    of_matrix,
    pairs_above,
    relaxed_objective,
    select_pairs,
    symmetric,
)
from dask_dpmeans.sources import as_source, source_of_features


def ring(n, reach=3):
    """The normalized affinity of n points on a ring, each tied to itself and the next few."""
    offsets = range(-reach, reach + 1)
    ties = sum(
        csr_array((np.ones(n), (np.arange(n), (np.arange(n) + offset) % n)), shape=(n, n))
        for offset in offsets
    )
    return ties / len(offsets)


@pytest.mark.parametrize("components", [2, 3, 5, 8])
@pytest.mark.parametrize("penalty", [0.9999, 0.99])
def test_each_of_equal_components_has_its_copy_of_each_eigenvalue(components, penalty):
    matrix = block_diag([ring(150)] * components).tocsr()
    of_one, inside = select_pairs(*all_pairs(ring(150)), penalty, 100)
    wanted, axes = np.repeat(of_one, components), np.kron(np.eye(components), inside)
    for seed in (0, 1):
        values, vectors = select_pairs(*lanczos(matrix, penalty, 100, seed), penalty, 100)
        assert len(values) == len(wanted) == components * (1 if penalty > 0.999 else 3)
        np.testing.assert_allclose(values, wanted, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-12)
        assert subspace_angles(vectors, axes).max() < 1e-6


def test_more_are_asked_for_until_one_falls_below_the_penalty(monkeypatch):
    monkeypatch.setattr(spectral, "FIRST", 1)
    values = np.concatenate([np.linspace(2, 3, 40), np.linspace(-4, 1, 400)])
    matrix = diags_array(values).tocsr()
    found, vectors = select_pairs(*lanczos(matrix, 1.5, 64, 0), 1.5, 64)
    np.testing.assert_allclose(found, np.linspace(3, 2, 40))
    np.testing.assert_allclose(np.abs(vectors).max(axis=0), 1.0)
    with pytest.raises(
        InputError, match=r"at least 8 eigenvalues .* more than max_components=7: raise the penalty"
    ):
        lanczos(matrix, 1.5, 7, 0)


def test_a_krylov_space_that_ends_early_leaves_nothing_out_and_repeats_to_the_bit():
    matrix = block_diag([np.full((100, 100), 0.01)] * 6).tocsr() + 2 * eye_array(600).tocsr()
    first = select_pairs(*lanczos(matrix, 2.5, 64, 3), 2.5, 64)
    np.testing.assert_allclose(first[0], np.full(6, 3.0))
    again = select_pairs(*lanczos(matrix, 2.5, 64, 3), 2.5, 64)
    assert [each.tobytes() for each in first] == [each.tobytes() for each in again]


def test_large_matrices_go_to_lanczos_dense_or_sparse(monkeypatch):
    monkeypatch.setattr(spectral, "DENSE_ROWS", 100)
    matrix = block_diag([ring(150), ring(151)]).tocsr()
    for form in (matrix, matrix.toarray()):
        values, vectors = pairs_above(form, 0.9995, 64, 0)
        np.testing.assert_allclose(values, [1.0, 1.0])
        assert (vectors[np.argmax(np.abs(vectors), axis=0), [0, 1]] > 0).all()
    with pytest.raises(
        InputError, match=r"no eigenvalue .* greater than penalty=2, the largest found is 1: lower"
    ):
        pairs_above(matrix, 2.0, 64, 0)


@pytest.mark.parametrize("entries", [[], [(0, 0)], [(0, 1), (1, 0)]])
def test_a_matrix_of_which_nothing_is_left_ends_the_search(entries):
    matrix = csr_array(
        (np.ones(len(entries)), np.array(entries, int).reshape(-1, 2).T), shape=(1100, 1100)
    )
    if entries:
        values, vectors = pairs_above(matrix, 0.5, 64, 0)
        np.testing.assert_allclose(values, [1.0])
        np.testing.assert_allclose(matrix @ vectors, vectors, atol=1e-12)
    else:
        with pytest.raises(
            InputError, match=r"the largest found is 0: such a matrix tells no clusters apart"
        ):
            pairs_above(matrix, 0.5, 64, 0)


def test_eigenvalues_that_do_not_converge_are_an_error_with_the_way_out(monkeypatch):
    monkeypatch.setattr(spectral, "MAX_RESTARTS", 1)
    with pytest.raises(
        InputError,
        match=r"of 16 eigenvalues converged in 1 restarts of Lanczos: .* raise the penalty",
    ):
        lanczos(ring(2000), 0.9, 64, 0)


FEWER = settings(max_examples=25)


@st.composite
def problems(draw, most=12):
    """Rows, the products of rows, (n, n), and a penalty in the middle of two of its eigenvalues, far from both."""
    n, d = draw(st.integers(2, most)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(seeds))
    rows = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 5.0], d)
    levels = np.sort(np.append(np.linalg.eigvalsh(rows @ rows.T)[-min(n, d) :], 0.0))
    gaps = np.flatnonzero(np.diff(levels) > 1e-3 * levels[-1])
    below = draw(st.sampled_from(gaps.tolist()))
    return rows, rows @ rows.T, float(levels[below] + levels[below + 1]) / 2


def labels_of(draw, n):
    """Any partition into up to five clusters."""
    return draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))


@given(problems(), st.data())
def test_lemma_the_objective_of_a_partition_is_the_trace_less_that_of_its_indicators(problem, data):
    rows, matrix, penalty = problem
    labels = labels_of(data.draw, len(rows))
    means = {label: rows[np.array(labels) == label].mean(axis=0) for label in set(labels)}
    direct = sum(((row - means[label]) ** 2).sum() for row, label in zip(rows, labels, strict=True))
    lemma = np.trace(matrix) - reference.relaxed_trace(
        matrix.tolist(), reference.indicators(labels), penalty
    )
    rounding = 1e-12 * (np.trace(matrix) + penalty * len(means))
    assert reference.partition_objective(matrix.tolist(), labels, penalty) == pytest.approx(
        lemma, abs=rounding
    )
    assert direct + penalty * len(means) == pytest.approx(lemma, abs=rounding)


@given(problems(), st.data())
def test_theorem_no_orthonormal_columns_beat_the_eigenvectors_and_so_no_partition_does(
    problem, data
):
    rows, matrix, penalty = problem
    found = of_matrix(matrix, Spectrum(penalty, "precomputed"), seed=0, passes=0)
    bound, rounding = (
        relaxed_objective(found.eigenvalues, penalty),
        1e-12 * np.trace(matrix) * len(rows),
    )
    labels, size = labels_of(data.draw, len(rows)), data.draw(st.integers(1, len(rows)))
    columns, _ = np.linalg.qr(
        np.random.default_rng(data.draw(seeds)).normal(size=(len(rows), size))
    )
    for each in (reference.indicators(labels), columns.tolist()):
        assert reference.relaxed_trace(matrix.tolist(), each, penalty) <= bound + rounding
    assert (
        found.trace - bound
        <= reference.partition_objective(matrix.tolist(), labels, penalty) + rounding
    )
    kept = np.array(
        [vector for value, vector in reference.eigenpairs(matrix.tolist()) if value > penalty]
    )
    attained = reference.relaxed_trace(matrix.tolist(), kept.T.tolist(), penalty)
    assert attained == pytest.approx(bound, abs=rounding)


def projected(embedding, rows):
    return np.array(embedding.projection(rows, Scratch()))


@FEWER
@given(problems())
def test_all_ways_to_the_rows_of_y_are_the_reference_but_for_signs_and_rotations(problem):
    rows, matrix, penalty = problem
    wanted = np.array(reference.spectral_rows(matrix.tolist(), penalty))
    by_columns = linear(as_source(rows, threads=1, block_rows=4), Spectrum(penalty))
    whole = of_matrix(matrix, Spectrum(penalty, "precomputed"), seed=0, passes=0)
    np.testing.assert_allclose(by_columns.eigenvalues, whole.eigenvalues)
    assert by_columns.trace == pytest.approx(whole.trace)
    for found in (
        projected(by_columns, rows),
        whole.rows,
    ):  # cdist sees neither signs nor rotations
        np.testing.assert_allclose(cdist(found, found), cdist(wanted, wanted), atol=1e-6)


@FEWER
@given(problems(most=20), st.sampled_from([0.25, 0.6]))
def test_the_clusters_are_those_of_algorithm_1_on_the_rows_of_the_reference(problem, threshold):
    rows, matrix, penalty = problem
    wanted = reference.spectral_rows(matrix.tolist(), penalty)
    ones = [1.0] * len(rows)
    means = [reference.mean_of(wanted, ones)]
    source = as_source(rows, threads=1)
    source = source_of_features(source, linear(source, Spectrum(penalty)).projection)
    for step in iterate(source, Method(threshold)):
        opened = step.state.opened.tolist()
        rest = [number for number in range(len(rows)) if number not in opened]
        serial = reference.sweep(wanted, threshold, means, [*opened, *rest], ones)
        assume(is_plain(wanted, serial.centers, threshold))
        assert serial.opened == opened
        counts = [
            serial.labels.count(label)
            for label in range(len(serial.centers))
            if label in serial.labels
        ]
        assert step.state.weights.tolist() == counts
        means = serial.means


def is_plain(rows, centers, threshold):
    """Whether rounding decides nothing: no row lies at the threshold, or as near to one center as to another."""
    squared = np.sort(cdist(rows, centers, "sqeuclidean"), axis=1)
    near = np.abs(squared[:, 0] - threshold) < 1e-6
    return not near.any() and (squared.shape[1] == 1 or (np.diff(squared[:, :2]) > 1e-6).all())


@FEWER
@given(problems(), st.data())
def test_integer_weights_are_repeated_rows(problem, data):
    rows, _, _ = problem
    weights = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    repeated = np.repeat(rows, weights, axis=0)
    penalty = 0.5 * np.linalg.eigvalsh(repeated @ repeated.T)[-1]
    weighted = linear(
        as_source(rows, np.array(weights, float), threads=1, block_rows=4), Spectrum(penalty)
    )
    plain = linear(as_source(repeated, threads=1), Spectrum(penalty))
    np.testing.assert_allclose(weighted.eigenvalues, plain.eigenvalues)
    assert weighted.trace == pytest.approx(plain.trace)


@pytest.mark.parametrize("n_landmarks", [40, 200, 300])
def test_landmarks_make_the_matrix_that_nystroem_of_scikit_learn_makes_and_all_rows_make_the_exact_one(
    n_landmarks,
):
    rows = np.random.default_rng(3).normal(size=(200, 3))
    asked = Spectrum(1.0, "rbf", gamma=0.4, n_landmarks=n_landmarks)
    found = nystroem(as_source(rows, threads=1, block_rows=16), asked, seed=7)
    landmarks = found.projection.axes.landmarks
    peer = Nystroem(gamma=0.4, n_components=len(landmarks)).fit(landmarks).transform(rows)
    exact = rbf_kernel(rows, gamma=0.4)
    matrix = exact if n_landmarks >= 200 else peer @ peer.T
    values, vectors = np.linalg.eigh(matrix)
    kept = vectors[:, values > 1] / np.linalg.norm(vectors[:, values > 1], axis=1, keepdims=True)
    np.testing.assert_allclose(found.eigenvalues, values[values > 1][::-1], rtol=1e-6)
    mine = projected(found, rows)
    np.testing.assert_allclose(mine @ mine.T, kept @ kept.T, atol=1e-6)
    assert found.trace == pytest.approx(np.trace(matrix), rel=1e-6)


def test_rows_that_the_eigenvectors_hold_nothing_of_stand_at_zero():
    rows = np.array([[3.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1e-3], [0.0, 0.0, 0.0]])
    turned = rows @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    asked = Spectrum(1.0)
    found = projected(linear(as_source(turned, threads=1), asked), turned)
    np.testing.assert_allclose(np.abs(found), [[1, 0], [0, 1], [0, 0], [0, 0]], atol=1e-12)
    assert found[2:].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    whole = of_matrix(
        symmetric(turned @ turned.T), Spectrum(1.0, "precomputed"), seed=0, passes=0
    ).rows
    assert whole[2:].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_eigenvalues_that_overflow_are_refused():
    with pytest.raises(
        InputError, match=r"reaches 1e\+308, its eigenvalues may overflow float64: divide it"
    ):
        symmetric(np.full((3, 3), 1e308))
    with pytest.raises(
        InputError, match=r"the products of columns overflow float64: divide the data"
    ):
        linear(as_source(np.full((2, 3), 9e153)), Spectrum(1.0))


def test_an_eigenvalue_that_is_the_penalty_is_not_greater():
    matrix = np.diag([4.0, 2.0, 1.0])
    assert of_matrix(
        matrix, Spectrum(2.0, "precomputed"), seed=0, passes=0
    ).eigenvalues.tolist() == [4.0]
    with pytest.raises(
        InputError, match=r"greater than penalty=4, the largest found is 4: lower the penalty below"
    ):
        of_matrix(matrix, Spectrum(4.0, "precomputed"), seed=0, passes=0)
    with pytest.raises(
        InputError, match=r"at least 3 eigenvalues .* max_components=2: raise the penalty"
    ):
        of_matrix(matrix, Spectrum(0.5, "precomputed", max_components=2), seed=0, passes=0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 0.0}, r"penalty must be a finite number > 0, got 0\.0"),
        (
            {"affinity": "cosine"},
            "affinity must be one of 'linear', 'rbf', .*'precomputed', got 'cosine'",
        ),
        (
            {"affinity": "rbf", "gamma": -1.0},
            r"gamma must be a finite number > 0 or None, got -1\.0",
        ),
        ({"gamma": 1.0}, "gamma is a parameter of affinity='rbf', it has no use with 'linear'"),
        (
            {"n_neighbors": 3},
            "n_neighbors is a parameter of affinity='nearest_neighbors', it has no use with 'linear'",
        ),
        (
            {"n_landmarks": 9, "affinity": "precomputed"},
            "n_landmarks is a parameter of affinity='rbf', it has no use with 'precomputed'",
        ),
        ({"n_neighbors": 0}, "n_neighbors must be an integer >= 1, got 0"),
        ({"n_landmarks": 1.5}, r"n_landmarks must be an integer >= 1, got 1\.5"),
        ({"max_components": 0}, "max_components must be an integer >= 1, got 0"),
        (
            {"affinity": "nearest_neighbors"},
            "penalty must be < 1 with affinity='nearest_neighbors'",
        ),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        Spectrum(**{"penalty": 1.0} | parameters)


def test_what_has_no_products_is_refused(monkeypatch):
    with pytest.raises(InputError, match="the products of columns overflow float64"):
        linear(as_source(np.full((4, 1), 1e160)), Spectrum(1.0))
    monkeypatch.setattr(spectral, "MAX_COLUMNS", 2)
    with pytest.raises(InputError, match="takes rows of up to 2 columns, got 3"):
        linear(as_source(np.ones((4, 3))), Spectrum(1.0))


@pytest.mark.parametrize("form", [np.array, csr_array])
def test_a_matrix_is_symmetric_but_for_rounding(form):
    matrix = form([[1.0, 2.0], [2.0 + 1e-15, 1.0]])
    found = symmetric(matrix)
    assert abs(found - found.T).max() == 0
    with pytest.raises(
        InputError, match=r"not symmetric: it differs from its transpose by up to 1"
    ):
        symmetric(form([[1.0, 2.0], [3.0, 1.0]]))
    with pytest.raises(InputError, match="takes a square matrix, got 1 x 2"):
        symmetric(form([[1.0, 2.0]]))
