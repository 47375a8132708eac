"""A run, a path or a tree as one page of HTML that a person would send to a colleague: it opens without a network."""

import os
from pathlib import Path
from typing import Any, Unpack

from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.errors import InputError
from dask_dpmeans.report import path_page, run_page, tree_page
from dask_dpmeans.report.origin import located
from dask_dpmeans.report.page import GENERATOR, Page, html
from dask_dpmeans.sources import Stored
from dask_dpmeans.storage import outfile
from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import Output, with_article

__all__ = ["checked_target", "input_of", "opened", "page", "report"]

WITHOUT_ROWS = {"path": path_page.page, "tree": tree_page.page}
"""What has a page that no rows are read for."""


def report(
    store: AnyPlace | LoadedRun,
    out: str | os.PathLike[str],
    *,
    data: Any = None,
    force: bool = False,
    **where: Unpack[Stored],
) -> None:
    """Write a finished run, a path or a tree as one page of HTML, with its pictures, that opens without a network.

    Parameters
    ----------
    store : path or URL of a run of `fit`, a run that was read, or path or URL of what
        `dask_dpmeans.selection.penalty.write_path` or `dask_dpmeans.selection.tree.write_tree` wrote
    out : path of a new file
    data : path of the rows, or what `fit` takes; False, optional
        Of a run alone.  By default where the run says that they were, if they still are there: a path of this machine.
        From them come the picture of rows and centers, that of a small graph, and the number of rows at the edge of the
        radius, in up to four passes.  With False they are not read.
    force : write over a report that is there; nothing but a report of ours is ever written over
    **where : client, threads, memory_limit, fill_missing, as `dask_dpmeans.fit` takes them

    Raises
    ------
    InputError
        Where there is nothing finished of these kinds, or `out` cannot be written.
    CorruptStoreError
        Where something in the store is missing or does not match its checksum.
    """
    target = checked_target(out, _place(store), force)
    outfile.write_whole(target, html(page(store, data=data, **where)))


def page(store: AnyPlace | LoadedRun, *, data: Any = None, **where: Unpack[Stored]) -> Page:
    """What the page of a finished run, of a path or of a tree says; parameters as `report` has them."""
    if isinstance(store, LoadedRun):
        return run_page.page(store, data=data, **where)
    kind = Output.at(store).kind()
    if kind not in WITHOUT_ROWS:
        return run_page.page(store, data=data, **where)
    if where or not (data is None or data is False):
        raise InputError(
            f"{Output.at(store).shown} holds {with_article(kind)}, whose page needs no rows: leave out data"
        )
    return WITHOUT_ROWS[kind](store)


def checked_target(out: str | os.PathLike[str], store: AnyPlace, force: bool) -> Path:
    """Where to write, if that is free."""
    return outfile.checked_target(out, store, "report", lambda text: GENERATOR in text, force=force)


def opened(store: AnyPlace) -> LoadedRun | None:
    """Read the run whose page shows rows; None for a path or a tree."""
    return None if Output.at(store).kind() in WITHOUT_ROWS else open_run(store)


def input_of(run: LoadedRun) -> str | None:
    """Return the path of the rows of a run, if they still are at a path of this machine."""
    return located(run.result.manifest)


def _place(store: AnyPlace | LoadedRun) -> AnyPlace:
    return store.result.store.location if isinstance(store, LoadedRun) else store
