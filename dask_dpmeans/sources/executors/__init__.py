"""Executors: threads of this process, or tasks of Dask, that run jobs on shards.

Both, `threads` and `dask_tasks`, have the functions of `base`; `cluster_monitor` waits for lost workers.
"""
