"""Predictions as one Parquet file, beside the columns of the table that are kept."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dask_dpmeans import checks
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources import KeptColumns, check_available, path_of
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.arrays import MARKER
from dask_dpmeans.storage.location import AnyPlace, Location, locations_overlap, place_of
from dask_dpmeans.storage.outfile import checked_target
from dask_dpmeans.storage.output import open_output

if find_spec("pyarrow") is not None:
    import pyarrow as pa
    from pyarrow import parquet

ENDINGS = (".parquet", ".pq")
"""Endings of the paths that predictions are written to as Parquet."""
PART_ROWS = 2**17
"""Rows of a row group that has no kept columns beside it."""


@dataclass(frozen=True)
class LabelledTable:
    """A Parquet file of predictions that is to be written."""

    target: Path

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder beside the file for parts of it, which is removed in the end."""
        beside = self.target.parent
        with TemporaryDirectory(".partial", f"{self.target.name}.", beside) as folder:
            yield Path(folder)

    def write(
        self, predictions: Path, specs: Sequence[ArraySpec], kept: KeptColumns | None
    ) -> None:
        """Write predictions, a Zarr group in `folder`, and kept columns; the file appears whole."""
        written = predictions.parent / "table.parquet"
        with open_output(predictions, "predictions", None) as found:
            arrays = {spec.name: found.open_rows(spec.name) for spec in specs}
            described = {MARKER: json.dumps(found.attributes)}
        n_rows = arrays["label"].shape[0]
        fields = [(spec.name, pa.from_numpy_dtype(arrays[spec.name].dtype)) for spec in specs]
        beside = [] if kept is None else list(kept.schema)
        schema = pa.schema([*beside, *map(pa.field, *zip(*fields, strict=True))], described)
        with parquet.ParquetWriter(written, schema) as writer:
            start = 0
            for part, height in _parts(kept, n_rows):
                stop = start + height
                if stop <= n_rows:
                    columns = [*part, *(array[start:stop] for array in arrays.values())]
                    writer.write_table(pa.table(columns, schema=schema))
                start = stop
        if start != n_rows:
            raise CorruptStoreError(
                f"data has {start:,} rows, of which {n_rows:,} were labelled: it has changed"
            )
        os.replace(written, self.target)


def labelled_table(
    out: AnyPlace,
    inputs: Sequence[Any],
    specs: Sequence[ArraySpec],
    *,
    keep: Sequence[str] | None,
    soft: int | None,
    force: bool,
) -> LabelledTable | None:
    """Return the Parquet file at `out`, if it is free; None if predictions become a Zarr group.

    The run is the first of the `inputs`, in or around which the file may not lie.
    """
    text = Location.at(out).url
    if not text.endswith(ENDINGS):
        if keep is not None:
            raise InputError(f"keep is for a Parquet table: let {text} end with .parquet")
        return None
    check_available(Location.at(text), "out")
    if soft is not None:
        raise InputError(
            f"soft is for a Zarr group, and {text} is a Parquet table: give a path without .parquet"
        )
    _check_names(keep, [spec.name for spec in specs])
    target = checked_target(text, inputs[0], "table of predictions", _is_ours, force=force)
    paths = [os.fspath(each) for each in inputs[1:] if isinstance(each, str | os.PathLike)]
    for place in map(place_of, map(path_of, paths)):
        within = place is not None and locations_overlap(place, Location.at(target))
        if place is not None and (within or target.match(place.url)):
            raise InputError(
                f"{target} and the input {place.shown} lie one within the other: give another output"
            )
    return LabelledTable(target)


def _check_names(keep: Sequence[str] | None, taken: Sequence[str]) -> None:
    """Refuse `keep` that are no names, that repeat, or that the predictions have."""
    if keep is None:
        return
    if isinstance(keep, str) or not all(isinstance(name, str) for name in keep):
        raise InputError(
            f"keep must be a sequence of names of columns, got {checks.describe_value(keep)}"
        )
    for name in keep:
        if name in taken:
            raise InputError(f"keep: predictions have a column {name!r} of their own: rename yours")
        if list(keep).count(name) > 1:
            raise InputError(f"keep names {name!r} more than once")


def _parts(kept: KeptColumns | None, n_rows: int) -> Iterator[tuple[list[Any], int]]:
    """Yield the kept columns of each part of the rows, and the number of its rows."""
    if kept is not None:
        for part in kept.parts():
            yield part.columns, part.num_rows
        return
    for start in range(0, n_rows, PART_ROWS):
        yield [], min(PART_ROWS, n_rows - start)


def _is_ours(path: Path) -> bool:
    """Return whether a file is a Parquet table of predictions."""
    try:
        return MARKER.encode() in (parquet.read_schema(path).metadata or {})
    except (OSError, ValueError):  # no Parquet file
        return False
