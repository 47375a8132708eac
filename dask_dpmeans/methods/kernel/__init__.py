"""Kernel DP-means: the sweeps of the paper (`batch`) and a search (`search`), without features."""
