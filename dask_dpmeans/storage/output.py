"""Outputs: Zarr groups that appear when they are finished, and the rules for writing them.

While an output is made or removed, the metadata of its group ``steps`` marks it as one of this
package.  The mark is written first and removed last.  The metadata of the output's root are written
when all arrays are: until then it does not open as a Zarr group.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import zarr
from zarr.abc.codec import BytesBytesCodec

from dask_dpmeans import checks
from dask_dpmeans.engine.in_memory import go_on
from dask_dpmeans.errors import SHARED, CorruptStoreError, InputError
from dask_dpmeans.storage import arrays, manifest
from dask_dpmeans.storage.array_spec import TABLES, Digests
from dask_dpmeans.storage.arrays import CONTENTS, MARKER
from dask_dpmeans.storage.file_names import LOCK, MARK, PARTIAL, STEPS, is_written, top_or_path
from dask_dpmeans.storage.location import (
    PATTERN,
    AnyPlace,
    Location,
    check_options,
    locations_overlap,
    place_of,
)
from dask_dpmeans.storage.lock import Lock, only_job
from dask_dpmeans.storage.one_chunk import METADATA, ZSTD
from dask_dpmeans.storage.step_log import StepLog

FILE_ENDINGS = (".csv", ".tsv", ".txt", ".json", ".npy", ".npz", ".parquet", ".feather")
"""Endings that a new group cannot have: a path such as `labels.csv` asks for a file."""


@dataclass(frozen=True)
class Output:
    """An output at a path or URL, finished or not, or nothing yet."""

    location: Location

    @classmethod
    def at(
        cls,
        place: AnyPlace,
        storage_options: Mapping[str, Any] | None = None,
        name: str = "a place",
    ) -> Self:
        """Return the output at a path or URL, which an error calls `name`."""
        return cls(Location.at(place, storage_options, name))

    @property
    def path(self) -> str:
        """The absolute path, or the URL."""
        return self.location.url

    @property
    def shown(self) -> str:
        """The path without credentials."""
        return self.location.shown

    @property
    def steps(self) -> StepLog:
        """The steps and checkpoints."""
        return StepLog(self.location)

    def __truediv__(self, name: str) -> Location:
        return self.location / name

    def finished(self) -> bool:
        """Return whether a finished output of this package is there."""
        return "kind" in arrays.attributes_of(self.location).get(MARKER, {})

    def begun(self) -> bool:
        """Return whether an output was begun there and is not in part removed."""
        mark = self._mark()
        return mark is not None and "removed" not in mark

    def empty(self) -> bool:
        """Return whether an output is only begun or partly removed: nothing is lost without it."""
        mark = self._mark()
        if mark is None or "removed" in mark:
            return mark is not None
        if self.steps.has_checkpoints():
            return False
        if mark[MARKER].get("kind") != "run":
            return True
        return mark[MARKER].get("format") == manifest.FORMAT and not (
            self.finished() or self.steps.committed()
        )

    def _mark(self) -> dict[str, Any] | None:
        """Return the attributes that mark an output while it is made or removed."""
        attributes = arrays.attributes_of(self / STEPS)
        # Formats up to 6 had no "run".  A finished output that a user named "steps" has neither attribute.
        marked = MARKER in attributes and not attributes.keys().isdisjoint({"run", "committed"})
        return attributes if marked else None

    def kind(self) -> str | None:
        """Return the kind of the output there, begun or partly removed: "run", "path", ..."""
        attributes = self._described()
        if attributes is None:
            return None
        with manifest.malformed_as_corrupt(self.location, "output"):
            return str(attributes[MARKER]["kind"])

    def _described(self) -> dict[str, Any] | None:
        """Return the attributes of the output, finished or begun."""
        attributes = arrays.attributes_of(self.location)
        return attributes if "kind" in attributes.get(MARKER, {}) else self._mark()

    def grid_arrays(self) -> list[str]:
        """Return the names of the arrays on the grid of a cube that the output has."""
        attributes = self._described()
        return [] if attributes is None else _grid_arrays(attributes[MARKER])

    def check_target(
        self, kind: str, inputs: Sequence[Any], *, force: bool, resume: bool = False
    ) -> None:
        """Refuse to overwrite anything but an output of this kind with `force` or `resume`.

        An output in or around one of the `inputs` is refused with `force` too.
        """
        checks.switch("force", force)
        checks.switch("resume", resume)
        _check_place(self.location, inputs)
        there = self.kind()
        if there is None:
            if not _is_free(self.location):
                raise InputError(
                    f"{self.path} exists and is not an output of this package, so it is never removed: "
                    "give another path"
                )
            self._refuse_file(kind)
            return
        if there != kind:
            raise InputError(
                f"{self.path} exists and is of another kind, {there}, so it is never removed: give another path"
            )
        if self.empty():
            return
        if not (force or resume):
            way = "force=True removes it first"
            if kind == "run" or (kind == "path" and not self.finished()):
                way = "resume=True goes on with it, force=True removes it first"
            raise InputError(f"{self.path} holds {manifest.with_article(kind)}: {way}")
        if resume and self.begun():
            self.request()  # refuses other formats

    @contextmanager
    def locked(
        self, kind: str, inputs: Sequence[Any], *, force: bool, resume: bool = False
    ) -> Iterator[Lock]:
        """Hold the lock of an output that may be written; refuse what `check_target` refuses."""
        self.check_target(kind, inputs, force=force, resume=resume)
        with only_job(self.location) as lock:
            # Again: another job may have finished meanwhile.
            self.check_target(kind, inputs, force=force, resume=resume)
            yield lock

    def _refuse_file(self, kind: str) -> None:
        """Raise `InputError` for the path of a file of another kind."""
        if not self.path.lower().endswith(FILE_ENDINGS):
            return
        stored = f"{manifest.with_article(kind)} is stored as a Zarr group"
        if kind == "predictions":
            stored = f"{kind} are stored as a Zarr group, or as a table if it ends with .parquet"
        raise InputError(f"{self.path} has the ending of a file: {stored}; end it with .zarr")

    def begin(self, attributes: Mapping[str, Any]) -> None:
        """Begin an output: write its mark, with the attributes that describe it."""
        mark = {MARKER: dict(attributes), "run": uuid4().hex}
        arrays.write_root(self / STEPS, mark, (), {})

    def request(self) -> manifest.Manifest:
        """Return the request that `begin` was given."""
        attributes = manifest.checked_attributes(arrays.attributes_of(self / STEPS), self.path)
        with manifest.malformed_as_corrupt(self / STEPS):
            return manifest.Manifest.from_json(attributes)

    def finish_with(self, written: "NewArrays", attributes: Mapping[str, Any]) -> None:
        """Write the metadata of the root, which finishes the output.

        The mark is removed, except of runs.
        """
        root: dict[str, Any] = {MARKER: dict(attributes), CONTENTS: written.contents}
        on_grid = _grid_arrays(attributes)
        if on_grid:  # xarray reads the attribute
            root["coordinates"] = " ".join(on_grid[1:])
        written.flush()
        arrays.write_root(self.location, root, written.names, written.files)
        self.steps.remove_checkpoints()
        if attributes["kind"] != "run":
            self.location.remove([MARK])

    def unfinish(self) -> None:
        """Remove the metadata of the root, so that the output is not finished."""
        self.location.remove(["zarr.json"])

    @contextmanager
    def open(self, kind: str) -> Iterator["FinishedOutput"]:
        """Open a finished output of this kind, or raise `InputError`.

        Attributes that were not written by this package raise `CorruptStoreError`, also inside.
        """
        attributes = arrays.attributes_of(self.location)
        if MARKER not in attributes or attributes[MARKER].get("kind") != kind:
            raise InputError(f"{self.path} holds {_instead_of(self, kind)}")
        with manifest.malformed_as_corrupt(self.location, kind):
            described = manifest.checked_attributes(attributes, self.path)
            yield FinishedOutput(self.location, described, attributes[CONTENTS])


def _grid_arrays(described: Mapping[str, Any]) -> list[str]:
    """Return the names of the arrays on the grid of a cube in the description of an output."""
    return list((described.get("grid") or {}).get("arrays", []))


def _check_place(location: Location, inputs: Sequence[Any]) -> None:
    """Refuse a place that cannot be written, or that lies in or around an input."""
    path = location.url
    if location.read_only:
        raise InputError(f"{path} cannot be written by that protocol: give another output")
    if location.remote and PATTERN.search(path):
        raise InputError(
            f"{path} holds one of * ? [, by which more could be removed: give another output"
        )
    for each in map(place_of, inputs):
        if each is not None and locations_overlap(each, location):
            raise InputError(
                f"{path} and the input {each.url} lie one within the other: give another output"
            )
    if not location.remote and not Path(path).parent.is_dir():
        raise InputError(f"there is no folder {Path(path).parent} to put {Path(path).name} in")


def _is_free(location: Location) -> bool:
    """Return whether nothing is there but a lock and files that were written in part."""
    if location.remote:
        return set(location.names()) <= {LOCK}
    if not os.path.isdir(location.url):
        return not os.path.lexists(location.url)
    return all(entry == LOCK or PARTIAL.search(entry) for entry in location.entries())


def _instead_of(output: Output, kind: str) -> str:
    """Return the words for what is there instead of a finished output of some kind."""
    there = output.kind()
    if there is None:
        absent = not output.location.remote and _is_free(output.location)
        return f"no {kind} of this package{': nothing is there' if absent else ''}"
    if output.finished():
        return f"{manifest.with_article(there)}, not {manifest.with_article(kind)}"
    way = "make it again with force=True"
    if there in ("run", "path"):
        way = "resume=True goes on with it"
    return f"{manifest.with_article(there)} that has not finished: {way}"


def remove(output: Output, names: Iterable[str]) -> None:
    """Remove the output that is there, if any: the mark by which it is known is removed last.

    `names` are the arrays of its kind.  Nothing is removed if other files lie in it.
    """
    kind = output.kind()
    if kind is None:
        return
    entries = removable_files(output, names)
    names = {*names, *output.grid_arrays()}
    grid = {"arrays": output.grid_arrays()}
    described = {"format": manifest.FORMAT, "kind": kind, "grid": grid}
    mark: dict[str, Any] = {MARKER: described, "run": uuid4().hex, "removed": True}
    arrays.write_root(output / STEPS, mark, (), {})  # from here on no step counts
    output.unfinish()
    output.location.remove(_without_mark(entries))
    left = [entry for entry in _without_mark(output.location.entries()) if is_written(entry, names)]
    if left:
        raise OSError(
            f"{output.shown} could not be removed, {checks.list_some(left)} is left: try again"
        )
    output.location.remove([MARK])


def removable_files(output: Output, names: Iterable[str]) -> list[str]:
    """Return all files of an output; raise `InputError` if others lie in it.

    `names` are the arrays of its kind.
    """
    entries = list(output.location.entries())
    names = {*names, *output.grid_arrays()}
    others = [entry for entry in entries if not is_written(entry, names)]
    foreign = sorted({top_or_path(entry, names) for entry in others})
    if not foreign:
        return entries
    raise InputError(
        f"{output.path} also holds {checks.list_some(foreign)}, not written by this package: move that "
        "away first"
    )


def _without_mark(entries: Iterable[str]) -> list[str]:
    """Return the files of an output except the mark and the lock, which may change meanwhile."""
    return [entry for entry in entries if entry != MARK and entry.partition(".")[0] != LOCK]


@dataclass(frozen=True)
class NewArrays:
    """The arrays that were written of an output that is not finished."""

    output: Output
    contents: dict[str, str] = field(default_factory=dict)
    """Digests of the contents of small arrays, and of the tables of the digests of the chunks of
    others, by name."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Files of small arrays, by their paths, which `flush` writes."""
    check: Callable[[], None] = field(default=go_on, repr=False, compare=False, kw_only=True)
    """Raises if the output is not of this job any more."""
    kept: str = field(default="", kw_only=True)
    """What an error about chunks that are missing says in the end."""

    @property
    def names(self) -> list[str]:
        """Groups and arrays that the metadata of the root list."""
        tables = [name for name in self.contents if name.startswith(f"{TABLES}/")]
        found = [*self.contents, *(name.removeprefix(f"{TABLES}/") for name in tables)]
        if tables:
            found.append(TABLES)
        return sorted(found)

    def write(
        self,
        name: str,
        values: npt.NDArray[Any],
        dimensions: tuple[str, ...],
        attributes: dict[str, Any] | None = None,
    ) -> None:
        """Note a small array, (...), which is written when the output is finished."""
        array = arrays.small_array(values, dimensions, attributes)
        self.contents[name] = array.content
        self.files.update({f"{name}/{file}": content for file, content in array.files.items()})

    def flush(self) -> None:
        """Write the small arrays."""
        self.output.location.write_files(self.files)

    def create_rows(
        self,
        name: str,
        shape: tuple[int, ...],
        chunk_rows: int,
        dtype: npt.DTypeLike,
        dimensions: tuple[str, ...] = ("row",),
        compressor: BytesBytesCodec = ZSTD,
    ) -> "zarr.Array[Any]":
        """Create an array over the rows, (*shape), in chunks that tasks write whole."""
        place, kind = self.output / name, np.dtype(dtype)
        return arrays.create(place, shape, kind, dimensions, chunk_rows, compressor=compressor)

    def write_digests(
        self, over_rows: "Mapping[str, zarr.Array[Any]]", digests: Sequence[Digests]
    ) -> None:
        """Note the digests of all chunks, (chunk, array, byte), as a `Writer` returned them.

        Raise `InputError` if a chunk is not there: a worker wrote it to a disk of its own.
        """
        self.files[f"{TABLES}/{METADATA}"] = arrays.group_content({})
        found = np.concatenate(digests)
        for number, (name, array) in enumerate(over_rows.items()):
            table = np.ascontiguousarray(found[:, number])
            if len(table) != array.nchunks:
                raise CorruptStoreError(
                    f"{self.output.path}/{name}: {len(table)} of {array.nchunks} chunks were written"
                )
            self._check_there(name, array)
            layout = {"layout": arrays.layout_of(array)}
            self.write(f"{TABLES}/{name}", table, ("chunk", "byte"), layout)

    def _check_there(self, name: str, array: "zarr.Array[Any]") -> None:
        """Raise `InputError` if chunks that tasks wrote are missing: they would read as the fill value."""
        self.check()  # the output may have been removed
        location = self.output / name
        missing = arrays.missing_chunks(array, location)
        if missing:
            raise InputError(
                f"{location.shown}: {len(missing):,} of {array.nchunks:,} chunks are missing, though tasks wrote "
                f"them: {SHARED}{self.kept}"
            )


@dataclass(frozen=True)
class FinishedOutput:
    """A finished output: its attributes, and its arrays on demand."""

    location: Location
    attributes: dict[str, Any]
    """Its description, as JSON holds it."""
    contents: dict[str, str]
    """As in `NewArrays`."""

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return a small array, (...)."""
        return self.read_all([name])[name]

    def read_all(self, names: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
        """Return small arrays, (...), by name."""
        found = arrays.read_many(self.location, {name: self.contents[name] for name in names})
        return {name: values for name, (values, _) in found.items()}

    def open_rows(
        self, name: str, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike | None = None
    ) -> arrays.CheckedArray:
        """Open an array over the rows, (*shape), of which no chunk is missing; each is compared."""
        place, table = self.location / name, f"{TABLES}/{name}"
        array = arrays.open_whole(place)
        if shape is not None and (array.shape != shape or array.dtype != np.dtype(dtype)):
            raise CorruptStoreError(
                f"{place.url} holds {array.dtype} of shape {array.shape}, not {dtype} of shape {shape}"
            )
        content = self.contents[table]
        return arrays.CheckedArray(arrays.verified_array(array, self.location / table, content))

    def read_equally_long(
        self, names: Sequence[str], length: int | None = None
    ) -> list[npt.NDArray[Any]]:
        """Return small arrays of one length, (length, ...), by default the length of the first."""
        found = list(self.read_all(names).values())
        wanted = len(found[0]) if length is None else length
        for name, values in zip(names, found, strict=True):
            if len(values) != wanted:
                raise CorruptStoreError(
                    f"{(self.location / name).url} holds {len(values):,} entries, not {wanted:,}"
                )
        return found


@contextmanager
def open_output(
    place: AnyPlace, kind: str, storage_options: Mapping[str, Any] | None
) -> Iterator[FinishedOutput]:
    """Open a finished output at a path or URL, as `Output.open` does."""
    check_options(storage_options, place)
    with Output.at(place, storage_options).open(kind) as found:
        yield found


@contextmanager
def new_output(
    out: AnyPlace,
    kind: str,
    attributes: Mapping[str, Any],
    names: Iterable[str],
    *,
    force: bool,
    inputs: Sequence[Any] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[NewArrays]:
    """Make an output, whose arrays are written inside; readers see it when it is finished.

    Parameters
    ----------
    kind : such as "tree"
    attributes : its description, as JSON holds it
    names : names of the arrays that outputs of this kind have
    force : remove the output of this kind that is there; anything else there is refused
    inputs : data that the output may not lie in or around
    storage_options : options of fsspec for a URL
    """
    check_options(storage_options, out)
    output = Output.at(out, storage_options)
    with output.locked(kind, inputs, force=force) as job:
        remove(output, names)
        described = {"format": manifest.FORMAT, "kind": kind, **attributes}
        output.begin(described)
        written = NewArrays(output, check=job.check)
        yield written
        job.check()
        output.finish_with(written, described)
