"""Pure functions on one block of rows, and how two of their answers become one.

Start with `block` (what a kernel gets), `distance` and `assign` (the nearest centers, and one pass
against them), `births` (the rule that opens clusters) and `moments` (sums of clusters).

- Costs: `divergence`, `metrics` and `great_circle`; `bregman`, `encoding` and `encoded` for other
  costs of columns; `price` for what clusters cost.
- Faster ways to the same answer: `ranking`, `center_grid`, `center_tree`, `leading_columns`,
  `hamerly_bounds`, `pair_bounds`, `shard_reuse` and `joint_scan`.
- The search: `move_statistics`, `row_exchange`, `short_search`, `outliers`.
- The choice of a penalty: `center_path`, `center_clusters`, `halves`, `labelings`.
- Proofs of lower bounds: the folder `lower_bound`.
- Other methods: the folder `graph_cut`; `hdp`, `kernel_centers`, `links` and `pieces`, `online`,
  `gibbs`, `ward`.
- Pictures and reports: `cluster_statistics`, `plot_statistics`, `boxes`.

A file whose name ends with ``_compiled`` has loops for Numba, to the same bytes; short loops stand beside
their NumPy twins, and `distance_parts` has what loops of several files call.
`numba_support` decides which of the two run, also by the work of other processes.
"""
