"""Random graphs with given degrees."""

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array
from strategies import graphs, seeds

from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.graph_cut.gains import Inspection
from dask_dpmeans.kernels.graph_cut.random_graph import Degrees


def degrees_of(graph):
    return Degrees.of(Inspection().chunk(Block(0, csr_array(graph), None)))


@given(graphs(), seeds)
def test_a_random_graph_keeps_numbers_of_links_and_loops(graph, seed):
    off = graph * ~np.eye(len(graph), dtype=bool)
    ones = (off > 0) + np.diag(graph.diagonal())
    given_degrees = degrees_of(ones.astype(float))
    assert given_degrees.links.tolist() == (off > 0).sum(axis=1).tolist()
    if not off.any():
        return
    drawn = given_degrees.draw(np.random.default_rng(seed)).toarray()
    np.testing.assert_array_equal(drawn, drawn.T)
    assert drawn.sum(axis=1).tolist() == ones.sum(axis=1).tolist()


def regular(n, links):
    """Each node has links to those up to so many places away."""
    near = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    near = np.minimum(near, n - near)
    return ((near > 0) & (near <= links)).astype(float)


def test_links_are_drawn_at_random_and_few_are_repeated():
    graph = regular(200, 4)
    drawn = [degrees_of(graph).draw(np.random.default_rng(seed)).toarray() for seed in (0, 1)]
    for one in drawn:
        assert set(np.unique(one)) == {0.0, 1.0}
        assert not one.diagonal().any()
        assert (one * graph).sum() < 0.1 * graph.sum()
    assert (drawn[0] * drawn[1]).sum() < 0.1 * graph.sum()


def test_weights_are_those_of_the_nodes():
    graph = np.kron(np.diag([1.0, 3.0]), regular(200, 4))
    drawn = degrees_of(graph).draw(np.random.default_rng(0)).toarray()
    assert set(np.unique(drawn).tolist()) == {0.0, 0.5, 1.5, 4.5}
    assert drawn.sum() == pytest.approx(graph.sum(), rel=0.05)


def test_a_large_graph_is_drawn_from_some_of_its_linked_nodes():
    graph = np.zeros((400, 400))
    graph[:200, :200] = regular(200, 3)
    random = np.random.default_rng(0)
    degrees = degrees_of(graph)
    assert degrees.sample(400, random) is degrees
    drawn = degrees.sample(50, random).draw(random).toarray()
    assert drawn.shape == (50, 50)
    assert drawn.sum(axis=1).tolist() == [6.0] * 50
