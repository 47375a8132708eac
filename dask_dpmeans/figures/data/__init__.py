"""The numbers of pictures; `dask_dpmeans.figures.plot` draws them.

`rows` has maps of rows, also of places on the earth, `portraits` all clusters from one pass, `clusters`
what a fit alone tells: its clusters, its steps and the choice of its penalty; `trees`, `graphs` and
`label_maps` are named after their pictures.  `labelings` compares labels, and `ribbons` lays out their flows.
"""

from dask_dpmeans.estimators.checked_rows import rows_of
from dask_dpmeans.figures.data.clusters import (
    History,
    Numbers,
    Profile,
    Shares,
    Sizes,
    choice,
    history,
    profile,
    sharing,
    sizes,
)
from dask_dpmeans.figures.data.column_means import column_overview
from dask_dpmeans.figures.data.columns import Model, column_numbers, columns_of, feature_names
from dask_dpmeans.figures.data.graphs import MOST_NODES, Drawable, drawable
from dask_dpmeans.figures.data.label_maps import LabelMap, Side, labels_on_grid, side
from dask_dpmeans.figures.data.labelings import Change, Flows, changes, cluster_name, flows, letters
from dask_dpmeans.figures.data.portraits import (
    ColumnMean,
    Exemplar,
    Feature,
    Neighbor,
    Overview,
    Part,
    Portrait,
    overview,
)
from dask_dpmeans.figures.data.ribbons import GREY as NO_COLOR
from dask_dpmeans.figures.data.ribbons import Alluvial, Box, alluvial
from dask_dpmeans.figures.data.rows import (
    Density,
    DensityOptions,
    chart,
    cluster_means,
    density,
    nearest_clusters,
)
from dask_dpmeans.figures.data.trees import Dendrogram, Join, Merges, dendrogram, merges, upper
