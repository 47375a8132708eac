"""From stores to stores: fit, predict, load, dry run, export.

`fitting` has the functions that users call, `job` the work behind `fit`, `resuming` the way on from
its last step, and `cost` the dry run; `loading` and `prediction` work on finished runs.
"""
