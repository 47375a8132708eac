"""Kernel DP-means."""
