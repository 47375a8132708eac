"""The commands that show results, and how far they can be from the best ones."""

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, Unpack

import click
from click.core import ParameterSource

import dask_dpmeans
from dask_dpmeans import sources, storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli import options as option
from dask_dpmeans.cli.absent import RUN_ARGUMENT, check_run, present
from dask_dpmeans.cli.compute import AnyRows, ComputeOptions, open_rows
from dask_dpmeans.cli.group import CommandWithHeadings, StoppedError, WrongUseError, print_lines
from dask_dpmeans.errors import redact

POSTPONED = ("numpy.f2py", "numpy.testing", "pandas", "scipy.spatial.transform", "scipy.stats")


class PostponingFinder:
    """Finds modules that are run when one of their names is first asked for.

    scikit-learn and SciPy import these for few of their functions.  Together they take longer to load
    than all else that `show` needs, which uses none of them.  Commands that work with rows do not
    postpone imports: a `LazyLoader` is not made for several threads.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of `POSTPONED`; None of others, which are imported as usual."""
        if fullname not in POSTPONED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def postponed_imports() -> Iterator[None]:
    """Import the packages of `POSTPONED` inside in this way."""
    finder = PostponingFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@option.with_options(
    click.command("bound", CommandWithHeadings),
    RUN_ARGUMENT,
    click.option("--data", help="Rows of the run, if they have moved."),
    click.option("--weights", help=f"Weights of the rows, if they have moved: {option.ARRAY}."),
    *option.COMPUTE_OPTIONS,
    option.JSON,
)
def bound_command(
    run: str,
    data: str | None,
    weights: str | None,
    as_json: bool,
    **compute: Unpack[ComputeOptions],
) -> None:
    """Tell how far the objective of RUN can be above the lowest one.

    The bound is proved: no clusters of the rows cost less. It is nearest to the optimum for up to
    four columns or some hundred rows. RUN keeps the bound of its rows, for `show`, `report` and the
    next call.
    """
    loaded = library.loading.open_run(storage.Location.at(run, compute["storage_options"]))
    known = loaded.result.store.bound()
    if known is not None and data is None and weights is None:
        _say(library.bounds.LowerBound(**known), as_json)
        return
    found = data or library.commands.sources(loaded.result.manifest)["data"]
    if found is None:
        raise WrongUseError("the rows of this run were in memory: give them by --data")
    rows = library.prediction.rows_at(loaded.result, found)
    reads, columns = loaded.model._reads(), loaded.result.manifest.input.columns
    with (
        _stoppable(loaded.result.store),
        open_rows(rows, False, False, reads, columns, **compute) as (opened, work),
        library.progress(as_json) as shown,
    ):
        bound = dask_dpmeans.lower_bound(loaded, opened, weights, on_pass=shown.watch, **work)
    _say(bound, as_json)


@contextmanager
def _stoppable(store: "storage.RunStore") -> Iterator[None]:
    """Raise `StoppedError` that says what the same command does if the bound inside is stopped."""
    try:
        yield
    except KeyboardInterrupt:
        kept = store.steps.has_checkpoints()
        then = f"goes on with what {store.shown} keeps" if kept else "begins anew"
        raise StoppedError(f"stopped: the same command {then}") from None


def _say(bound: "library.bounds.LowerBound", as_json: bool) -> None:
    """Show a bound; a gap of a bound that proves nothing is null in JSON."""
    if as_json:
        gap = bound.gap if math.isfinite(bound.gap) else None
        print_lines(json.dumps({"event": "bound", **asdict(bound), "gap": gap}))
        return
    count = library.format_count(bound.n_clusters, "cluster")
    print_lines(f"objective    {bound.objective:.9g}, {count}")
    print_lines(f"lower bound  {bound.value:.9g}, by {bound.method}")
    print_lines(f"gap          {library.share_above(bound.gap)}")


@click.command("show", CommandWithHeadings)
@present("store", check_run)
@option.with_storage
@option.JSON
@postponed_imports()
def show_command(store: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """Show the parameters and results of the run, path or tree in STORE."""
    place = storage.Location.at(store, storage_options)
    kind = storage.RunStore.at(place).kind()
    if kind == "path":
        path = dask_dpmeans.penalty.read_path(place)
        library.tables.say_path(path, store, as_json, library.commands.after_path(path))
    elif kind == "tree":
        library.tables.say_tree(library.tree.read_tree(place), store, as_json)
    else:
        run = library.loading.open_run(place)
        print_lines(
            json.dumps(library.tables.describe(run), indent=2)
            if as_json
            else library.tables.run_table(run)
        )


@click.command("export", CommandWithHeadings)
@RUN_ARGUMENT
@click.argument("out")
@option.with_storage
@option.FORCE
def export_command(run: str, out: str, storage_options: dict[str, Any], force: bool) -> None:
    """Write the clusters of RUN to the JSON file OUT, which can be read without Zarr.

    The file has centers and weights, and the columns, scale and metric that find the nearest center
    of a row.
    """
    print_lines(
        f"{redact(run)}: {library.export.export(storage.Location.at(run, storage_options), out, force=force)}"
    )


def _image_shape(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """Read a shape such as 28x28 or 28x28x3."""
    if text is None:
        return None
    sides = text.lower().split("x")
    if len(sides) not in (2, 3) or not all(each.isdecimal() for each in sides):
        raise click.BadParameter(f"must be a height and a width such as 28x28, got {text!r}")
    return tuple(map(int, sides))


def _stores(_: click.Context, __: click.Parameter, stores: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stores, or raise a usage error: of one argument, click fills OUT and no stores."""
    if not stores:
        raise click.UsageError(
            "give a run, path or tree and then the page to write, such as run.zarr page.html"
        )
    return stores


@click.command("report", CommandWithHeadings)
@click.argument("stores", nargs=-1, callback=_stores, metavar="STORE...")
@click.argument("out")
@click.option("--data", help="Rows of a run, if they have moved or are at a URL.")
@option.flag("--no-data", help="Leave out everything that needs the rows.")
@click.option("--map", "columns", metavar="A,B", help="Columns of the first map: names or numbers.")
@click.option("--image", callback=_image_shape, metavar="HxW", help="Show centers as images.")
@option.with_options(*option.COMPUTE_OPTIONS)
@option.FORCE
def report_command(
    stores: tuple[str, ...],
    out: str,
    data: str | None,
    no_data: bool,
    columns: str | None,
    image: tuple[int, ...] | None,
    force: bool,
    **compute: Unpack[ComputeOptions],
) -> None:
    """Write the run, path or tree in STORE as one HTML page with pictures, the file OUT.

    The page opens without a network. The rows of a run are read in up to three passes, if they are
    still on this machine or --data is given. --image 28x28 or 28x28x3 says which image each row is.
    Two to eight runs over the same rows are compared:
    objectives at equal penalties, agreement, and which clusters split or merged.
    """
    if data is not None and no_data:
        raise click.UsageError("--data gives the rows, --no-data leaves them out: give one of them")
    for store in stores:
        check_run(store)
    places = [storage.Location.at(store, compute["storage_options"]) for store in stores]
    for place in places:
        _check_shown(place)
    report = _report_module()
    if len(places) > 1:
        if data or columns or image:
            raise click.UsageError(
                "a comparison of runs needs no rows: leave out --data, --map and --image"
            )
        _check_unused(compute)
        report.report(places, out, force=force)
    else:
        shown = {"columns": _names(columns), "image_shape": image, "force": force}
        _report_one(report, places[0], out, data, no_data, shown, compute)
    print_lines(f"{', '.join(map(redact, stores))}: {os.path.abspath(os.path.expanduser(out))}")


def _names(columns: str | None) -> list[int | str] | None:
    if columns is None:
        return None
    words = [each.strip() for each in columns.split(",")]
    return [int(each) if each.isdecimal() else each for each in words]


def _check_shown(place: "storage.Location") -> None:
    """Refuse a store without a page before the packages for pictures load, which takes seconds."""
    store = storage.RunStore.at(place)
    if not store.finished() or store.kind() not in ("path", "tree"):
        with store.open("run"):
            pass


def _report_module() -> ModuleType:
    """Import the module of reports, which needs matplotlib as no other command does."""
    try:
        from dask_dpmeans import report  # noqa: PLC0415 (of all commands this one needs matplotlib)
    except ImportError as error:
        if error.name not in ("matplotlib", "networkx"):
            raise
        raise WrongUseError(str(error)) from error
    return report


def _report_one(
    report: ModuleType,
    place: "storage.Location",
    out: str,
    data: str | None,
    no_data: bool,
    shown: dict[str, Any],
    compute: ComputeOptions,
) -> None:
    """Write the page of one store."""
    report.checked_target(out, place, shown["force"])
    run = report.run_with_rows(place)
    if no_data or run is None:
        _check_unused(compute)
    rows = None if no_data else data
    if run is not None and not no_data:
        rows = data or report.origin.locate(run.result.manifest)
        for note in [] if rows else report.origin.absent_rows(run.result.manifest):
            click.echo(f"Warning: {note}", err=True)
    sparse = run is not None and run.spec.sparse
    with ExitStack() as stack:
        opened: AnyRows | None = None
        work: dict[str, Any] = {}
        if rows:
            given = rows if run is None else library.prediction.rows_at(run.result, rows)
            used = None if run is None else run.result.manifest.input.columns
            accepts: sources.Accepting = {} if run is None else run.model._reads()
            opened, work = stack.enter_context(
                open_rows(given, False, sparse, accepts, used, **compute)
            )
            work |= {"on_pass": stack.enter_context(library.progress(False)).watch}
        missing = False if no_data else None
        report.report(run or place, out, data=opened or missing, **shown, **work)


def _check_unused(compute: ComputeOptions) -> None:
    """Refuse compute options if no rows are read."""
    source_of = click.get_current_context().get_parameter_source
    given = [name for name in compute if source_of(name) is ParameterSource.COMMANDLINE]
    unused = [f"--{name.replace('_', '-')}" for name in given if name != "storage_options"]
    if unused:
        raise click.UsageError(f"no rows are read for this page: leave out {', '.join(unused)}")
