"""The page of a run."""

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, Unpack

import numpy as np

from dask_dpmeans import checks, errors
from dask_dpmeans.api.loading import LoadedRun
from dask_dpmeans.checks import format_column, format_count, format_hundredths
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.auto import UNSTABLE
from dask_dpmeans.estimators.center_labels import model_columns
from dask_dpmeans.figures import data as plot_data
from dask_dpmeans.figures import plot
from dask_dpmeans.figures.data import Model
from dask_dpmeans.figures.data.portraits import MOST_PORTRAITS
from dask_dpmeans.figures.data.rows import LAYERED
from dask_dpmeans.kernels.block import BoolArray, Int64Array
from dask_dpmeans.methods.dpmeans.choice import Choice
from dask_dpmeans.methods.dpmeans.stability import unstable_clusters
from dask_dpmeans.report import origin, sentences
from dask_dpmeans.report.page import Page, Picture, Section, Table, data_uri, lines_of
from dask_dpmeans.report.run_rows import RowParts, has_centers, read_rows
from dask_dpmeans.report.tree_page import drawn_tree
from dask_dpmeans.selection.tree import cluster_tree
from dask_dpmeans.sources import Stored
from dask_dpmeans.storage.run_store import Result

MOST_LINES, MOST_FEATURES = 100, 12
"""Limits of the table of clusters: the heaviest clusters, and columns of the centers."""
MAP = "Rows in the colors of their clusters, and centers with their numbers."
MICRO_MAP = "Rows in the colors of their clusters; the dots are centers of micro-clusters."
CHOICE = (
    "The chosen number comes first, then the others by falling score. Each is the best from one "
    "penalty to another. Stability says how well fits of two halves of the {} agree: 1 if they "
    "are the same. It is measured where the score is close to the best.{}"
)
REPLICATED = " Replicated is the share of the range over which they have as many clusters, give or take one in 40."
CHOICE_PICTURE = (
    "Top: the score of each number of clusters, which is how long the number stays the best while "
    "one more cluster gets dearer, allowing for shorter stays of larger numbers. Middle: the "
    "stability of the best ones. Bottom: the best number at each penalty; the chosen range is grey."
)
TINY = 1e-3
"""A cluster of less than this share of the mean weight gives a warning."""
MOST_NUMBERS = 12
"""Number of clusters that a sentence names."""
MOST_LEAVES = 100
"""Most clusters for which a page has the tree.  It took at most 1.6 seconds of one core; with 300
clusters 9, with 1,000 clusters 29."""


def page(
    run: LoadedRun,
    *,
    data: Any = None,
    columns: Sequence[int | str] | None = None,
    image_shape: Sequence[int] | None = None,
    **where: Unpack[Stored],
) -> Page:
    """Return the contents of the page of a finished run; parameters as for `report`."""
    result, model = run.result, run.model
    manifest, names = result.manifest, _names(model)
    found = origin.locate(manifest) if data is None else data
    rows = read_rows(
        result, model, found, columns, where, given=data is not None and data is not False
    )
    return Page(
        store=result.store.shown,
        headline=sentences.headline(result, model),
        sentence=sentences.summary(result, model, rows.overview),
        overview=rows.overview,
        unit="in weight" if manifest.input.weighted else "rows",
        images=_images(model, image_shape),
        grid=_grid(result, model),
        maps=_maps(model, rows),
        sizes=_sizes(model, rows),
        left_out=_left_out(model, rows),
        warnings=[*warnings_of(result, model), *rows.warnings],
        notes=[*origin.warnings(manifest), *rows.notes],
        first=_choice(result, model),
        facts={
            "Result": _result(result, model),
            "Parameters": _parameters(model),
            "Input": origin.rows(manifest, model.description().row),
        },
        pictures=[*pictures(model, names), *_pairs(model, rows)],
        tables=[cluster_table(model, names)],
        call=origin.call(result, model),
        unknown=origin.explain_unknown(manifest),
        command=origin.command(result, model),
        versions=dict(manifest.versions),
    )


def _names(model: Model) -> list[str]:
    """Return the names of the columns of the centers; none without centers."""
    if not has_centers(model):
        return []
    return plot_data.feature_names(model)


# Result


def _result(result: Result, model: Model) -> dict[str, str]:
    manifest, words = result.manifest, model.description()
    facts = {
        "clusters, k": f"{model.n_clusters_:,}",
        words.objective_name: f"{model.objective_:.9g}",
        words.inertia_name: f"{model.inertia_:.9g}",
        **({"gap": words.bound} if words.bound else {}),
        "steps": f"{model.n_iter_:,}",
        f"passes over the {words.passes_over}": format_hundredths(manifest.n_passes),
    }
    if words.has_end:
        facts["converged"] = "yes" if manifest.converged else "no"
    facts["seconds of the steps alone"] = f"{sum(record.seconds for record in result.history):.3g}"
    return {**facts, **words.facts}


def _parameters(model: Model) -> dict[str, str]:
    """Return the parameters, also those with default values."""
    facts = {"method": type(model).__name__}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray):
            facts[name] = f"{len(value):,} centers"
        elif value is not None:
            facts[name] = str(value)
    return facts


def cluster_table(model: Model, names: list[str]) -> Table:
    """Return the table of the heaviest clusters, with their centers in units of the data."""
    found = plot_data.sizes(model)
    shown = found.clusters[:MOST_LINES]
    share = found.weights[:MOST_LINES] / model.cluster_weights_.sum()
    table = {
        "cluster": [str(each) for each in shown],
        f"weight, {found.unit}": format_column(found.weights),
        "share": [f"{each:.2%}" for each in share],
    }
    if found.cut:
        table["part of the cut"] = format_column(found.radii)
    else:
        words = model.description()
        unit = f", {words.distance_unit}" if words.distance_unit else ""
        radius = f"root-mean-square radius{unit}"
        if not words.squares:
            radius = f"mean {words.cost_name} of a row"
        table[words.cost_name] = format_column(model.cluster_inertias_[shown])
        table[radius] = format_column(found.radii)
    for name, values in model.description().cluster_columns.items():
        table[name] = format_column(values[shown])
    stability = getattr(model, "cluster_stability_", None)
    if stability is not None:
        table["stability"] = [f"{each:.2f}" for each in stability[shown]]
    columns = [*table.items(), *_center_columns(model, shown, names)]
    caption = "The heaviest clusters first"
    if stability is not None:
        halves = f"halves of the {model.description().passes_over}"
        caption += f"; stability is 1 if fits of {halves} find the same cluster, and it lies apart"
        if unstable := unstable_clusters(stability):
            caption += f". {unstable}. {UNSTABLE.format(model.description().passes_over)}"
    if len(found.clusters) > MOST_LINES:
        caption += f"; {len(found.clusters) - MOST_LINES:,} lighter clusters are left out here, but not in the run"
    titles, cells = map(list, zip(*columns, strict=True))
    return Table("Clusters", f"{caption}.", titles, lines_of(cells, MOST_LINES))


def _center_columns(
    model: Model, shown: Int64Array, names: list[str]
) -> list[tuple[str, list[str]]]:
    """Return the columns of the centers with their names, if they are few, in units of the data."""
    words = model.description()
    if not words.flat and len(model.features_.layout.names) <= MOST_FEATURES:
        return model_columns(model, shown.tolist())
    centers = words.centers
    if centers is None or centers.shape[1] > MOST_FEATURES:
        return []
    if plot_data.columns_of(model) is not None and model.feature_scale_ is not None:
        centers = centers * model.feature_scale_
    return list(zip(names, map(format_column, centers[shown].T), strict=True))


def _choice(result: Result, model: Model) -> list[Section]:
    """Return the section about the choice of the penalty, if it was chosen."""
    choice: Choice | None = getattr(model, "choice_", None)
    if choice is None:
        return []
    each = choice.alternatives
    columns = {
        "clusters": [f"{one.n_clusters:,}" for one in each],
        "penalty": format_column([one.penalty for one in each]),
        "best from": format_column([one.low for one in each]),
        "to": format_column([one.high for one in each]),
        "score": ["" if one.n_clusters == 1 else f"{one.score:.2f}" for one in each],
        "stability": ["" if one.stability is None else f"{one.stability:z.2f}" for one in each],
    }
    measured, caption = [one.replicated for one in each], ""
    if any(share is not None for share in measured):
        columns["replicated"] = ["" if share is None else f"{share:.2f}" for share in measured]
        caption = REPLICATED
    lines, caption = lines_of(list(columns.values())), CHOICE.format(choice.halved, caption)
    table = Table("Alternatives", caption, list(columns), lines)
    code = "\n".join(origin.fit_alternative(result, model, one) for one in each[1:])
    picture = None
    if len(choice.intervals) > 1:
        picture = Picture.of("Choice", CHOICE_PICTURE, lambda: plot.choice(choice))
    text = choice.explain(model.n_clusters_)
    return [Section("Why this number of clusters", text, table, code, picture)]


# Warnings


def warnings_of(result: Result, model: Model) -> list[str]:
    """Return warnings about a run, but not about its rows."""
    words, found = model.description(), []
    if words.has_end and not result.manifest.converged:
        found.append(errors.NOT_CONVERGED.format(model.max_iter).capitalize() + ".")
    weights = model.cluster_weights_
    single = weights == 1
    if result.manifest.input.weighted or not words.weights_count_rows:
        single = np.zeros(len(weights), bool)
    light = (weights < TINY * weights.mean()) & ~single
    reason = f"outliers, or the {words.penalty_name} is low"
    found += _warning_about(single, f"of a single {words.row}", reason)
    found += _warning_about(light, f"of less than {TINY:g} of the mean weight", reason)
    return found


def _warning_about(which: BoolArray, what: str, reason: str) -> list[str]:
    """Return a sentence about some clusters, if there are any."""
    numbers = np.flatnonzero(which).tolist()
    if not numbers:
        return []
    named = ", ".join(map(str, numbers[:MOST_NUMBERS]))
    if len(numbers) > MOST_NUMBERS:
        named += f" and {len(numbers) - MOST_NUMBERS:,} more"
    return [f"{format_count(len(numbers), 'cluster')} {what} ({named}): {reason}."]


# Pictures


def pictures(model: Model, names: list[str]) -> list[Picture]:
    """Return the pictures that need no rows."""
    words, k, steps = model.description(), model.n_clusters_, format_count(model.n_iter_, "step")
    caption = f"Objective, number of clusters and changes over {steps}."
    found = [Picture.of("Fit", caption, lambda: plot.history(model))]
    if "profile" in words.pictures and k > 1:
        caption = "Features in which clusters differ: + and - mark scores above 1 and below -1."
        found.append(Picture.of("Profile", caption, lambda: plot.profile(model, names)))
    if "sharing" in words.pictures:
        caption = "Shares of the global centers in the weight of each data set."
        found.append(Picture.of("Sharing", caption, lambda: plot.sharing(model)))
    if "merges" in words.pictures and len(model.groups_) > 1:
        caption = (
            "Merges of micro-clusters, at the penalty from which they pay. Merges within a cluster "
            "have its color."
        )
        found.append(Picture.of("Merges", caption, lambda: plot.merges(model)))
    if words.centers is not None and k > 1:
        found.append(_tree(model))
    return found


def _sizes(model: Model, rows: RowParts) -> Picture:
    caption = f"Sizes of {format_count(model.n_clusters_, 'cluster')}."
    if rows.overview is not None and model.n_clusters_ > MOST_PORTRAITS:
        caption += f" Bars of the {MOST_PORTRAITS} heaviest can be selected."
    return Picture.of("Clusters", caption, lambda: plot.sizes(model))


def _grid(result: Result, model: Model) -> Picture | None:
    """Return the labels on the grid of a cube as a picture; None without one of two dimensions."""
    found = plot_data.labels_on_grid(result)
    if found is None:
        return None
    caption = "The samples on their grid, in the colors of their clusters."
    if (found.labels < 0).any():
        caption += " Samples in no cluster are blank."
    for each in (found.down, found.across):
        if len(each.places) < each.size:
            caption += f" Along {each.name} it has {len(each.places):,} of {each.size:,} samples."
    draw = partial(plot.label_map, found, model.cluster_weights_)
    return Picture.of("Map", caption, draw, dots=True)


def _maps(model: Model, rows: RowParts) -> list[Picture]:
    """Return the rows in colors, or the graph."""
    if rows.picture is not None:
        return [rows.picture]
    if rows.overview is None:
        return []
    caption = MAP
    if "micro-clusters" in model.description().pictures:
        caption = MICRO_MAP
    if model.n_clusters_ > LAYERED:
        caption += f" The {LAYERED} heaviest clusters have colors, all others are grey."
    pictures = []
    for found in rows.overview.maps:
        outside = ""
        if found.outside > 0.5:
            outside = f" Rows of weight {found.outside:,.6g} lie outside."
        draw = partial(plot.row_map, found, model)
        pictures.append(Picture.of(found.title, caption + outside, draw, dots=True))
    return pictures


def _left_out(model: Model, rows: RowParts) -> str:
    """Return a sentence about clusters without cards, if there are any."""
    if rows.overview is None or model.n_clusters_ <= MOST_PORTRAITS:
        return ""
    return (
        f"Cards of the {MOST_PORTRAITS} heaviest of {model.n_clusters_:,} clusters; the others are "
        "in the run."
    )


def _images(model: Model, shape: Sequence[int] | None) -> dict[int, str]:
    """Return the centers as images, data URIs by cluster; none without a shape."""
    if shape is None:
        return {}
    wanted: tuple[int, ...] = ()
    means = plot_data.cluster_means(model)
    if isinstance(shape, Sequence) and not isinstance(shape, str | bytes):
        wanted = tuple(checks.integer("image_shape", each) for each in shape)
    if len(wanted) not in (2, 3) or prod(wanted) != means.shape[1] or wanted[2:] not in ((), (3,)):
        raise InputError(
            f"image_shape must be (height, width) or (height, width, 3) with as many numbers as "
            f"the centers have columns, {means.shape[1]:,}, got {checks.describe_value(shape)}"
        )
    low, high = means.min(), means.max()
    pixels = ((means - low) / (high - low if high > low else 1.0)).reshape(-1, *wanted)
    return {cluster: data_uri("image/png", plot.image(each)) for cluster, each in enumerate(pixels)}


def _pairs(model: Model, rows: RowParts) -> list[Picture]:
    if rows.overview is None or not rows.overview.pairs:
        return []
    names, found = rows.overview.columns, rows.overview.pairs
    caption = f"Rows in pairs of the columns {', '.join(names)}, colored by cluster."
    if model.n_features_in_ > len(names):
        caption += " They are the columns in which clusters differ most."
    return [Picture.of("Columns", caption, lambda: plot.pairs(found, names), dots=True)]


def _tree(model: Model) -> Picture:
    """Return the clusters as a dendrogram, if there are few enough."""
    if model.n_clusters_ <= MOST_LEAVES:
        return drawn_tree(cluster_tree(model))
    reason = f"it takes long for more than {MOST_LEAVES} clusters"
    return Picture(
        "Tree", f"Left out, because {reason}. The command dask-dpmeans tree makes it.", None
    )
