"""Pictures of fits, trees and paths of penalties; `dask_dpmeans.figures.data` makes the numbers.

Each function draws on `figure`, a ``matplotlib.figure.Figure`` or ``SubFigure`` (by default a new
Figure), and returns it; ``figure.savefig("name.png")`` writes it.  The state of pyplot is not
changed.  Each of the 24 heaviest clusters has a color, the same in all pictures, that holds for
color-blind readers; all others are grey.
"""

try:
    from dask_dpmeans.figures.plot.canvas import (
        AnyFigure,
        choose_spaced,
        cluster_colors,
        colors_by_weight,
        image,
        place_labels,
        png,
        svg,
    )
    from dask_dpmeans.figures.plot.choices import choice
    from dask_dpmeans.figures.plot.clusters import profile, sharing, sizes
    from dask_dpmeans.figures.plot.graphs import graph
    from dask_dpmeans.figures.plot.maps import label_map
    from dask_dpmeans.figures.plot.ribbons import flows
    from dask_dpmeans.figures.plot.rows import density, pairs, row_map
    from dask_dpmeans.figures.plot.steps import history, path
    from dask_dpmeans.figures.plot.trees import merges, tree
except ModuleNotFoundError as error:
    if error.name not in ("matplotlib", "networkx"):
        raise
    missing = f"pictures need matplotlib and networkx, and {error.name} is missing"
    raise ImportError(f'{missing}: pip install "dask-dpmeans[plot]"', name=error.name) from error
