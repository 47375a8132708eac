"""Overviews of blobs, and pages of them, made without a fit."""

import numpy as np

from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Density, Exemplar, Feature, Neighbor, Overview, Portrait
from dask_dpmeans.report.page import Page, Picture, Table

NAMES = ["Horsepower", "Miles per gallon", "Weight"]


def rows_of_blobs(n_rows, k, seed=0):
    """Rows of k blobs in three columns, and their labels, the heaviest cluster first."""
    rng = np.random.default_rng(seed)
    labels = np.sort((rng.random(n_rows) ** 1.6 * k).astype(np.int32))
    return rng.uniform(-12, 12, (k, 3))[labels] + rng.normal(size=(n_rows, 3)), labels


def overview(n_rows=600, k=5, names=NAMES, bins=60):
    """An overview of blobs whose clusters are numbered backwards."""
    rows, ranks = rows_of_blobs(n_rows, k)
    labels = (k - 1 - ranks).astype(np.int32)
    maps = [
        density_of(rows[:, [0, 1]], labels, [names[0], names[1]], bins),
        density_of(rows[:, [1, 2]], labels, [names[1], names[2]], bins),
    ]
    clusters = [portrait(rows, labels, cluster, names) for cluster in range(k - 1, -1, -1)]
    return Overview(maps, [], list(names), clusters, near=3, beyond=2, doubt=0.04)


def density_of(points, labels, axes, bins):
    """Points in a plane, or boxes if there are many."""
    k = int(labels.max()) + 1
    low, high = points.min(axis=0), points.max(axis=0)
    centers = np.array([points[labels == each].mean(axis=0) for each in range(k)])
    layers, counts = np.array([*range(k - 1, -1, -1), -1]), None
    if len(points) >= 10_000:
        edges = [np.linspace(*ends, bins + 1) for ends in zip(low, high, strict=True)]
        counts = np.array(
            [np.histogram2d(*points[labels == each].T, bins=edges)[0] for each in layers]
        )
    few = counts is None
    return Density(
        title=" and ".join(axes),
        centers=centers,
        groups=np.arange(k),
        points=points if few else None,
        labels=labels if few else None,
        counts=counts,
        layers=layers,
        low=low,
        high=high,
        outside=0.0,
        n_rows=len(points),
        axes=axes,
        unit="units of the data",
    )


def portrait(rows, labels, cluster, names):
    """What one cluster is."""
    own = rows[labels == cluster]
    scores = (own.mean(axis=0) - rows.mean(axis=0)) / rows.std(axis=0)
    features = []
    for column in np.argsort(-np.abs(scores)):
        ends = rows[:, column].min(), rows[:, column].max()
        counts, overall = (np.histogram(each[:, column], 24, ends)[0] for each in (own, rows))
        mean = own[:, column].mean()
        features.append(Feature(names[column], scores[column], mean, *ends, counts + 0.0, overall))
    centers = np.array([rows[labels == each].mean(axis=0) for each in range(labels.max() + 1)])
    distances = np.linalg.norm(centers - centers[cluster], axis=1)
    near = np.argsort(distances)[1:4]
    return Portrait(
        cluster=cluster,
        weight=float(len(own)),
        share=len(own) / len(rows),
        radius=float(np.sqrt(((own - own.mean(axis=0)) ** 2).sum(axis=1).mean())),
        stability=0.97,
        doubt=0.01 * (1 + cluster),
        features=features,
        neighbors=[Neighbor(int(each), distances[each], 0.01 * (1 + cluster)) for each in near],
        nearest=[Exemplar(str(each), 0.2 * each) for each in (17, 4, 33)],
        farthest=[Exemplar(f"row of {names[0]}", 4.25)],
    )


def page_of(found, pictures=True):
    """A page of an overview."""
    drawn = [
        Picture.of(each.title, "The rows.", lambda each=each: drawing(each)) for each in found.maps
    ]
    rows = [
        [str(each.cluster), f"{each.weight:,.0f}", f"{each.share:.2%}"] for each in found.clusters
    ]
    return Page(
        store="/home/someone/a-very-long-folder-of-runs/of-the-month/run-with-a-name.zarr",
        headline=f"{len(found.clusters)} clusters of {found.maps[0].n_rows:,} rows, by DPMeans",
        warnings=["1 cluster of a single row (3): outliers, or the penalty is low."],
        first=[],
        facts={"Result": {"clusters, k": "5"}, "Input": {"data": "/" + "long-folder/" * 12}},
        pictures=[],
        tables=[Table("Clusters", "The heaviest first.", ["cluster", "weight", "share"], rows)],
        call="fit(\n    'rows.zarr',\n    'again.zarr',\n)",
        unknown=None,
        command="dask-dpmeans fit rows.zarr again.zarr --penalty 12 " + "--columns 0,2 " * 9,
        versions={"dask-dpmeans": "0.1"},
        sentence="5 clusters in 600 rows; the largest holds 28%; 2 rows are far from every center.",
        maps=drawn,
        sizes=Picture.of("Sizes", "Weight of each cluster.", lambda: drawing(found.maps[0])),
        overview=found,
        notes=["The input is stored without checksums."],
    )


def drawing(density):
    """A plain picture."""
    figure = plot.canvas.new_figure(None, None, 7.0, 4.6)
    axes = figure.subplots()
    axes.scatter(*density.centers.T, c=plot.cluster_colors(np.arange(len(density.centers))))
    axes.set_xlabel("first")
    return figure
