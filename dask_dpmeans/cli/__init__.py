"""The command line: each command calls one function of the library.

Commands are in `fitting`, `choosing`, `predicting`, `showing`, `making` and `anndata`; `options` has
their options, `compute` opens rows for them, and `group` turns errors into exit codes.  This module
loads little, so that Ctrl-C and SIGTERM work while the modules of a command load, which takes seconds.
"""

import click

from dask_dpmeans.cli.group import Commands, Home
from dask_dpmeans.registry import METHODS

__all__ = ["main"]

CHOOSING, MAKING, SHOWING = (
    f"dask_dpmeans.cli.{module}" for module in ("choosing", "making", "showing")
)
HOMES = {
    "anndata": Home("dask_dpmeans.cli.anndata", "Cluster the cells of an AnnData store or file."),
    "predict": Home("dask_dpmeans.cli.predicting", "Label rows with the clusters of a run."),
    "bound": Home(SHOWING, "Prove how far a run can be from the optimum."),
    "penalty": Home(CHOOSING, "Find the penalty for a number of clusters."),
    "path": Home(CHOOSING, "Fit at many penalties, and show the number of clusters of each."),
    "tree": Home(CHOOSING, "Cluster the clusters of a run, level by level."),
    "show": Home(SHOWING, "Show the parameters and results of a run, path or tree."),
    "report": Home(SHOWING, "Write a run, path or tree as an HTML page."),
    "export": Home(SHOWING, "Write the clusters of a run as JSON."),
    "synth": Home(MAKING, "Write synthetic rows and their true labels."),
    "demo": Home(MAKING, "Cluster synthetic rows, and show the result."),
}
"""Commands that do not belong to a method."""


def homes() -> dict[str, Home]:
    """Return the module and summary of each command."""
    methods = [each for each in METHODS.values() if each.command is not None]
    return {str(each.command): Home(each.commands, each.summary) for each in methods} | HOMES


@click.group(
    "dpmeans", cls=Commands, homes=homes, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="dask-dpmeans")
def main() -> None:
    """Cluster the rows of Zarr stores by DP-means.

    Choose the price of a cluster, not the number of clusters.
    """
