"""Graph cuts on the links of a block of nodes.

`gains` has the gains of moves of nodes and of merges of clusters (`gains_compiled` the same compiled),
`moves` the moves of one round, `contraction` the graph between clusters, `sweep` Algorithm 1 on a graph,
`random_graph` graphs without clusters, with given degrees.
"""
