"""Commands that fit, one a method, and the one that predicts."""

import json
from dataclasses import asdict
from typing import Any, Unpack

import click

from dask_dpmeans.api import prediction
from dask_dpmeans.api.fitting import dry_run, fit
from dask_dpmeans.cli.options import (
    DATA,
    ENDS,
    FILL,
    FORCE,
    GROUPS,
    HOW,
    JSON,
    METRIC,
    SEARCH,
    SEED,
    WHERE,
    with_options,
)
from dask_dpmeans.cli.place import PlaceOptions, placed, resumable
from dask_dpmeans.cli.progress import progress
from dask_dpmeans.cli.tables import say_estimate, say_result
from dask_dpmeans.errors import redacted
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.graph_cut import CUTS, METHODS, GraphCutDPMeans
from dask_dpmeans.estimators.hdp import HDPMeans
from dask_dpmeans.estimators.kernel import KernelDPMeans
from dask_dpmeans.estimators.spectral import SpectralDPMeans
from dask_dpmeans.methods.spectral.relaxation import AFFINITIES
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.text import counted

KERNELS = ["rbf", "linear", "poly", "cosine", "precomputed"]
KERNEL = (
    click.option("--gamma", type=float, help="Of rbf and poly; 1 / (number of columns) by default."),
    click.option("--degree", default=3, show_default=True, help="Of poly."),
    click.option("--coef0", default=1.0, show_default=True, help="Of poly."),
)
"""What kernel functions have."""
APPROXIMATION = (
    click.option("--approximation", type=click.Choice(["nystroem", "fourier"]), help="Cluster features of the rows."),
    click.option("--components", type=int, help="Features of an approximation; 100 by default."),
)
OF_APPROXIMATION = "The kernel function, of an approximation."


@click.command("fit", epilog=DATA)
@click.argument("data")
@click.argument("run")
@click.option(
    "--penalty",
    type=float,
    required=True,
    help="Price of a cluster; its square root is a radius; with --metric cosine 2 (1 - cosine) of an angle.",
)
@SEARCH
@METRIC
@click.option("--init", default="mean", show_default=True, metavar="mean|RUN", help="Start from the mean, or a run.")
@click.option(
    "--dry-run", "dry", is_flag=True, help="Say what the fit would work on and cost, from a few rows; write nothing."
)
@with_options(*HOW)
def fit_command(
    data: str,
    run: str,
    penalty: float,
    search: bool,
    metric: str,
    init: str,
    dry: bool,
    **how: Any,
) -> None:
    """Cluster the rows of DATA, and write clusters, labels and history to RUN."""
    limits, how = _limits(how)
    start = init if init == "mean" else Location.at(init, how["storage_options"])
    fit_from_options(data, run, DPMeans(penalty, search=search, metric=metric, init=start, **limits), dry=dry, **how)


@click.command("hdp", epilog=DATA)
@click.argument("data")
@click.argument("run")
@click.option("--groups", metavar="ARRAY", required=True, help=GROUPS)
@click.option("--local-penalty", type=float, required=True, help="Price of each center that a data set uses.")
@click.option("--global-penalty", type=float, required=True, help="Price of a center.")
@SEARCH
@with_options(*APPROXIMATION)
@click.option("--kernel", type=click.Choice(KERNELS[:-1]), default="rbf", show_default=True, help=OF_APPROXIMATION)
@with_options(*KERNEL)
@with_options(*HOW)
def hdp_command(
    data: str,
    run: str,
    local_penalty: float,
    global_penalty: float,
    search: bool,
    **how: Any,
) -> None:
    """Cluster several data sets, which share centers: the rows of DATA, whose sets are numbered in the --groups.

    With an --approximation features of the rows are clustered, as `kernel` does, and penalties are in its units.
    """
    made, how = _kernel(how)
    limits, how = _limits(how)
    fit_from_options(data, run, HDPMeans(local_penalty, global_penalty, search=search, **made, **limits), **how)


@click.command("kernel", epilog=DATA)
@click.argument("data")
@click.argument("run")
@click.option("--penalty", type=float, required=True, help="Price of a cluster, in units of the kernel.")
@click.option(
    "--kernel",
    type=click.Choice(KERNELS),
    default="rbf",
    show_default=True,
    help="The kernel function, or DATA itself.",
)
@with_options(*KERNEL)
@with_options(*APPROXIMATION)
@SEARCH
@with_options(*HOW)
def kernel_command(
    data: str,
    run: str,
    penalty: float,
    search: bool,
    **how: Any,
) -> None:
    """Cluster the rows of DATA in the space of a kernel function; where that is precomputed, DATA is its matrix."""
    made, how = _kernel(how)
    limits, how = _limits(how)
    fit_from_options(data, run, KernelDPMeans(penalty, search=search, **made, **limits), **how)


@click.command("spectral", epilog=DATA)
@click.argument("data")
@click.argument("run")
@click.option("--penalty", type=float, required=True, help="What the eigenvalues of kept eigenvectors exceed.")
@click.option("--affinity", type=click.Choice(AFFINITIES), default="linear", show_default=True)
@click.option("--gamma", type=float, help="Of rbf: exp(-gamma x squared distance); 1 / columns by default.")
@click.option("--neighbors", default=10, show_default=True, help="Of nearest_neighbors, the row itself included.")
@click.option("--landmarks", default=1000, show_default=True, help="Of rbf: rows that stand for all, where more are.")
@click.option("--max-components", default=256, show_default=True, help="Stop with an error where more are kept.")
@click.option("--threshold", default=0.25, show_default=True, help="Penalty of DP-means on rows of the eigenvectors.")
@SEARCH
@with_options(*HOW)
def spectral_command(
    data: str,
    run: str,
    penalty: float,
    affinity: str,
    gamma: float | None,
    neighbors: int,
    landmarks: int,
    max_components: int,
    threshold: float,
    search: bool,
    **how: Any,
) -> None:
    """Cluster the rows of DATA by the eigenvectors of their affinity whose eigenvalues exceed the penalty."""
    limits, how = _limits(how)
    kernel: dict[str, Any] = {"gamma": gamma, "n_neighbors": neighbors, "n_landmarks": landmarks}
    clustering: dict[str, Any] = {"max_components": max_components, "threshold": threshold, "search": search}
    fit_from_options(data, run, SpectralDPMeans(penalty, affinity=affinity, **kernel, **clustering, **limits), **how)


@click.command("graph")
@click.argument("data")
@click.argument("run")
@click.option(
    "--penalty",
    type=float,
    required=True,
    help="Price of a cluster, negative; between -1 and 0 for the normalized cut.",
)
@click.option("--cut", type=click.Choice(CUTS), default="normalized", show_default=True, help="What is minimized.")
@click.option(
    "--init",
    type=click.Choice(list(METHODS)),
    default="coarsen",
    show_default=True,
    help="Start from every node a cluster, or from one cluster of all as Algorithm 1 does.",
)
@SEED
@FILL
@with_options(*WHERE)
@with_options(*ENDS)
def graph_command(
    data: str,
    run: str,
    penalty: float,
    cut: str,
    init: str,
    **how: Any,
) -> None:
    """Cluster the nodes of a graph: DATA is CSR in a Zarr group, a scipy .npz or a Matrix Market .mtx file."""
    limits, how = _limits(how)
    fit_from_options(
        data,
        run,
        GraphCutDPMeans(penalty, cut=cut, init=init, **limits),
        weights=None,
        scale="none",
        columns=None,
        **how,
    )


def _kernel(how: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the options of a fit those of a kernel and its approximation, as estimators call them, and the others."""
    names = {name: name for name in ("kernel", "gamma", "degree", "coef0", "approximation")}
    if how["components"] is not None:
        if how["approximation"] is None:
            raise click.UsageError("--components are of an --approximation: give one, or leave them out")
        names["components"] = "n_components"
    made = {name: how[key] for key, name in names.items()}
    return made, {key: how[key] for key in how if key not in (*names, "components")}


def _limits(how: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of the options of a fit those that every method takes, as it calls them, and the others."""
    names = {"max_iter": "max_iter", "tol": "tol", "max_clusters": "max_clusters", "seed": "random_state"}
    return {name: how[key] for key, name in names.items()}, {key: how[key] for key in how if key not in names}


def fit_from_options(
    data: str,
    run: str,
    method: Any,
    *,
    weights: str | None,
    scale: str,
    fill_missing: bool,
    resume: bool,
    force: bool,
    as_json: bool,
    columns: list[int] | None,
    groups: str | None = None,
    dry: bool = False,
    **where: Unpack[PlaceOptions],
) -> None:
    """What every command that fits does with its options."""
    if resume and force:
        raise click.UsageError("--resume goes on with the run that is there, --force removes it: give one of them")
    place = Location.at(run, where["storage_options"])
    job: dict[str, Any] = {
        "run": place,
        "method": method,
        "sample_weight": weights,
        "columns": columns,
        "scale": None if scale == "none" else scale,
        "resume": resume,
        "force": force,
    }
    sparse = method.method().sparse  # refuses what cannot be used, before anything is tried or started
    if isinstance(method, SpectralDPMeans):
        method.spectrum().check_weights(weights)
    RunStore.at(place).check_target("run", [data, groups, weights], force=force or dry, resume=resume)
    if dry:
        with placed(data, fill_missing, sparse, **where) as (rows, work):
            say_estimate(dry_run(rows, **job, **work), as_json)
        return
    with resumable(place), placed(data, fill_missing, sparse, **where) as (rows, work), progress(as_json) as shown:
        fit(rows, **job, groups=groups, on_step=shown.step, on_pass=shown.watch, **work)
    say_result(place, as_json)


@click.command("predict", epilog=DATA)
@click.argument("run")
@click.argument("data")
@click.argument("out")
@click.option("--groups", metavar="ARRAY", help=GROUPS)
@FILL
@with_options(*WHERE)
@FORCE
@JSON
def predict_command(
    run: str,
    data: str,
    out: str,
    groups: str | None,
    fill_missing: bool,
    force: bool,
    as_json: bool,
    **where: Unpack[PlaceOptions],
) -> None:
    """Label the rows of DATA with the clusters of RUN.

    Writes label, squared_distance and beyond (every radius) of each row to OUT.
    """
    fitted, target = (Location.at(each, where["storage_options"]) for each in (run, out))
    RunStore.at(fitted).result()
    RunStore.at(target).check_target("predictions", [run, data, groups], force=force)
    with placed(data, fill_missing, False, **where) as (rows, work), progress(as_json) as shown:
        found = prediction.predict(fitted, rows, target, groups=groups, force=force, on_pass=shown.watch, **work)
    if as_json:
        click.echo(json.dumps({"event": "done", "out": redacted(out), **asdict(found)}))
    else:
        click.echo(
            f"{counted(found.n_rows, 'row')} labelled, {found.beyond:,} of them beyond every radius: {redacted(out)}"
        )
