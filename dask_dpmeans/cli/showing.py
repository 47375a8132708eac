"""The commands that show results."""

import json
import os
from contextlib import ExitStack
from types import ModuleType
from typing import Any, Unpack

import click
from click.core import ParameterSource

import dask_dpmeans
from dask_dpmeans import sources, storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli.absent import RUN_ARGUMENT, check_run, present
from dask_dpmeans.cli.compute import AnyRows, ComputeOptions, open_rows
from dask_dpmeans.cli.group import WrongUseError
from dask_dpmeans.cli.headings import CommandWithHeadings
from dask_dpmeans.cli.options import COMPUTE_OPTIONS, FORCE, JSON, flag, with_options, with_storage
from dask_dpmeans.cli.postponed import postponed_imports
from dask_dpmeans.errors import redact


@click.command("show")
@present("store", check_run)
@with_storage
@JSON
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
        click.echo(
            json.dumps(library.tables.describe(run), indent=2)
            if as_json
            else library.tables.run_table(run)
        )


@click.command("export")
@RUN_ARGUMENT
@click.argument("out")
@with_storage
@FORCE
def export_command(run: str, out: str, storage_options: dict[str, Any], force: bool) -> None:
    """Write the clusters of RUN to the JSON file OUT, which can be read without Zarr.

    The file has centers and weights, and the columns, scale and metric that find the nearest center
    of a row.
    """
    click.echo(
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
@flag("--no-data", help="Leave out everything that needs the rows.")
@click.option("--map", "columns", metavar="A,B", help="Columns of the first map: names or numbers.")
@click.option("--image", callback=_image_shape, metavar="HxW", help="Show centers as images.")
@with_options(*COMPUTE_OPTIONS)
@FORCE
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
    report = _report_module()
    places = [storage.Location.at(store, compute["storage_options"]) for store in stores]
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
    click.echo(f"{', '.join(map(redact, stores))}: {os.path.abspath(os.path.expanduser(out))}")


def _names(columns: str | None) -> list[int | str] | None:
    if columns is None:
        return None
    words = [each.strip() for each in columns.split(",")]
    return [int(each) if each.isdecimal() else each for each in words]


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
