"""The command that clusters the cells of an AnnData store or file."""

from typing import Any

import click

import dask_dpmeans
from dask_dpmeans import storage
from dask_dpmeans.cli import library
from dask_dpmeans.cli.absent import check_data
from dask_dpmeans.cli.choices import KEY, REP
from dask_dpmeans.cli.fitting import fit_command, graph_command
from dask_dpmeans.cli.group import CommandWithHeadings, print_lines
from dask_dpmeans.errors import redact

OWN = ("data", "run", "dry", "groups", "weights")
"""Parameters of the command fit that this one has otherwise, or not at all."""
SHARED = [option for option in fit_command.params if option.name not in OWN]


def anndata_command_of(**given: Any) -> None:
    """Cluster the cells of DATA, an AnnData store or file, and write the clusters into it.

    The column KEY of obs becomes the cluster of each cell, and the entry KEY of uns the parameters
    and centers. Nothing else in a .zarr store is changed; an .h5ad file is only read. The run, for
    show, report and predict, is written beside DATA.
    """
    names = ("data", "rep", "obsp", "key_added", "run", "weights", "force")
    data, rep, obsp, key, run, weights, force = (given.pop(name) for name in names)
    check_data(data)
    place = storage.Location.at(data, given["storage_options"])
    found = library.anndata.stored_cells(place)
    where = found.names.array(rep, obsp)
    found.check_key(key, force)
    out = (
        library.anndata.default_run(place, key)
        if run is None
        else storage.Location.at(run, place.options)
    )
    command, options = fit_command, given
    if obsp is not None:
        command, options = graph_command, _of_graphs(given, weights)
    else:
        column = None if weights is None else found.column(weights, "sample_weight").url
        options = given | {"weights": column, "dry": False}
    assert command.callback is not None
    command.callback(data=(place / where).url, run=out.url, force=force, **options)
    model = dask_dpmeans.load(out)
    found.write(key, model, where)
    if given["as_json"]:
        return
    if isinstance(found, library.anndata.StoredCells):
        count = library.format_count(model.n_clusters_, "cluster")
        print_lines(f"obs and uns of {redact(data)} hold {key}: {count}; run: {out.shown}")
    else:
        print_lines(f"{redact(data)} was only read: the labels are in {out.shown}")


def _of_graphs(given: dict[str, Any], weights: str | None) -> dict[str, Any]:
    """Return the options of the command graph; others that are given are wrong use."""
    known = {option.name for option in graph_command.params}
    context = click.get_current_context()
    for name in given.keys() - known:
        source = context.get_parameter_source(name)
        if source is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --obsp")
    if weights is not None:
        raise click.UsageError("--weights does not go with --obsp: links have weights themselves")
    # `init` here is an option of the command fit.
    return {name: value for name, value in given.items() if name in known - {"init"}}


anndata_command = CommandWithHeadings(
    "anndata",
    callback=anndata_command_of,
    help=anndata_command_of.__doc__,
    params=[
        click.Argument(["data"]),
        click.Option(
            ["--rep"],
            help=f"Representation to cluster: an array of obsm or layers, or X; default {REP}.",
        ),
        click.Option(["--obsp"], help="Graph of obsp to cluster in its place, as connectivities."),
        click.Option(["--key-added"], default=KEY, show_default=True, help="Name of the results."),
        click.Option(["--run"], help="Path or URL of the run; by default, beside DATA."),
        click.Option(["--weights"], metavar="COLUMN", help="Column of obs with weights of cells."),
        *SHARED,
    ],
)
