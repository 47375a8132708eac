"""Locations of stores: a path of this machine, or a URL with the options of its file system."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError, redact
from dask_dpmeans.lazy import LazyModule

if TYPE_CHECKING:
    import fsspec
    import zarr
else:
    fsspec, zarr = LazyModule("fsspec"), LazyModule("zarr")

READ_ONLY = ("http", "https")
"""Protocols without writing."""
LOCAL = re.compile(r"^(file|local):(//|(?=/))")
"""The beginning of a URL of a path of this machine; RFC 8089 allows one slash."""
ONE_SLASH = re.compile(
    r"(s3a?|gs|gcs|abfss?|az|adl|hdfs|webhdfs|https?|s?ftp|ssh|memory):/(?!/)", re.IGNORECASE
)
"""The beginning of a URL that lacks a slash."""
PATTERN = re.compile(r"[*?\[]")
"""Characters that remote file systems take for patterns of names when they remove files."""
DEFAULTS = {"s3": {"max_concurrency": 1}, "s3a": {"max_concurrency": 1}}
"""Options that are set by default: Zarr reads many chunks at once, and s3fs would ask for the size
of each first."""


def check_slashes(text: str, *, a_path: bool = False) -> None:
    """Raise `InputError` if a text is a URL that lacks a slash, as `Path` makes of one."""
    if ONE_SLASH.match(text):
        meant = redact(text.replace(":/", "://", 1))
        given = meant.replace("://", ":/", 1)
        as_text = " as text, since a Path keeps one slash" if a_path else ""
        raise InputError(
            f"{given!r} is a URL with one slash: give {meant!r}{as_text}, or for a local path './{given}'"
        )


@dataclass(frozen=True)
class Location:
    """A path or URL."""

    url: str
    """An absolute path, so that workers elsewhere find it, or a URL."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of fsspec for a URL: endpoints, credentials."""

    @classmethod
    def at(
        cls,
        place: "str | os.PathLike[str] | Location",
        storage_options: Mapping[str, Any] | None = None,
        name: str = "a place",
    ) -> "Location":
        """Return the location at a path or URL, called `name` in errors; only URLs have options.

        A ``~`` at the start of a path is the home of the user, as in pandas and xarray.
        """
        if isinstance(place, Location):
            return place
        text = os.fspath(place) if isinstance(place, str | os.PathLike) else None
        if not isinstance(text, str) or not text or "\0" in text:
            message = f"{name} must be a path or URL, got {checks.describe_value(place)}"
            if type(place).__module__ != "builtins":  # such as an xarray Dataset
                message += ": give the path or URL of the store"
            raise InputError(message)
        check_slashes(text, a_path=not isinstance(place, str))
        text = LOCAL.sub("", text, count=1)
        protocol, url, _ = text.partition("://")
        if not url:
            return cls(os.path.abspath(os.path.expanduser(text)))
        return cls(text, DEFAULTS.get(protocol, {}) | checked_options(storage_options))

    @property
    def remote(self) -> bool:
        """Whether it is not on the file systems of this machine."""
        return "://" in self.url

    @property
    def read_only(self) -> bool:
        """Whether its protocol cannot write."""
        return self.url.partition("://")[0] in READ_ONLY

    @property
    def writable(self) -> bool:
        """Whether its folder can be written, as far as is known: of URLs only their protocol is."""
        if self.remote:
            return not self.read_only
        return os.access(self.url, os.W_OK)

    @property
    def shown(self) -> str:
        """The path or URL without credentials."""
        return redact(self.url)

    def __truediv__(self, name: str) -> "Location":
        return Location(f"{self.url.rstrip('/')}/{name}", self.options)

    def store(self) -> "str | zarr.storage.FsspecStore":
        """Return the store that Zarr opens."""
        if not self.remote:
            return self.url
        self.files()  # refuses unknown protocols and options
        return zarr.storage.FsspecStore.from_url(self.url, storage_options=dict(self.options))

    def files(self) -> "tuple[fsspec.AbstractFileSystem, str]":
        """Return the file system, and the path there."""
        try:
            found: tuple[fsspec.AbstractFileSystem, str]
            found = fsspec.core.url_to_fs(self.url, **self.options)
            return found
        except (ImportError, TypeError, ValueError) as error:  # no such package, protocol or option
            raise InputError(f"{self.shown} cannot be reached: {error}") from error

    def names(self) -> list[str]:
        """Return the names of the files and folders in it, sorted; none if it does not exist."""
        fs, where = self.files()
        fs.invalidate_cache()
        try:
            found = {path.rstrip("/") for path in fs.ls(where, detail=False)}
            return sorted(path.rpartition("/")[2] for path in found - {where.rstrip("/")})
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (AttributeError, LookupError, TypeError, ValueError) as error:  # on connecting
            raise InputError(
                f"{self.shown} cannot be reached with the storage options given: {error}"
            ) from error

    def is_absent(self) -> bool:
        """Return whether nothing is at a URL, as its store says; web servers tell of files alone."""
        if self.read_only:
            return False
        fs, where = self.files()
        fs.invalidate_cache()
        try:
            fs.info(where)
        except FileNotFoundError:
            return True
        except Exception:  # of the store, which may not tell
            return False
        return False

    def entries(self) -> Iterator[str]:
        """Yield the relative paths of all files and of links to folders, not followed."""
        fs, where = self.files()
        if self.remote:
            if self.names():  # raises if the store does not answer
                yield from (
                    path.rstrip("/")[len(where.rstrip("/")) + 1 :] for path in fs.find(where)
                )
            return
        for folder, folders, files in os.walk(self.url):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*files, *links):
                yield os.path.relpath(os.path.join(folder, name), self.url).replace(os.sep, "/")

    def remove(self, entries: Iterable[str]) -> None:
        """Remove files, and local folders that are then empty.  A missing file is no error."""
        paths = list(entries)
        if self.remote:
            self._remove_objects(paths)
            return
        for path in paths:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.url, path))
        folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents} - {"."}
        for folder in sorted(folders, key=len, reverse=True):
            with suppress(OSError):  # something else lies in it
                os.rmdir(os.path.join(self.url, folder))

    def remove_empty(self) -> None:
        """Remove the folder if it is local and empty."""
        if not self.remote:
            with suppress(OSError):
                os.rmdir(self.url)

    def move(self, to: "Location") -> None:
        """Move all files in it to a place where nothing is; a missing folder is no error.

        On local disks that is one renaming; elsewhere each file is copied, then all are removed.
        """
        if not self.remote:
            os.makedirs(os.path.dirname(to.url), exist_ok=True)
            with suppress(FileNotFoundError):
                os.rename(self.url, to.url)
            return
        paths = list(self.entries())
        fs, where = self.files()
        there = to.files()[1].rstrip("/")
        for path in paths:
            fs.cp_file(f"{where.rstrip('/')}/{path}", f"{there}/{path}")
        self.remove(paths)

    def is_folder(self) -> bool:
        """Return whether it is a folder, or holds objects."""
        if not self.remote:
            return os.path.isdir(self.url)
        fs, where = self.files()
        return bool(fs.isdir(where))

    def _remove_objects(self, paths: list[str]) -> None:
        fs, where = self.files()
        keys = [f"{where.rstrip('/')}/{path}" for path in paths]
        if len(keys) > 1:
            with suppress(FileNotFoundError):  # some file systems raise it if one of them is gone
                fs.rm(keys)
                return
        for key in keys:
            with suppress(FileNotFoundError):
                fs.rm_file(key)

    def read(self) -> bytes:
        """Return the content of a file, or raise `FileNotFoundError`."""
        if not self.remote:
            with open(self.url, "rb") as file:
                return file.read()
        fs, where = self.files()
        fs.invalidate_cache()
        content: bytes = fs.cat_file(where)
        return content

    def read_files(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of files in it, by their names, without the files that cannot be read.

        A remote store is asked for all at once.
        """
        found: dict[str, bytes] = {}
        if not self.remote:
            for name in names:
                with suppress(OSError):
                    found[name] = (self / name).read()
            return found
        fs, where = self.files()
        wanted = list(names)
        paths = [f"{where.rstrip('/')}/{name}" for name in wanted]
        whole = [None] * len(paths)
        contents = fs.cat_ranges(paths, whole, whole)  # `cat` takes brackets for patterns
        for name, content in zip(wanted, contents, strict=True):
            if isinstance(content, bytes):
                found[name] = content
        return found

    def write_files(self, contents: Mapping[str, bytes]) -> None:
        """Write files in it, by their names, each as `write` does; to a remote store all at once."""
        if not self.remote:
            for name, content in contents.items():
                (self / name).write(content)
            return
        fs, where = self.files()
        fs.pipe({f"{where.rstrip('/')}/{name}": content for name, content in contents.items()})

    def write(self, content: bytes) -> None:
        """Write one file; readers see the old content or the new one, never a part."""
        if self.remote:
            fs, where = self.files()
            fs.pipe_file(where, content)
            return
        folder = os.path.dirname(self.url)
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
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
        """Write one file that does not exist yet.

        If two writers try at once, one succeeds on stores with conditional writes: S3 and
        compatible stores, Google Cloud Storage, Azure, and local disks.  The other one gets a
        `FileExistsError`.
        """
        if not self.remote:
            with open(self.url, "xb") as file:
                file.write(content)
            return
        fs, where = self.files()
        try:
            fs.pipe_file(where, content, mode="create")
        except (NotImplementedError, TypeError):  # no conditional writes
            if fs.exists(where):
                raise FileExistsError(self.shown) from None
            fs.pipe_file(where, content)
        except FileNotFoundError as error:  # there is no such bucket
            raise InputError(f"{self.shown} cannot be written: {error}") from error


def checked_options(storage_options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return storage options as a dictionary; refuse anything but a mapping or None."""
    if not (storage_options is None or isinstance(storage_options, Mapping)):
        raise InputError(
            f"storage_options must be a mapping or None, got {checks.describe_value(storage_options)}"
        )
    return dict(storage_options or {})


def check_options(storage_options: Mapping[str, Any] | None, *places: Any) -> None:
    """Refuse storage options if none of the places is a URL."""
    checked_options(storage_options)
    named = [place for place in places if isinstance(place, str | os.PathLike | Location)]
    if storage_options and not any(Location.at(place).remote for place in named):
        raise InputError(
            f"storage options are for URLs, and no URL is given here: leave {', '.join(storage_options)} out"
        )


def place_of(data: Any) -> Location | None:
    """Return the location of data; None for data in memory."""
    if isinstance(data, str | os.PathLike | Location):
        return Location.at(data)
    store = getattr(data, "store", None)
    if store is not None and isinstance(store, zarr.storage.LocalStore):
        return Location.at(Path(store.root, data.path))
    return None


def shown_path(data: Any) -> str | None:
    """Return the path or URL of data without credentials; None for data in memory."""
    place = place_of(data)
    return None if place is None else place.shown


def locations_overlap(one: Location, other: Location) -> bool:
    """Return whether one of two locations lies in the other, or equals it."""
    if one.remote or other.remote:
        first, second = (f"{place.url.rstrip('/')}/" for place in (one, other))
        return first.startswith(second) or second.startswith(first)
    first, second = (os.path.realpath(place.url) for place in (one, other))
    return os.path.commonpath([first, second]) in (first, second)


AnyPlace = str | os.PathLike[str] | Location
"""Types of the arguments that name a location."""
