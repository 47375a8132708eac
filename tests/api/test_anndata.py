"""Fits of cells, from AnnData objects, stores and files."""

import hashlib
from collections import ChainMap
from pathlib import Path

import anndata
import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from scipy.sparse import csr_matrix

from dask_dpmeans import DPMeans, GraphCutDPMeans, HDPMeans, InputError, fit, fit_anndata
from dask_dpmeans.cli import main
from dask_dpmeans.storage.anndata import CellStore
from dask_dpmeans.storage.location import Location

pytestmark = pytest.mark.filterwarnings(
    "ignore:::anndata", "ignore:::zarr", "ignore:Trying to modify"
)
PENALTY = 60.0
ONE_VERSION = pytest.mark.parametrize("store", [3], indirect=True)
"""For claims that the version of Zarr has no part in."""


class KilledError(BaseException):
    """The end of a writer."""


def names(*texts: str) -> pd.Index:
    """Texts as objects, which anndata writes with any pandas."""
    return pd.Index(texts, dtype=object)


def made(n: int = 120) -> anndata.AnnData:
    """Cells of three kinds from two donors, with counts, principal components and a graph."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 3, n)
    rows = random.normal(size=(3, 4))[kinds] * 20 + random.normal(size=(n, 4))
    donors = pd.Categorical.from_codes(random.integers(0, 2, n), categories=names("a", "b"))
    obs = pd.DataFrame(
        {"weight": random.random(n) + 0.5, "donor": donors},
        index=names(*(f"cell{number}" for number in range(n))),
    )
    counts = random.poisson(1 + 9.0 * np.eye(3, 6)[kinds]).astype(np.float32)
    return anndata.AnnData(
        csr_matrix(counts),
        obs=obs,
        var=pd.DataFrame(index=names(*(f"gene{number}" for number in range(6)))),
        obsm={"X_pca": rows.astype(np.float32)},
        layers={"counts": csr_matrix(counts)},
        obsp={"connectivities": csr_matrix((kinds[:, np.newaxis] == kinds) * 1.0)},
        uns={"before": {"number": 1}},
    )


def method(**parameters: object) -> DPMeans:
    return DPMeans(PENALTY, random_state=0, **parameters)


def digests(store: Path) -> dict[str, str]:
    """The digest of each file of a store."""
    files = [path for path in store.rglob("*") if path.is_file()]
    return {
        path.relative_to(store).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.fixture(params=[2, 3])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Cells in a store of each version of Zarr."""
    with anndata.settings.override(zarr_write_format=request.param):
        made().write_zarr(tmp_path / "cells.zarr")
    return tmp_path / "cells.zarr"


def codes(adata: anndata.AnnData, key: str = "dpmeans") -> np.ndarray:
    return adata.obs[key].cat.codes.to_numpy()


def test_an_object_gets_the_labels_and_centers_of_the_fit_of_its_rows() -> None:
    adata = made()
    rows, weights = adata.obsm["X_pca"], adata.obs["weight"].to_numpy()
    expected = method().fit(rows, sample_weight=weights)
    found = fit_anndata(adata, method(), sample_weight="weight")
    assert adata.obs["dpmeans"].cat.categories.tolist() == ["0", "1", "2"]
    assert codes(adata).tolist() == found.labels_.tolist() == expected.labels_.tolist()
    entry = adata.uns["dpmeans"]
    assert entry["cluster_centers"].tobytes() == expected.cluster_centers_.tobytes()
    assert entry["params"]["penalty"] == PENALTY
    assert entry["rep"] == "obsm/X_pca"


def test_a_store_gets_the_same_and_nothing_else_in_it_changes(store: Path) -> None:
    before = digests(store)
    adata = made()
    expected = method().fit(adata.obsm["X_pca"], sample_weight=adata.obs["weight"].to_numpy())
    fit_anndata(store, method(), sample_weight="weight")
    after = digests(store)
    root = (
        {"obs/.zattrs", ".zmetadata"} if "obs/.zattrs" in after else {"obs/zarr.json", "zarr.json"}
    )
    new = {name for name in after if name.startswith(("obs/dpmeans/", "uns/dpmeans/"))}
    assert {name for name in after if before.get(name) != after[name]} == root | new
    assert before.keys() <= after.keys()
    for consolidated in (True, False):
        opened = anndata.read_zarr(zarr.open_group(store, mode="r", use_consolidated=consolidated))
        assert codes(opened).tolist() == expected.labels_.tolist()
        assert list(opened.obs.columns) == ["weight", "donor", "dpmeans"]
        centers = opened.uns["dpmeans"]["cluster_centers"]
        assert centers.tobytes() == expected.cluster_centers_.tobytes()
        assert opened.uns["before"]["number"] == 1


@ONE_VERSION
def test_a_choice_is_told_in_words(store: Path) -> None:
    model = fit_anndata(store, DPMeans(random_state=0))
    entry = anndata.read_zarr(store).uns["dpmeans"]
    assert entry["choice"]["reason"] == model.choice_.reason
    assert float(entry["penalty"]) == model.penalty_


def test_a_second_fit_replaces_the_first_and_no_column_of_others(store: Path) -> None:
    fit_anndata(store, method())
    model = fit_anndata(store, DPMeans(10.0**6, random_state=0), force=True)
    adata = anndata.read_zarr(store)
    assert list(adata.obs.columns) == ["weight", "donor", "dpmeans"]
    assert set(codes(adata)) == {0} == set(np.asarray(model.labels_))
    with pytest.raises(InputError, match="obs has a column 'donor' that is not of an earlier fit"):
        fit_anndata(store, method(), key_added="donor")
    with pytest.raises(InputError, match="key_added must be a name of a column"):
        fit_anndata(store, method(), key_added="_index")


class Operations:
    """Counts what a writer does, and kills it at one of these operations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done, self.last = [], None
        for home, name in (
            *((CellStore, name) for name in ("_create", "_write_group", "_commit")),
            (Location, "move"),
        ):
            monkeypatch.setattr(home, name, self.counted(name, getattr(home, name)))

    def counted(self, name: str, real: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            if len(self.done) == self.last:
                raise KilledError
            self.done.append(name)
            return real(*arguments, **options)

        return call

    def write(self, store: Path, labels: list[int], kill: int | None = None) -> list[str]:
        """What a writer of two clusters does."""
        self.done, self.last = [], kill
        cell_store = CellStore(
            Location.at(store), zarr.open_group(store, mode="r").metadata.zarr_format
        )
        entry = {"version": "dask_dpmeans 1", "first": labels[0], "params": {"penalty": 2.0}}
        try:
            cell_store.write("dpmeans", np.array(labels), ["0", "1"], entry)
        except KilledError:
            assert kill is not None
        return self.done


def opened(store: Path, consolidated: bool) -> anndata.AnnData:
    return anndata.read_zarr(zarr.open_group(store, mode="r", use_consolidated=consolidated))


def test_a_killed_writer_leaves_the_old_column_until_the_new_one_is_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = digests(store)
    old, new = ([number] * 120 for number in range(2))
    operations = Operations(monkeypatch)
    operations.write(store, old, kill=6)
    for consolidated in (True, False):
        assert "dpmeans" not in opened(store, consolidated).obs
    operations.write(store, old)
    all_done = operations.write(store, new)
    written = all_done.index("_commit")
    assert all_done[written:] == ["_commit", *["move"] * 4, "_commit"]
    assert set(operations.write(store, old)) == set(all_done)
    for kill in (4, written, *range(written + 1, len(all_done))):
        operations.write(store, new, kill)
        for consolidated in (kill % 2 == 0, kill % 2 == 1)[: 1 + (kill <= written)]:
            adata = opened(store, consolidated)
            columns = ["weight", "donor"] + ["dpmeans"] * (kill <= written)
            assert list(adata.obs.columns) == columns
            assert adata.uns["before"]["number"] == 1
            if kill <= written:
                assert codes(adata).tolist() == old
                assert adata.uns["dpmeans"]["first"] == 0
        if kill > written:
            operations.write(store, old)
    operations.write(store, new)
    assert codes(anndata.read_zarr(store)).tolist() == new
    left = {name.split("/")[1] for name in digests(store).keys() - before.keys()}
    assert left == {"dpmeans"}
    assert not list((store / "obs").glob("*unfinished*"))


def test_a_store_in_a_folder_named_as_a_file_is_a_store(tmp_path: Path) -> None:
    folder = tmp_path / "cells.h5ad"
    folder.mkdir()
    made().write_zarr(folder / "cells.zarr")
    made().write_h5ad(folder / "cells.h5ad")
    expected = method().fit(made().obsm["X_pca"]).labels_.tolist()
    for name in ("cells.zarr", "cells.h5ad"):  # each has a run of its own
        assert np.asarray(fit_anndata(folder / name, method()).labels_).tolist() == expected
    assert codes(anndata.read_zarr(folder / "cells.zarr")).tolist() == expected


@ONE_VERSION
def test_counts_of_a_layer_and_a_graph_are_clustered_from_each_kind_of_anndata(
    store: Path, tmp_path: Path
) -> None:
    adata = made()
    adata.write_h5ad(tmp_path / "cells.h5ad")
    price = DPMeans(30.0, search=True, divergence="multinomial", random_state=0)
    expected = price.fit(adata.layers["counts"]).labels_.tolist()
    for number, given in enumerate((adata, store, tmp_path / "cells.h5ad")):
        model = fit_anndata(given, price, rep="counts", key_added=f"counts{number}")
        assert np.asarray(model.labels_).tolist() == expected
    graph = GraphCutDPMeans(-0.5, random_state=0)
    cut = graph.fit(adata.obsp["connectivities"]).labels_.tolist()
    fit_anndata(store, graph, obsp="connectivities", key_added="cut")
    assert codes(anndata.read_zarr(store), "cut").tolist() == cut


def test_what_is_not_read_from_a_file_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "cells.h5ad"
    adata = made()
    adata.X = adata.X.tocsc()
    adata.write_h5ad(path)
    with pytest.raises(InputError, match=r"X is a csc_matrix, .* write it row by row, as X.tocsr"):
        fit(f"{path}/X", tmp_path / "run.zarr", method())
    with pytest.raises(InputError, match=r"encoded as 'dataframe', .*: name one, such as .*X_pca"):
        fit(f"{path}/obs", tmp_path / "run.zarr", method())


@ONE_VERSION
def test_views_backed_files_and_lazy_objects_are_clustered_by_their_rows(
    store: Path, tmp_path: Path
) -> None:
    adata = made()
    adata.write_h5ad(tmp_path / "cells.h5ad")
    expected = method().fit(adata.X.toarray()).labels_.tolist()
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    fit_anndata(backed, method(), rep="X")
    assert codes(backed).tolist() == expected
    lazy = anndata.AnnData(
        obs=adata.obs.copy(), obsm={"X_pca": da.from_array(adata.obsm["X_pca"], chunks=(50, 2))}
    )
    model = fit_anndata(lazy, method())
    assert isinstance(model.labels_, da.Array)
    assert codes(lazy).tolist() == method().fit(adata.obsm["X_pca"]).labels_.tolist()
    view = adata[adata.obs["donor"] == "a"]
    fit_anndata(view, method())
    assert codes(view).tolist() == method().fit(np.asarray(view.obsm["X_pca"])).labels_.tolist()
    assert "dpmeans" not in adata.obs


def test_noise_is_a_missing_value() -> None:
    adata = made()
    adata.obsm["X_pca"][0] = 10.0**4, -(10.0**4), 0, 0
    model = fit_anndata(adata, DPMeans(PENALTY, search=True, outlier_penalty=50.0, random_state=0))
    assert model.labels_[0] == -1
    assert adata.obs["dpmeans"].isna().tolist() == (model.labels_ < 0).tolist()


@ONE_VERSION
def test_donors_are_data_sets(store: Path) -> None:
    adata = made()
    hdp = HDPMeans(5.0, PENALTY, random_state=0)
    donors = adata.obs["donor"].cat.codes.to_numpy()
    expected = hdp.fit(adata.obsm["X_pca"], groups=donors).labels_.tolist()
    for given in (adata, store):
        assert np.asarray(fit_anndata(given, hdp, groups="donor").labels_).tolist() == expected


@ONE_VERSION
@pytest.mark.parametrize("of", ["object", "store"])
def test_names_that_are_not_there_list_those_that_are(of: str, store: Path) -> None:
    given = made() if of == "object" else store
    with pytest.raises(
        InputError,
        match=r"'X_umap': it has X, obsm/X_pca, layers/counts; choose one, such as rep='X'$",
    ):
        fit_anndata(given, rep="X_umap")
    with pytest.raises(InputError, match="obsp has no 'distances': it has connectivities"):
        fit_anndata(given, obsp="distances")
    with pytest.raises(InputError, match="obs has no column 'age': it has weight, donor"):
        fit_anndata(given, sample_weight="age")
    with pytest.raises(InputError, match="DPMeans does not cluster: use GraphCutDPMeans"):
        fit_anndata(given, method(), obsp="connectivities")
    with pytest.raises(InputError, match="nodes of a graph: give obsp"):
        fit_anndata(given, GraphCutDPMeans())
    with pytest.raises(InputError, match="cannot go together"):
        fit_anndata(given, rep="X", obsp="connectivities")


def test_what_is_no_anndata_is_refused(tmp_path: Path) -> None:
    zarr.create_group(tmp_path / "group.zarr")
    with pytest.raises(InputError, match="is a Zarr group, but no AnnData"):
        fit_anndata(tmp_path / "group.zarr")
    with pytest.raises(InputError, match=r"no Zarr store or [.]h5ad file of AnnData"):
        fit_anndata(tmp_path / "nothing.zarr")
    with pytest.raises(InputError, match="adata must be an AnnData, or the path of one, got"):
        fit_anndata(np.ones((3, 2)))
    with pytest.raises(InputError, match="for fits with a run"):
        fit_anndata(made(), threads=1)
    with pytest.raises(InputError, match=r"penalty, .* fit_anndata\(adata, DPMeans\(penalty=..., "):
        fit_anndata(made(), penalty=2.0, random_state=0)


def test_an_estimator_that_is_given_cells_names_what_takes_them() -> None:
    with pytest.raises(InputError, match=r"X is an AnnData: use .*fit_anndata\(X, model\)"):
        DPMeans(4.0).fit(made())


def test_parts_of_cells_that_are_no_arrays_name_what_to_pass(tmp_path: Path) -> None:
    cells, model = made(), DPMeans(PENALTY)
    for part, way in (
        (cells.obsm, r"X is a AxisArrays of X_pca: .*, such as X\['X_pca'\]"),
        (cells.layers, r"X is a Layers of counts: .*, such as X\['counts'\]"),
    ):
        with pytest.raises(InputError, match=way):
            model.fit(part)
    with pytest.raises(InputError, match=r"X is a ChainMap of cells: pass one of its arrays$"):
        model.fit(ChainMap({"cells": cells.obsm}))
    cells.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    with pytest.raises(InputError, match=r"pass X\.to_memory\(\), or .* 'cells\.h5ad/X'"):
        model.fit(backed.X)
    found = model.fit(backed.X.to_memory()).labels_.tolist()
    stored = fit(tmp_path / "cells.h5ad/X", tmp_path / "run", model).labels_
    assert np.asarray(stored).tolist() == found
    backed.file.close()
    cells.raw = cells
    with pytest.raises(InputError, match=r"X is the raw part of an AnnData: pass X\.X"):
        model.fit(cells.raw)


@ONE_VERSION
def test_the_command_writes_what_the_function_writes(store: Path) -> None:
    expected = method().fit(made().obsm["X_pca"]).labels_.tolist()
    arguments = ["--penalty", str(PENALTY), "--seed", "0", "--threads", "1"]
    done = CliRunner().invoke(main, ["anndata", str(store), *arguments])
    assert done.exit_code == 0, done.output
    assert "obs and uns of" in done.output
    assert codes(anndata.read_zarr(store)).tolist() == expected
    graph = ["anndata", str(store), "--obsp", "connectivities", "--key-added", "cut"]
    refused = CliRunner().invoke(main, [*graph, "--metric", "cosine"])
    assert refused.exit_code == 2
    assert "--metric does not go with --obsp" in refused.output
    assert CliRunner().invoke(main, [*graph, "--threads", "1"]).exit_code == 0
    assert "cut" in anndata.read_zarr(store).obs
    assert Location.at(store.parent / "cells.cut.zarr").names()


def test_the_command_says_where_the_labels_of_a_file_are(tmp_path: Path) -> None:
    path = tmp_path / "cells.h5ad"
    made().write_h5ad(path)
    done = CliRunner().invoke(main, ["anndata", str(path), "--penalty", "4", "--threads", "1"])
    assert done.exit_code == 0
    assert f"{path} was only read: the labels are in {path}.dpmeans.zarr" in done.output
