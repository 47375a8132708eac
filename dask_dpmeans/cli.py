"""The command line: each command calls one function of the library."""

import json
import math
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from dask_dpmeans import run as runs
from dask_dpmeans.algorithms.metric import METRICS
from dask_dpmeans.algorithms.spectral import AFFINITIES, relaxed_objective
from dask_dpmeans.errors import (
    ClusterLostError,
    CorruptStoreError,
    InputError,
    LockLostError,
    NoWorkersError,
    TooManyClustersError,
    redacted,
)
from dask_dpmeans.estimate import Estimate, counted
from dask_dpmeans.estimators import DPMeans, Model, dry_run, fit, load
from dask_dpmeans.graph import CUTS, METHODS, GraphCutDPMeans
from dask_dpmeans.groups import HDPMeans
from dask_dpmeans.kernel import KernelDPMeans
from dask_dpmeans.penalty import (
    SUMMARY_ROWS,
    PenaltyFor,
    PenaltyPath,
    farthest_first,
    penalty_for,
    penalty_path,
    write_path,
)
from dask_dpmeans.progress import elapsed, progress
from dask_dpmeans.sources import connect, format_bytes, lay_out, own_threads, parse_bytes, why_processes
from dask_dpmeans.spectral import SpectralDPMeans
from dask_dpmeans.store import MIXTURE, RunStore
from dask_dpmeans.synth import KINDS, Synthetic
from dask_dpmeans.tree import cluster_tree, write_tree


class WrongUseError(click.ClickException):
    """Something that cannot be used."""

    exit_code = 2


class StoppedError(click.ClickException):
    """A fit that was stopped, and can go on."""

    exit_code = 3


class Commands(click.Group):
    """A group that turns the library's errors into messages and exit codes."""

    def invoke(self, context: click.Context) -> Any:
        """Run a command: 0 done, 2 wrong use or bad input, 3 stopped and resumable, 1 anything else."""
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _say_warning
            try:
                return super().invoke(context)
            except (InputError, NoWorkersError, TooManyClustersError) as error:
                raise WrongUseError(str(error)) from error
            except BrokenPipeError:  # who read the output has seen enough
                raise
            except (CorruptStoreError, ClusterLostError, LockLostError, OSError) as error:
                raise click.ClickException(redacted(str(error))) from error


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"Warning: {message}", err=True)


# Options, each defined once

MOST_COLUMNS = 10**6
"""Column numbers that --columns takes, so that a slip of the hand does not fill the memory."""


def _columns(_: click.Context, __: click.Parameter, text: str | None) -> list[int] | None:
    """Column numbers of a text such as 0,2-5."""
    if text is None:
        return None
    columns: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) < MOST_COLUMNS):
            raise click.BadParameter(f"{text!r} is not a list of columns below {MOST_COLUMNS:,} such as 0,2-5")
        columns.extend(range(int(first), int(last) + 1))
    return columns


def _penalties(_: click.Context, __: click.Parameter, text: str | None) -> list[float] | None:
    """Penalties of a text such as 1,2,4."""
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of penalties such as 1,2,4") from error


def _bytes(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Bytes of a text such as 4GB."""
    try:
        size = None if text is None else int(parse_bytes(text))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a size such as 4GB") from error
    if size is not None and size < 1:
        raise click.BadParameter(f"{text!r} is no memory at all")
    return size


def _seconds(_: click.Context, __: click.Parameter, number: float) -> float:
    """Seconds, of which there must be some and an end."""
    if not 0 < number < math.inf:
        raise click.BadParameter(f"{number} is not a finite number of seconds > 0")
    return number


WHERE = (
    click.option("--scheduler", metavar="ADDRESS", help="Work on the Dask cluster of this scheduler."),
    click.option(
        "--workers",
        type=click.IntRange(1),
        help="Work in this many processes of this machine. By default threads, "
        "and processes where a short trial finds that threads wait for one another as they read DATA.",
    ),
    click.option("--threads", type=click.IntRange(1), help="Threads of this process, or of each of the --workers."),
    click.option(
        "--memory-limit", callback=_bytes, help="Memory of each of the --workers, or in all without that option: 4GB."
    ),
    click.option(
        "--worker-timeout",
        default=60.0,
        callback=_seconds,
        show_default=True,
        help="Seconds to wait for the scheduler, and for a worker each time that there is none.",
    ),
    click.option("--tls-ca-file", metavar="FILE", help="Authority that certifies the --scheduler, in PEM format."),
    click.option("--tls-cert", metavar="FILE", help="Certificate that the --scheduler is shown."),
    click.option("--tls-key", metavar="FILE", help="Private key of that certificate."),
)
FILL = click.option(
    "--fill-missing", is_flag=True, help="Read chunks that are not in the store as its fill value, as Zarr does."
)
GROUPS = "Number of the data set of each row: a one-dimensional Zarr array or .npy file of integers."
FORCE = click.option("--force", is_flag=True, help="Remove what is there first, if it was written by dask-dpmeans.")
JSON = click.option("--json", "as_json", is_flag=True, help="JSON for programs, to standard output.")
SEED = click.option("--seed", type=click.IntRange(0), help="Random seed; one is drawn and stored by default.")


def _with(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group("dpmeans", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dask-dpmeans")
def main() -> None:
    """DP-means clustering from Zarr stores to Zarr stores, without a number of clusters to choose."""


SEARCH = click.option("--search", is_flag=True, help="Take penalties as prices and search for the lowest objective.")
METRIC = click.option(
    "--metric",
    type=click.Choice(list(METRICS)),
    default="euclidean",
    show_default=True,
    help="cosine compares directions: rows are brought to unit length, after --scale, and squared distances are "
    "2 (1 - cosine).",
)
KERNELS = click.Choice(["rbf", "linear", "poly", "cosine", "precomputed"])
SCALES = click.Choice(["none", "std"])
ENDS = (
    click.option("--max-iter", default=300, show_default=True, help="The most sweeps or steps."),
    click.option("--tol", default=1e-4, show_default=True, help="Converged when J falls by less than this share."),
    click.option("--max-clusters", type=int, help="Stop with an error where there are more."),
    click.option("--resume", is_flag=True, help="Go on with the run that is there."),
    FORCE,
    JSON,
)
"""How a fit ends, and what becomes of it."""
READING = (
    click.option("--weights", metavar="ARRAY", help="Weights of the rows: a one-dimensional Zarr array or .npy file."),
    click.option("--columns", callback=_columns, help="Columns to use, such as 0,2-5."),
    click.option(
        "--scale", type=SCALES, default="none", show_default=True, help="Divide each column by its standard deviation."
    ),
    SEED,
    FILL,
    *WHERE,
)
"""Of every command that reads rows to cluster them."""
HOW = (*READING, *ENDS)
"""Of every command that fits."""
FULL = click.option("--full", is_flag=True, help="Fit all rows, not only a summary where there are many.")


@main.command("fit")
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
@_with(*HOW)
def fit_command(
    data: str,
    run: str,
    penalty: float,
    search: bool,
    metric: str,
    init: str,
    dry: bool,
    seed: int | None,
    max_iter: int,
    tol: float,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """Cluster the rows of DATA, and write clusters, labels and history to RUN.

    DATA is the path or URL of a Zarr array (store.zarr/group/array), or a .npy file; or, sparse, of a Zarr group in the
    layout of anndata (data, indices, indptr), or a .npz file of scipy.
    """
    limits: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "max_clusters": max_clusters, "random_state": seed}
    _fit(data, run, DPMeans(penalty, search=search, metric=metric, init=init, **limits), dry=dry, **how)


@main.command("hdp")
@click.argument("data")
@click.argument("run")
@click.option("--groups", metavar="ARRAY", required=True, help=GROUPS)
@click.option("--local-penalty", type=float, required=True, help="Price of each center that a data set uses.")
@click.option("--global-penalty", type=float, required=True, help="Price of a center.")
@SEARCH
@_with(*HOW)
def hdp_command(
    data: str,
    run: str,
    local_penalty: float,
    global_penalty: float,
    search: bool,
    seed: int | None,
    max_iter: int,
    tol: float,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """Cluster several data sets, which share centers: the rows of DATA, whose sets are numbered in the --groups."""
    limits: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "max_clusters": max_clusters, "random_state": seed}
    _fit(data, run, HDPMeans(local_penalty, global_penalty, search=search, **limits), **how)


@main.command("kernel")
@click.argument("data")
@click.argument("run")
@click.option("--penalty", type=float, required=True, help="Price of a cluster, in units of the kernel.")
@click.option("--kernel", type=KERNELS, default="rbf", show_default=True, help="The kernel function, or DATA itself.")
@click.option("--gamma", type=float, help="Of rbf and poly; 1 / (number of columns) by default.")
@click.option("--degree", default=3, show_default=True, help="Of poly.")
@click.option("--coef0", default=1.0, show_default=True, help="Of poly.")
@click.option("--approximation", type=click.Choice(["nystroem", "fourier"]), help="Cluster features of the rows.")
@click.option("--components", type=int, help="Features of an approximation; 100 by default.")
@SEARCH
@_with(*HOW)
def kernel_command(
    data: str,
    run: str,
    penalty: float,
    kernel: str,
    gamma: float | None,
    degree: int,
    coef0: float,
    approximation: str | None,
    components: int | None,
    search: bool,
    seed: int | None,
    max_iter: int,
    tol: float,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """Cluster the rows of DATA in the space of a kernel function; where that is precomputed, DATA is its matrix."""
    limits: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "max_clusters": max_clusters, "random_state": seed}
    function: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0}
    made: dict[str, Any] = {"approximation": approximation, "search": search}
    if components is not None:
        if approximation is None:
            raise click.UsageError("--components are of an --approximation: give one, or leave them out")
        made["n_components"] = components
    _fit(data, run, KernelDPMeans(penalty, **function, **made, **limits), **how)


@main.command("spectral")
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
@_with(*HOW)
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
    seed: int | None,
    max_iter: int,
    tol: float,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """Cluster the rows of DATA by the eigenvectors of their affinity whose eigenvalues exceed the penalty."""
    limits: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "max_clusters": max_clusters, "random_state": seed}
    kernel: dict[str, Any] = {"gamma": gamma, "n_neighbors": neighbors, "n_landmarks": landmarks}
    clustering: dict[str, Any] = {"max_components": max_components, "threshold": threshold, "search": search}
    _fit(data, run, SpectralDPMeans(penalty, affinity=affinity, **kernel, **clustering, **limits), **how)


def _fit(
    data: str,
    run: str,
    method: Model,
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
    **where: Any,
) -> None:
    """What every command that fits does with its options."""
    if resume and force:
        raise click.UsageError("--resume goes on with the run that is there, --force removes it: give one of them")
    job: dict[str, Any] = {
        "data": data,
        "run": run,
        "method": method,
        "sample_weight": weights,
        "columns": columns,
        "scale": None if scale == "none" else scale,
        "fill_missing": fill_missing,
        "resume": resume,
        "force": force,
    }
    sparse = method.method().sparse  # refuses what cannot be used, before anything is tried or started
    if isinstance(method, SpectralDPMeans):
        method.spectrum().check_weights(weights)
    RunStore.at(run).check_target("run", [data, groups, weights], force=force or dry, resume=resume)
    if dry:
        with _place(data, fill_missing, sparse, **where) as place:
            _say_estimate(dry_run(**job, **place), as_json)
        return
    shown = progress(as_json)
    with _place(data, fill_missing, sparse, **where) as place, _resumable(run):
        fit(**job, groups=groups, on_step=shown.step, **place)
    shown.end()
    _say_result(run, as_json)


@main.command("graph")
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
@_with(*WHERE)
@_with(*ENDS)
def graph_command(
    data: str,
    run: str,
    penalty: float,
    cut: str,
    init: str,
    seed: int | None,
    max_iter: int,
    tol: float,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """Cluster the nodes of a graph: DATA is CSR in a Zarr group, a scipy .npz or a Matrix Market .mtx file."""
    limits: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "max_clusters": max_clusters, "random_state": seed}
    _fit(
        data,
        run,
        GraphCutDPMeans(penalty, cut=cut, init=init, **limits),
        weights=None,
        scale="none",
        columns=None,
        **how,
    )


@main.command("predict")
@click.argument("run")
@click.argument("data")
@click.argument("out")
@click.option("--groups", metavar="ARRAY", help=GROUPS)
@FILL
@_with(*WHERE)
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
    **where: Any,
) -> None:
    """Label the rows of DATA with the clusters of RUN.

    Writes label, squared_distance and beyond (every radius) of each row to OUT.
    """
    RunStore.at(run).result()
    RunStore.at(out).check_target("predictions", [run, data, groups], force=force)
    with _place(data, fill_missing, False, **where) as place:
        found = runs.predict(run, data, out, groups=groups, force=force, fill_missing=fill_missing, **place)
    if as_json:
        click.echo(json.dumps({"event": "done", "out": redacted(out), **asdict(found)}))
    else:
        click.echo(f"{found.n_rows:,} rows labelled, {found.beyond:,} of them beyond every radius: {redacted(out)}")


@main.command("penalty")
@click.argument("data")
@click.option("-k", "--clusters", type=int, required=True, help="About how many clusters there should be.")
@click.option("--fit", "fitted", is_flag=True, help="Find, by bisection, the penalty at which fits give so many.")
@click.option("--search", is_flag=True, help="Find it as a price, by searches; implies --fit.")
@FULL
@METRIC
@_with(*READING)
@JSON
def penalty_command(
    data: str, clusters: int, fitted: bool, search: bool, full: bool, seed: int | None, as_json: bool, **how: Any
) -> None:
    """The penalty that gives about so many clusters of the rows of DATA.

    By farthest-first traversal (Kulis & Jordan 2012, section 6.1), and where asked by what fits give.
    """
    with _reading(data, **how) as rows:
        found = farthest_first(k=clusters, **rows)
        aimed = (
            penalty_for(n_clusters=clusters, search=search, full=full, random_state=seed, **rows)
            if fitted or search
            else None
        )
    if as_json:
        first = {"penalty": found.penalty, "penalties": found.penalties.tolist(), "rows": found.rows.tolist()}
        fit_found = aimed and aimed._asdict()
        click.echo(
            json.dumps({"event": "penalty", "farthest_first": first | {"n_passes": found.n_passes}, "fit": fit_found})
        )
        return
    click.echo(f"farthest-first  {found.penalty:.9g} for {counted(clusters, 'cluster')}, as a radius")
    if aimed is not None:
        jumps = f": no penalty tried gives {clusters:,}" * (aimed.n_clusters != clusters)
        click.echo(
            f"by fits         {aimed.penalty:.9g}, {counted(aimed.n_clusters, 'cluster')} as a "
            f"{'price' if search else 'radius'}, of {_seen(aimed)}{jumps}"
        )


@main.command("path")
@click.argument("data")
@click.argument("out", required=False)
@click.option("--penalties", callback=_penalties, help="Penalties to try, such as 1,2,4.")
@click.option("--from", "low", type=float, help="The lowest of some in even steps of the logarithm, ...")
@click.option("--to", "high", type=float, help="... the highest, ...")
@click.option("--number", type=click.IntRange(2), default=40, show_default=True, help="... and how many.")
@SEARCH
@FULL
@METRIC
@click.option("--halvings", default=0, show_default=True, help="Fit halves of the rows too, and see how they agree.")
@click.option(
    "--summary-rows", default=SUMMARY_ROWS, show_default=True, help="Of what stands for twice as many or more."
)
@click.option("--max-clusters", type=int, help="Stop with an error where there are more.")
@_with(*READING)
@FORCE
@JSON
def path_command(
    data: str,
    out: str | None,
    penalties: list[float] | None,
    low: float | None,
    high: float | None,
    number: int,
    seed: int | None,
    force: bool,
    as_json: bool,
    search: bool,
    full: bool,
    halvings: int,
    summary_rows: int,
    max_clusters: int | None,
    **how: Any,
) -> None:
    """How many clusters of the rows of DATA each penalty gives, and over which penalties a number stands.

    By default 40 penalties, from one that gives about 50 clusters to one that gives one.  Written to OUT too, a Zarr
    group, where that is given.
    """
    if (low is None) != (high is None) or (penalties is not None and low is not None):
        raise click.UsageError("give --penalties, or --from and --to, or neither")
    if low is not None and high is not None:
        if not 0 < low < high < math.inf:
            raise click.UsageError(f"--from {low:g} must be > 0 and below --to {high:g}")
        penalties = np.geomspace(low, high, number).tolist()
    if out is not None:
        RunStore.at(out).check_target("path", [data, how["weights"]], force=force)
    options: dict[str, Any] = {"search": search, "full": full, "halvings": halvings, "summary_rows": summary_rows}
    with _reading(data, **how) as rows:
        found = penalty_path(penalties=penalties, max_clusters=max_clusters, random_state=seed, **options, **rows)
    if out is not None:
        write_path(found, out, force=force)
    click.echo(json.dumps(_path_event(found, out)) if as_json else _path_table(found))


@main.command("tree")
@click.argument("run")
@click.argument("out", required=False)
@click.option(
    "--penalties", callback=_penalties, help="One level each, rising, such as 1e3,1e4. By default they double."
)
@FORCE
@JSON
def tree_command(run: str, out: str | None, penalties: list[float] | None, force: bool, as_json: bool) -> None:
    """Cluster the clusters of RUN, level by level up to one; written to OUT too, a Zarr group, where that is given."""
    if out is not None:
        RunStore.at(out).check_target("tree", [run], force=force)
    found = cluster_tree(load(run), penalties)
    if out is not None:
        write_tree(found, out, force=force)
    levels = [
        {name: getattr(level, name) for name in ("penalty", "n_clusters", "objective", "inertia")}
        | {"clusters": level.clusters.tolist()}
        for level in (found.leaves, *found.levels)
    ]
    if as_json:
        click.echo(json.dumps({"event": "tree", "out": out and redacted(out), "levels": levels}))
        return
    click.echo(f"{'penalty':>13}{'clusters':>10}{'objective':>16}{'inertia':>16}")
    for level in levels:
        click.echo("{penalty:>13.6g}{n_clusters:>10,}{objective:>16.9g}{inertia:>16.9g}".format(**level))


@main.command("show")
@click.argument("run")
@JSON
def show_command(run: str, as_json: bool) -> None:
    """What RUN was asked, and what it found."""
    described = describe(run)
    click.echo(json.dumps(described, indent=2) if as_json else _table(described))


@main.command("report")
@click.argument("run")
@click.argument("out")
@click.option("--data", help="Rows of the fit, where they are no longer where RUN says, or at a URL.")
@click.option("--no-data", is_flag=True, help="Leave out what needs the rows.")
@_with(*WHERE)
@FORCE
def report_command(run: str, out: str, data: str | None, no_data: bool, force: bool, **where: Any) -> None:
    """Write RUN as one page of HTML, OUT, with pictures: for people, and without a network.

    Rows are read, in up to four passes, where they are on this machine or --data names them.
    """
    if data is not None and no_data:
        raise click.UsageError("--data says where the rows are, --no-data leaves them out: give one of them")
    try:
        from dask_dpmeans import report  # noqa: PLC0415 (of all commands this one needs matplotlib)
    except ImportError as error:
        if error.name not in ("matplotlib", "networkx"):
            raise
        raise WrongUseError(str(error)) from error
    report.checked_target(out, run, force)
    rows = None if no_data else data or report.input_of(run)
    sparse = report.is_graph(run)
    with ExitStack() as stack:
        place = stack.enter_context(_place(rows, False, sparse, **where)) if rows else {}
        report.report(run, out, data=rows or False, force=force, **place)
    click.echo(f"{redacted(run)}: {Path(out).absolute()}")


@main.command("synth")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("out")
@click.option("--rows", default=1_000_000, show_default=True, type=click.IntRange(1))
@click.option("--features", default=16, show_default=True, type=click.IntRange(1))
@click.option("--centers", default=100, show_default=True, type=click.IntRange(1), help="Blobs.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@FORCE
def synth_command(kind: Any, out: str, rows: int, features: int, centers: int, seed: int, force: bool) -> None:
    """Write synthetic rows and their true labels: OUT/rows and OUT/truth."""
    runs.write_synthetic(Synthetic(kind, rows, features, centers, seed), out, force=force)
    click.echo(f"{rows:,} rows of {features} columns: {out}/rows")


@main.command("demo")
@click.argument("folder", default="dask-dpmeans-demo")
def demo_command(folder: str) -> None:
    """Make a store of synthetic rows in FOLDER, cluster it on threads, and say what was found and where."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be a folder: {error}") from error
    penalty = 160.0
    data, run = f"{folder}/demo-blobs.zarr", f"{folder}/demo-run.zarr"
    blobs = Synthetic("blobs", n_rows=1_000_000, n_features=16, n_centers=100, seed=0)
    click.echo(f"{blobs.n_rows:,} rows of {blobs.n_features} columns around {blobs.n_centers} centers: {data}/rows")
    runs.write_synthetic(blobs, data, force=True)
    click.echo(f"dask-dpmeans fit {data}/rows {run} --penalty {penalty:g}")
    shown = progress(False)
    model = fit(f"{data}/rows", run, DPMeans(penalty, random_state=0), force=True, on_step=shown.step)
    shown.end()
    _say_result(run, False)
    truth = blobs.centers[np.newaxis] - model.cluster_centers_[:, np.newaxis]
    farthest = float(np.sqrt((truth**2).sum(axis=2).min(axis=0).max()))
    click.echo(f"the farthest of the {blobs.n_centers} true centers lies {farthest:.3f} from the nearest one found")


# What commands share


@contextmanager
def _reading(
    data: str,
    weights: str | None,
    columns: list[int] | None,
    scale: str,
    metric: str,
    fill_missing: bool,
    **where: Any,
) -> Iterator[dict[str, Any]]:
    """Rows, and where to work on them, as what chooses penalties takes them."""
    with _place(data, fill_missing, False, **where) as place:
        yield {
            "X": data,
            "sample_weight": weights,
            "metric": metric,
            "columns": columns,
            "scale": None if scale == "none" else scale,
            "fill_missing": fill_missing,
            **place,
        }


@contextmanager
def _place(
    data: str,
    fill_missing: bool,
    sparse: bool,
    scheduler: str | None,
    workers: int | None,
    threads: int | None,
    memory_limit: int | None,
    worker_timeout: float,
    tls_ca_file: str | None,
    tls_cert: str | None,
    tls_key: str | None,
) -> Iterator[dict[str, Any]]:
    """Where to work, as `as_source` takes it; where nobody said, worker processes if threads read `data` poorly."""
    if scheduler is not None and (workers or threads or memory_limit):
        raise click.UsageError(
            "--scheduler names a cluster that is there: --workers, --threads and --memory-limit cannot change it"
        )
    tls = (tls_ca_file, tls_cert, tls_key) if tls_ca_file and tls_cert and tls_key else None
    if (tls_ca_file or tls_cert or tls_key) and not (tls and scheduler):
        raise click.UsageError("--tls-ca-file, --tls-cert and --tls-key go together, with a --scheduler")
    if scheduler is None and workers is None and threads is None:
        threads = own_threads()
        layout, _ = lay_out(data, threads=threads, memory_limit=memory_limit, fill_missing=fill_missing, sparse=sparse)
        why = why_processes(layout)
        if why is not None:
            click.echo(f"{why}; working in {threads} processes, --threads {threads} keeps to threads", err=True)
            workers, threads, memory_limit = threads, 1, layout.resources.thread_memory
    with connect(scheduler, workers, threads, memory_limit, worker_timeout, tls) as client:
        if client is None:
            yield {"threads": threads, "memory_limit": memory_limit}
        else:
            yield {"client": client, "worker_timeout": worker_timeout}


@contextmanager
def _resumable(run: str) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop a fit between two commits."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop) if threading.current_thread() is threading.main_thread() else None
    try:
        yield
    except (KeyboardInterrupt, ClusterLostError, OSError) as error:  # a disk may be full, or cannot be written
        if isinstance(error, OSError) and not RunStore.at(run).begun():
            raise
        why = str(error) or "stopped"
        raise StoppedError(
            redacted(f"{why}; the same command with --resume goes on from the last step of {run}")
        ) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def describe(run: str) -> dict[str, Any]:
    """What a finished run was asked and what it found, as JSON holds it."""
    result = RunStore.at(run).result()
    weights, inertias = result.arrays["cluster_weights"], result.arrays["cluster_inertias"]
    spectrum = result.manifest["parameters"].get("spectrum")
    relaxed = spectrum and {
        "eigenvalues": result.arrays["eigenvalues"].tolist(),
        "relaxed_objective": relaxed_objective(result.arrays["eigenvalues"], spectrum["penalty"]),
    }
    return {
        "run": RunStore.at(run).shown,
        **result.manifest,
        **(relaxed or {}),
        "result": asdict(result.history[-1]) | {"n_iter": len(result.history)},
        "clusters": [
            {"cluster": number, "weight": weight, "inertia": inertia}
            for number, (weight, inertia) in enumerate(zip(weights.tolist(), inertias.tolist(), strict=True))
        ],
        "history": [asdict(record) for record in result.history],
    }


def _say_result(run: str, as_json: bool) -> None:
    described = describe(run)
    if as_json:
        whole = {key: described[key] for key in ("run", "converged", "n_passes")}
        click.echo(json.dumps({"event": "done", **whole, **described["result"]}))
    else:
        click.echo(_table(described))


def _seen(found: PenaltyPath | PenaltyFor) -> str:
    """The rows that fits saw."""
    return f"{'all' if found.full else 'a summary of'} {counted(found.rows_used, 'row')}"


def _path_event(found: PenaltyPath, out: str | None) -> dict[str, Any]:
    """A path as JSON holds it, centers aside."""
    figures = ("penalties", "n_clusters", "inertias", "objectives")
    said = ("search", "full", "rows_used", "random_state", "longest", "penalty")
    return {
        "event": "path",
        "out": out and redacted(out),
        **{name: getattr(found, name).tolist() for name in figures},
        "stability": None if found.stability is None else found.stability.tolist(),
        "intervals": [interval._asdict() for interval in found.intervals],
        **{name: getattr(found, name) for name in said},
    }


def _path_table(found: PenaltyPath) -> str:
    """A path for people."""
    stability = "" if found.stability is None else f"{'stability':>11}"
    lines = [f"{'penalty':>13}{'clusters':>10}{'objective':>16}{'inertia':>16}{stability}"]
    for place, penalty in enumerate(found.penalties):
        index = "" if found.stability is None else f"{found.stability[place]:>11.2f}"
        lines.append(
            f"{penalty:>13.6g}{found.n_clusters[place]:>10,}{found.objectives[place]:>16.9g}"
            f"{found.inertias[place]:>16.9g}{index}"
        )
    lines += ["", f"{'from':>13}{'to':>13}{'clusters':>10}{'length':>8}"]
    lines += [
        f"{each.low:>13.6g}{each.high:>13.6g}{each.n_clusters:>10,}{each.length:>8.2f}" for each in found.intervals
    ]
    lines += ["", f"of {_seen(found)}, as {'prices' if found.search else 'radii'}"]
    if not found.search:
        return "\n".join(lines)
    if found.longest is None:
        return "\n".join([*lines, "no interval is between those of the most clusters and of one: try more penalties"])
    return "\n".join([*lines, f"longest: {found.longest:,} clusters, the middle is --penalty {found.penalty:.9g}"])


TARGETS = {
    "new": "would be written",
    "refused": "is there: would be refused without --force/--resume",
    "removed": "is there: --force would remove it first",
    "resumed": "is there: --resume would go on with it",
}


def _say_estimate(found: Estimate, as_json: bool) -> None:
    click.echo(json.dumps({"event": "estimate", **asdict(found)}) if as_json else _estimate_table(found))


def _estimate_table(found: Estimate) -> str:
    """An estimate for people."""
    stored = "unknown" if found.stored_bytes is None else f"{found.stored_bytes:,}"
    columns = f"{found.n_features:,} of " * (found.n_features != found.n_columns) + counted(found.n_columns, "column")
    kept = "read once and kept in memory" if found.resident else "read again in each pass"
    loading = f", after {_duration(found.load_seconds)} to load the rows" * found.resident
    lines = [
        f"run         {found.run} {TARGETS[found.target]}",
        f"input       {counted(found.n_rows, 'row')} x {columns}, {found.dtype}",
        f"blocks      {found.n_blocks:,} of {counted(found.block_rows, 'row')}, in "
        f"{counted(found.n_shards, 'shard')} of {found.shard_rows:,}",
        f"bytes       {stored} as stored, {found.decoded_bytes:,} as decoded; {kept}",
        f"memory      planned for {format_bytes(found.worker_memory)} a worker, {format_bytes(found.thread_memory)} a "
        f"thread ({found.threads:,} in all); rows take {format_bytes(found.thread_bytes)} a thread",
        f"pass        about {_duration(found.pass_seconds)}{loading}: {found.basis}",
        *(f"advice      {each}" for each in found.advice),
        "nothing was written",
    ]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 60 else elapsed(seconds)


def _table(described: dict[str, Any]) -> str:
    """A run for people."""
    found, asked, rows = described["result"], described["parameters"], described["input"]
    heaviest = sorted(described["clusters"], key=lambda each: (-each["weight"], each["cluster"]))[:5]
    scaled = ", columns divided by their standard deviation" * rows["scaled"]
    lines = [
        f"run         {described['run']}",
        f"input       {rows['shape'][0]:,} rows x {rows['shape'][1]:,} columns, {np.dtype(rows['dtype']).name}{scaled}"
        + "; stored without checksums: a flipped bit would not be seen" * (not described["checksummed"]),
        *_spectrum(described),
        *_clusters(asked, rows, found),
        f"steps       {found['n_iter']:,}, {'converged' if described['converged'] else 'stopped at max_iter'}; "
        f"{described['n_passes']:.2f} passes over the rows in "
        f"{elapsed(sum(step['seconds'] for step in described['history']))}",
        "heaviest    " + ", ".join(f"{each['cluster']} ({each['weight']:,.10g} {_unit(asked)})" for each in heaviest),
    ]
    return "\n".join(lines)


def _unit(asked: dict[str, Any]) -> str:
    """What weighs a cluster."""
    return {None: "rows", True: "link ends", False: "nodes"}[asked.get("normalized")]


def _reach(asked: dict[str, Any]) -> str:
    """How far from its center a penalty lets a row be; nothing where that is as far as any may be."""
    penalty: float = asked["penalty"]
    if asked.get("metric", "euclidean") == "euclidean":
        return f", a radius of {penalty**0.5:g}"
    return f", an angle of {math.degrees(math.acos(1 - penalty / 2)):.4g} degrees" if penalty <= 4 else ""


def _spectrum(described: dict[str, Any]) -> list[str]:
    """The eigenvalues, of a run that has some."""
    if "spectrum" not in described["parameters"]:
        return []
    asked, values = described["parameters"]["spectrum"], described["eigenvalues"]
    return [
        f"affinity    {asked['affinity']}, {counted(len(values), 'eigenvalue')} above {asked['penalty']:g}: "
        f"{values[0]:.6g} to {values[-1]:.6g}; their eigenvectors are clustered",
        f"relaxed     {described['relaxed_objective']:.9g} at most is tr Y'(K - {asked['penalty']:g} I)Y of any "
        f"clustering; tr K = {described['affinity_trace']:.9g}",
    ]


def _clusters(asked: dict[str, Any], rows: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """The metric, the penalties, and what they led to."""
    inertia = f"objective   {found['objective']:.9g} = inertia {found['inertia']:.9g}"
    if "mean_variance" in asked:
        return [
            "mixture     " + ", ".join(f"{name.replace('_', ' ')} {asked[name]:g}" for name in MIXTURE),
            f"clusters    {found['n_clusters']:,} in the last draw",
            f"objective   {found['objective']:.9g} = -log of the joint density",
        ]
    if "normalized" in asked:
        return [
            f"penalty     {asked['penalty']:g} on the {'normalized' if asked['normalized'] else 'ratio'} cut",
            f"clusters    {found['n_clusters']:,}",
            f"objective   {found['objective']:.9g} = cut {found['inertia']:.9g} + penalty x clusters",
        ]
    if "local_penalty" not in asked:
        word = "threshold" if "spectrum" in asked else "penalty"
        name = next(name for name in ("kernel", "metric") if name in asked)
        return [
            f"{name:<11} {asked[name]}" + f", by {asked.get('approximation')}" * ("approximation" in asked),
            f"{word:<11} {asked['penalty']:g}{_reach(asked)}",
            f"clusters    {found['n_clusters']:,}",
            f"{inertia} + {word} x clusters",
        ]
    sets, local = rows["n_groups"], found["n_local_clusters"]
    return [
        f"penalties   {asked['local_penalty']:g} a local cluster, {asked['global_penalty']:g} a global one",
        f"clusters    {found['n_clusters']:,} global; {local:,} local ones of {counted(sets, 'data set')}, "
        f"{local / sets:.2f} each",
        f"{inertia} + penalties x clusters",
    ]
