"""The cuts and the algorithms that `GraphCutDPMeans` knows, by their names."""

from dask_dpmeans.methods.graph_cut import multilevel, sweep

UNITS = {"normalized": "link end", "ratio": "node"}
"""Unit of the weights of clusters by `cut`."""
CUTS = tuple(UNITS)
METHODS: dict[str, type[multilevel.Method] | type[sweep.Method]] = {
    "coarsen": multilevel.Method,
    "mean": sweep.Method,
}
"""Algorithms by `init`."""
