"""The commands that fit, one for each method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any, Unpack

import click

import dask_dpmeans
from dask_dpmeans import sources, storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli import options as option
from dask_dpmeans.cli.choices import AFFINITIES, CUTS, EFFORTS, INITS
from dask_dpmeans.cli.compute import ComputeOptions, open_rows
from dask_dpmeans.cli.group import WrongUseError
from dask_dpmeans.cli.resuming import check_resume_or_force, printing, resumable
from dask_dpmeans.flags import OPTIONS

KERNELS = ["rbf", "linear", "poly", "cosine", "precomputed"]
KERNEL_OPTIONS = (
    click.option(
        "--gamma", type=float, help="Parameter of rbf and poly; default 1 / (number of columns)."
    ),
    option.number("--degree", 3, "Parameter of poly."),
    option.number("--coef0", 1.0, "Parameter of poly."),
)
APPROXIMATION_OPTIONS = (
    click.option(
        "--approximation",
        type=click.Choice(["nystroem", "fourier"]),
        help="Cluster features of the rows that approximate the kernel.",
    ),
    click.option(
        "--components", type=int, help="Number of features of the --approximation; default 100."
    ),
)


@option.fit_command_named(
    "fit",
    option.number_or_auto(
        "--penalty",
        "auto chooses a price, and so the number of clusters, from the rows. A number is a radius: a row farther than "
        "its square root from every center opens a cluster. With --search, the number is the price of a cluster. With "
        "--metric cosine, it is 2 (1 - cosine) of an angle; with haversine, a radius in kilometers or a price in "
        "square kilometers.",
    ),
    option.SEARCH,
    option.choice(
        "--effort",
        EFFORTS,
        "normal",
        "How long a search goes on: quick tries less, best goes on with a population of searches.",
    ),
    click.option(
        "--gap-tol",
        type=float,
        help="End the best effort once it is proved to be at most this share above the optimum.",
    ),
    *option.COSTS,
    click.option(
        "--outlier-share",
        type=float,
        help="Find an --outlier-penalty for about this share of the rows, such as 0.02.",
    ),
    option.number("--min-cluster-weight", 0.0, "Rows of lighter clusters have label -1."),
    click.option(
        "--init",
        default="mean",
        show_default=True,
        metavar="mean|RUN",
        help="Start from the mean, or from a run.",
    ),
    option.flag(
        "--dry-run", "dry", help="Show the cost of the fit, from a few rows; write nothing."
    ),
)
def fit_command(init: str, **how: Any) -> None:
    """Cluster the rows of DATA, and write clusters, labels and history to RUN."""
    start = init if init == "mean" else storage.Location.at(init, how["storage_options"])
    fit_with(dask_dpmeans.DPMeans, how | {"init": start})


@option.fit_command_named(
    "hdp",
    click.option("--groups", metavar="ARRAY", required=True, help=option.GROUPS),
    option.number_or_auto(
        "--local-penalty",
        "Price of each center that a data set uses. auto chooses both prices from the rows, with --search.",
    ),
    option.number_or_auto("--global-penalty", "Price of a center. Both are numbers, or both auto."),
    option.SEARCH,
    option.DIVERGENCE,
    option.MISSING_VALUES,
    *APPROXIMATION_OPTIONS,
    option.choice("--kernel", KERNELS[:-1], "rbf", "Kernel function of the --approximation."),
    *KERNEL_OPTIONS,
)
def hdp_command(**how: Any) -> None:
    """Cluster the rows of several data sets that share centers.

    DATA has the rows of all data sets, and --groups the number of the data set of each row. With an
    --approximation, features of the rows are clustered, as in the command kernel, and penalties are
    in units of the kernel.
    """
    _check_components(how)
    fit_with(dask_dpmeans.HDPMeans, how)


@option.fit_command_named(
    "kernel",
    option.number_or_auto(
        "--penalty",
        "Price of a cluster, in units of the kernel. auto chooses it, with an --approximation.",
        required=True,
    ),
    option.choice(
        "--kernel", KERNELS, "rbf", "Kernel function, or precomputed if DATA is the kernel matrix."
    ),
    *KERNEL_OPTIONS,
    *APPROXIMATION_OPTIONS,
    option.SEARCH,
)
def kernel_command(**how: Any) -> None:
    """Cluster the rows of DATA in the space of a kernel function."""
    _check_components(how)
    fit_with(dask_dpmeans.KernelDPMeans, how)


@option.fit_command_named(
    "spectral",
    click.option(
        "--penalty",
        type=float,
        required=True,
        help="Eigenvectors with a larger eigenvalue are used.",
    ),
    option.choice("--affinity", AFFINITIES, "linear", "Similarity of two rows."),
    click.option(
        "--gamma",
        type=float,
        help="Parameter of rbf: exp(-gamma x squared distance); default 1 / columns.",
    ),
    option.number("--neighbors", 10, "Number of nearest_neighbors, with the row itself."),
    option.number("--landmarks", 1000, "Number of rows that represent all rows for rbf."),
    option.number("--max-components", 256, "Stop with an error if more eigenvectors are used."),
    option.number("--threshold", 0.25, "Penalty of DP-means on the rows of the eigenvectors."),
    option.SEARCH,
)
def spectral_command(**how: Any) -> None:
    """Cluster the rows of DATA by the eigenvectors of their affinity matrix."""
    fit_with(dask_dpmeans.SpectralDPMeans, how)


@option.fit_command_named(
    "graph",
    option.number_or_auto(
        "--penalty",
        "Price of a cluster, negative; for the normalized cut, between -1 and 0. auto chooses it "
        "from the links.",
    ),
    option.choice("--cut", CUTS, "normalized", "The cut to minimize."),
    option.choice(
        "--init",
        INITS,
        "coarsen",
        "Start with each node as a cluster (coarsen), or with one cluster as Algorithm 1 does (mean).",
    ),
    last=(option.SEED, option.FILL_MISSING, *option.COMPUTE_OPTIONS, *option.STOPPING_OPTIONS),
)
def graph_command(**how: Any) -> None:
    """Cluster the nodes of a graph.

    DATA is a Zarr group with CSR rows, a .npz file of scipy, or a Matrix Market .mtx file.
    """
    unused = {"weights": None, "scale": "none", "columns": None}
    fit_with(dask_dpmeans.GraphCutDPMeans, how | unused)


@option.fit_command_named(
    "shapes",
    option.number_or_auto(
        "--penalty",
        "Price of a cluster, from -1 to below 0: the nearer to 0, the fewer clusters. auto chooses it from the rows.",
    ),
    option.number_or_auto(
        "--micro-penalty",
        "Price of a micro-cluster, in squared units of the rows. auto chooses it from the rows.",
    ),
    click.option("--clusters", type=int, help="Number of clusters, in place of the --penalty."),
    click.option(
        "--noise",
        type=float,
        help="Label -1 for rows of less than this share of the density of their cluster, as 0.2.",
    ),
    option.LINKAGE_METRIC,
)
def shapes_command(**how: Any) -> None:
    """Cluster the rows of DATA into clusters of any shape.

    Many micro-clusters are grouped where rows lie between them.
    """
    fit_with(dask_dpmeans.LinkageDPMeans, how)


def _check_components(how: Mapping[str, Any]) -> None:
    if how["components"] is not None and how["approximation"] is None:
        raise click.UsageError("--components belongs to an --approximation: give both, or neither")


def fit_with(estimator: type[Any], how: Mapping[str, Any]) -> None:
    """Fit an estimator, whose parameters are options of the same names; None is its default."""
    names = {OPTIONS.get(each, each): each for each in signature(estimator).parameters}
    given = {names[name]: value for name, value in how.items() if name in names}
    method = estimator(**{name: value for name, value in given.items() if value is not None})
    others = {name: value for name, value in how.items() if name not in names}
    fit_from_options(method=method, **others)


def fit_from_options(
    data: str | sources.CubePath,
    run: str,
    method: Any,
    *,
    weights: str | None,
    scale: str,
    fill_missing: bool,
    resume: bool,
    force: bool,
    as_json: bool,
    columns: Sequence[Any] | None,
    live: int | None,
    groups: str | None = None,
    dry: bool = False,
    **compute: Unpack[ComputeOptions],
) -> None:
    """Fit an estimator, or estimate its cost with `dry`, and show the result."""
    stored = compute["storage_options"]
    arrays, columns = sources.named_inputs(
        sources.InputArrays(data, weights, groups), columns, stored
    )
    data, weights, groups = arrays.data, arrays.sample_weight, arrays.groups
    check_resume_or_force(resume, force)
    out = storage.Location.at(run, stored)
    job = {"run": out, "method": method, "resume": resume, "force": force}
    divisors = None if scale == "none" else scale
    job |= {"sample_weight": weights, "columns": columns, "scale": divisors}
    sparse = method.method().sparse  # refuses wrong parameters before any work starts
    feature_map = method._feature_map()
    if feature_map is not None:
        feature_map.check_weights(weights)
    given, store = [data, groups, weights], storage.RunStore.at(out)
    store.check_target("run", given, force=force or dry, resume=resume)
    reading = data, fill_missing, sparse, method._accepts(), columns
    if dry:
        if live is not None:
            raise click.UsageError("a dry run has no steps to show: leave out --live")
        with open_rows(*reading, resume, **compute) as (rows, work):
            library.tables.say_estimate(dask_dpmeans.dry_run(rows, **job, **work), as_json)
        return
    shown, opened = library.progress(as_json), open_rows(*reading, **compute)
    with resumable(out), _page_of(shown, out, live), opened as (rows, work), shown:
        work |= {"on_step": shown.step, "on_progress": shown.note, "on_pass": shown.watch}
        library.fitting.write_run(rows, **job, groups=groups, **work)
    with printing(out):
        library.tables.say_result(out, as_json, shown.pace.seconds())


def _page_of(
    shown: library.Progress, run: storage.Location, port: int | None
) -> AbstractContextManager[object]:
    """Return the server of the page of a fit; nothing without a port."""
    if port is None:
        return nullcontext()
    try:
        from dask_dpmeans.cli.live_page import LivePage  # noqa: PLC0415 (only this option needs Bokeh)
    except ImportError as error:
        name = str(error.name).partition(".")[0]
        if name not in ("bokeh", "matplotlib", "networkx"):
            raise
        missing = f"--live needs bokeh, matplotlib and networkx, and {name} is missing"
        raise WrongUseError(f'{missing}: pip install "dask-dpmeans[plot]"') from error
    return LivePage(port, storage.RunStore.at(run), shown)
