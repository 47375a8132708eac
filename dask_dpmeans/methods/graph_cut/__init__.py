"""Normalized and ratio cuts of graphs, without a number of clusters.

`objective` has what both methods share.  `multilevel` starts with a cluster for each node and merges,
`sweep` with one cluster, as Algorithm 1 does.  `partitioner` has the merges and moves of a level;
`parts` and `choice` choose a penalty.
"""
