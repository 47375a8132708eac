"""Steps of a fit, without Dask and Zarr.

`plan` has blocks, shards and the merge tree, and the `Source` that methods work on; `in_memory` is
the simplest source.  `loop` takes the steps of an `Algorithm`, `history` records them, `occ` sweeps
optimistically, and `checkpoints` saves states inside a long step.
"""
