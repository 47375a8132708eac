"""What the page of a run says."""

import os
import shlex
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np

from dask_dpmeans import errors
from dask_dpmeans.api import description
from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.errors import CorruptStoreError, InputError, redacted
from dask_dpmeans.figures import data as views
from dask_dpmeans.figures import plot
from dask_dpmeans.kernels.plot_statistics import NEAR
from dask_dpmeans.registry import METHODS, spec_of
from dask_dpmeans.report import origin
from dask_dpmeans.report.page import Page, Picture, Table, lines_of
from dask_dpmeans.report.tree_page import drawn_tree
from dask_dpmeans.selection import commands
from dask_dpmeans.selection.tree import cluster_tree
from dask_dpmeans.sources import RowSource, Stored, as_source, path_of
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.run_store import Result
from dask_dpmeans.text import counted, figures

Model = Any
"""A fitted estimator of the registry."""
MOST_LINES, MOST_FEATURES = 100, 12
"""Clusters in the table, the heaviest first, and columns of centers that it has room for."""
TINY = 1e-3
"""A cluster of less than this share of the mean weight is pointed out."""
MOST_NUMBERS = 12
"""Clusters that a sentence names."""
MOST_LEAVES = 100
"""Clusters of which a page has the tree: it took at most 1.6 seconds of one core, of 300 9, of 1,000 29."""


def page(run: AnyPlace | LoadedRun, *, data: Any = None, **where: Unpack[Stored]) -> Page:
    """What the page of a finished run says; parameters as `report` has them."""
    opened = run if isinstance(run, LoadedRun) else open_run(run)
    result, model = opened.result, opened.model
    rows = read_rows(result, model, origin.located(result.manifest) if data is None else data, where)
    manifest, names = result.manifest, _names(model)
    return Page(
        store=result.store.shown,
        headline=_headline(result, model),
        warnings=[*warnings_of(result, model), *origin.warnings(manifest), *rows.warnings],
        facts={
            "Result": _result(result, model),
            "Parameters": _parameters(model),
            "Input": origin.rows(manifest, model.description().row),
        },
        pictures=[*pictures(model, names), *rows.pictures],
        tables=[cluster_table(model, names)],
        call=call(result, model),
        unknown=origin.unknown(manifest),
        command=command(result, model),
        versions=dict(manifest.versions),
    )


def _names(model: Model) -> list[str]:
    """What the columns of the centers are called, where there are some."""
    return views.feature_names(model) if hasattr(model, "cluster_centers_") else []


# What it came to


def _headline(result: Result, model: Model) -> str:
    n_rows = counted(result.manifest.input.shape[0], model.description().row)
    return f"{counted(model.n_clusters_, 'cluster')} of {n_rows}, by {type(model).__name__}"


def _result(result: Result, model: Model) -> dict[str, str]:
    """Facts by name."""
    manifest, words = result.manifest, model.description()
    found = {
        "clusters, k": f"{model.n_clusters_:,}",
        words.objective_name: f"{model.objective_:.9g}",
        words.inertia_name: f"{model.inertia_:.9g}",
        "steps": f"{model.n_iter_:,}",
        f"passes over the {words.passes_over}": f"{manifest.n_passes:.2f}",
    }
    if words.has_end:
        found["converged"] = "yes" if manifest.converged else "no"
    found["seconds"] = f"{sum(record.seconds for record in result.history):.3g}"
    return {**found, **words.facts}


def cluster_table(model: Model, names: list[str]) -> Table:
    """The heaviest clusters: weights, squared errors, radii, and centers of few columns, in units of the data."""
    found = views.sizes(model)
    shown = found.clusters[:MOST_LINES]
    share = found.weights / model.cluster_weights_.sum()
    columns = ["cluster", f"weight, {found.unit}", "share"]
    parts = [[str(each) for each in shown], figures(found.weights), [f"{each:.2%}" for each in share[:MOST_LINES]]]
    if not found.cut:
        columns.append("squared error")
        parts.append(figures(model.cluster_inertias_[shown]))
    columns.append("part of the cut" if found.cut else "root-mean-square radius")
    parts.append(figures(found.radii))
    for name, values in model.description().cluster_columns.items():
        columns.append(name)
        parts.append(figures(values[shown]))
    centers = getattr(model, "cluster_centers_", None)
    if centers is not None and centers.shape[1] <= MOST_FEATURES:
        scale = None if views.columns_of(model) is None else model.feature_scale_
        columns += names
        parts += [figures(each) for each in (centers if scale is None else centers * scale)[shown].T]
    left_out = len(found.clusters) - len(shown)
    more = f"; {left_out:,} lighter ones are left out, the run has all" * (left_out > 0)
    return Table("Clusters", f"The heaviest first{more}.", columns, lines_of(parts, MOST_LINES))


# What to look out for


def warnings_of(result: Result, model: Model) -> list[str]:
    """What a reader should know of a run, its rows aside."""
    words = model.description()
    over = result.manifest.converged or not words.has_end
    said = [] if over else [errors.NOT_CONVERGED.format(model.max_iter).capitalize() + "."]
    weights = model.cluster_weights_
    alone = weights == 1
    if result.manifest.input.weighted or not words.weights_count_rows:
        alone = np.zeros(len(weights), bool)
    tiny = (weights < TINY * weights.mean()) & ~alone
    why = f"outliers, or the {words.penalty_name} is low"
    said += _about(alone, f"of one {words.row} alone", why)
    said += _about(tiny, f"of less than {TINY:g} of the mean weight", why)
    return said


def _about(which: Any, what: str, why: str) -> list[str]:
    """A sentence about some clusters, where there are any."""
    numbers = np.flatnonzero(which).tolist()
    if not numbers:
        return []
    more = f" and {len(numbers) - MOST_NUMBERS:,} more" if len(numbers) > MOST_NUMBERS else ""
    named = ", ".join(map(str, numbers[:MOST_NUMBERS]))
    return [f"{counted(len(numbers), 'cluster')} {what} ({named}{more}): {why}."]


# What the rows show


@dataclass(frozen=True)
class Seen:
    """What was found by reading the input once more."""

    warnings: list[str] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


def read_rows(result: Result, model: Model, data: Any, where: Stored) -> Seen:
    """Pictures and warnings that need the input; a warning where it cannot be read."""
    stored = model.description().stored_rows is not None
    if (data is None or data is False) and not stored:
        return Seen()
    try:
        source = _source(result, model, data, where)
        if not stored and _changed(result, model, source):
            why = "they have changed, or this is another type of CPU"
            return Seen(
                [f"The rows at {_shown(data)} are not those of the fit to the bit ({why}): they are not shown."]
            )
        if "graph" in model.description().pictures:
            return _seen_graph(model, source)
        edge = [] if stored else edge_warnings(result, model, source)
        return Seen(edge, _density(model, source, _names(model)))
    except (InputError, CorruptStoreError, OSError) as error:
        return Seen([redacted(f"The rows at {_shown(data)} could not be shown: {error}")])


def _shown(data: Any) -> str:
    return redacted(os.fspath(data)) if isinstance(data, str | os.PathLike) else "hand"


def _source(result: Result, model: Model, data: Any, where: Stored) -> RowSource:
    """The input, as the fit saw it."""
    spec = spec_of(model)
    if spec.sparse:
        return as_source(spec.read(data), sparse=True, **where)
    beside = commands.sources(result.manifest)
    given = {name: path for name, path in beside.items() if name != "data" and path and os.path.exists(path_of(path))}
    groups = {"groups": given["groups"]} if "groups" in given and spec.takes_groups else {}
    return views.rows_of(data, model, given.get("sample_weight"), **groups, **where)


def _changed(result: Result, model: Model, source: RowSource) -> bool:
    """Whether the rows are known to be others than those of the fit, where that can be told."""
    fitted = result.manifest.input
    if (source.plan.n_rows, source.stored_columns) != fitted.shape:
        return True
    learned = model.description().learned_rows
    comparable = (
        source.summary.n_groups == fitted.n_groups
        and source.plan.block_rows == fitted.block_rows  # sums are of the same runs of rows
        and not (fitted.weighted or learned)
    )
    return comparable and description.fingerprint(source.summary) != fitted.fingerprint


def edge_warnings(result: Result, model: Model, source: RowSource) -> list[str]:
    """Sentences about rows at the edge of the radius, where there is one and centers are points: one pass."""
    words = model.description()
    if words.radius is None or not hasattr(model, "cluster_centers_"):
        return []
    penalty, word = result.manifest.parameters["penalty"], words.penalty_name
    near, beyond = views.edge(source, spec_of(model).predictor(result), penalty)
    said = []
    if beyond:
        said.append(f"{counted(beyond, 'row')} of weight 1 or more beyond the radius of every cluster.")
    if near:
        share = near / source.plan.n_rows
        said.append(
            f"{counted(near, 'row')} ({share:.2g} of all) at the edge of the radius: squared distances above "
            f"{NEAR:g} of the {word} {penalty:g}. With a little lower {word} some would open clusters."
        )
    return said


def _density(model: Model, source: RowSource, names: list[str]) -> list[Picture]:
    if not hasattr(model, "cluster_centers_"):
        return []
    caption = "The rows, with the centers and the numbers of those that have room for one, the heaviest first."
    return [Picture.of("Rows and centers", caption, lambda: plot.density(source, model, feature_names=names))]


def _seen_graph(model: Model, source: RowSource) -> Seen:
    if source.plan.n_rows > views.MOST_NODES:
        return Seen()
    caption = "The nodes and their links; clusters have their own color and marker."
    return Seen(pictures=[Picture.of("Graph", caption, lambda: plot.graph(source, np.asarray(model.labels_)))])


# Pictures


def pictures(model: Model, names: list[str]) -> list[Picture]:
    """Those that need no rows."""
    steps = counted(model.n_iter_, "step")
    found = [
        Picture.of("Fit", f"Objective, clusters and what changed them, over {steps}.", lambda: plot.history(model)),
        Picture.of("Clusters", f"Sizes of {counted(model.n_clusters_, 'cluster')}.", lambda: plot.sizes(model)),
    ]
    if "profile" in model.description().pictures and model.n_clusters_ > 1:
        caption = "In which features clusters differ: + and - mark scores above 1 and below -1."
        found.append(Picture.of("Profile", caption, lambda: plot.profile(model, names)))
    if "sharing" in model.description().pictures:
        caption = "Shares of the global centers in the weight of the data sets."
        found.append(Picture.of("Sharing", caption, lambda: plot.sharing(model)))
    if hasattr(model, "cluster_centers_") and model.n_clusters_ > 1:
        found.append(_tree(model))
    return found


def _tree(model: Model) -> Picture:
    """The clusters as a dendrogram, where they are so few that it costs about as much as the other pictures."""
    k = model.n_clusters_
    if k > MOST_LEAVES:
        why = f"Left out, as it takes a while for more than {MOST_LEAVES} clusters: dask-dpmeans tree makes it."
        return Picture("Tree", why, None)
    return drawn_tree(cluster_tree(model))


# How to make it again


def _asked(model: Model) -> dict[str, Any]:
    """Parameters that differ from their defaults, or have none."""
    return origin.differing(model.get_params(deep=False), type(model))


def _parameters(model: Model) -> dict[str, str]:
    """Those that are set, be it by default."""
    given = model.get_params(deep=False)
    first = {name: f"{len(value):,} centers" for name, value in given.items() if isinstance(value, np.ndarray)}
    return {name: first.get(name, str(value)) for name, value in given.items() if value is not None}


def call(result: Result, model: Model) -> str:
    """Python that makes the run again."""
    manifest, sources, name = result.manifest, commands.sources(result.manifest), type(model).__name__
    asked, imports = _asked(model), [f"from dask_dpmeans import {name}, fit"]
    if any(isinstance(value, np.ndarray) for value in asked.values()):
        imports.insert(0, "import zarr\n")
    stored = f"zarr.open_array({(result.store / 'first_centers').shown!r}, mode='r')[:]"
    given = [f"{each}={stored if isinstance(value, np.ndarray) else repr(value)}" for each, value in asked.items()]
    parts = [origin.data(manifest), repr(origin.AGAIN), f"{name}({', '.join(given)})"]
    groups = "groups" if sources["groups"] is None else repr(sources["groups"])
    parts += [f"groups={groups}"] if spec_of(model).takes_groups else []
    parts += origin.parts(manifest)
    inner = "".join(f"    {part},\n" for part in parts)
    return "\n".join(imports) + f"\n\nfit(\n{inner})"


def command(result: Result, model: Model) -> str | None:
    """The command that makes the run again; None where there is none, or rows or first centers have no path."""
    name, grouped = METHODS[type(model).__name__].command, spec_of(model).takes_groups
    if name is None:
        return None
    manifest, sources, asked = result.manifest, commands.sources(result.manifest), _asked(model)
    reading = commands.words(manifest)
    if reading is None or (grouped and sources["groups"] is None):
        return None
    if any(isinstance(value, np.ndarray) for value in asked.values()):
        return None
    words = ["dask-dpmeans", name, str(sources["data"]), origin.AGAIN, *commands.flags(asked)]
    words += ["--groups", str(sources["groups"])] if grouped else []
    return shlex.join([*words, *reading])
