"""Runs that every release must reproduce; the rows, and the runs as they came out once, lie in `golden/`.

`python tests/golden_runs.py` makes them anew: for a change of the format of a run, or of an answer, that is meant.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dask_dpmeans import DPMeans, HDPMeans, KernelDPMeans, fit
from dask_dpmeans.api.synthetic import Synthetic

FOLDER = Path(__file__).parent / "golden"
DATA = Synthetic("outliers", n_rows=2000, n_features=3, n_centers=8, seed=1)
METHODS = {
    "radius": DPMeans(16.0, random_state=0),
    "price": DPMeans(100.0, search=True, random_state=0),
    "scaled": DPMeans(0.4, random_state=0),
    "cosine": DPMeans(0.05, metric="cosine", random_state=0),
    "shared": HDPMeans(300.0, 900.0, search=True, random_state=0),
    "kernel": KernelDPMeans(0.8, gamma=0.01, random_state=0),
}


def options(name: str, rows: np.ndarray) -> dict[str, Any]:
    """What else a fit is given."""
    if name == "scaled":
        return {"sample_weight": np.arange(len(rows)) % 4 / 2, "scale": "std", "columns": [2, 0]}
    if name == "shared":
        return {"groups": (rows[:, 0] > 15) + 2 * (rows[:, 1] > 15)}
    return {}


def fitted(name: str, run: Path) -> Any:
    """Fit one of them on the rows that are kept, into a run of its own."""
    rows = np.load(FOLDER / "rows.npy")
    return fit(rows, run, METHODS[name], **options(name, rows))


def unpacked(name: str, folder: Path) -> Path:
    """The run as it came out once, in a folder of its own."""
    shutil.unpack_archive(FOLDER / f"{name}.zip", folder / name)
    return folder / name


def main() -> None:
    """Make all of them anew."""
    _, rows, _ = next(DATA.parts())
    np.save(FOLDER / "rows.npy", rows)
    for name in METHODS:
        with TemporaryDirectory() as folder:
            run = Path(folder, name)
            fitted(name, run)
            (run / "lock").unlink(missing_ok=True)
            shutil.make_archive(str(FOLDER / name), "zip", run)


if __name__ == "__main__":
    main()
