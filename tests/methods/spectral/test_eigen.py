"""Lanczos finds what a dense decomposition finds, copies of an eigenvalue too."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.sparse import block_diag, csr_array, diags_array, eye_array

from dask_dpmeans.errors import InputError
from dask_dpmeans.methods.spectral import eigen
from dask_dpmeans.methods.spectral.eigen import all_pairs, lanczos, pairs_above, select_pairs


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
    monkeypatch.setattr(eigen, "FIRST", 1)
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
    monkeypatch.setattr(eigen, "DENSE_ROWS", 100)
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
    monkeypatch.setattr(eigen, "MAX_RESTARTS", 1)
    with pytest.raises(
        InputError,
        match=r"of 16 eigenvalues converged in 1 restarts of Lanczos: .* raise the penalty",
    ):
        lanczos(ring(2000), 0.9, 64, 0)
