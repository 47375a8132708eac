"""The run store: one Zarr v3 group a run, its committed steps, and its result.

Layout::

    run.zarr/
      zarr.json                     written last: until then this is no Zarr group, and nothing looks whole
      cluster_centers               (cluster, feature)   in the units of the fit; of unit length where metric=cosine
      cluster_weights               (cluster,)
      cluster_inertias              (cluster,)
      labels                        (row,)   -1 where nothing was written
      first_centers                 (first_cluster, feature)   where the fit started from centers; in input units
      eigenvalues                   (component,)   where eigenvectors were clustered: those greater than the penalty
      projection                    (column or landmark, component)   what rows are multiplied by, if anything
      landmarks                     (landmark, column)   where their kernel with these is
      embedding                     (row, component)   where no projection makes it
      local_groups, local_centers, local_weights   (local_cluster,)   where data sets share centers: who uses which
      feature_scale                 (feature,), (column,) where features are other columns   where the fit scaled: what
                                    the columns were divided by
      cluster_totals, center_labels, center_weights, center_rows, fitted_rows   the centers of a kernel DP-means: sums
                                    of K within clusters, (cluster,); the clusters and weights of the rows, (row,); the
                                    rows that are centers, (opener,); and the rows, (row, feature)
      variance, concentration       (draw,)   of a Gibbs sampler: sigma and alpha of its last draw
      feature_components, ...       what an approximation of a kernel has learned
      objective, inertia, ...       (step,)   the history
      digests/labels                (chunk, byte)   digests of the chunks of `labels`, and so of other arrays over rows
      steps/                        attributes: what the run is, and a name that no other has
        searches/                   until the first step: how far searches of a coreset have come, by their digests
        000007/state                all numbers of a state in a row, below 2**53 where they are integers; the
                                    attribute "layout" says which are whose
        000007/history              (step, figure)
        000007/zarr.json            written last: that the step is committed, by which job, and digests of both arrays

Other outputs have a group `steps` while they are made: its metadata is the mark by which what lies there is known as
ours.  The mark is written first.  It is taken away last, as an output is whole and as one is removed.

Every array is compressed with a checksum and checksummed again, and every chunk is written, so that a missing one is
known.  A step's rows are written first; committing it is one write of one small key, which succeeds only where that key
is not there yet: of two jobs that both took the run for theirs, one commits.  Local disks have no such
write: there the lock keeps the two apart.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import zarr

from dask_dpmeans import checks
from dask_dpmeans.engine.checkpoints import state_of, values_of
from dask_dpmeans.engine.history import INTEGERS, Record
from dask_dpmeans.errors import CorruptStoreError, InputError, LockLostError
from dask_dpmeans.kernels.block import Features
from dask_dpmeans.kernels.divergence import METRICS
from dask_dpmeans.storage import lock
from dask_dpmeans.storage.arrays import (
    CONTENTS,
    MARKER,
    TABLES,
    CheckedArray,
    Digests,
    attributes_of,
    create,
    create_group,
    open_whole,
    read,
    verified,
    write,
    write_root,
    write_table,
)
from dask_dpmeans.storage.location import PATTERN, AnyPlace, Location, overlapping, place_of
from dask_dpmeans.storage.manifest import FORMAT, NAMES, as_written, check_shapes, check_types, checked_manifest

MARK = "steps/zarr.json"
"""What says, while an output is made or removed, that it is ours."""
MOST_NAMED = 5
"""Of what is not ours in an output, in an error."""
SEARCHES = "searches"
"""The folder beside the steps in which searches are kept that have not led to a step yet."""
PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")
"""How the files end that Zarr writes before it renames them; a killed job may leave one."""
State = TypeVar("State", bound=Any)


FINITE = ("objective", "inertia", "n_clusters", "passes", "seconds")
"""Columns of the history that hold finite numbers, whatever the step was."""
OUR_NAMES = NAMES | {field.name for field in fields(Record)}
"""All that is ever written into an output."""
_ARRAY = r"(zarr\.json|c(/\d+)*)"
_MEMBER = rf"({'|'.join(sorted(OUR_NAMES - {'zarr.json', 'steps', TABLES}))})/{_ARRAY}"
OURS = re.compile(
    rf"zarr\.json|{lock.NAME}|{_MEMBER}|{TABLES}/(zarr\.json|{_MEMBER})"
    rf"|steps/(zarr\.json|{SEARCHES}/[0-9a-f]{{64}}|\d+/(zarr\.json|(state|history)/{_ARRAY}))"
)
"""Paths of files that are ever written into an output."""


@dataclass(frozen=True)
class RunStore:
    """A run at a path or URL."""

    location: Location

    @classmethod
    def at(cls, place: AnyPlace, storage_options: Mapping[str, Any] | None = None, name: str = "a place") -> "RunStore":
        """The run at a path or URL, which an error calls `name`."""
        return cls(Location.at(place, storage_options, name))

    @property
    def path(self) -> str:
        """The absolute path, or the URL."""
        return self.location.url

    @property
    def shown(self) -> str:
        """The path without credentials."""
        return self.location.shown

    def __truediv__(self, name: str) -> Location:
        return self.location / name

    # What is there

    def finished(self) -> bool:
        """Whether a whole result of ours is there."""
        return "kind" in attributes_of(self.location).get(MARKER, {})

    def begun(self) -> bool:
        """Whether a run of ours was begun there."""
        mark = self._mark()
        return mark is not None and "removed" not in mark

    def idle(self) -> bool:
        """Whether what is there of ours was left unfinished, and nothing is lost with it."""
        mark = self._mark()
        if mark is None:
            return False
        if "removed" in mark:
            return True
        if self.keeps_searches():
            return False
        if mark[MARKER].get("kind") != "run":
            return True
        return mark[MARKER].get("format") == FORMAT and not (self.finished() or self.committed())

    def _mark(self) -> dict[str, Any] | None:
        """The attributes of the group that says that something of ours is there, while it is made or removed."""
        attributes = attributes_of(self / "steps")
        # Formats up to 6 had no "run"; a whole result that someone called "steps" has neither.
        ours = MARKER in attributes and not attributes.keys().isdisjoint({"run", "committed"})
        return attributes if ours else None

    def check_target(self, kind: str, inputs: Sequence[Any], *, force: bool, resume: bool = False) -> None:
        """Refuse to write over anything that is there, unless it is ours, of this kind, and `force` or `resume` is set.

        Nor is anything written into or around one of the `inputs`, be it with `force`.
        """
        checks.switch("force", force)
        checks.switch("resume", resume)
        if self.location.read_only:
            raise InputError(f"{self.path} cannot be written by that protocol: give another output")
        if self.location.remote and PATTERN.search(self.path):
            raise InputError(f"{self.path} holds one of * ? [, by which more could be removed: give another output")
        for each in map(place_of, inputs):
            if each is not None and overlapping(each, self.location):
                raise InputError(f"{self.path} and the input {each.url} lie one within the other: give another output")
        if not self.location.remote and not Path(self.path).parent.is_dir():
            raise InputError(f"there is no folder {Path(self.path).parent} to put {Path(self.path).name} in")
        there = self.kind()
        if there is None and self._is_free():
            return
        if there != kind:
            what = "no output of ours" if there is None else f"of another kind, {there}"
            raise InputError(f"{self.path} exists and is {what}, so it is never removed: give another path")
        if self.idle():
            return
        if not (force or resume):
            goes_on = kind == "run" or (kind == "path" and not self.finished())
            ways = "--resume goes on with it, --force removes it first" if goes_on else "--force removes it first"
            raise InputError(f"{self.path} holds {with_article(kind)}: {ways}")
        if resume and self.begun():
            self.manifest()  # of this format

    def kind(self) -> str | None:
        """What of ours is there, or was begun or in part removed: a run, path, tree, predictions or synthetic data."""
        mark = attributes_of(self.location) if self.finished() else self._mark()
        if mark is None:
            return None
        with as_written(self.location, "output"):
            return str(mark[MARKER]["kind"])

    def _is_free(self) -> bool:
        if self.location.remote:
            return set(self.location.names()) <= {lock.NAME}
        if not os.path.isdir(self.path):
            return not os.path.lexists(self.path)
        return all(entry == lock.NAME or PARTIAL.search(entry) for entry in self.location.entries())

    def remove(self) -> None:
        """Remove what is there of ours: the mark by which it is known goes last."""
        kind = self.kind()
        if kind is None:
            return
        entries = self._removable()
        mark = {MARKER: {"format": FORMAT, "kind": kind}, "run": uuid4().hex, "removed": True}
        write_root(self / "steps", mark, ())  # from here on no step counts
        self.reopen()
        self.location.remove(_without_mark(entries))
        left = [entry for entry in _without_mark(self.location.entries()) if OURS.fullmatch(entry)]
        if left:
            raise OSError(f"{self.shown} could not be removed, {', '.join(left[:MOST_NAMED])} is left: try again")
        self.location.remove([MARK])

    def removable(self) -> bool:
        """Whether something of ours is there; refused where something else lies in it."""
        if self.kind() is None:
            return False
        self._removable()
        return True

    def _removable(self) -> list[str]:
        """All files there.

        Raises
        ------
        InputError
            Where one is none of ours.
        """
        entries = list(self.location.entries())
        foreign = [entry for entry in entries if not _is_ours(entry)]
        if foreign:
            named = sorted({_shortest(entry) for entry in foreign})
            more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
            raise InputError(
                f"{self.path} also holds {', '.join(named[:MOST_NAMED])}{more}, no output of ours: move that away first"
            )
        return entries

    def reopen(self) -> None:
        """Take back that a result is whole."""
        self.location.remove(["zarr.json"])

    # Steps

    def begin(self, manifest: dict[str, Any]) -> None:
        """Begin a run: say what it is."""
        create_group(self / "steps", {MARKER: manifest, "run": uuid4().hex})

    def name(self) -> str:
        """What tells the run from those that were begun there before or after it."""
        return str(attributes_of(self / "steps").get("run"))

    def manifest(self) -> dict[str, Any]:
        """What the run is, as `begin` was told."""
        return checked_manifest(attributes_of(self / "steps"), self.path)

    def committed(self) -> int:
        """The number of the last committed step; 0 where there is none."""
        return int(self._word()["committed"])

    def _word(self) -> dict[str, Any]:
        """What the last commit said."""
        run = self.name()
        for number in sorted(self._steps(), reverse=True):
            place = self / _step(number)
            word = attributes_of(place)
            if MARKER in word and word[MARKER].get("run") == run:
                if word[MARKER].get("committed") != number:
                    raise CorruptStoreError(f"{place.url}/zarr.json is that of another step")
                return dict(word[MARKER])
        return {"committed": 0, "converged": False}

    def _steps(self) -> list[int]:
        """Numbers of steps of which anything is there."""
        return [int(name) for name in (self / "steps").names() if name.isdecimal()]

    def commit(
        self, state: Any, history: Sequence[Record], converged: bool, job: str = "", run: str | None = None
    ) -> None:
        """Write a state and the history up to it, then say so in one write; older states go.

        `run` is the name of the run that the job began or went on with; asked for where it is not given.  By it what a
        job commits that stood still while another began anew counts for nothing.

        Raises
        ------
        LockLostError
            Where another job than the one named has committed that step.
        """
        run, step = run or self.name(), self / _step(state.step)
        word = {"committed": state.step, "converged": converged, "run": run, "job": job}
        word[CONTENTS] = self._write_step(step, state, history, run)
        try:
            create_group(step, {MARKER: word}, anew=True)
        except FileExistsError:
            there = attributes_of(step).get(MARKER, {})
            if there.get("run") != run and self.name() == run:  # of a job that stood still
                self._remove_step(state.step)
                self.commit(state, history, converged, job, run)
            elif there != word:  # or else it was written, but the answer was lost
                raise LockLostError(f"another job has committed step {state.step} of {self.path}") from None
        if self.name() == run:  # or else the older steps are of a run begun anew
            self._prune(state.step)

    def _write_step(self, step: Location, state: Any, history: Sequence[Record], run: str) -> dict[str, str]:
        """Write all of a step but that it is committed; return the digests of the contents."""
        values = values_of(state)
        layout = {name: [value.dtype.str, list(value.shape)] for name, value in values.items()}
        packed = np.concatenate([value.astype(np.float64).ravel() for value in values.values()])
        state_content = write(step / "state", packed, attributes={"layout": layout, "run": run})
        return {"state": state_content, "history": write(step / "history", _table(history))}

    def restore(self, kind: type[State]) -> tuple[State, list[Record], bool]:
        """The last committed state, its history, and whether it is the end."""
        word = self._word()
        step = self / _step(word["committed"])
        with as_written(step / "state"):
            if dict(open_whole(step / "state").attrs).get("run", word["run"]) != word["run"]:
                raise CorruptStoreError(
                    f"{(step / 'state').url} was written over by a job that stood still: use --force"
                )
            packed, attributes = read(step / "state", word[CONTENTS]["state"])
            layout = attributes["layout"]
            sizes = [math.prod(shape) for _, shape in layout.values()]
            parts = np.split(packed, np.cumsum(sizes)[:-1])
            values = {
                name: part.astype(dtype).reshape(shape)
                for (name, (dtype, shape)), part in zip(layout.items(), parts, strict=True)
            }
            state = state_of(kind, values)
            history = _records(read(step / "history", word[CONTENTS]["history"])[0])
        return state, history, bool(word["converged"])

    def discard(self) -> None:
        """Remove what a job that is no more may have left of the steps after the last one that is committed."""
        last = self.committed()
        for number in self._steps():
            if number > last:
                self._remove_step(number)

    def shelf(self, holder: lock.Holder | None = None) -> "Files":
        """Where fits of the rows keep how far they have come, until a step is committed or the output is whole.

        Nothing is kept once another than `holder` has the lock.
        """
        return Files(self / f"steps/{SEARCHES}", holder)

    def keeps_searches(self) -> bool:
        """Whether anything is there."""
        return next(iter((self / f"steps/{SEARCHES}").entries()), None) is not None

    def _prune(self, newest: int) -> None:
        self._remove_searches()
        for number in self._steps():
            if number < newest - 1:
                self._remove_step(number)

    def _remove_searches(self) -> None:
        kept = (self / f"steps/{SEARCHES}").entries()
        self.location.remove([f"steps/{SEARCHES}/{entry}" for entry in kept])

    def _remove_step(self, number: int) -> None:
        """Remove what is ours of a step; that it is committed is taken back first."""
        entries = [f"{_step(number)}/{entry}" for entry in (self / _step(number)).entries()]
        word = f"{_step(number)}/zarr.json"
        self.location.remove(entry for entry in (word,) if word in entries)
        self.location.remove(entry for entry in entries if entry != word and _is_ours(entry))

    # The result

    def finish(
        self,
        draft: "Draft",
        arrays: Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]],
        history: Sequence[Record],
        manifest: dict[str, Any],
    ) -> None:
        """Write the result, beside what the draft holds, then the root metadata that makes it one."""
        columns = {field.name: [getattr(record, field.name) for record in history] for field in fields(Record)}
        steps = {
            name: (np.array(column, np.int64 if name in INTEGERS else np.float64), ("step",))
            for name, column in columns.items()
        }
        for name, (values, dimensions) in {**arrays, **steps}.items():
            draft.write(name, values, dimensions)
        self.seal(draft, manifest | {"arrays": sorted(arrays)})

    def seal(self, draft: "Draft", manifest: dict[str, Any]) -> None:
        """Write the root metadata of a group whose arrays are whole; of all but a run the mark goes then."""
        write_root(self.location, {MARKER: manifest, CONTENTS: draft.contents}, draft.names)
        if manifest["kind"] != "run":
            self._remove_searches()
            self.location.remove([MARK])

    @contextmanager
    def whole(self, kind: str) -> Iterator["Whole"]:
        """A whole output of some kind; where what is read inside is none of ours, that is said.

        Raises
        ------
        InputError
            Where there is no whole output of this kind.
        CorruptStoreError
            Where the attributes are other than ours.
        """
        attributes = attributes_of(self.location)
        if MARKER not in attributes or attributes[MARKER].get("kind") != kind:
            raise InputError(f"{self.path} holds {self._instead_of(kind)}")
        with as_written(self.location, kind):
            yield Whole(self.location, checked_manifest(attributes, self.path), attributes[CONTENTS])

    def _instead_of(self, kind: str) -> str:
        """What is there, where no whole output of some kind is."""
        there = self.kind()
        if there is None:
            return f"no {kind} of ours"
        if self.finished():
            return f"{with_article(there)}, no {kind} of ours"
        ways = "--resume goes on with it" if there in ("run", "path") else "make it again with --force"
        return f"{with_article(there)} that has not finished: {ways}"

    def result(self) -> "Result":
        """The whole result.

        Raises
        ------
        InputError
            Where there is no finished run of ours.
        CorruptStoreError
            Where a chunk is missing or does not match its checksum.
        """
        with self.whole("run") as found:
            check_types(found.manifest, OUR_NAMES)
            history = np.column_stack([found.read(field.name) for field in fields(Record)])
            values = {name: found.read(name) for name in found.manifest["arrays"]}
            check_shapes(found.manifest, values)
            shown = [history[:, place] for place, field in enumerate(fields(Record)) if field.name in FINITE]
            if not (len(history) and np.isfinite(shown).all()):
                raise ValueError(f"the history holds no steps, or no finite number as one of {', '.join(FINITE)}")
            return Result(found.manifest, values, _records(history), self, found)


@dataclass(frozen=True)
class Draft:
    """What was written of an output that is not whole yet."""

    store: RunStore
    contents: dict[str, str] = field(default_factory=dict)
    """Digests of the contents of small arrays, and of tables of digests of the chunks of others, by name."""

    @property
    def names(self) -> list[str]:
        """Groups and arrays of which the root metadata tell."""
        tables = [name for name in self.contents if name.startswith(f"{TABLES}/")]
        rows = [name.removeprefix(f"{TABLES}/") for name in tables]
        return sorted([*self.contents, *rows, *([TABLES] if tables else [])])

    def write(self, name: str, values: np.ndarray[Any, Any], dimensions: tuple[str, ...]) -> None:
        """Write a small array."""
        self.contents[name] = write(self.store / name, values, dimensions)

    def create_rows(
        self, name: str, shape: tuple[int, ...], chunk_rows: int, dtype: Any, dimensions: tuple[str, ...] = ("row",)
    ) -> "zarr.Array[Any]":
        """A new array over the rows, in chunks that a task writes whole."""
        return create(self.store / name, shape, np.dtype(dtype), dimensions, chunk_rows)

    def keep(self, arrays: "Mapping[str, zarr.Array[Any]]", said: Sequence[Digests]) -> None:
        """Write tables of the digests of all chunks of arrays over the rows, as a `Writer` of these said them."""
        with suppress(FileExistsError):  # of a fit that was resumed
            create_group(self.store / TABLES, {})
        digests = np.concatenate(said)
        for number, (name, array) in enumerate(arrays.items()):
            content = write_table(self.store.location, name, array, np.ascontiguousarray(digests[:, number]))
            self.contents[f"{TABLES}/{name}"] = content


@dataclass(frozen=True)
class Whole:
    """A whole output."""

    location: Location
    manifest: dict[str, Any]
    """What it is."""
    contents: dict[str, str]
    """As `Draft` has them."""

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """A small array, as it was written."""
        return read(self.location / name, self.contents[name])[0]

    def verified(self, name: str, array: "zarr.Array[Any]") -> "zarr.Array[Any]":
        """An array over the rows, whose chunks are compared with their digests as they are read."""
        table = f"{TABLES}/{name}"
        return verified(array, self.location / table, self.contents[table])

    def side_by_side(self, names: Sequence[str], length: int | None = None) -> list[np.ndarray[Any, Any]]:
        """Small arrays that are equally long, as long as the first where `length` is not given."""
        found = [self.read(name) for name in names]
        wanted = len(found[0]) if length is None else length
        for name, values in zip(names, found, strict=True):
            if len(values) != wanted:
                raise CorruptStoreError(f"{(self.location / name).url} holds {len(values):,} entries, not {wanted:,}")
        return found


@dataclass(frozen=True)
class Files:
    """A shelf of files, one a name."""

    location: Location
    holder: lock.Holder | None = None
    """Who may write there."""

    def load(self, name: str) -> bytes | None:
        """What was kept, None where nothing was."""
        fs, where = (self.location / name).files()
        fs.invalidate_cache()
        try:
            content: bytes = fs.cat_file(where)
        except FileNotFoundError:
            return None
        return content

    def save(self, name: str, content: bytes) -> None:
        """Keep it in place of what was kept before.

        Raises
        ------
        LockLostError
            Where another job has the lock.
        """
        if self.holder is not None:
            self.holder.check()
        (self.location / name).write(content)


@dataclass(frozen=True)
class Result:
    """What a finished run holds, labels aside."""

    manifest: dict[str, Any]
    """What the run is: method, parameters, seed, input, versions."""
    arrays: dict[str, np.ndarray[Any, Any]]
    """By name."""
    history: list[Record]
    store: RunStore
    """Where it is."""
    whole: Whole
    """Where the labels are."""

    @property
    def features(self) -> Features | None:
        """What the fit made of each row, once its columns were chosen and scaled."""
        return METRICS[self.manifest["parameters"].get("metric", "euclidean")].features

    @property
    def shared(self) -> bool:
        """Whether several data sets share the clusters."""
        return "local_groups" in self.arrays

    def open_labels(self) -> CheckedArray:
        """The label array, after a look that no chunk is missing."""
        n_rows: int = self.manifest["input"]["shape"][0]
        return self._open("labels", (n_rows,), np.int32, f"{n_rows:,} labels of int32")

    def open_embedding(self) -> CheckedArray | None:
        """The same of the embedding, if it is there: (n, r)."""
        if "eigenvalues" not in self.arrays or "projection" in self.arrays:
            return None
        shape = self.manifest["input"]["shape"][0], len(self.arrays["eigenvalues"])
        return self._open("embedding", shape, np.float64, f"float64 of shape {shape}")

    def _open(self, name: str, shape: tuple[int, ...], dtype: Any, wanted: str) -> CheckedArray:
        place = self.store / name
        array = open_whole(place)
        if array.shape != shape or array.dtype != dtype:
            raise CorruptStoreError(f"{place.url} holds {array.dtype} of shape {array.shape}, not {wanted}")
        with as_written(self.store.location):
            return CheckedArray(self.whole.verified(name, array))


@contextmanager
def new_group(
    out: AnyPlace, kind: str, said: Mapping[str, Any], *, force: bool, inputs: Sequence[Any] = ()
) -> Iterator[Draft]:
    """A group of some kind at a path or URL, to be written inside; readers see it once it is whole.

    Raises
    ------
    InputError
        Where something else is there, or something of the same kind that is not to be removed.
    """
    store = RunStore.at(out)
    with lock.only_job(store.location) as job:
        store.check_target(kind, inputs, force=force)
        store.remove()
        manifest = {"format": FORMAT, "kind": kind, **said}
        store.begin(manifest)
        draft = Draft(store)
        yield draft
        job.check()
        store.seal(draft, manifest)


def _without_mark(entries: Iterable[str]) -> list[str]:
    """Files of an output but the mark and the lock, which another thread may be writing."""
    return [entry for entry in entries if entry != MARK and entry.partition(".")[0] != lock.NAME]


def _is_ours(entry: str) -> bool:
    """Whether a file at a path in an output is one that we write; Zarr drops the ending of what it has half written."""
    begun = PARTIAL.search(entry)
    path = entry if begun is None else entry[: begun.start()]
    return OURS.fullmatch(path) is not None or (begun is not None and OURS.fullmatch(f"{path}.json") is not None)


def _shortest(entry: str) -> str:
    """What to call a file that is not ours: by the folder in which it lies, where that is none of ours either."""
    top = entry.partition("/")[0]
    return entry if top in OUR_NAMES else top


def _step(number: int) -> str:
    """Where a step lies in a run."""
    return f"steps/{number:06d}"


def with_article(kind: str) -> str:
    """A kind of output, as a sentence has it."""
    return f"a {kind}" if kind in ("run", "path", "penalty", "tree") else kind


def _table(history: Sequence[Record]) -> np.ndarray[Any, Any]:
    """(steps, figures) float64: integers below 2**53 are exact."""
    return np.array([[getattr(record, field.name) for field in fields(Record)] for record in history], np.float64)


def _records(table: np.ndarray[Any, Any]) -> list[Record]:
    return [
        Record(**{f.name: int(v) if f.name in INTEGERS else v for f, v in zip(fields(Record), row, strict=True)})
        for row in table.tolist()
    ]
