"""Normalized and ratio cuts of graphs, without a number of clusters."""
