import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import pairwise_kernels
from strategies import seeds, tables

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.kernel_functions import (
    SIMILARITIES,
    ComputedGram,
    GivenGram,
    NamedSimilarity,
    Symmetry,
)

PARAMETERS = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0"), "linear": (), "cosine": ()}


@given(
    st.sampled_from(sorted(SIMILARITIES)),
    tables((2, 20), kinds=("grid", "clouds"), dtypes=(np.dtype(np.float64),)),
    st.sampled_from([None, 0.1, 2.0]),
    st.integers(1, 4),
)
def test_named_kernels_are_those_of_scikit_learn(name, rows, gamma, degree):
    asked = {"gamma": gamma, "degree": degree, "coef0": 0.5}
    left, right = rows[: len(rows) // 2], rows
    wanted = pairwise_kernels(left, right, name, **{key: asked[key] for key in PARAMETERS[name]})
    found = NamedSimilarity(name, **asked)(left, right)
    np.testing.assert_allclose(
        found, wanted, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(wanted).max())
    )


def test_the_rbf_kernel_loses_nothing_far_from_the_origin():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    near, far = (NamedSimilarity("rbf", 1.0)(each, each) for each in (rows, rows + 2.0**20))
    np.testing.assert_allclose(far, near, atol=1e-8)


@pytest.mark.parametrize(("gamma", "size"), [(1e12, 1.0), (1.0, 1e140), (0.5, 2e200)])
def test_the_rbf_kernel_of_a_row_and_its_copy_is_1_however_narrow_it_is(gamma, size):
    rows = size * np.random.default_rng(0).normal(size=(40, 17))
    rows[30] = rows[1]
    if size > 1e150:
        rows[:] = size / 3  # whose differences would overflow otherwise
    with np.errstate(over="ignore", invalid="ignore"):
        found = NamedSimilarity("rbf", gamma)(rows, rows.copy())
    np.testing.assert_array_equal(found, (rows[:, np.newaxis] == rows).all(axis=2))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_cosine_kernel_knows_no_lengths(size):
    rows = np.random.default_rng(0).normal(size=(6, 3))
    found = NamedSimilarity("cosine")(size * rows, rows)
    np.testing.assert_allclose(found, NamedSimilarity("cosine")(rows, rows))


def test_a_function_must_answer_for_all_pairs():
    gram = ComputedGram(lambda left, right: left[:, 0], np.ones((4, 2)))
    with pytest.raises(
        InputError, match=r"kernel\(A, B\) must give an array .* of shape \(4, 3\).*, shape \(4,\)"
    ):
        gram.columns(np.ones((3, 2)), slice(None))


@given(seeds, st.integers(2, 40))
def test_a_matrix_and_its_transpose_are_told_apart(seed, n):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, n))
    matrix += matrix.T
    reduction = Symmetry(rng.uniform(1, 2, n))

    def apart():
        parts = [Block(start, matrix[start : start + 7], None) for start in range(0, n, 7)]
        found = reduction.chunk(parts[0])
        for part in parts[1:]:
            found = reduction.combine(found, reduction.chunk(part))
        np.testing.assert_array_equal(found.diagonal, np.diag(matrix))
        np.testing.assert_allclose(found.sums, np.abs(matrix).sum(axis=1))
        return np.abs(found.across - found.down)

    assert apart().max() < 1e-12 * n * np.abs(matrix).max()
    row, column = rng.choice(n, 2, replace=False)
    matrix[row, column] += 1.0
    assert set(np.argsort(apart())[-2:]) == {row, column}


def test_a_given_matrix_is_looked_up():
    rows = np.arange(12.0).reshape(3, 4)
    assert GivenGram().columns(rows, np.array([3, 0])).tolist() == [[3, 7, 11], [0, 4, 8]]
    assert GivenGram().diagonal(rows, 1).tolist() == [1, 6, 11]


@pytest.mark.parametrize("name", sorted(SIMILARITIES))
def test_rows_at_odd_addresses_give_the_same_bits(name):
    rows = np.random.default_rng(2).normal(size=(300, 25))
    odd = np.frombuffer(b"." + rows.tobytes(), np.uint8)[1:].view(np.float64).reshape(rows.shape)
    assert not odd.flags.aligned
    one, other = (ComputedGram(NamedSimilarity(name), fitted) for fitted in (rows, odd))
    for fitted in (slice(None), slice(7, 90), np.arange(0, 300, 7)):
        assert (
            one.columns(rows[:100], fitted).tobytes() == other.columns(rows[:100], fitted).tobytes()
        )
    assert one.diagonal(rows, 0).tobytes() == other.diagonal(odd, 0).tobytes()
