"""The command line: each command calls one function of the library."""

import click

from dask_dpmeans.cli.choosing import path_command, penalty_command, tree_command
from dask_dpmeans.cli.fitting import (
    fit_command,
    graph_command,
    hdp_command,
    kernel_command,
    predict_command,
    spectral_command,
)
from dask_dpmeans.cli.group import Commands
from dask_dpmeans.cli.making import demo_command, synth_command
from dask_dpmeans.cli.showing import export_command, report_command, show_command

__all__ = ["main"]


@click.group("dpmeans", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dask-dpmeans")
def main() -> None:
    """DP-means clustering from Zarr stores to Zarr stores, without a number of clusters to choose."""


for command in (
    fit_command,
    hdp_command,
    kernel_command,
    spectral_command,
    graph_command,
    predict_command,
    penalty_command,
    path_command,
    tree_command,
    show_command,
    report_command,
    export_command,
    synth_command,
    demo_command,
):
    main.add_command(command)
