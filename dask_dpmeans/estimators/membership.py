"""Soft membership: the part of estimators whose clusters are components of a mixture."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, sources
from dask_dpmeans.estimators.base import NearestCenterMixin
from dask_dpmeans.kernels.membership import (
    Margins,
    Memberships,
    Mixture,
    PackedMemberships,
    SparseMemberships,
)
from dask_dpmeans.kernels.sparse_rows import SparseRows


def _has_mixture_of(model: "MembershipMixin") -> bool:
    return model._has_mixture()


class MembershipMixin(NearestCenterMixin):
    """The part of every estimator with probabilities of its clusters.

    If the parameters allow no mixture, the methods do not exist, as with `available_if` of
    scikit-learn; the cause of the `AttributeError` says why.
    """

    def _has_mixture(self) -> bool:
        """Return True; raise `InputError` if no mixture is known for the parameters."""
        return True

    def _mixture(self) -> Mixture:
        """Return the mixture of the fit."""
        raise NotImplementedError

    @available_if(_has_mixture_of)
    def predict_proba(self, X: object, top: int = 4) -> Any:
        """Return the probabilities of the `top` most probable clusters of each row.

        They are of the mixture whose small-variance limit DP-means is (Kulis & Jordan 2012, section
        3.1): Gaussians around the centers, with the weights of the clusters and one spherical
        variance.  The variance is the inertia per row and column, corrected for the rows that
        overlapping clusters take from each other.  It is common to all clusters, since with one
        for each cluster a center far away could be the most probable.  With ``metric="cosine"``
        they are von Mises-Fisher distributions (Banerjee et al. 2005).  The distributions of
        `LinkageDPMeans` are around micro-centers, and the probability of a cluster is the sum over
        its micro-clusters; a row that is noise has the probabilities of clusters all the same.

        The most probable cluster is the label that `predict` returns.  Where clusters differ in
        weight, the mixture may prefer a cluster that is heavier than the nearest one.  Then the
        answer is the nearest distribution, in Kullback-Leibler divergence, whose mode is the label:
        both clusters share their probabilities equally, and the margin is 0.

        Parameters
        ----------
        X : (n, d), as for `predict`
        top : the most clusters to return for each row; all clusters if it is more than there are

        Returns
        -------
        (n, k) `scipy.sparse.csr_array` of float32, or a lazy Dask array of such chunks if X is lazy
            Probabilities are of all clusters, so that a row adds up to 1 less those left out.
            Within a row the most probable comes first, until SciPy sorts the columns.
            Probabilities less than 2**-24 of the label's are 0.  Of a cube a dense DataArray, the
            clusters along its last dimension.
        """
        check_is_fitted(self)
        mixture = self._mixture()
        top = min(checks.integer("top", top), mixture.n_clusters)
        given = self._rows_given(X)
        if given.cube is not None:
            given = replace(given, rows=given.cube.rows_to_answer)
        answer = self._probabilities(given.checked(self, reset=False), mixture, top)
        return answer if given.cube is None else given.cube.place(answer)

    def _probabilities(self, rows: Any, mixture: Mixture, top: int) -> Any:
        """Return the probabilities of the `top` most probable clusters of each row, CSR."""
        if sources.is_lazy(rows):
            shares = SparseMemberships(Memberships(mixture, top))
            meta = csr_array((0, 0), dtype=np.float32)
            return self._map_lazily(rows, shares, np.float32, mixture.n_clusters, meta=meta)
        kernel = PackedMemberships(Memberships(mixture, top))
        answer = SparseRows.empty(rows.shape[0], top)
        parts = self._source(rows).map(kernel, answer, "predict")
        return answer.join(parts, mixture.n_clusters)

    @available_if(_has_mixture_of)
    def margin(self, X: object) -> Any:
        """Return by how much the label of each row is more probable than any other cluster.

        The margin is the difference of the two greatest probabilities of `predict_proba`, as in
        active learning (Settles 2009): 0 between two clusters, 1 far from the others.

        Parameters
        ----------
        X : (n, d), as for `predict`

        Returns
        -------
        (n,) float32, lazy if X is
        """
        check_is_fitted(self)
        return self._mapped(X, Margins(self._mixture()), np.float32)
