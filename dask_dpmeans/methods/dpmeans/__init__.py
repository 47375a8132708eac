"""DP-means, as a radius (`batch`) or as a price (`search`).

- A search is made of passes (`search_passes`) that make `moves`, of `trials`, and of crossovers of its
  ends (`crossover`, `fusion`, `population`).  It begins on all rows, on cells or on a `coreset`
  (`starts`), or is a population of `short_searches`; `row_exchange` ends it.
- `outliers` and `outlier_share` are for rows that belong to no cluster.
- `chooser` chooses a penalty (`auto_penalty` the search at it): `summary` has the rows
  that choose, `path` the fits at many penalties, `clouds` rows without clusters, `apart` gaps between
  clusters, `choice` the answer, `stability` and `mixture` how sure it is.
- `bisection` and `farthest_first` find a penalty for a number of clusters; `dry_run` has clusters of
  the first rows, from which a dry run estimates.

Lower bounds of the objective are in `methods.lower_bound`.
"""
