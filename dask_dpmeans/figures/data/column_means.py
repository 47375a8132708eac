"""Portraits of clusters with divergences of columns, from the run alone: no rows are read."""

import numpy as np

from dask_dpmeans.estimators.center_labels import Values, most_frequent, used_columns
from dask_dpmeans.figures.data import portraits
from dask_dpmeans.figures.data.columns import Model
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.encoded import EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding

ROUNDING = 1e-12
"""Relative differences of means that are errors of rounding."""


def column_overview(model: Model) -> portraits.Overview:
    """Return portraits of the clusters of a fit with an `Encoding`, without maps of rows.

    Columns are ordered by what the rows of a cluster would cost more at the mean of all rows: their
    weight times the cost of their mean there (Banerjee et al. 2005, section 3).
    """
    encoding, weights = model.features_, model.cluster_weights_
    clusters = np.argsort(-weights, kind="stable")[: portraits.MOST_PORTRAITS].tolist()
    averages = model.cluster_averages_
    costs = EncodedDivergence(encoding).costs_to_all(averages[clusters], averages)
    found = [
        _portrait(model, cluster, _column_means(model, cluster), own)
        for cluster, own in zip(clusters, costs, strict=True)
    ]
    return portraits.Overview([], [], [], found, 0, 0, None, divergences=True)


def _portrait(
    model: Model, cluster: int, columns: list[portraits.ColumnMean], costs: Float64Array
) -> portraits.Portrait:
    """Return the portrait of a cluster whose rows cost `costs`, (k,), on average at the centers."""
    weight = float(model.cluster_weights_[cluster])
    stability = getattr(model, "cluster_stability_", None)
    more = costs - costs[cluster]
    nearest = [each for each in np.argsort(more, kind="stable").tolist() if each != cluster]
    return portraits.Portrait(
        cluster,
        weight,
        weight / float(model.cluster_weights_.sum()),
        float(model.cluster_inertias_[cluster]) / weight,
        None if stability is None else float(stability[cluster]),
        None,
        [],
        [
            portraits.Neighbor(each, float(more[each]), None)
            for each in nearest[: portraits.MOST_NEIGHBORS]
        ],
        [],
        [],
        columns,
    )


def _column_means(model: Model, cluster: int) -> list[portraits.ColumnMean]:
    """Return the columns of the input that set a cluster apart, the foremost first."""
    encoding, layout = model.features_, model.features_.layout
    names, categories = used_columns(model)
    values = encoding.values(model.cluster_averages_[[cluster]])
    costs = np.add.reduceat(encoding.weights * encoding.column_costs(values), layout.starts, axis=1)
    order = np.argsort(-costs[0], kind="stable")[: portraits.MOST_FEATURES].tolist()
    return [
        portraits.ColumnMean(names[column], _parts(model, encoding, cluster, column, categories))
        for column in order
    ]


def _parts(
    model: Model, encoding: Encoding, cluster: int, column: int, categories: Values
) -> list[portraits.Part]:
    """Return the mean of a column of numbers, or the shares of its most frequent categories."""
    first, m = int(encoding.layout.starts[column]), encoding.layout.categories[column]
    centers = model.cluster_centers_
    if m:
        own, overall = centers[cluster, first : first + m], encoding.means[first : first + m]
        values = categories.get(column, range(m))
        return [
            portraits.Part(
                str(values[code]), float(own[code]), float(overall[code]), 0.0, float(own[code])
            )
            for code in most_frequent(own)
        ]
    differences, overall = centers[:, first] - encoding.means[first], encoding.means[first]
    reach = float(np.abs(differences).max())
    end = 0.5
    if reach > ROUNDING * abs(overall):
        end += 0.5 * float(differences[cluster]) / reach
    own = centers[cluster, first] if abs(centers[cluster, first]) > ROUNDING * reach else 0.0
    scale = 1.0 if model.feature_scale_ is None else float(model.feature_scale_[column])
    return [
        portraits.Part(
            "", float(scale * own), float(scale * overall), min(end, 0.5), abs(end - 0.5)
        )
    ]
