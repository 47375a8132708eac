"""The hard Gaussian HDP: several data sets that share clusters.

`batch` has the sweeps of the paper and `search` the search.  A pass of the search collects
statistics (`search_pass`, `pass_statistics`), from which `moves` follow; `row_exchange` moves single
rows at the end.  `choice` chooses both prices.
"""
