"""Clusters of any shape: micro-clusters of DP-means, their links, and a cut of these links."""
