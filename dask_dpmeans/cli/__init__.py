"""The command line: each command calls one function of the library.

This module loads little, so that Ctrl-C and SIGTERM are heard before the modules of a command load, which takes
seconds.
"""

import click

from dask_dpmeans.cli.group import Commands, Home
from dask_dpmeans.registry import METHODS

__all__ = ["main"]

CHOOSING, FITTING, MAKING, SHOWING = (
    f"dask_dpmeans.cli.{module}" for module in ("choosing", "fitting", "making", "showing")
)
HOMES = {
    "predict": Home(FITTING, "Label rows with the clusters of a run."),
    "penalty": Home(CHOOSING, "Find the penalty for about so many clusters."),
    "path": Home(CHOOSING, "Fit many penalties, and see how many clusters each gives."),
    "tree": Home(CHOOSING, "Cluster the clusters of a run, level by level."),
    "show": Home(SHOWING, "Say what a run, path or tree was asked and found."),
    "report": Home(SHOWING, "Write a run, path or tree as a page of HTML."),
    "export": Home(SHOWING, "Write the clusters of a run as JSON."),
    "synth": Home(MAKING, "Write synthetic rows and their true labels."),
    "demo": Home(MAKING, "Cluster synthetic rows, and say what was found."),
}
"""Commands of no method."""


def homes() -> dict[str, Home]:
    """Return where each command is found: those of the methods, and the others."""
    methods = [each for each in METHODS.values() if each.command is not None]
    return {str(each.command): Home(each.commands, each.summary) for each in methods} | HOMES


@click.group("dpmeans", cls=Commands, homes=homes, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dask-dpmeans")
def main() -> None:
    """DP-means clustering from Zarr stores to Zarr stores, without a number of clusters to choose."""
