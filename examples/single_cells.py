"""
Single cells: clusters in an AnnData
====================================

Cluster the cells of an AnnData object, and find the clusters in its `obs`.

Counts of genes are drawn for six kinds of cells, one of them rare. As usual, counts are divided by
their sum, logarithms are taken, and principal components are the representation. Then one call,
``fit_anndata(adata)``, clusters the cells: ``obs["dpmeans"]`` is a categorical, as scanpy expects it,
and ``uns["dpmeans"]`` tells the penalty, why it was chosen, and the centers. The call is the same
for the path of a ``.zarr`` store, which is then read in parts and written in place.
"""

from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
from sklearn.decomposition import PCA

from dask_dpmeans import DPMeans, fit_anndata

try:
    import anndata
    import pandas as pd
except ModuleNotFoundError as error:
    raise SystemExit('this example needs anndata: pip install "dask-dpmeans[examples]"') from error

SHARES = {"T": 0.35, "B": 0.2, "NK": 0.15, "monocyte": 0.2, "dendritic": 0.08, "platelet": 0.02}
"""Kinds of cells, and their shares."""


def drawn(n_cells: int, n_genes: int = 400, seed: int = 0) -> anndata.AnnData:
    """Return cells whose kind has genes of its own, with principal components in obsm."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(len(SHARES), n_cells, p=list(SHARES.values()))
    common = rng.gamma(0.6, 1.0, n_genes)
    markers = np.exp(
        2.5 * rng.standard_normal((len(SHARES), n_genes)) * (rng.random(n_genes) < 0.2)
    )
    depth = rng.lognormal(0.0, 0.3, (n_cells, 1))
    counts = rng.poisson(depth * (common * markers)[kind]).astype(np.float32)
    cells = pd.DataFrame({"kind": pd.Categorical(np.array(list(SHARES))[kind])})
    cells.index = [f"cell {number}" for number in range(n_cells)]
    adata = anndata.AnnData(counts, obs=cells)
    logarithms = np.log1p(counts / counts.sum(axis=1, keepdims=True) * 10_000)
    adata.obsm["X_pca"] = PCA(20, random_state=seed).fit_transform(logarithms)
    return adata


def figure(path: Path, adata: anndata.AnnData, model: DPMeans) -> None:
    """Draw the cells in the colors of their clusters."""
    from dask_dpmeans.figures.plot import density  # noqa: PLC0415  # it needs matplotlib

    names = [f"component {number}" for number in range(1, adata.obsm["X_pca"].shape[1] + 1)]
    picture = density(adata.obsm["X_pca"], model, columns=(0, 1), feature_names=names)
    picture.savefig(path, dpi=130)


@click.command()
@click.option("--cells", default=2000, show_default=True, help="Number of cells.")
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the cells.")
def main(cells: int, path: Path | None) -> None:
    """Cluster single cells."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    adata = drawn(cells)
    model = fit_anndata(adata, DPMeans(random_state=0))
    print(f"{model.n_clusters_} clusters: {adata.uns['dpmeans']['choice']['reason']}")
    print(pd.crosstab(adata.obs["kind"], adata.obs["dpmeans"]))
    if path is not None:
        figure(path, adata, model)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
