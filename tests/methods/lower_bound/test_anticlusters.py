"""Bounds from pieces: never above the optimum, whatever the labels; pieces that are like the whole."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from exact_optimum import exact_optimum
from hypothesis import given, settings
from strategies import seeds

from dask_dpmeans.methods.lower_bound import anticlusters
from dask_dpmeans.methods.lower_bound.anticlusters import PARTNERS, Piece, pieces_bound, split_rows
from dask_dpmeans.sources import as_source


class Saved:
    """Checkpoints in memory, which end the job after some saves."""

    def __init__(self, most):
        self.most, self.contents = most, {}

    def load(self, name):
        return self.contents.get(name)

    def save(self, name, content):
        self.contents[name] = content
        self.most -= 1
        if not self.most:
            raise KeyboardInterrupt


class Exact(Piece):
    """A bound that a piece cannot exceed: its optimum, rounded down."""

    def __call__(self, shared=None):
        return float(exact_optimum(self.rows, self.weights, self.penalty)) * (1 - 1e-15)


@settings(max_examples=40)
@given(seed=seeds)
def test_the_sum_over_pieces_is_never_above_the_optimum(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 6, (rng.integers(1, 8), 2)).astype(np.float64)
    weights = rng.choice([0.5, 1.0, 3.0], len(rows))
    labels, penalty = rng.integers(3, size=len(rows)), 2.0 ** rng.integers(-2, 6)
    n_pieces = int(rng.integers(1, len(rows) + 1))
    split = split_rows(rows, weights, penalty, labels, n_pieces, 1.0)
    assert sum(len(piece.rows) for piece in split) == len(rows)
    assert all(len(piece.rows) >= len(rows) // n_pieces for piece in split)
    exact = [Exact(**vars(piece)) for piece in split]
    bound = pieces_bound(exact, as_source(rows))
    assert bound >= penalty * (1 - 1e-14)
    assert Fraction(bound) <= exact_optimum(rows, weights, penalty)


def blob_pieces(n_pieces, n=90):
    rng = np.random.default_rng(1)
    labels = np.arange(n) % 3
    rows = rng.normal(size=(n, 8)) + 6.0 * labels[:, np.newaxis]
    return rows, split_rows(rows, np.ones(n), 200.0, labels, n_pieces, 2.0**26)


def test_pieces_side_by_side_have_the_bound_of_pieces_in_turn():
    rows, split = blob_pieces(5)
    expected = pieces_bound(split, as_source(rows, threads=1))
    assert pieces_bound(split, as_source(rows, threads=3)) == expected
    assert 0 < expected <= sum(piece.upper for piece in split)


def test_a_bound_that_was_stopped_goes_on_after_the_pieces_that_were_saved(monkeypatch):
    monkeypatch.setattr(anticlusters, "SAVED", 2)
    monkeypatch.setattr("dask_dpmeans.engine.checkpoints.SAVE_EVERY", 0.0)
    rows, split = blob_pieces(5)
    source = as_source(rows, threads=1)
    expected, asked = pieces_bound(split, source), []
    call = Piece.__call__
    monkeypatch.setattr(Piece, "__call__", lambda self, shared=None: asked.append(1) or call(self))
    saved = Saved(2)
    source = replace(source, checkpoints=saved)
    with pytest.raises(KeyboardInterrupt):
        pieces_bound(split, source)
    assert len(asked) == 4
    assert pieces_bound(split, source) == expected
    assert len(asked) == 5
    assert pieces_bound(blob_pieces(4)[1], source) != expected
    assert len(asked) == 9


@pytest.mark.parametrize("n", [240, 3 * PARTNERS + 300])
def test_each_piece_has_its_share_and_nearly_the_means_of_the_clusters(n):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=n)
    rows = rng.normal(size=(n, 2)) + 10.0 * labels[:, np.newaxis]
    split = anticlusters.anticlusters(rows, np.ones(n), labels, 4)
    assert np.bincount(split).tolist() == [n // 4] * 4
    for label in range(3):
        members = labels == label
        middle = rows[members].mean(axis=0)
        for piece in range(4):
            off = rows[members & (split == piece)].mean(axis=0) - middle
            assert np.linalg.norm(off) < 0.02  # 0.3 of a random split
