"""Bounds from pieces: never above the optimum, whatever the labels; pieces that are like the whole."""

from fractions import Fraction

import numpy as np
from exact_optimum import exact_optimum
from hypothesis import given, settings
from strategies import seeds

from dask_dpmeans.methods.dpmeans.anticlusters import pieces, pieces_bound


def exact(rows, weights, penalty, upper):
    """A bound that the pieces cannot exceed: the optimum of a piece, rounded down."""
    return float(exact_optimum(rows, weights, penalty)) * (1 - 1e-15)


@settings(max_examples=40)
@given(seed=seeds)
def test_the_sum_over_pieces_is_never_above_the_optimum(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 6, (rng.integers(1, 8), 2)).astype(np.float64)
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], len(rows))
    weights[0] = 1.0
    labels, penalty = rng.integers(3, size=len(rows)), 2.0 ** rng.integers(-2, 6)
    bound = pieces_bound(rows, weights, penalty, labels, int(rng.integers(1, 5)), exact)
    assert bound >= penalty * (1 - 1e-15)
    assert Fraction(bound) <= exact_optimum(rows, weights, penalty)


def test_each_piece_has_its_share_and_nearly_the_means_of_the_clusters():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=240)
    rows = rng.normal(size=(240, 2)) + 10.0 * labels[:, np.newaxis]
    split = pieces(rows, np.ones(240), labels, 4)
    assert np.bincount(split).tolist() == [60, 60, 60, 60]
    for label in range(3):
        members = labels == label
        middle = rows[members].mean(axis=0)
        for piece in range(4):
            off = rows[members & (split == piece)].mean(axis=0) - middle
            assert np.linalg.norm(off) < 0.02  # 0.3 of a random split
