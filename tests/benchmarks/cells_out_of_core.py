"""Cells of an AnnData store, clustered in place on two workers, and what else in the store has changed.

The store holds `obsm/X_pca`, float32, around 12 centers, zstd, and `obs` with the names of the
cells and one column, written by anndata.  `fit_anndata` finds clusters by radius.  Then anndata
reads `obs`, and all files are compared with what they were before: beside the new column, its entry
in `uns` and the metadata that lists them, none may have changed or be new.
"""

import hashlib
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import zarr
from out_of_core import PROCESSES, folder, peak_memory
from ratios import Line, judged, same_environment, table
from zarr.codecs import ZstdCodec

from dask_dpmeans import DPMeans, fit_anndata
from dask_dpmeans.sources.cluster import connect

COLUMNS, KINDS, KEY = 50, 12, "dpmeans"
CHUNK_ROWS = 2**17
MEMORY = "2GB"
"""Of each worker."""
SPREAD = 3.0
"""Standard deviation of the centers; the noise has 1."""
RADIUS = 6.0
"""Penalty, in units of the noise's mean squared length."""
OURS = (f"obs/{KEY}/", f"uns/{KEY}/", "zarr.json", "obs/zarr.json")
"""Beginnings of the files that may change."""


@dataclass(frozen=True)
class Cells:
    """A store of AnnData that is made."""

    path: Path
    n: int

    def part(self, start: int) -> tuple[Any, Any]:
        """Rows of a chunk, (m, columns), and their kinds, (m,)."""
        rng = np.random.default_rng([1, start])
        m = min(CHUNK_ROWS, self.n - start)
        kinds = rng.integers(KINDS, size=m)
        centers = SPREAD * np.random.default_rng(0).standard_normal((KINDS, COLUMNS), np.float32)
        return centers[kinds] + rng.standard_normal((m, COLUMNS), np.float32), kinds

    @property
    def starts(self) -> range:
        """First rows of the chunks."""
        return range(0, self.n, CHUNK_ROWS)

    def write(self) -> None:
        """Write `obs` with anndata, and the rows beside it."""
        anndata, pandas = import_module("anndata"), import_module("pandas")
        names = np.char.add("cell_", np.arange(self.n).astype("U8")).astype(object)
        batch = np.arange(self.n, dtype=np.int32) % 5
        # Objects: anndata 0.12 cannot write the texts of pandas 3.
        cells, none = (pandas.Index(each, dtype=object) for each in (names, []))
        obs, var = pandas.DataFrame({"batch": batch}, cells), pandas.DataFrame(index=none)
        adata = anndata.AnnData(obs=obs, var=var)
        anndata.settings.zarr_write_format = 3
        adata.write_zarr(self.path)
        del adata, obs, cells, names
        rows = zarr.open_group(self.path / "obsm").create_array(
            "X_pca",
            shape=(self.n, COLUMNS),
            chunks=(min(self.n, CHUNK_ROWS), COLUMNS),
            dtype=np.float32,
            compressors=[ZstdCodec()],
            attributes={"encoding-type": "array", "encoding-version": "0.2.0"},
        )
        for start in self.starts:
            part, _ = self.part(start)
            rows[start : start + len(part)] = part
        zarr.consolidate_metadata(self.path)

    def digests(self) -> dict[str, str]:
        """The digest of each file, by its path in the store."""
        files = sorted(each for each in self.path.rglob("*") if each.is_file())
        return {str(each.relative_to(self.path)): _digest(each) for each in files}

    def pairs(self, labels: Any) -> int:
        """How many pairs of a label and a kind there are; as many as kinds if they agree."""
        found: set[tuple[int, int]] = set()
        for start in self.starts:
            _, kinds = self.part(start)
            here = np.asarray(labels[start : start + len(kinds)])
            found |= set(zip(here.tolist(), kinds.tolist(), strict=True))
        return len(found)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "blake2b").hexdigest()


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Files that are new, gone or other, beside those of the result."""
    files = {name for name, _ in before.items() ^ after.items()}
    return sorted(name for name in files if name not in OURS and not name.startswith(OURS[:2]))


def compare(cells: Cells, workers: int, memory: str) -> list[Line]:
    """A fit in place, and what it left."""
    before = cells.digests()
    stored = (cells.path / "obsm/X_pca/c").rglob("*")
    size = sum(each.stat().st_size for each in stored if each.is_file())
    method = DPMeans(RADIUS * COLUMNS, random_state=0)
    run = cells.path.with_name("run.zarr")
    with same_environment(), connect(None, workers, 1, memory, 60) as client:
        started = perf_counter()
        model = fit_anndata(str(cells.path), method, key_added=KEY, run=run, client=client)
        seconds = perf_counter() - started
        peak = max(client.run(peak_memory).values())
    here = peak_memory()
    others = changed(before, cells.digests())
    obs = import_module("anndata").io.read_elem(zarr.open_group(cells.path, mode="r")["obs"])
    codes = obs[KEY].cat.codes.to_numpy()
    same = np.array_equal(codes, np.asarray(model.labels_)) and len(obs) == cells.n
    pairs = cells.pairs(codes)
    return [
        Line("stored", f"{size / 1e9:.2f} GB of {len(before):,} files"),
        Line("fit", f"{seconds:.1f} s, {model.n_passes_:g} passes, k {model.n_clusters_}"),
        Line("memory of a worker", f"{peak / 1e6:,.0f} MB"),
        Line("memory of the coordinator", f"{here / 1e6:,.0f} MB"),
        judged("other files that have changed", len(others), ", ".join(others) or "none", most=0),
        Line("obs in anndata", ", ".join(obs), "the labels", "met" if same else "missed"),
        judged("pairs of label and kind", pairs, f"{pairs}", most=KINDS),
    ]


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--cells", default=10**7, show_default=True, help="Number of cells.")
@click.option("--workers", default=PROCESSES, show_default=True, help="Processes.")
@click.option("--memory", default=MEMORY, show_default=True, help="Of each worker.")
def main(path: Path | None, cells: int, workers: int, memory: str) -> None:
    """Print the table.  The stores are made in the folder PATH, or a temporary one, and removed."""
    with folder(path) as place:
        made = Cells(place / "cells.zarr", cells)
        try:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
                apart.submit(made.write).result()  # whose memory is not the coordinator's
            lines = compare(made, workers, memory)
        finally:
            for each in (made.path, place / "run.zarr"):
                shutil.rmtree(each, ignore_errors=True)
    click.echo(table(f"{cells:,} x {COLUMNS}, float32, {workers} workers of {memory}", lines))


if __name__ == "__main__":
    main()
