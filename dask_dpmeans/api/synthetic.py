"""Synthetic rows with a known truth, any number of them, made a part at a time, and their store."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dask_dpmeans.storage.location import AnyPlace
from dask_dpmeans.storage.output import new_output
from dask_dpmeans.storage.writer import Writer

Kind = Literal["blobs", "outliers", "uniform"]
KINDS: tuple[Kind, ...] = get_args(Kind)

PART_ROWS = 2**16
"""Rows that are drawn together; part of what a seed means."""
BOX = 30.0
"""Side of the cube that centers are drawn from, in standard deviations of a blob."""


@dataclass(frozen=True)
class Synthetic:
    """A data set, drawn from its seed."""

    kind: Kind
    """blobs: Gaussian clusters of unit deviation around centers uniform in a cube of side 30;
    outliers: the same, with one row in a thousand uniform in a cube of side 300 around it; uniform:
    no clusters, the cube alone."""
    n_rows: int
    n_features: int
    n_centers: int
    seed: int

    @property
    def centers(self) -> npt.NDArray[np.float64]:
        """(n_centers, d), where the blobs stand."""
        return np.random.default_rng([self.seed, 0]).uniform(
            0.0, BOX, (self.n_centers, self.n_features)
        )

    def parts(self) -> Iterator[tuple[int, npt.NDArray[np.float32], npt.NDArray[np.int32]]]:
        """Yield the first row, rows (m, d) and true labels (m,) of each part.

        The label of a row outside all blobs is -1.
        """
        centers = self.centers
        for start in range(0, self.n_rows, PART_ROWS):
            height = min(PART_ROWS, self.n_rows - start)
            yield start, *self._part(np.random.default_rng([self.seed, 1, start]), centers, height)

    def _part(
        self, rng: np.random.Generator, centers: npt.NDArray[Any], height: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Return some rows, (height, d), and the labels of the truth, (height,), -1 for none."""
        shape = (height, self.n_features)
        if self.kind == "uniform":
            return rng.uniform(0.0, BOX, shape).astype(np.float32), np.full(height, -1, np.int32)
        labels = rng.integers(len(centers), size=height).astype(np.int32)
        rows = centers[labels] + rng.standard_normal(shape)
        if self.kind == "outliers":
            far = rng.random(height) < 1e-3
            rows[far] = rng.uniform(-4.5 * BOX, 5.5 * BOX, (int(far.sum()), self.n_features))
            labels[far] = -1
        return rows.astype(np.float32), labels


def write_synthetic(
    data: Synthetic,
    out: AnyPlace,
    *,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write synthetic rows and their true labels as a Zarr group.

    The group has ``rows``, (row, feature), and ``truth``, (row,).
    """
    shape, names = (data.n_rows, data.n_features), ("rows", "truth")
    described, options = {"data": asdict(data)}, storage_options
    with new_output(
        out, "synthetic data", described, names, force=force, storage_options=options
    ) as new:
        rows = new.create_rows("rows", shape, PART_ROWS, np.float32, ("row", "feature"))
        truth = new.create_rows("truth", shape[:1], PART_ROWS, np.int32)
        write_part = Writer((rows, truth))
        digests = [write_part(start, (part, labels)) for start, part, labels in data.parts()]
        new.write_digests({"rows": rows, "truth": truth}, digests)
