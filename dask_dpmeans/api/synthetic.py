"""Synthetic rows and their true labels, as a store."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dask_dpmeans.storage.arrays import Writer
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.run_store import RunStore, new_group
from dask_dpmeans.synth import PART_ROWS, Synthetic


def write_synthetic(
    data: Synthetic, out: AnyPlace, *, force: bool = False, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Write synthetic rows, (row, feature), and their true labels, (row,), as a Zarr group: ``rows`` and ``truth``."""
    check_options(storage_options, out)
    store = RunStore.at(out, storage_options)
    store.check_target("synthetic data", [], force=force)  # before a folder is made
    shape = (data.n_rows, data.n_features)
    with new_group(store.location, "synthetic data", {"data": asdict(data)}, force=force) as draft:
        rows = draft.create_rows("rows", shape, PART_ROWS, np.float32, ("row", "feature"))
        truth = draft.create_rows("truth", shape[:1], PART_ROWS, np.int32)
        write_part = Writer((rows, truth))
        said = [write_part(start, (part, labels)) for start, part, labels in data.parts()]
        draft.keep({"rows": rows, "truth": truth}, said)
