"""Results for each cell in an AnnData store of Zarr, written beside what is there.

The layout is the one that the documentation of anndata specifies: a categorical is a group with
``codes`` and ``categories``, and the attribute ``column-order`` of ``obs`` names the columns.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import zarr

from dask_dpmeans.errors import InputError
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.lock import only_job
from dask_dpmeans.storage.one_chunk import EVERY_CHUNK

CHUNK_ROWS = 2**20
"""Rows in a chunk of codes, at most."""
GROUP_FILES = {2: ".zattrs", 3: "zarr.json"}
"""The file with the attributes of a group, by version of the format."""
METADATA_FILES = {2: (".zarray", ".zattrs", ".zgroup"), 3: ("zarr.json",)}
UNFINISHED = ".unfinished"
"""Ending of the folder that results are written to first."""
VERSIONS = {"categorical": "0.2.0", "dict": "0.1.0"}
"""Versions of the encodings of groups."""


@dataclass(frozen=True)
class CellStore:
    """An AnnData store of Zarr that gets a column of `obs` and an entry of `uns`."""

    place: Location
    zarr_format: Literal[2, 3]

    def write(self, key: str, labels: Any, names: Sequence[str], entry: Mapping[str, Any]) -> None:
        """Write a categorical column and an entry of `uns`, both called `key`.

        All is written beside the columns first, under a name that ``column-order`` does not have,
        so that an error or a kill meanwhile leaves an earlier result of that name as it was.  Then
        that one is taken out of ``column-order``, the new files are moved to their places, and
        ``column-order`` and consolidated metadata are written: a kill within these moves leaves a
        store that opens, without the column.

        Parameters
        ----------
        key : name of the column and of the entry
        labels : (n,) integers, numbers of `names`, or -1 for a missing value; read in parts
        names : the categories
        entry : numbers, texts, arrays of these, and mappings of these
        """
        parts = [self.place / parent / key for parent in ("obs", "uns")]
        staging = self.place / "obs" / f"{key}{UNFINISHED}"
        written = [staging / name for name in ("column", "entry")]
        replaced = [staging / name for name in ("old_column", "old_entry")]
        with only_job(self.place / "obs") as lock:
            _clear(staging)  # of a writer that was killed
            self._write_column(written[0], labels, names)
            self._write_entry(written[1], entry)
            if not list(self._own_nodes("uns")):
                self._write_group(self.place / "uns", "dict")
            lock.check()
            others = [name for name in self.columns() if name != key]
            if key in self.columns():
                self._commit(key, others, ())
            for part, old, new in zip(parts, replaced, written, strict=True):
                part.move(old)
                new.move(part)
            self._commit(key, [*others, key], parts)
            _clear(staging)

    def columns(self) -> list[str]:
        """Return the names of the columns of `obs`."""
        return list(self._attributes(self._obs())["column-order"])

    def _obs(self) -> dict[str, Any]:
        found: dict[str, Any] | None = read_json(self.place / "obs" / GROUP_FILES[self.zarr_format])
        if found is None:
            raise InputError(f"{self.place.shown} has no obs")
        return found

    def _attributes(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the part with the attributes of the file of a group."""
        if self.zarr_format == 2:
            return content
        attributes: dict[str, Any] = content["attributes"]
        return attributes

    def _write_column(self, place: Location, labels: Any, names: Sequence[str]) -> None:
        n, dtype = labels.shape[0], np.min_scalar_type(-max(1, len(names)))
        codes = self._create(place / "codes", (n,), dtype, "array")
        for start, stop in pairwise([*range(0, n, CHUNK_ROWS), n]):
            codes[start:stop] = np.asarray(labels[start:stop])
        self._write_array(place / "categories", np.array(names, str))
        self._write_group(place, "categorical", ordered=False)

    def _write_entry(self, place: Location, entry: Mapping[str, Any]) -> None:
        """Write a mapping; its own metadata come last, so that no reader finds a part of it."""
        for name, value in entry.items():
            if isinstance(value, Mapping):
                self._write_entry(place / name, value)
            else:
                self._write_array(place / name, np.asarray(value))
        self._write_group(place, "dict")

    def _write_array(self, place: Location, values: np.ndarray[Any, Any]) -> None:
        """Write numbers or texts of any shape."""
        text = values.dtype.kind == "U"
        kinds = ("string-array", "string") if text else ("array", "numeric-scalar")
        array = self._create(
            place, values.shape, str if text else values.dtype, kinds[values.ndim == 0]
        )
        if values.size:
            array[...] = values.astype(object) if text and values.ndim else values[()]

    def _create(
        self, place: Location, shape: tuple[int, ...], dtype: Any, kind: str
    ) -> "zarr.Array[Any]":
        """Create an array of any shape, with the attributes of AnnData."""
        height = [min(max(1, size), CHUNK_ROWS) for size in shape[:1]]
        return zarr.create_array(
            place.store(),
            shape=shape,
            dtype=dtype,
            chunks=(*height, *(max(1, size) for size in shape[1:])),
            zarr_format=self.zarr_format,
            attributes={"encoding-type": kind, "encoding-version": "0.2.0"},
            config=EVERY_CHUNK,
            overwrite=True,
        )

    def _write_group(self, place: Location, kind: str, **attributes: Any) -> None:
        encoding = {"encoding-type": kind, "encoding-version": VERSIONS[kind]}
        zarr.create_group(
            place.store(), zarr_format=self.zarr_format, attributes=encoding | attributes
        )

    def _commit(self, key: str, columns: list[str], parts: Sequence[Location]) -> None:
        """Write the names of the columns, then consolidated metadata if the store has them."""
        content = self._obs()
        self._attributes(content)["column-order"] = columns
        (self.place / "obs" / GROUP_FILES[self.zarr_format]).write(_json(content))
        name = ".zmetadata" if self.zarr_format == 2 else "zarr.json"
        whole = read_json(self.place / name) or {}
        known = whole if self.zarr_format == 2 else whole.get("consolidated_metadata") or {}
        if "metadata" not in known:
            return
        gone = tuple(f"{parent}/{key}" for parent in ("obs", "uns"))
        kept = {
            path: node
            for path, node in known["metadata"].items()
            if not (path in gone or path.startswith(tuple(f"{each}/" for each in gone)))
        }
        found = {path: node for part in parts for path, node in self._nodes(part)}
        for parent in ("obs", "uns"):
            found |= dict(self._own_nodes(parent))
        nodes = kept | found
        # As Zarr orders them: members of a group that are apart are lost when Zarr reads them.
        known["metadata"] = {
            path: nodes[path] for path in sorted(nodes, key=lambda path: (path.count("/"), path))
        }
        (self.place / name).write(_json(whole))

    def _nodes(self, part: Location) -> Iterator[tuple[str, Any]]:
        """Yield the metadata of a group and of all in it, by their names in consolidated ones."""
        folders = {path.rpartition("/")[0] for path in part.entries()}
        below = part.url.removeprefix(f"{self.place.url.rstrip('/')}/")
        for folder in sorted(folders):
            yield from self._own_nodes(f"{below}/{folder}".rstrip("/"))

    def _own_nodes(self, folder: str) -> Iterator[tuple[str, Any]]:
        for name in METADATA_FILES[self.zarr_format]:
            content = read_json(self.place / folder / name)
            if content is not None:
                yield (folder if self.zarr_format == 3 else f"{folder}/{name}"), content


def _clear(folder: Location) -> None:
    folder.remove(list(folder.entries()))
    folder.remove_empty()


def read_json(place: Location) -> Any:
    """Return the content of a file of JSON; None if it does not exist."""
    fs, where = place.files()
    try:
        return json.loads(fs.cat_file(where))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=2).encode()
