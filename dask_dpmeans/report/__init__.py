"""Reports: a run, a path, a tree or a comparison of runs as one HTML page without a network.

`run_page`, `path_page`, `tree_page` and `compare_page` make the contents of a `Page` (`page`), which
writes them as HTML, with a card for each cluster.  Of a run, `run_rows` reads the rows, `live_panels`
has the maps that move, and `sentences` the words; `origin` tells where the rows are.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from dask_dpmeans.api.loading import LoadedRun, open_run
from dask_dpmeans.errors import InputError
from dask_dpmeans.report import compare_page, origin, path_page, run_page, tree_page
from dask_dpmeans.report.page import GENERATOR, Page, html
from dask_dpmeans.sources import Stored
from dask_dpmeans.storage import outfile
from dask_dpmeans.storage.location import AnyPlace, Location
from dask_dpmeans.storage.manifest import with_article
from dask_dpmeans.storage.output import Output

__all__ = ["checked_target", "origin", "page", "report", "run_with_rows"]

WITHOUT_ROWS = {"path": path_page.page, "tree": tree_page.page}
"""Kinds of stores whose page needs no rows."""
OTHER_ENDINGS = (".pdf", ".png", ".svg", ".jpg", ".md", ".json", ".csv", ".txt")
"""Endings of files that are no pages of HTML."""


AnyStores = AnyPlace | LoadedRun | Sequence[AnyPlace | LoadedRun]
"""Types of the stores of a page: one, or the runs to compare."""


def report(
    store: AnyStores,
    out: str | os.PathLike[str],
    *,
    data: Any = None,
    columns: Sequence[int | str] | None = None,
    image_shape: Sequence[int] | None = None,
    force: bool = False,
    **where: Unpack[Stored],
) -> None:
    """Write a finished run, a path or a tree as one HTML page with pictures, or compare runs.

    The page opens without a network.  A comparison shows the objectives of runs over the same rows
    at equal penalties, the agreement of their labels, and which clusters split or merged.

    Parameters
    ----------
    store : a run that was read, or path or URL of a run of `fit` or of the output of
        `dask_dpmeans.selection.penalty.write_path` or `dask_dpmeans.selection.tree.write_tree`; or
        a list of two to eight runs, to compare them.  No rows are read then, and chunk by chunk the
        labels alone
    out : path of a new file
    data : path of the rows, other input of `fit`, or False; optional, for a run only
        The default is the path that the run stores, if it still exists on this machine.  The rows
        are read in up to three passes, for maps of the rows and portraits of the clusters (or the
        picture of a small graph).  With False they are not read.  Rows of a data frame have the
        names of its index.
    columns : one or two numbers or names of columns of the rows, optional, for a map of these first
    image_shape : (height, width) or (height, width, 3) of the image that each row is, optional
        The cards of the clusters show their centers as images, from the lowest value to the
        highest.
    force : replace a report that is there; other files are never replaced
    **where : client, threads, memory_limit, fill_missing, as for `dask_dpmeans.fit`

    Raises
    ------
    InputError
        There is no finished run, path or tree, or `out` cannot be written; or runs to compare are
        not over the same rows.
    CorruptStoreError
        Something in the store is missing or does not match its checksum.
    """
    places = [
        each.result.store.location if isinstance(each, LoadedRun) else each
        for each in _stores(store)
    ]
    [*_, target] = [checked_target(out, place, force) for place in places]
    contents = page(store, data=data, columns=columns, image_shape=image_shape, **where)
    Location.at(target).write(html(contents).encode(errors="backslashreplace"))  # of paths


def page(
    store: AnyStores,
    *,
    data: Any = None,
    columns: Sequence[int | str] | None = None,
    image_shape: Sequence[int] | None = None,
    **where: Unpack[Stored],
) -> Page:
    """Return the contents of the page of stores; parameters as for `report`."""
    draw: Callable[[], Page]
    run = store if isinstance(store, LoadedRun) else None
    if isinstance(store, Sequence) and not isinstance(store, str):
        unread, draw = "a comparison of runs", partial(compare_page.page, _stores(store))
    elif not isinstance(store, LoadedRun):
        output, run = Output.at(store), run_with_rows(store)
        kind = str(output.kind())
        unread = f"{output.shown} holds {with_article(kind)}, whose page"
        draw = partial(WITHOUT_ROWS.get(kind, tree_page.page), store)
    if run is not None:
        return run_page.page(run, data=data, columns=columns, image_shape=image_shape, **where)
    if where or columns or image_shape or not (data is None or data is False):
        raise InputError(f"{unread} needs no rows: leave out data, columns and image_shape")
    return draw()


def checked_target(out: str | os.PathLike[str], store: AnyPlace, force: bool) -> Path:
    """Return the path of the new file, if nothing is in the way."""
    path = outfile.checked_target(out, store, "report", _is_ours, force=force)
    if path.suffix.lower() in OTHER_ENDINGS:
        raise InputError(f"a report is a page of HTML: end its path with .html, got {path}")
    return path


def _is_ours(path: Path) -> bool:
    return GENERATOR in outfile.head_of(path)


def run_with_rows(store: AnyPlace) -> LoadedRun | None:
    """Read the run whose page shows rows; None for a path or a tree."""
    return None if Output.at(store).kind() in WITHOUT_ROWS else open_run(store)


def _stores(store: AnyStores) -> Sequence[AnyPlace | LoadedRun]:
    if isinstance(store, Sequence) and not isinstance(store, str):
        return compare_page.checked_number(store)
    return [store]
