"""The command line: each command calls one function of the library.

This module loads little, so that Ctrl-C and SIGTERM are heard before the modules of a command load, which takes
seconds.
"""

import click

from dask_dpmeans.cli.group import Commands

__all__ = ["main"]

HOMES = {
    "fit": "fitting",
    "hdp": "fitting",
    "kernel": "fitting",
    "spectral": "fitting",
    "graph": "fitting",
    "predict": "fitting",
    "penalty": "choosing",
    "path": "choosing",
    "tree": "choosing",
    "show": "showing",
    "report": "showing",
    "export": "showing",
    "synth": "making",
    "demo": "making",
}
"""The module of each command."""


@click.group("dpmeans", cls=Commands, homes=HOMES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dask-dpmeans")
def main() -> None:
    """DP-means clustering from Zarr stores to Zarr stores, without a number of clusters to choose."""
