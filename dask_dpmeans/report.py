"""A run as one page of HTML that a person would send to a colleague: it opens without a network."""

import base64
import inspect
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from jinja2 import Environment, StrictUndefined

from dask_dpmeans import plot, views
from dask_dpmeans import run as runs
from dask_dpmeans.errors import CorruptStoreError, InputError, redacted
from dask_dpmeans.estimate import counted
from dask_dpmeans.estimators import DPMeans, Model, load
from dask_dpmeans.gibbs import GibbsMixture
from dask_dpmeans.graph import GraphCutDPMeans, as_graph
from dask_dpmeans.groups import HDPMeans
from dask_dpmeans.kernel import KernelDPMeans
from dask_dpmeans.kernels.picture import NEAR
from dask_dpmeans.location import AnyPlace
from dask_dpmeans.sources import RowSource, as_source
from dask_dpmeans.spectral import SpectralDPMeans
from dask_dpmeans.store import Result, RunStore

MOST_LINES, MOST_FEATURES = 100, 12
"""Clusters in the table, the heaviest first, and columns of centers that it has room for."""
TINY = 1e-3
"""A cluster of less than this share of the mean weight is pointed out."""
MOST_NUMBERS = 12
"""Clusters that a sentence names."""
COMMANDS = {
    DPMeans: "fit",
    HDPMeans: "hdp",
    KernelDPMeans: "kernel",
    SpectralDPMeans: "spectral",
    GraphCutDPMeans: "graph",
}
OPTIONS = {"random_state": "seed", "n_neighbors": "neighbors", "n_landmarks": "landmarks", "n_components": "components"}
"""Parameters that the command line calls something else."""
GENERATOR = '<meta name="generator" content="dask-dpmeans report">'
"""By which a page of ours is known."""


@dataclass(frozen=True)
class Picture:
    """A drawing and what it shows."""

    title: str
    caption: str
    """A sentence, which also stands for the picture where that is not seen."""
    source: str
    """A data URI."""


@dataclass(frozen=True)
class Table:
    """The clusters, the heaviest first."""

    columns: list[str]
    lines: list[list[str]]
    left_out: int
    """Lighter clusters that it has no line for."""


@dataclass(frozen=True)
class Page:
    """All that a page says."""

    run: str
    headline: str
    warnings: list[str]
    result: dict[str, str]
    parameters: dict[str, str]
    rows: dict[str, str]
    clusters: Table
    pictures: list[Picture]
    call: str
    """Python that makes the run again."""
    from_memory: bool
    """Whether the rows, X in it, had no path."""
    command: str | None
    """The command that does; None where a command cannot."""
    versions: dict[str, str]


def report(
    run: AnyPlace,
    out: str | os.PathLike[str],
    *,
    data: Any = None,
    force: bool = False,
    **where: Any,
) -> None:
    """Write a finished run as one page of HTML, with its pictures, that opens without a network.

    Parameters
    ----------
    run : path or URL of a finished run
    out : path of a new file
    data : path of the rows, or what `fit` takes; False, optional
        By default where the run says that they were, if they still are there: a path of this machine.  From them come
        the picture of rows and centers, that of a small graph, and the number of rows at the edge of the radius, in up
        to four passes.  With False they are not read.
    force : write over a report that is there; nothing but a report of ours is ever written over
    **where : client, threads, memory_limit, fill_missing, as `dask_dpmeans.fit` takes them

    Raises
    ------
    InputError
        Where there is no finished run, or `out` cannot be written.
    CorruptStoreError
        Where something in the run is missing or does not match its checksum.
    """
    target = checked_target(out, run, force)
    text = html(page(run, data=data, **where))
    written = target.with_name(f".{target.name}.{uuid4().hex}.partial")
    try:
        written.write_text(text, encoding="utf-8")
        written.replace(target)
    finally:
        written.unlink(missing_ok=True)


def checked_target(out: str | os.PathLike[str], run: AnyPlace, force: bool) -> Path:
    """Where to write, if that is free."""
    text = os.fspath(out)
    if "://" in text:
        raise InputError(f"{text}: a report is written to a file of this machine, give its path")
    target, inside = Path(os.path.realpath(text)), RunStore.at(run).path
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to put {target.name} in")
    if target.is_relative_to(os.path.realpath(inside)):
        raise InputError(f"{target} lies within the run {inside}: give another path")
    if not target.exists():
        return target
    if not (target.is_file() and GENERATOR in target.read_text(encoding="utf-8", errors="replace")[:2000]):
        raise InputError(f"{target} exists and is no report of ours, so it is never written over: give another path")
    if not force:
        raise InputError(f"{target} holds a report: --force writes over it")
    return target


def html(page: Page) -> str:
    """The page; all that comes from a run is escaped."""
    template = files("dask_dpmeans").joinpath("report.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(page=page, generator=GENERATOR)


def page(run: AnyPlace, *, data: Any = None, **where: Any) -> Page:
    """What the page of a finished run says; parameters as `report` has them."""
    result, model = RunStore.at(run).result(), load(run)
    rows = read_rows(result, model, _located(result.manifest) if data is None else data, where)
    manifest = result.manifest
    return Page(
        run=result.store.shown,
        headline=_headline(result, model),
        warnings=[*warnings_of(result, model), *rows.warnings],
        result=_result(result, model),
        parameters=_parameters(model),
        rows=_rows(manifest),
        clusters=cluster_table(model),
        pictures=[*pictures(model), *rows.pictures],
        call=call(result, model),
        from_memory=_sources(manifest)["data"] is None,
        command=command(result, model),
        versions={str(name): str(version) for name, version in manifest["versions"].items()},
    )


def input_of(run: AnyPlace) -> str | None:
    """Where the rows of a run are, if they still are at a path of this machine; no URL is asked for."""
    return _located(RunStore.at(run).result().manifest)


def _located(manifest: dict[str, Any]) -> str | None:
    found = _sources(manifest)["data"]
    return found if found and "://" not in found and os.path.exists(found) else None


def is_graph(run: AnyPlace) -> bool:
    """Whether a run is of a graph."""
    return "normalized" in RunStore.at(run).result().manifest["parameters"]


def _sources(manifest: dict[str, Any]) -> dict[str, str | None]:
    """Paths of the rows, of their groups and weights; None for what is not known."""
    named = manifest.get("sources")
    given = named if isinstance(named, dict) else {}
    found = {name: given.get(name) for name in ("data", "groups", "sample_weight")}
    return {name: value if isinstance(value, str) else None for name, value in found.items()}


# What it came to


def _headline(result: Result, model: Model) -> str:
    n, what = result.manifest["input"]["shape"][0], "nodes" if isinstance(model, GraphCutDPMeans) else "rows"
    return f"{counted(model.n_clusters_, 'cluster')} of {n:,} {what}, by {type(model).__name__}"


def _result(result: Result, model: Model) -> dict[str, str]:
    """Facts by name."""
    manifest, graph = result.manifest, isinstance(model, GraphCutDPMeans)
    found = {"clusters, k": f"{model.n_clusters_:,}"}
    if isinstance(model, HDPMeans):
        found["local clusters, of all data sets"] = f"{model.n_local_clusters_:,}"
    found |= {
        _objective_name(model): f"{model.objective_:.9g}",
        "cut" if graph else "inertia, the squared error": f"{model.inertia_:.9g}",
        "steps": f"{model.n_iter_:,}",
        "passes over the " + ("links" if graph else "rows"): f"{manifest['n_passes']:.2f}",
        **({} if isinstance(model, GibbsMixture) else {"converged": "yes" if manifest["converged"] else "no"}),
        "seconds": f"{sum(record.seconds for record in result.history):.3g}",
    }
    if isinstance(model, SpectralDPMeans):
        values = model.eigenvalues_
        found["eigenvalues above the penalty"] = f"{len(values):,}: {values[0]:.6g} to {values[-1]:.6g}"
        found["relaxed objective"] = f"{model.relaxed_objective_:.9g}"
    return found


def _objective_name(model: Model) -> str:
    return "objective, minus the log joint density" if isinstance(model, GibbsMixture) else "objective, J"


def _rows(manifest: dict[str, Any]) -> dict[str, str]:
    """Of the input."""
    rows, columns = manifest["input"], manifest["input"]["columns"]
    found = {
        "rows x columns": f"{rows['shape'][0]:,} x {rows['shape'][1]:,}",
        "type": np.dtype(rows["dtype"]).name,
        "columns used": "all" if columns is None else ", ".join(map(str, columns)),
        "columns scaled by deviation": "yes" if rows["scaled"] else "no",
        "weights": "yes" if rows["weighted"] else "no",
        "stored with checksums": "yes" if manifest["checksummed"] else "no",
    }
    if rows["n_groups"]:
        found["data sets"] = f"{rows['n_groups']:,}"
    paths = {name.replace("_", " "): path for name, path in _sources(manifest).items() if path is not None}
    return paths | found


def cluster_table(model: Model) -> Table:
    """The heaviest clusters: weights, squared errors, radii, and centers of few columns, in units of the data."""
    found = views.sizes(model)
    shown = found.clusters[:MOST_LINES]
    share = found.weights / model.cluster_weights_.sum()
    columns = ["cluster", f"weight, {found.unit}", "share"]
    parts = [[str(each) for each in shown], _figures(found.weights), [f"{each:.2%}" for each in share[:MOST_LINES]]]
    if not found.cut:
        columns.append("squared error")
        parts.append(_figures(model.cluster_inertias_[shown]))
    columns.append("part of the cut" if found.cut else "root-mean-square radius")
    parts.append(_figures(found.radii))
    if isinstance(model, HDPMeans):
        columns.append("data sets")
        parts.append(_figures((model.local_clusters_ > 0).sum(axis=0)[shown]))
    centers = getattr(model, "cluster_centers_", None)
    if centers is not None and centers.shape[1] <= MOST_FEATURES:
        scale = model.feature_scale_
        columns += views.feature_names(model)
        parts += [_figures(each) for each in (centers if scale is None else centers * scale)[shown].T]
    lines = [list(line) for line in zip(*(part[:MOST_LINES] for part in parts), strict=True)]
    return Table(columns, lines, len(found.clusters) - len(lines))


def _figures(values: Any) -> list[str]:
    return [f"{value:,.6g}" for value in values.tolist()]


# What to look out for


def warnings_of(result: Result, model: Model) -> list[str]:
    """What a reader should know of a run, its rows aside."""
    over = result.manifest["converged"] or isinstance(model, GibbsMixture)  # a chain has no end of its own
    said = [] if over else [runs.NOT_CONVERGED.format(model.max_iter).capitalize() + "."]
    weights, graph = model.cluster_weights_, isinstance(model, GraphCutDPMeans)
    alone = weights == 1
    if result.manifest["input"]["weighted"] or (isinstance(model, GraphCutDPMeans) and model.cut == "normalized"):
        alone = np.zeros(len(weights), bool)
    tiny = (weights < TINY * weights.mean()) & ~alone
    why = f"outliers, or the {views.price(model)} is low"
    said += _about(alone, f"of one {'node' if graph else 'row'} alone", why)
    said += _about(tiny, f"of less than {TINY:g} of the mean weight", why)
    if not result.manifest["checksummed"]:
        said.append("The input is stored without checksums: a flipped bit in it would not have been seen.")
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


def read_rows(result: Result, model: Model, data: Any, where: dict[str, Any]) -> Seen:
    """Pictures and warnings that need the input; a warning where it cannot be read."""
    stored = isinstance(model, SpectralDPMeans) and model.features_ is None
    if (data is None or data is False) and not stored:
        return Seen()
    try:
        source = _source(result, model, data, where)
        if not stored and _changed(result, model, source):
            why = "they have changed, or this is another type of CPU"
            return Seen(
                [f"The rows at {_shown(data)} are not those of the fit to the bit ({why}): they are not shown."]
            )
        if isinstance(model, GraphCutDPMeans):
            return _seen_graph(model, source)
        edge = [] if stored else edge_warnings(result, model, source)
        return Seen(edge, _density(model, source))
    except (InputError, CorruptStoreError, OSError) as error:
        return Seen([redacted(f"The rows at {_shown(data)} could not be shown: {error}")])


def _shown(data: Any) -> str:
    return redacted(os.fspath(data)) if isinstance(data, str | os.PathLike) else "hand"


def _source(result: Result, model: Model, data: Any, where: dict[str, Any]) -> RowSource:
    """The input, as the fit saw it."""
    if isinstance(model, GraphCutDPMeans):
        return as_source(as_graph(data), sparse=True, **where)
    beside = _sources(result.manifest)
    given = {name: path for name, path in beside.items() if name != "data" and path and os.path.exists(path)}
    groups = {"groups": given["groups"]} if "groups" in given and isinstance(model, HDPMeans) else {}
    return views.rows_of(data, model, given.get("sample_weight"), **groups, **where)


def _changed(result: Result, model: Model, source: RowSource) -> bool:
    """Whether the rows are known to be others than those of the fit, where that can be told."""
    fitted = result.manifest["input"]
    if [source.plan.n_rows, source.stored_columns] != fitted["shape"]:
        return True
    learned = isinstance(model, SpectralDPMeans) or getattr(model, "approximation", None) is not None
    comparable = (
        source.summary.n_groups == fitted["n_groups"]
        and source.plan.block_rows == fitted["block_rows"]  # sums are of the same runs of rows
        and not (fitted["weighted"] or learned)
    )
    return comparable and runs.fingerprint(source.summary) != fitted["fingerprint"]


def edge_warnings(result: Result, model: Model, source: RowSource) -> list[str]:
    """Sentences about rows at the edge of the radius, where there is one and centers are points: one pass."""
    if views.radius(model) is None or not hasattr(model, "cluster_centers_"):
        return []
    penalty, word = result.manifest["parameters"]["penalty"], views.price(model)
    near, beyond = views.edge(source, runs.predictions(result), penalty)
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


def _density(model: Model, source: RowSource) -> list[Picture]:
    if not hasattr(model, "cluster_centers_"):
        return []
    caption = "The rows, with the centers and the numbers of those that have room for one, the heaviest first."
    return [_picture("Rows and centers", caption, lambda: plot.density(source, model))]


def _seen_graph(model: GraphCutDPMeans, source: RowSource) -> Seen:
    if source.plan.n_rows > views.MOST_NODES:
        return Seen()
    caption = "The nodes and their links; clusters have their own color and marker."
    return Seen(pictures=[_picture("Graph", caption, lambda: plot.graph(source, np.asarray(model.labels_)))])


# Pictures


def pictures(model: Model) -> list[Picture]:
    """Those that need no rows."""
    steps = counted(model.n_iter_, "step")
    found = [
        _picture("Fit", f"Objective, clusters and what changed them, over {steps}.", lambda: plot.history(model)),
        _picture("Clusters", f"Sizes of {counted(model.n_clusters_, 'cluster')}.", lambda: plot.sizes(model)),
    ]
    if isinstance(model, DPMeans | HDPMeans) and model.n_clusters_ > 1:
        caption = "In which features clusters differ: + and - mark scores above 1 and below -1."
        found.append(_picture("Profile", caption, lambda: plot.profile(model)))
    if isinstance(model, HDPMeans):
        caption = "Shares of the global centers in the weight of the data sets."
        found.append(_picture("Sharing", caption, lambda: plot.sharing(model)))
    return found


def _picture(title: str, caption: str, draw: Callable[[], plot.AnyFigure]) -> Picture:
    """A drawing as a data URI."""
    encoded = base64.b64encode(plot.svg(draw()).encode()).decode()
    return Picture(title, caption, f"data:image/svg+xml;base64,{encoded}")


# How to make it again


def _asked(model: Model) -> dict[str, Any]:
    """Parameters that differ from their defaults, or have none."""
    usual = inspect.signature(type(model)).parameters
    given = model.get_params(deep=False)
    return {name: value for name, value in given.items() if _differs(value, usual[name].default)}


def _differs(value: Any, usual: Any) -> bool:
    return isinstance(value, np.ndarray) or value != usual


def _parameters(model: Model) -> dict[str, str]:
    """Those that are set, be it by default."""
    given = model.get_params(deep=False)
    first = {name: f"{len(value):,} centers" for name, value in given.items() if isinstance(value, np.ndarray)}
    return {name: first.get(name, str(value)) for name, value in given.items() if value is not None}


def call(result: Result, model: Model) -> str:
    """Python that makes the run again."""
    manifest, sources, name = result.manifest, _sources(result.manifest), type(model).__name__
    asked, imports = _asked(model), [f"from dask_dpmeans import {name}, fit"]
    if isinstance(model, GibbsMixture):
        imports = ["from dask_dpmeans import fit", f"from dask_dpmeans.gibbs import {name}"]
    if any(isinstance(value, np.ndarray) for value in asked.values()):
        imports.insert(0, "import zarr\n")
    stored = f"zarr.open_array({(result.store / 'first_centers').shown!r}, mode='r')[:]"
    given = [f"{each}={stored if isinstance(value, np.ndarray) else repr(value)}" for each, value in asked.items()]
    rows = manifest["input"]
    parts = [
        "X" if sources["data"] is None else repr(sources["data"]),
        repr("again.zarr"),
        f"{name}({', '.join(given)})",
    ]
    groups = "groups" if sources["groups"] is None else repr(sources["groups"])
    parts += [f"groups={groups}"] if isinstance(model, HDPMeans) else []
    weights = "weights" if sources["sample_weight"] is None else repr(sources["sample_weight"])
    parts += [f"sample_weight={weights}"] if rows["weighted"] else []
    parts += [f"columns={rows['columns']}"] if rows["columns"] is not None else []
    parts += ["scale='std'"] if rows["scaled"] else []
    inner = "".join(f"    {part},\n" for part in parts)
    return "\n".join(imports) + f"\n\nfit(\n{inner})"


def command(result: Result, model: Model) -> str | None:
    """The command that makes the run again; None where there is none, or rows or first centers have no path."""
    if type(model) not in COMMANDS:
        return None
    manifest, sources, asked = result.manifest, _sources(result.manifest), _asked(model)
    rows = manifest["input"]
    missing = sources["data"] is None or (rows["weighted"] and sources["sample_weight"] is None)
    if missing or (isinstance(model, HDPMeans) and sources["groups"] is None):
        return None
    if any(isinstance(value, np.ndarray) for value in asked.values()):
        return None
    words = ["dask-dpmeans", COMMANDS[type(model)], str(sources["data"]), "again.zarr"]
    for name, value in asked.items():
        flag = "--" + OPTIONS.get(name, name).replace("_", "-")
        words += [flag] if value is True else [flag, str(value)]
    words += ["--groups", str(sources["groups"])] if isinstance(model, HDPMeans) else []
    words += ["--weights", str(sources["sample_weight"])] if rows["weighted"] else []
    words += ["--columns", ",".join(map(str, rows["columns"]))] if rows["columns"] is not None else []
    words += ["--scale", "std"] if rows["scaled"] else []
    return shlex.join(words)
