"""Executors: threads of this process, or tasks of Dask, that run jobs on shards."""
