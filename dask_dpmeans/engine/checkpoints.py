"""How far fits of rows have come, kept so that what was stopped goes on from there to the same bytes.

A fit is known by a digest of all that its answer hangs on: rows, method and start, and the names of the fields of its
states.  Whoever asks for the same fit again finds its states, and nobody else does.  What is damaged, missing or lacks
a field, as what another version kept may, counts for nothing: that fit begins anew.
"""

import hashlib
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields, is_dataclass
from time import monotonic
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from dask_dpmeans.errors import AbandonedError, LockLostError

EVERY = 5.0
"""Seconds, at least, from one state that is kept to the next."""
DIGEST_BYTES = 32
PREFIX = "prefix"
"""Metadata of a field that holds a dataclass: the prefix of the names under which its fields are saved."""
State = TypeVar("State")
Kept = TypeVar("Kept")
Values = Mapping[str, np.ndarray[Any, Any]]


class Shelf(Protocol):
    """Where states are kept, by names."""

    def load(self, name: str) -> bytes | None:
        """What was kept, None where nothing was."""
        ...

    def save(self, name: str, content: bytes) -> None:
        """Keep it in place of what was kept before; a reader sees one or the other."""
        ...


class Shelved(Protocol):
    """Rows that may have a shelf."""

    @property
    def identity(self) -> str:
        """What tells the rows from others."""
        ...

    @property
    def shelf(self) -> Shelf | None:
        """Where fits of them keep how far they have come."""
        ...


@dataclass
class Bookmark:
    """The last state of one fit, which is kept from time to time, at its end, and where the fit is interrupted."""

    shelf: Shelf | None
    """None where nothing is kept."""
    name: str
    latest: Values | None = None
    """What is not kept yet."""
    kept: float = field(default_factory=monotonic)
    """When a state was kept last."""

    @classmethod
    def of(cls, rows: Shelved, *parts: Any) -> Self:
        """The bookmark of the fit of rows whose answer hangs on these parts, the class of its states among them."""
        return cls(rows.shelf, "" if rows.shelf is None else digest(rows.identity, *parts))

    def reached(self, restored: Callable[[Values], Kept]) -> Kept | None:
        """What is restored from the values kept last, None where there are none, or they are damaged or lack a name."""
        content = None if self.shelf is None else self.shelf.load(self.name)
        values = None if content is None else _unpacked(content)
        with suppress(KeyError):
            return None if values is None else restored(values)
        return None

    def note(self, values: Values, *, over: bool = False) -> None:
        """Note a state, and keep it if it is time to or the fit is over."""
        self.latest = values
        if self.shelf is not None and (over or monotonic() >= self.kept + EVERY):
            self._keep(self.shelf)

    def _keep(self, shelf: Shelf) -> None:
        if self.latest is not None:
            shelf.save(self.name, _packed(self.latest))
            self.latest, self.kept = None, monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A task of a cluster that was cancelled keeps nothing: another job may be at work on the store by now.
        if self.shelf is not None and kind is not None and issubclass(kind, KeyboardInterrupt | AbandonedError):
            with suppress(OSError, LockLostError):  # the interruption is what counts
                self._keep(self.shelf)


def digest(*parts: Any) -> str:
    """A digest of arrays, numbers, texts, classes of data, and dataclasses and sequences of such."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, type) and is_dataclass(part):
            found.update(f"{part.__qualname__}({','.join(each.name for each in fields(part))})".encode())
        elif is_dataclass(part):
            inner = [getattr(part, each.name) for each in fields(part) if each.compare]
            found.update(f"{type(part).__qualname__}{digest(type(part), *inner)}".encode())
        elif isinstance(part, list | tuple):
            found.update(f"{len(part)}[{digest(*part)}]".encode())
        elif isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(f"{type(part).__name__}:{part!r};".encode())
    return found.hexdigest()


def values_of(state: Any, prefix: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Return the fields of a state by name: a dataclass of arrays, numbers and further such dataclasses.

    The field ``b`` of a dataclass in the field ``a`` is ``a_b``; metadata of ``a`` may give another prefix.
    """
    values: dict[str, np.ndarray[Any, Any]] = {}
    for each in fields(state):
        value = getattr(state, each.name)
        if is_dataclass(value):
            values |= values_of(value, _inner_prefix(each, prefix))
        else:
            values[prefix + each.name] = np.asarray(value)
    return values


def state_of(kind: type[State], values: Values, prefix: str = "") -> State:
    """Return the state whose fields these are; `KeyError` if one is missing."""
    given: dict[str, Any] = {}
    for each in fields(kind):  # type: ignore[arg-type]
        if isinstance(each.type, type) and is_dataclass(each.type):
            given[each.name] = state_of(each.type, values, _inner_prefix(each, prefix))
        else:
            value = values[prefix + each.name]
            given[each.name] = value if value.ndim else value.item()
    return kind(**given)


def _inner_prefix(each: Field[Any], prefix: str) -> str:
    return prefix + str(each.metadata.get(PREFIX, f"{each.name}_"))


def _packed(values: Values) -> bytes:
    """Arrays in NumPy's own format, after their digest."""
    buffer = io.BytesIO()
    np.savez(buffer, **values)  # type: ignore[arg-type]
    content = buffer.getvalue()
    return hashlib.sha256(content).digest() + content


def _unpacked(packed: bytes) -> Values | None:
    """The arrays, None where these are not as they were written."""
    written, content = packed[:DIGEST_BYTES], packed[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != written:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)
