"""Commands that show what a run found."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from dask_dpmeans.cli.group import WrongUseError
from dask_dpmeans.cli.options import FORCE, JSON, STORAGE, WHERE, with_options
from dask_dpmeans.cli.place import placed
from dask_dpmeans.cli.tables import describe, run_table
from dask_dpmeans.errors import redacted
from dask_dpmeans.location import Location
from dask_dpmeans.progress import progress


@click.command("show")
@click.argument("run")
@STORAGE
@JSON
def show_command(run: str, storage_options: dict[str, Any], as_json: bool) -> None:
    """What RUN was asked, and what it found."""
    described = describe(Location.at(run, storage_options))
    click.echo(json.dumps(described, indent=2) if as_json else run_table(described))


@click.command("report")
@click.argument("run")
@click.argument("out")
@click.option("--data", help="Rows of the fit, where they are no longer where RUN says, or at a URL.")
@click.option("--no-data", is_flag=True, help="Leave out what needs the rows.")
@with_options(*WHERE)
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
    place = Location.at(run, where["storage_options"])
    report.checked_target(out, place, force)
    rows = None if no_data else data or report.input_of(place)
    sparse = report.is_graph(place)
    with ExitStack() as stack:
        work = stack.enter_context(placed(rows, False, sparse, **where)) if rows else {}
        shown = stack.enter_context(progress(False))
        report.report(place, out, data=rows or False, force=force, on_pass=shown.watch, **work)
    click.echo(f"{redacted(run)}: {Path(out).absolute()}")
