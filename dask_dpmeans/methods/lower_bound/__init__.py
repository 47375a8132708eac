"""Lower bounds of the objective of DP-means: no clusters of the rows cost less.

`bounds` takes the highest bound of rows in memory: by prices of rows (`row_prices`), by a semidefinite
relaxation of a few hundred rows (`relaxed_bound`), or by relaxations of pieces of the rows
(`anticlusters`).  `micro_prices` is the bound for data larger than memory.
"""
