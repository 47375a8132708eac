"""Local paths that do not exist: refused at once, before the library loads."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dask_dpmeans import DPMeans, InputError, fit, load
from dask_dpmeans.cli import main
from dask_dpmeans.cli.absent import is_absent

DATA = "data: {} does not exist"
RUN = "{} holds no run of this package: nothing is there"
CALLS = {
    "fit none.csv run.zarr": DATA,
    "graph none.npz run.zarr": DATA,
    "penalty none.zarr/rows -k 3": DATA,
    "path none.parquet#a,b path.zarr": DATA,
    "anndata none.h5ad/obsm/X": DATA,
    "show none.zarr": RUN,
    "report none.zarr page.html": RUN,
    "export none.zarr out.json": RUN,
    "tree none.zarr": RUN,
    "bound none.zarr": RUN,
    "predict none.zarr none.csv out.zarr": RUN,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_path_that_does_not_exist_is_refused(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = call.split()
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 2
    assert CALLS[call].format(tmp_path / words[1]) in found.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        ("fit s3:/bucket/x.parquet run.zarr", "s3://bucket/x.parquet"),
        ("show https:/host/run.zarr", "https://host/run.zarr"),
        ("synth blobs gs:/bucket/x --rows 9 --features 2 --centers 2", "gs://bucket/x"),
        ("show S3:/bucket/x", "S3://bucket/x"),
        ("demo sftp:/host/x", "sftp://host/x"),
        ("show s3:/user:secret@bucket/x?token=abc", "s3://***@bucket/x?***"),
    ],
)
def test_a_url_with_one_slash_is_no_path(call, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, call.split())
    given = meant.replace("//", "/")
    assert found.exit_code == 2
    assert f"{given!r} is a URL with one slash: give {meant!r}, or for" in found.output
    assert f"or for a local path './{given}'" in found.output
    assert list(tmp_path.iterdir()) == []


def test_a_path_made_of_a_url_is_told_to_be_given_as_text():
    with pytest.raises(
        InputError, match="give 's3://bucket/x' as text, since a Path keeps one slash"
    ):
        load(Path("s3://bucket/x"))


def test_a_demo_in_a_bucket_makes_no_local_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def stop(blobs, out, **options):
        raise InputError(f"{out} was to be written")

    monkeypatch.setattr("dask_dpmeans.api.synthetic.write_synthetic", stop)
    found = CliRunner().invoke(main, ["demo", "memory://demo"])
    assert "memory://demo/demo-blobs.zarr was to be written" in found.output
    assert list(tmp_path.iterdir()) == []


LOADED = """import atexit, sys
from dask_dpmeans.cli import main
atexit.register(lambda: print(sorted(sys.modules)))
main(sys.argv[1:])
"""


def test_no_library_is_loaded_to_refuse_a_wrong_call():
    for call in ("fit none.csv run.zarr", "show none.zarr", "fit --help", "fit a b --wrong"):
        found = subprocess.run(
            [sys.executable, "-c", LOADED, *call.split()], capture_output=True, text=True
        )
        assert "'click'" in found.stdout
        for name in ("numpy", "zarr", "sklearn", "numba", "dask"):
            assert f"'{name}'" not in found.stdout, (call, name)


def test_no_package_for_pictures_is_loaded_to_refuse_a_run_that_has_not_finished(tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    run = str(tmp_path / "run.zarr")
    with pytest.raises(KeyboardInterrupt):
        fit(np.eye(3), run, DPMeans(0.1), on_step=stop)
    words = [sys.executable, "-c", LOADED, "report", run, str(tmp_path / "page.html")]
    found = subprocess.run(words, capture_output=True, text=True)
    assert "run.zarr holds a run that has not finished: --resume goes on with it" in found.stderr
    for name in ("bokeh", "matplotlib", "sklearn", "dask"):
        assert f"'{name}'" not in found.stdout, name


@pytest.mark.parametrize(
    ("there", "text", "absent"),
    [
        ("a.csv", "a.csv", False),
        ("a.parquet", "a.parquet#x,y", False),
        ("a#b.csv", "a#b.csv", False),
        ("a.h5ad", "a.h5ad/obsm/X", False),
        ("a.zarr/zarr.json", "a.zarr/rows", False),
        ("a.zarr/.zgroup", "a.zarr/rows/more", False),
        ("a/b.csv", "a/c.csv", True),
        ("a/b.csv", "a/*.parquet", False),
        ("a.csv", "b.csv", True),
        ("a.csv", "b.parquet#x", True),
        ("a.csv", "b/c/d.zarr/rows", True),
        ("a.csv", "memory://b", False),
        ("a.csv", "s3://b/c.zarr", False),
    ],
)
def test_a_path_may_go_on_inside_a_file_or_a_store(there, text, absent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path(there)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert is_absent(text) is absent
    if absent:
        file = Path(text.partition("#")[0])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        assert is_absent(text) is False


@pytest.mark.parametrize("option", ["-k", "--clusters", "--n-clusters"])
def test_a_number_of_clusters_asked_of_fit_is_told_the_commands_that_take_one(option, tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    found = CliRunner().invoke(main, ["fit", str(tmp_path / "a.csv"), "run.zarr", option, "3"])
    assert found.exit_code == 2
    assert f"fit has no {option}: dask-dpmeans penalty DATA -k 3 finds" in found.output


def test_a_name_may_hold_a_number_sign_and_a_name_that_is_too_long_is_left_to_the_library(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("run#1").mkdir()
    Path("run#1/t#2.parquet").touch()
    assert not is_absent("run#1/t#2.parquet#a,b")
    assert is_absent("run#1/u#2.parquet#a,b")
    assert not is_absent("x" * 300)
