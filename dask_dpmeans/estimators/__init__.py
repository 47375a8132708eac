"""The scikit-learn side: one file an estimator."""
