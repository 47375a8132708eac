"""Names that options take and show in their help.

The library has them too, but it takes most of a second to load, and the help of a command needs
nothing else of it.  A test holds the two together.
"""

AUTO = "auto"
"""Stands for a penalty that is chosen."""
LINKAGE_METRICS = ("euclidean", "cosine")
"""Metrics of `LinkageDPMeans`."""
METRICS = (*LINKAGE_METRICS, "haversine")
DIVERGENCES = (
    "squared",
    "poisson",
    "multinomial",
    "bernoulli",
    "itakura-saito",
    "gamma",
    "categorical",
)
PLAIN, MIXED = "squared", "mixed"
MISSING = ("error", "observed", "unscaled")
EFFORTS = ("quick", "normal", "best")
AFFINITIES = ("linear", "rbf", "nearest_neighbors", "precomputed")
CUTS = ("normalized", "ratio")
INITS = ("coarsen", "mean")
"""Values of `init` of graph cuts."""
KINDS = ("blobs", "outliers", "uniform")
"""Kinds of synthetic rows."""
USUAL_PENALTIES = 40
"""Penalties of a path by default."""
REP, KEY = "X_pca", "dpmeans"
"""Of cells: the representation that is clustered by default, and the name of the results."""
