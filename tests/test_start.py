"""What a new process loads: each package only if something is done that needs it."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import dask_dpmeans
from dask_dpmeans import sources, storage
from dask_dpmeans.api import anndata
from dask_dpmeans.api.fitting import fit
from dask_dpmeans.api.synthetic import KINDS
from dask_dpmeans.cli import choices, homes, library
from dask_dpmeans.cli.showing import POSTPONED
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators import graph_cut
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.linkage import LinkageDPMeans
from dask_dpmeans.kernels import bregman
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.methods.dpmeans import choice
from dask_dpmeans.methods.dpmeans.path import USUAL_PENALTIES
from dask_dpmeans.methods.dpmeans.search import EFFORTS
from dask_dpmeans.methods.spectral import AFFINITIES
from dask_dpmeans.registry import METHODS

HEAVY = "numpy", "dask", "distributed", "numba", "zarr"
"""Packages that take long to load."""
ANY = "numpy", "scipy", "sklearn", "pandas", "dask", "zarr", "xarray", "numba", "matplotlib"
"""Packages that no help text needs."""
STORES = "dask", "distributed", "fsspec", "matplotlib", "xarray", "zarr"
"""Packages that rows in memory do not need."""
OTHER_METHODS = [entry.module for name, entry in METHODS.items() if name != "DPMeans"]
"""Modules of estimators that a fit of `DPMeans` does not need."""
SHOWN_WITHOUT = "dask.", "distributed", "matplotlib", "numba", "scipy.optimize", "xarray"
"""Beginnings of modules that `show` does not need."""
FITS = """
import sys
import numpy as np
import scipy.sparse
import sklearn.cluster  # it loads pandas, if that is there
from dask_dpmeans import (
    DPMeans, GibbsMixture, GraphCutDPMeans, HDPMeans, KernelDPMeans, LinkageDPMeans,
    OnlineDPMeans, SpectralDPMeans, SplitMergeDPMeans)

def loaded(what):
    found = {name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split())
    assert not found, (what, found)

rows = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([0, 9, 18], 20)[:, np.newaxis]
loaded("import")
models = [
    DPMeans(), DPMeans(9.0), DPMeans(9.0, search=True),
    DPMeans(missing="observed"), LinkageDPMeans(), KernelDPMeans(0.5), SpectralDPMeans(9.0),
    OnlineDPMeans(9.0), SplitMergeDPMeans(9.0), GibbsMixture(9.0)]
for model in models:
    model.fit(rows)
    loaded(model)
    if hasattr(model, "predict"):
        model.predict(rows[:5])
    if hasattr(model, "transform"):
        model.transform(rows[:5])
    loaded((model, "predict"))
OnlineDPMeans(9.0).partial_fit(rows).partial_fit(rows)
HDPMeans(9.0, 9.0).fit(rows, groups=np.repeat([0, 1], 30))
GraphCutDPMeans(-0.2).fit(scipy.sparse.csr_array(np.abs(rows @ rows.T)))
DPMeans(9.0).fit(scipy.sparse.csr_array(rows))
DPMeans(9.0).fit(rows.tolist(), sample_weight=np.ones(60))
loaded("others")
assert "pyarrow.parquet" not in sys.modules  # pandas loads other parts of PyArrow
"""


def run_new(script: str, *words: str) -> str:
    """Return what a script prints in a new process."""
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(imported: str) -> list[str]:
    """Return the heavy packages that an import loads, in a new process."""
    print_them = f"print(*[name for name in {HEAVY} if name in sys.modules])"
    return run_new(f"import sys; {imported}; {print_them}").split()


def loaded_by_command(*words: str) -> list[str]:
    """Return the packages of `ANY` that a command loads, in a new process."""
    script = f"""
import sys
from dask_dpmeans.cli import main
main({words}, standalone_mode=False)
print(*[name for name in {ANY} if name in sys.modules])
"""
    return run_new(script).splitlines()[-1].split()


def test_the_command_line_loads_little_before_it_can_be_stopped() -> None:
    assert loaded_by("import dask_dpmeans.cli") == []


@pytest.mark.parametrize("command", sorted(homes()))
def test_the_help_of_a_command_loads_nothing(command: str) -> None:
    assert loaded_by_command(command, "--help") == []


def takes_metric(model: LinkageDPMeans) -> bool:
    try:
        model.method()
    except InputError:
        return False
    return True


def test_options_name_what_the_library_knows() -> None:
    assert choices.AUTO == choice.AUTO
    assert tuple(METRICS) == choices.METRICS
    straight = tuple(name for name in METRICS if takes_metric(LinkageDPMeans(metric=name)))
    assert straight == choices.LINKAGE_METRICS
    assert tuple(bregman.COLUMN_DIVERGENCES) == choices.DIVERGENCES
    names = "PLAIN", "MIXED", "MISSING"
    assert [getattr(choices, name) for name in names] == [getattr(bregman, name) for name in names]
    assert choices.EFFORTS == EFFORTS
    assert choices.AFFINITIES == AFFINITIES
    assert (graph_cut.CUTS, tuple(graph_cut.METHODS)) == (choices.CUTS, choices.INITS)
    assert choices.KINDS == KINDS
    assert choices.USUAL_PENALTIES == USUAL_PENALTIES
    assert (choices.REP, choices.KEY) == (anndata.REP, anndata.KEY)


def test_show_loads_neither_dask_nor_what_scikit_learn_seldom_uses(tmp_path) -> None:
    rows = np.arange(12.0).reshape(6, 2)
    fit(rows, tmp_path / "run.zarr", DPMeans(9.0, random_state=0))
    script = f"""
import sys
from dask_dpmeans.cli import main
main(["show", {str(tmp_path / "run.zarr")!r}], standalone_mode=False)
print(*[name for name in sys.modules if name.startswith(tuple(sys.argv[1].split()))])
"""
    postponed = [f"{name}." for name in POSTPONED]
    *shown, loaded = run_new(script, " ".join([*SHOWN_WITHOUT, *postponed])).splitlines()
    assert [line.split()[0] for line in shown[:2]] == ["run", "input"]
    assert loaded == ""


def test_commands_on_few_rows_load_neither_dask_arrays_nor_other_methods(tmp_path) -> None:
    rows, run = tmp_path / "rows.npy", tmp_path / "run.zarr"
    np.save(rows, np.arange(12.0).reshape(6, 2))
    avoided = ["dask.array", "distributed", "matplotlib", "numba", "xarray", *OTHER_METHODS]
    script = f"""
import sys
from dask_dpmeans.cli import main
for words in (["fit", {str(rows)!r}, {str(run)!r}, "--penalty", "9", "--threads", "1"],
    ["predict", {str(run)!r}, {str(rows)!r}, {str(tmp_path / "labels.zarr")!r}, "--threads", "1"],
    ["penalty", {str(rows)!r}, "-k", "2", "--threads", "1"]):
    main(words, standalone_mode=False)
print(*[name for name in sys.modules if name.startswith(tuple(sys.argv[1].split()))])
"""
    assert run_new(script, " ".join(avoided)).splitlines()[-1] == ""


def test_a_report_of_few_rows_loads_neither_dask_arrays_nor_numba(tmp_path) -> None:
    rows, run, page = tmp_path / "rows.npy", tmp_path / "run.zarr", tmp_path / "page.html"
    np.save(rows, np.arange(12.0).reshape(6, 2))
    fit(rows, run, DPMeans(9.0, random_state=0))
    avoided = ["dask.array", "distributed", "numba", "xarray"]
    script = f"""
import sys
from dask_dpmeans.cli import main
main(["report", {str(run)!r}, {str(page)!r}, "--threads", "2"], standalone_mode=False)
print(*[name for name in sys.modules if name.startswith(tuple(sys.argv[1].split()))])
"""
    assert run_new(script, " ".join(avoided)).splitlines()[-1] == ""
    assert "Columns" in page.read_text()  # pictures of the rows


def test_a_postponed_package_is_there_when_it_is_used() -> None:
    script = """
import sys
from dask_dpmeans.cli.showing import postponed_imports
finders = list(sys.meta_path)
with postponed_imports():
    import scipy.stats
assert sys.meta_path == finders
assert "scipy.stats.distributions" not in sys.modules
print(scipy.stats.norm.cdf(0.0), "scipy.stats.distributions" in sys.modules)
"""
    assert run_new(script).split() == ["0.5", "True"]


@pytest.mark.parametrize("name", ["DPMeans", "HDPMeans", "KernelDPMeans", "OnlineDPMeans"])
def test_an_estimator_loads_neither_dask_nor_zarr_nor_numba_before_it_fits(name) -> None:
    assert loaded_by(f"from dask_dpmeans import {name}") == ["numpy"]


def test_rows_in_memory_are_fitted_without_dask_and_stores() -> None:
    run_new(FITS, " ".join(STORES))


def test_rows_of_all_kinds_are_recognized_by_a_process_that_loaded_their_packages_later() -> None:
    script = (
        "import numpy as np; from dask_dpmeans import DPMeans\n"
        "rows = np.arange(12.0).reshape(6, 2); DPMeans(9.0).fit(rows)\n"
        "import dask.array as da; import zarr\n"
        "for each in (da.from_array(rows, chunks=2), zarr.array(rows)):\n"
        "    print(*np.asarray(DPMeans(9.0).fit(each).labels_))"
    )
    expected = " ".join(map(str, DPMeans(9.0).fit(np.arange(12.0).reshape(6, 2)).labels_))
    assert run_new(script).splitlines() == [expected] * 2


def listed_names(file: str) -> dict[str, str]:
    """Names that a file imports below ``if TYPE_CHECKING``, with their modules."""
    blocks = [each for each in ast.parse(Path(file).read_text()).body if isinstance(each, ast.If)]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    return {name.name: str(each.module) for each in imports for name in each.names}


def test_a_package_has_the_names_that_it_lists_for_type_checkers_and_no_others() -> None:
    assert set(listed_names(dask_dpmeans.__file__)) == set(dask_dpmeans.__all__)
    for package in (dask_dpmeans, sources, storage, library):
        for name, module in listed_names(package.__file__).items():
            assert getattr(package, name) is getattr(import_module(module), name), name
        with pytest.raises(
            AttributeError, match=f"{package.__name__!r} has no attribute 'nothing'"
        ):
            package.nothing  # noqa: B018 (the access is what is tested)
