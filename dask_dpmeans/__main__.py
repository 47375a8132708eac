"""`python -m dask_dpmeans`: the command line."""

from dask_dpmeans.cli import main

main(prog_name="dask-dpmeans")
