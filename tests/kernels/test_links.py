"""Links of centers: sums over rows, the same for any blocks, against a loop over the rows."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, seeds, tables, weights_of

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels import links as links_module
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.links import LinkScan, LinkSums, closeness, line_variances, links_of


def slow_links(rows, weights, centers, variances):
    """The matrix of links, (k, k), one row after the other."""
    found = np.zeros((len(centers), len(centers)))
    for row, weight in zip(rows.astype(float).tolist(), weights, strict=True):
        squared = [
            math.fsum((x - c) ** 2 for x, c in zip(row, center, strict=True)) for center in centers
        ]
        a, b = sorted(range(len(centers)), key=lambda each: (squared[each], each))[:2]
        apart = math.dist(centers[a], centers[b])
        # Two equal centers have no plane between them; each row is as near to both.
        middle = (squared[b] - squared[a]) / (2 * apart) if apart else 0.0
        spread = math.sqrt((variances[a] + variances[b]) / 2)
        found[a, b] += weight * math.exp(-((middle / spread / 0.5) ** 2) / 2)
    found += found.T
    several = found[np.triu_indices(len(centers))]
    lightest = 1e-4 * several[several > 0].mean() if several.any() else 0.0
    return np.where(found > lightest, found, 0.0)


def scanned(rows, weights, centers, variances):
    k = len(centers)
    sums = LinkScan(Centers(centers), variances).chunk(Block(0, rows, weights))
    return links_of(sums, k)[0].matrix(k).toarray()


@given(tables((2, 40), (1, 4), ("clouds", "offset")), st.integers(2, 8), seeds, st.data())
def test_links_are_those_of_a_loop_over_the_rows(rows, k, seed, data):
    rng = np.random.default_rng(seed)
    centers = rows[rng.permutation(len(rows))[:k]].astype(float) + rng.normal(
        size=(min(k, len(rows)), rows.shape[1])
    )
    variances = rng.uniform(0.5, 2.0, len(centers))
    weights = data.draw(weights_of(len(rows)))
    given_weights = np.ones(len(rows)) if weights is None else weights
    expected = slow_links(rows, given_weights, centers, variances)
    found = scanned(rows, weights, centers, variances)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


def test_equal_centers_are_linked_as_a_loop_links_them():
    rows, centers = np.array([[0.0], [1.0], [5.0]]), np.array([[1.0], [1.0], [9.0]])
    expected = slow_links(rows, np.ones(3), centers, np.ones(3))
    assert expected[0, 1] == 3.0
    np.testing.assert_allclose(scanned(rows, None, centers, np.ones(3)), expected)


@given(tables((2, 60), (1, 3), TAME), seeds)
@settings(max_examples=30)
def test_compiled_distances_change_no_byte(rows, seed):
    centers = rows[np.random.default_rng(seed).permutation(len(rows))[:6]].astype(float)
    scan = LinkScan(Centers(centers), np.linspace(0.0, 1.0, len(centers)))
    found = scan.chunk(Block(0, rows, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        plain = scan.chunk(Block(0, rows, None))
    assert found.keys.tobytes() == plain.keys.tobytes()
    assert found.values.tobytes() == plain.values.tobytes()


def test_blocks_are_added_up_in_order():
    rng = np.random.default_rng(0)
    rows, centers = rng.normal(size=(50_000, 2)), rng.normal(size=(40, 2))
    scan = LinkScan(Centers(centers), np.full(40, 0.1))
    whole = InMemoryRows(rows, None).fold(scan)
    parts = [
        scan.chunk(Block(start, rows[start : start + 2**14], None))
        for start in range(0, 50_000, 2**14)
    ]
    expected = (parts[0] + parts[1]) + (parts[2] + parts[3])
    assert whole.values.tobytes() == expected.values.tobytes()
    once = links_of(scan.chunk(Block(0, rows, None)), 40)[0].matrix(40).toarray()
    np.testing.assert_allclose(links_of(whole, 40)[0].matrix(40).toarray(), once)


def test_one_center_has_no_links():
    sums = LinkScan(Centers(np.zeros((1, 2))), np.ones(1)).chunk(Block(0, np.ones((3, 2)), None))
    links, left_out = links_of(sums, 1)
    assert len(links.weights) == 0
    assert left_out == 0


def test_a_row_in_the_middle_counts_as_one_and_farther_rows_less():
    found = closeness(np.array([0.0, 0.9, 1.8, 1.0, 0.0]), np.array([2.0, 2.0, 2.0, 0.0, 0.0]))
    np.testing.assert_allclose(found, [1.0, math.exp(-0.405), math.exp(-1.62), 0.0, 1.0])


def test_variances_are_at_most_those_of_even_rows_and_never_0_beside_others():
    centers = np.array([[0.0], [1.0], [3.0], [10.0]])
    found = line_variances(centers, np.array([2.0, 1.0, 1.0, 4.0]), np.array([0.2, 0.0, 9.0, 40.0]))
    # the second nearest other centers are at 3, 2, 3 and 9
    np.testing.assert_allclose(found, [0.1, 0.1, 9 / 12, 81 / 12])
    assert line_variances(centers[:2], np.ones(2), np.full(2, 9.0)).tolist() == [1 / 12, 1 / 12]
    assert line_variances(centers, np.ones(4), np.zeros(4)).tolist() == [0.0] * 4


def test_the_heaviest_links_of_both_ends_are_kept(monkeypatch):
    monkeypatch.setattr(links_module, "MOST_LINKS", 2)
    k = 5
    pairs = {
        (0, 1): 5.0,
        (0, 2): 4.0,
        (3, 0): 3.0,
        (0, 4): 3.0,
        (1, 2): 1.0,
        (3, 4): 1.0,
        (4, 3): 1.0,
    }
    keys = np.array(sorted(first * k + second for first, second in pairs))
    values = np.array([pairs[key // k, key % k] for key in keys.tolist()])
    links, left_out = links_of(LinkSums(keys, values), k)
    kept = dict(
        zip(
            zip(links.lower.tolist(), links.higher.tolist(), strict=True),
            links.weights.tolist(),
            strict=True,
        )
    )
    assert kept == {(0, 1): 5.0, (0, 2): 4.0, (1, 2): 1.0, (3, 4): 2.0}
    assert left_out == pytest.approx(6 / 18)
    assert (np.count_nonzero(links.matrix(k).toarray(), axis=1) <= 2).all()
