"""The run store: one Zarr v3 group for each run, with its committed steps and its result.

Layout::

    run.zarr/
      zarr.json                     written last: until then this is no Zarr group
      cluster_centers, ...          the arrays that the `MethodSpec` of the run's method lists
      labels                        (row,)   -1 if not written
      feature_scale                 (feature,) or (column,)   divisors of the columns, if the fit scaled them
      objective, inertia, ...       (step,)   the history
      digests/labels                (chunk, byte)   digests of the chunks of `labels`, and so of other arrays over rows
      steps/                        attributes: the request of the run, and a name that no other run has
        searches/                   checkpoints of searches, by their digests, until the next step is committed or the
                                    run has finished, and passes of a lower bound until it is known
        bound/zarr.json             a lower bound of the objective, if one was asked for; attributes alone
        000007/state                all numbers of a state in a row, below 2**53 if they are integers; the attribute
                                    "layout" has the names, types and shapes
        000007/history              (step, figure)
        000007/zarr.json            written last: commits the step; has the job's name and digests of both arrays

Every array is compressed with a checksum and checksummed again.  Every chunk is written, so that a
missing one is known.  The arrays of a step are written first.  Its commit is one write of one small
key, which succeeds only if that key does not exist: of two jobs that both took the run, one
commits.  Local disks have no such write: there the lock keeps the two apart.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans.engine.history import FIGURES, History, Record
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.array_spec import RUN_ARRAYS, ArraySpec, check_arrays
from dask_dpmeans.storage.arrays import MARKER, CheckedArray
from dask_dpmeans.storage.file_names import BOUND
from dask_dpmeans.storage.lock import only_job
from dask_dpmeans.storage.manifest import FORMAT, ResultManifest, malformed_as_corrupt
from dask_dpmeans.storage.output import FinishedOutput, NewArrays, Output

FINITE = ("objective", "inertia", "n_clusters", "passes", "seconds")
"""Columns of the history that hold finite numbers in every step."""
BOUND_FIELDS = ("value", "objective", "n_clusters", "method", "cluster_gaps")
"""Fields of a lower bound."""


@dataclass(frozen=True)
class RunStore(Output):
    """A run at a path or URL."""

    def finish(
        self,
        written: NewArrays,
        result: NamedArrays,
        history: Sequence[Record],
        manifest: ResultManifest,
    ) -> None:
        """Write the arrays of the result, the history, then the metadata that finish the run."""
        for name, (values, dimensions) in result.items():
            written.write(name, values, dimensions)
        for name, values in History(history).columns().items():
            written.write(name, values, ("step",))
        self.finish_with(written, replace(manifest, arrays=tuple(sorted(result))).as_json())

    def bound(self) -> dict[str, Any] | None:
        """Return the fields of the lower bound of the finished run; None if none was written."""
        place = self / BOUND
        found = arrays.attributes_of(place).get(MARKER, {})
        if not found or found.get("of") != self._last_step():
            return None
        with malformed_as_corrupt(place, "bound"):
            known = {name: found[name] for name in BOUND_FIELDS}
            gaps = known["cluster_gaps"]
            numbers = [known["value"], known["objective"], *(gaps or [])]
            if not all(type(each) is float and math.isfinite(each) for each in numbers):
                raise ValueError("a number of the bound is not finite")
            return known | {"cluster_gaps": None if gaps is None else tuple(gaps)}

    def write_bound(self, fields: Mapping[str, Any]) -> None:
        """Write the fields of a lower bound of the finished run, in one write; its passes are done."""
        with only_job(self.location):
            if self.finished():
                attributes = {"format": FORMAT, **fields, "of": self._last_step()}
                arrays.write_root(self / BOUND, {MARKER: attributes}, (), {})
                self.steps.remove_checkpoints()

    def _last_step(self) -> list[Any]:
        """Return what tells the last step of the run from steps of runs before or after it."""
        return [self.steps.run_name(), self.steps.committed()]

    def result(self, arrays_of: Callable[[ResultManifest], Iterable[ArraySpec]]) -> "Result":
        """Read the finished run; `arrays_of` returns the specs of the arrays to read of it."""
        with self.open("run") as found:
            manifest = ResultManifest.from_json(found.attributes)
            specs = (*RUN_ARRAYS, *arrays_of(manifest))
            wanted = {spec.name for spec in specs if not spec.over_rows}
            names = [name for name in manifest.arrays if name in wanted]
            values = found.read_all([*names, *FIGURES])
            arrays = {name: values[name] for name in names}
            check_arrays(specs, arrays, _known_sizes(manifest))
            history = _history_of([values[name] for name in FIGURES])
            return Result(manifest, arrays, history, self, found, specs)


def _known_sizes(manifest: ResultManifest) -> dict[str, int]:
    """Return the sizes in the manifest of a run; the number of learned features is not known."""
    given = manifest.input
    sizes = {"row": given.shape[0], "column": given.n_columns, "group": given.n_groups}
    if not manifest.learned_features:
        sizes["feature"] = given.n_columns
    return sizes


def _history_of(columns: Sequence[npt.NDArray[Any]]) -> History:
    table = np.column_stack(columns)
    finite = table[:, [FIGURES.index(name) for name in FINITE]]
    if not (len(table) and np.isfinite(finite).all()):
        raise ValueError(
            f"the history holds no steps, or no finite number as one of {', '.join(FINITE)}"
        )
    return History.from_table(table)


@dataclass(frozen=True)
class Result:
    """A finished run that was read, labels aside."""

    manifest: ResultManifest
    """The request of the run, and the figures of its result."""
    arrays: dict[str, npt.NDArray[Any]]
    """Small arrays by name."""
    history: History
    store: RunStore
    output: FinishedOutput
    specs: tuple[ArraySpec, ...]
    """The arrays that the run may have."""

    def open_rows(self, name: str, width: int | None = None) -> CheckedArray:
        """Open an array over the rows, (n,) or (n, width), of which no chunk is missing."""
        spec = next(each for each in self.specs if each.name == name)
        shape: tuple[int, ...] = self.manifest.input.shape[:1]
        if width is not None:
            shape = (*shape, width)
        with malformed_as_corrupt(self.store.location):
            return self.output.open_rows(name, shape, spec.dtype)
