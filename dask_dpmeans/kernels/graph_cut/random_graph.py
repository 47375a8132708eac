"""Random graphs with given degrees."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.graph_cut.gains import GraphSummary

EXCHANGES = 20
"""Rounds that exchange the ends of loops and of repeated links of a random graph."""


@dataclass(frozen=True)
class Degrees:
    """Degrees of the nodes of a graph, which random graphs keep."""

    links: Int64Array
    """(n,), numbers of links to other nodes."""
    weights: Float64Array
    """(n,), mean weights of these links."""
    loops: Float64Array
    """(n,), weights of the links of nodes to themselves."""

    @classmethod
    def of(cls, found: GraphSummary) -> Self:
        """Return the degrees of a graph."""
        weights = (found.degrees - found.loops) / np.maximum(found.links, 1)
        return cls(found.links, weights, found.loops)

    def sample(self, most: int, random: np.random.Generator) -> Self:
        """Return the degrees of at most `most` nodes, with links to others if there are more."""
        if len(self.links) <= most:
            return self
        nodes = np.sort(random.permutation(np.flatnonzero(self.links))[:most])
        return type(self)(self.links[nodes], self.weights[nodes], self.loops[nodes])

    def draw(self, random: np.random.Generator) -> csr_array:
        """Return a random graph with these degrees, (n, n).

        The ends of links are paired at random (Bollobas 1980).  Then loops and repeated links
        exchange ends with others, and the few that are left stay.
        """
        links, weights, n = self.links, self.weights, len(self.links)
        ends = random.permutation(np.repeat(np.arange(n), links))
        m = len(ends) // 2
        first, second = ends[:m], ends[m : 2 * m]
        for _ in range(EXCHANGES):
            wrong = is_repeated(np.minimum(first, second) * n + np.maximum(first, second))
            wrong |= first == second
            if not wrong.any():
                break
            chosen = np.flatnonzero(wrong | (random.random(m) < wrong.mean()))
            second[chosen] = second[random.permutation(chosen)]
        values = weights[first] * weights[second] / np.average(weights, weights=links)
        pairs = np.append(first, second), np.append(second, first)
        drawn = csr_array((np.append(values, values), pairs), shape=(n, n))
        return csr_array(drawn + csr_array((self.loops, (np.arange(n),) * 2), shape=(n, n)))


def is_repeated(keys: Int64Array) -> BoolArray:
    """Return which keys, (m,), are equal to an earlier one."""
    order = np.argsort(keys, kind="stable")
    again = np.zeros(len(keys), np.bool_)
    again[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return again
