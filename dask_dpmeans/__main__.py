"""`python -m dask_dpmeans`: the command line."""

from dask_dpmeans.cli import main

if __name__ == "__main__":
    main(prog_name="dask-dpmeans")
