"""The methods of the papers, one folder a family: states, rules and steps.

`common` has the bases of states and methods.  In most folders `batch` (of graphs `sweep`) is the
algorithm of the paper, `search` the search for the lowest objective, and `chooser` or `choice` the
choice of a penalty.  `streaming` has the methods that read the rows once, `spectral` is the relaxation of DP-means, and
`gibbs` the sampler whose limit DP-means is.
"""
