"""Clusters of any shape: micro-clusters of DP-means, their links, and a cut of these links.

`search` finds the micro-clusters and groups them, by the `tree` of their merges; `noise` labels rows
between clusters.  `chooser` chooses both prices: `levels` are the cuts to choose from, and `choice`
is the answer.
"""
