"""Kernel DP-means: the estimator, approximations, stores and the command line."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dask_dpmeans import KernelDPMeans


@parametrize_with_checks([KernelDPMeans(0.4), KernelDPMeans(3.0, kernel="linear")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
