"""Choosing a penalty, cutting a tree of clusters, and comparing labels.

`penalty` and `metrics` are what users import.  `path` and `tree` compute, and `path_store` stores a
path; `trial_fits` are the fits behind a penalty for a number of clusters; `bounds` tells how far a
fit can be from the best one.
"""
