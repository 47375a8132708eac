"""Checkpoints: states saved inside a long step, so that a stopped job goes on to the same bytes.

A checkpoint is named by a digest of all that the answer depends on: the rows, the method, the
start, and the fields of the states.  So only the very same fit finds it.  A checkpoint that is
damaged, missing or lacks a field, as one of another version may, is ignored: that fit starts anew.
"""

import hashlib
import io
from collections.abc import Callable
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, is_dataclass
from time import monotonic
from types import NoneType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from dask_dpmeans.errors import AbandonedError, LockLostError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from typing_extensions import TypeIs

SAVE_EVERY = 5.0
"""Least seconds between two saves of a checkpoint."""
PREFIX = "prefix"
"""Metadata key of a nested dataclass: the prefix of the saved names of its fields."""
State = TypeVar("State", bound="DataclassInstance")
Restored = TypeVar("Restored")
Arrays = dict[str, np.ndarray[Any, Any]]
"""Arrays by name."""
PLAIN = (bool, int, float, str, bytes, NoneType, np.generic)
"""Types of values that `repr` tells apart."""


class CheckpointStore(Protocol):
    """A keeper of checkpoints by name."""

    def load(self, name: str) -> bytes | None:
        """Return the saved content, None if there is none."""

    def save(self, name: str, content: bytes) -> None:
        """Replace the saved content.  A reader sees the old one or the new one."""


class Checkpointed(Protocol):
    """Rows whose fits may save checkpoints."""

    @property
    def identity(self) -> str:
        """Digest of the rows."""

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Where fits of the rows save their states; None to save nothing."""


@dataclass
class Checkpoint:
    """The latest state of one fit, saved from time to time, at the end, and on an interruption."""

    store: CheckpointStore | None
    """None to save nothing."""
    name: str
    unsaved: Arrays | None = None
    """The latest state, if it is not saved yet."""
    saved_at: float = field(default_factory=monotonic)
    """Time of the last save, in seconds."""

    @classmethod
    def of(cls, rows: Checkpointed, *parts: object) -> Self:
        """Return the checkpoint of a fit whose answer depends on the rows and on `parts`."""
        if rows.checkpoints is None:
            return cls(None, "")
        return cls(rows.checkpoints, digest(rows.identity, *parts))

    def restore(self, build: Callable[[Arrays], Restored]) -> Restored | None:
        """Call `build` with the saved values; return None if they are damaged or lack a name."""
        if self.store is None:
            return None
        content = self.store.load(self.name)
        values = None if content is None else _unpack(content)
        with suppress(KeyError):
            return None if values is None else build(values)
        return None

    def update(self, values: Arrays, *, over: bool = False) -> None:
        """Take the latest state, and save it if it is time to, or if the fit is over."""
        self.unsaved = values
        if over or monotonic() >= self.saved_at + SAVE_EVERY:
            self._save()

    def _save(self) -> None:
        if self.store is not None and self.unsaved is not None:
            self.store.save(self.name, _pack(self.unsaved))
            self.unsaved, self.saved_at = None, monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A cancelled task of a cluster saves nothing: another job may be at work on the store.
        if kind is not None and issubclass(kind, KeyboardInterrupt | AbandonedError):
            with suppress(OSError, LockLostError):  # the interruption is what counts
                self._save()


def digest(*parts: object) -> str:
    """Return a digest of arrays, numbers, texts, dataclasses with their classes, and sequences.

    Arrays may be sparse: other orders of the same stored values have the same digest.  A value of
    any other type raises `TypeError`, since its `repr` may not tell all of it.
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, type) and is_dataclass(part):
            names = ",".join(each.name for each in fields(part))
            found.update(f"{part.__qualname__}({names})".encode())
        elif is_dataclass(part):
            inner = [getattr(part, each.name) for each in fields(part) if each.compare]
            found.update(f"{type(part).__qualname__}{digest(type(part), *inner)}".encode())
        elif isinstance(part, list | tuple):
            found.update(f"{len(part)}[{digest(*part)}]".encode())
        elif isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        elif issparse(part):
            found.update(f"sparse{digest(*_canonical(csr_array(part, copy=True)))}".encode())
        elif isinstance(part, PLAIN):
            found.update(f"{type(part).__name__}:{part!r};".encode())
        else:
            raise TypeError(f"no digest of a {type(part).__name__} is known")
    return found.hexdigest()


def _canonical(rows: csr_array) -> tuple[Any, ...]:
    """Return shape, values, columns and ends of rows, (n, d), after their columns are sorted."""
    rows.sum_duplicates()
    return rows.shape, rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)


def values_of(state: "DataclassInstance", prefix: str = "") -> Arrays:
    """Return the fields of a state by name, arrays of any shape (...) and numbers as 0-d arrays.

    A state is a dataclass of arrays, numbers and further such dataclasses.

    The field ``b`` of a dataclass in the field ``a`` is ``a_b``; metadata of ``a`` may give another prefix.
    """
    values: Arrays = {}
    for each in fields(state):
        value = getattr(state, each.name)
        if _is_nested(value) and not isinstance(value, type):
            values |= values_of(value, _inner_prefix(each, prefix))
        else:
            values[prefix + each.name] = np.asarray(value)
    return values


def state_of(kind: type[State], values: Arrays, prefix: str = "") -> State:
    """Return the state with these values as its fields; 0-d arrays become numbers."""
    given: dict[str, Any] = {}
    for each in fields(kind):
        if _is_nested(each.type) and isinstance(each.type, type):
            given[each.name] = state_of(each.type, values, _inner_prefix(each, prefix))
        else:
            value = values[prefix + each.name]
            given[each.name] = value if value.ndim else value.item()
    return kind(**given)


def _is_nested(value: object) -> "TypeIs[DataclassInstance | type[DataclassInstance]]":
    """Return whether a value, or a type, is a dataclass whose fields are saved one by one."""
    return is_dataclass(value) and not hasattr(value, "__array__")


def _inner_prefix(each: Field[Any], prefix: str) -> str:
    return prefix + str(each.metadata.get(PREFIX, f"{each.name}_"))


def _pack(values: Arrays) -> bytes:
    """Return arrays in NumPy's own format, after their digest."""
    buffer = io.BytesIO()
    np.savez(buffer, **values)  # type: ignore[arg-type]
    content = buffer.getvalue()
    return hashlib.sha256(content).digest() + content


def _unpack(packed: bytes) -> Arrays | None:
    """Return the arrays, or None if they are not as they were written."""
    size = hashlib.sha256().digest_size
    if hashlib.sha256(packed[size:]).digest() != packed[:size]:
        return None
    with np.load(io.BytesIO(packed[size:]), allow_pickle=False) as arrays:
        return dict(arrays)
