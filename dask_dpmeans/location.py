"""Where something is stored: a path of this machine or a URL, and what the file system there has to be told."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import uuid4

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from zarr.storage import FsspecStore, LocalStore

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError, redacted

READ_ONLY = ("http", "https")
"""Protocols that nothing can be written by."""
LOCAL = ("file://", "local://")
"""How URLs of paths of this machine begin."""
PATTERN = re.compile(r"[*?\[]")
"""What file systems elsewhere take for patterns of names, as they remove."""
DEFAULTS = {"s3": {"max_concurrency": 1}, "s3a": {"max_concurrency": 1}}
"""Options where none are given: Zarr asks for many chunks at once, and s3fs would ask for the size of each first."""


@dataclass(frozen=True)
class Location:
    """A path or URL."""

    url: str
    """An absolute path, so that workers elsewhere find it, or a URL."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What fsspec takes for a URL: endpoints, credentials."""

    @classmethod
    def at(
        cls,
        place: "str | os.PathLike[str] | Location",
        storage_options: Mapping[str, Any] | None = None,
        name: str = "a place",
    ) -> "Location":
        """The location at a path or URL; options are for URLs, a path has no use for them.

        An error calls the place by `name`.
        """
        if isinstance(place, Location):
            return place
        text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
        if not isinstance(text, str) or not text or "\0" in text:
            raise InputError(f"{name} must be a path or URL, got {checks.shown(place)}")
        for beginning in LOCAL:
            text = text.removeprefix(beginning)
        protocol, url, _ = text.partition("://")
        if not url:
            return cls(os.path.abspath(text))
        return cls(text, DEFAULTS.get(protocol, {}) | checked_options(storage_options))

    @property
    def remote(self) -> bool:
        """Whether it is elsewhere than on this machine's file systems."""
        return "://" in self.url

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written there, as its protocol tells."""
        return self.url.partition("://")[0] in READ_ONLY

    @property
    def shown(self) -> str:
        """The path or URL without credentials."""
        return redacted(self.url)

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.url.rstrip('/')}/{name}", self.options)

    def store(self) -> str | FsspecStore:
        """What Zarr opens."""
        if not self.remote:
            return self.url
        self.files()  # which refuses what cannot be
        return FsspecStore.from_url(self.url, storage_options=dict(self.options))

    def files(self) -> tuple[AbstractFileSystem, str]:
        """The file system, and the path there."""
        try:
            found: tuple[AbstractFileSystem, str] = url_to_fs(self.url, **self.options)
            return found
        except (ImportError, TypeError, ValueError) as error:  # no such package, protocol or option
            raise InputError(f"{self.shown} cannot be reached: {error}") from error

    def names(self) -> list[str]:
        """The names of what lies in it, sorted; none where there is nothing."""
        fs, where = self.files()
        fs.invalidate_cache()
        try:
            found = {path.rstrip("/") for path in fs.ls(where, detail=False)}
            return sorted(path.rpartition("/")[2] for path in found - {where.rstrip("/")})
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # as the file system connects
            raise InputError(f"{self.shown} cannot be reached with the storage options given: {error}") from error

    def entries(self) -> Iterator[str]:
        """Paths, within it, of all files that lie in it; also of links to folders, which are not followed."""
        fs, where = self.files()
        if self.remote:
            if self.names():  # which says where the store does not answer
                yield from (path.rstrip("/")[len(where.rstrip("/")) + 1 :] for path in fs.find(where))
            return
        for folder, folders, files in os.walk(self.url):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*files, *links):
                yield os.path.relpath(os.path.join(folder, name), self.url).replace(os.sep, "/")

    def remove(self, entries: Iterable[str] | None = None) -> None:
        """Remove files in it, and folders of this machine that are empty then; all of it where no files are named.

        One that is gone already is no error.
        """
        paths = list(self.entries() if entries is None else entries)
        if self.remote:
            self._remove_objects(paths)
            return
        for path in paths:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.url, path))
        folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"."}
        whole = [""] if entries is None else []
        for folder in [*sorted(folders, key=len, reverse=True), *whole]:
            with suppress(OSError):  # something else lies in it
                os.rmdir(os.path.join(self.url, folder))

    def remove_empty(self) -> None:
        """Remove the folder where it is one of this machine and nothing lies in it."""
        if not self.remote:
            with suppress(OSError):
                os.rmdir(self.url)

    def _remove_objects(self, paths: list[str]) -> None:
        fs, where = self.files()
        keys = [f"{where.rstrip('/')}/{path}" for path in paths]
        if len(keys) > 1:
            with suppress(FileNotFoundError):  # as some file systems say where one of them is gone
                fs.rm(keys)
                return
        for key in keys:
            with suppress(FileNotFoundError):
                fs.rm_file(key)

    def write(self, content: bytes) -> None:
        """Write one file; whoever reads meanwhile sees what was there or this, never half of it."""
        if self.remote:
            fs, where = self.files()
            fs.pipe_file(where, content)
            return
        os.makedirs(os.path.dirname(self.url), exist_ok=True)
        written = f"{self.url}.{uuid4().hex}.partial"
        try:
            with open(written, "wb") as file:
                file.write(content)
            os.replace(written, self.url)
        except BaseException:
            with suppress(OSError):
                os.unlink(written)
            raise

    def create(self, content: bytes) -> None:
        """Write one file that is not there yet.

        Of two who try at once one succeeds, where the store has conditional writes: S3 and what is compatible with it,
        Google Cloud Storage, Azure, and local disks.

        Raises
        ------
        FileExistsError
            It is there.
        """
        if not self.remote:
            with open(self.url, "xb") as file:
                file.write(content)
            return
        fs, where = self.files()
        try:
            fs.pipe_file(where, content, mode="create")
        except (NotImplementedError, TypeError):  # a file system that cannot tell
            if fs.exists(where):
                raise FileExistsError(self.shown) from None
            fs.pipe_file(where, content)
        except FileNotFoundError as error:  # of object stores the bucket alone has to be there
            raise InputError(f"{self.shown} cannot be written: {error}") from error


def checked_options(storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Storage options, which are names and values."""
    if not (storage_options is None or isinstance(storage_options, Mapping)):
        raise InputError(f"storage_options must be a mapping or None, got {checks.shown(storage_options)}")
    return dict(storage_options or {})


def check_options(storage_options: Mapping[str, Any] | None, *places: Any) -> None:
    """Refuse storage options that none of the places has a use for."""
    checked_options(storage_options)
    named = [place for place in places if isinstance(place, str | os.PathLike | Location)]
    if storage_options and not any(Location.at(place).remote for place in named):
        raise InputError(
            f"storage options are for URLs, and no URL is given here: leave {', '.join(storage_options)} out"
        )


def place_of(data: Any) -> Location | None:
    """Where data lies, if that can be told; what is in memory lies nowhere."""
    if isinstance(data, str | os.PathLike | Location):
        return Location.at(data)
    store = getattr(data, "store", None)
    return Location.at(Path(store.root, data.path)) if isinstance(store, LocalStore) else None


def shown_path(data: Any) -> str | None:
    """The path or URL of data, without credentials; None where it has none, as what is in memory."""
    place = place_of(data)
    return None if place is None else place.shown


def overlapping(one: Location, other: Location) -> bool:
    """Whether one of two places lies in the other, or is it."""
    if one.remote or other.remote:
        first, second = (f"{place.url.rstrip('/')}/" for place in (one, other))
        return first.startswith(second) or second.startswith(first)
    first, second = (os.path.realpath(place.url) for place in (one, other))
    return os.path.commonpath([first, second]) in (first, second)


AnyPlace = str | os.PathLike[str] | Location
"""What places are given as."""
