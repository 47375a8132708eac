"""Pictures of fits, trees and paths of penalties; `dask_dpmeans.figures.data` makes the numbers.

Each function draws on `figure`, a ``matplotlib.figure.Figure`` or ``SubFigure`` (by default a new
Figure), and returns it; ``figure.savefig("name.png")`` writes it.  The state of pyplot is not
changed.  Colors are ordered by lightness and clusters have markers, so that pictures can be read in
grey.
"""

try:
    from dask_dpmeans.figures.plot.canvas import NAMED, AnyFigure, svg
    from dask_dpmeans.figures.plot.choices import choice
    from dask_dpmeans.figures.plot.clusters import profile, sharing, sizes
    from dask_dpmeans.figures.plot.flows import flows
    from dask_dpmeans.figures.plot.graphs import graph
    from dask_dpmeans.figures.plot.micro_clusters import merges
    from dask_dpmeans.figures.plot.rows import choose_spaced, density, row_map
    from dask_dpmeans.figures.plot.steps import history, path
    from dask_dpmeans.figures.plot.trees import tree
except ModuleNotFoundError as error:
    if error.name not in ("matplotlib", "networkx"):
        raise
    missing = f"pictures need matplotlib and networkx, and {error.name} is missing"
    raise ImportError(f'{missing}: pip install "dask-dpmeans[plot]"', name=error.name) from error

__all__ = [
    "NAMED",
    "AnyFigure",
    "choice",
    "choose_spaced",
    "density",
    "flows",
    "graph",
    "history",
    "merges",
    "path",
    "profile",
    "row_map",
    "sharing",
    "sizes",
    "svg",
    "tree",
]
