"""Linear costs, sums and statistics of encoded CSR rows: what the same encoded rows give as dense rows."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.column_statistics import ColumnStatistics
from dask_dpmeans.kernels.distance import Centers, costs, nearest, nearest_squared, nearest_two
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding, Layout, SumColumns
from dask_dpmeans.kernels.fusion import PairCosts
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.outliers import Candidates


def drawn(name, seed, n=60, d=9, density=0.3):
    """Sparse rows that a divergence takes, with explicit zeros, and their encoding."""
    rng = np.random.default_rng(seed)
    rows = rng.poisson(2.0, (n, d)) * (rng.random((n, d)) < density).astype(float)
    if name == "bernoulli":
        rows = np.minimum(rows, 1.0)
    rows[:, -1] = 0  # a column of zeros
    if name == "multinomial":
        rows[rows.sum(axis=1) == 0, 0] = 1
    sparse = csr_array(rows)
    sparse.data[rng.random(sparse.nnz) < 0.1] = 0 if name != "multinomial" else 1
    rows = sparse.toarray()
    layout = Layout((name,) * d, (0,) * d)
    means = layout.expand(rows)[0].mean(axis=0)
    return rows, sparse, Encoding.of(layout, means, np.ones(d), 0.1, "error", takes_csr=True)


cases = st.tuples(
    st.sampled_from(["poisson", "multinomial", "bernoulli"]),
    st.integers(0, 2**16),
    st.sampled_from([0.05, 0.3, 1.0]),
    st.sampled_from([1, 2, 7]),
)


def encoded(case):
    name, seed, density, k = case
    rows, sparse, encoding = drawn(name, seed, density=density)
    found = encoding(sparse, Scratch())
    rng = np.random.default_rng(seed)
    dense = found.toarray()
    centers = np.stack([dense[rng.integers(len(rows), size=5)].mean(axis=0) for _ in range(k)])
    centers[k // 2] = centers[0]  # ties
    return rows, found, dense, Centers(centers, EncodedDivergence(encoding))


@settings(deadline=None, max_examples=60)
@given(cases)
def test_csr_rows_cost_to_the_bit_what_the_same_rows_cost_dense(way, case):
    _, sparse, dense, centers = encoded(case)
    for one, other in zip(
        nearest_squared(sparse, centers), nearest_squared(dense, centers), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(nearest(sparse, centers), nearest(dense, centers))
    labels = np.arange(len(dense)) % len(centers)
    np.testing.assert_array_equal(costs(sparse, centers, labels), costs(dense, centers, labels))
    if len(centers) > 1:
        for one, other in zip(
            nearest_two(sparse, centers), nearest_two(dense, centers), strict=True
        ):
            np.testing.assert_array_equal(one, other)


@settings(deadline=None, max_examples=40)
@given(cases, st.booleans())
def test_sums_of_csr_rows_are_to_the_bit_those_of_the_same_rows_dense(way, case, weighted):
    _, sparse, dense, centers = encoded(case)
    labels, squared = nearest_squared(dense, centers)
    weights = np.random.default_rng(case[1]).random(len(dense)) if weighted else None
    block = Block(0, dense, weights)
    one = cluster_moments(replace(block, rows=sparse), labels, squared, len(centers))
    other = cluster_moments(block, labels, squared, len(centers))
    for found, wanted in zip(one.parts, other.parts, strict=True):
        np.testing.assert_array_equal(found, wanted)


@settings(deadline=None, max_examples=40)
@given(cases, st.booleans(), st.sampled_from([np.inf, 0.5, 0.9]), st.integers(0, 3))
def test_gains_of_moves_of_csr_rows_are_to_the_bit_those_of_the_same_rows_dense(
    way, case, weighted, share, n_candidates
):
    """A share of the rows are no outliers; the others may be nearest to candidates."""
    _, sparse, dense, centers = encoded(case)
    weights = np.random.default_rng(case[1]).integers(0, 3, len(dense)) * 0.7 if weighted else None
    costs_now = nearest_squared(dense, centers)[1]
    most = np.inf if np.isinf(share) else float(np.quantile(costs_now, share))
    children = np.stack([centers.values, centers.values[::-1]], axis=1)
    children[:, 0, 0] += 0.5
    scan = MoveScan(
        replace(centers, most=most),
        children,
        float(np.median(costs_now)),
        Candidates(dense[:n_candidates], 7),
    )
    block = Block(0, dense, weights)
    one = flattened(scan.chunk(replace(block, rows=sparse)))
    other = flattened(scan.chunk(block))
    assert len(one) == len(other) > 10
    for found, wanted in zip(one, other, strict=True):
        np.testing.assert_array_equal(found, wanted)


@settings(deadline=None, max_examples=20)
@given(cases, st.booleans())
def test_costs_of_pairs_of_csr_rows_are_to_the_bit_those_of_the_same_rows_dense(
    way, case, weighted
):
    _, sparse, dense, centers = encoded(case)
    weights = np.random.default_rng(case[1]).random(len(dense)) if weighted else None
    pairs, block = PairCosts(centers, replace(centers, values=dense[:3])), Block(0, dense, weights)
    one, other = pairs.chunk(replace(block, rows=sparse)), pairs.chunk(block)
    np.testing.assert_array_equal(one.keys, other.keys)
    np.testing.assert_array_equal(one.values, other.values)


def flattened(answer):
    """All arrays and numbers of an answer."""
    if not is_dataclass(answer):
        return [answer]
    return [part for field in fields(answer) for part in flattened(getattr(answer, field.name))]


@settings(deadline=None, max_examples=40)
@given(cases)
def test_csr_and_dense_rows_have_the_same_code(case):
    rows, sparse, dense, centers = encoded(case)
    encoding = centers.divergence.encoding
    found = encoding(rows, Scratch())
    np.testing.assert_array_equal(found[:, :-1], dense[:, :-1])
    np.testing.assert_allclose(found[:, -1], dense[:, -1], rtol=1e-12)
    assert sparse.nnz == np.count_nonzero(sparse.toarray()[:, :-1]) + len(rows) + explicit(sparse)


def explicit(sparse):
    """Explicit zeros, but for those of the last column."""
    last = sparse.shape[1] - 1
    return np.count_nonzero((sparse.data == 0) & (sparse.indices < last))


@settings(deadline=None, max_examples=40)
@given(cases, st.booleans())
def test_statistics_of_csr_rows_are_those_of_dense_rows(case, weighted):
    name, seed, density, _ = case
    rows, sparse, encoding = drawn(name, seed, density=density)
    weights = np.random.default_rng(seed).random(len(rows)) if weighted else None
    for reduction in (SumColumns(encoding.layout), ColumnStatistics(np.inf, encoding)):
        one = reduction.chunk(Block(0, sparse, weights))
        other = reduction.chunk(Block(0, rows, weights))
        for field, wanted in vars(other).items():
            np.testing.assert_allclose(
                np.array(getattr(one, field), float), np.array(wanted, float), rtol=1e-9, atol=1e-12
            )


@pytest.mark.parametrize("name", ["poisson", "multinomial", "bernoulli"])
@pytest.mark.parametrize("value", [-1.0, np.nan])
def test_a_number_that_has_no_cost_is_the_same_flaw_in_csr_rows(name, value):
    rows, _, encoding = drawn(name, 3)
    rows[17, 4] = rows[40, 2] = value
    sparse = csr_array(rows)
    if not np.isnan(value):
        one, other = (
            SumColumns(encoding.layout).chunk(Block(5, each, None)) for each in (sparse, rows)
        )
        np.testing.assert_array_equal(one.flaw, other.flaw)
    survey = ColumnStatistics(np.inf, encoding)
    one, other = (survey.chunk(Block(5, each, None)).flaw for each in (sparse, rows))
    assert one.row == other.row == 22
    assert one.column == other.column


@pytest.mark.skipif(not numba_support.AVAILABLE, reason="compares Numba with NumPy")
def test_numpy_gives_the_same_bytes_as_compiled_loops(way, monkeypatch):
    _, sparse, _, centers = encoded(("poisson", 1, 0.3, 7))
    compiled = [*nearest_squared(sparse, centers), *nearest_two(sparse, centers)]
    monkeypatch.setattr(numba_support, "AVAILABLE", False)
    plain = [*nearest_squared(sparse, centers), *nearest_two(sparse, centers)]
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(one, other)
