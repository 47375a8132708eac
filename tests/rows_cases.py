"""Tables of counts, shares, categories, with holes and outliers: each kind as a fit and as its slow reference."""

import math
from dataclasses import dataclass
from functools import cache

import dask.array as da
import numpy as np
from rows_reference import Price, table

from dask_dpmeans import DPMeans

MIXED = ("squared", "poisson", "categorical")
"""Divergences of the columns of a mixed table."""

FLOOR = 0.1
"""Least price of a cluster at a discount, as a share of the penalty."""


def squared_rows(rng, n):
    """Clouds in two columns."""
    middles = rng.normal(scale=3.0, size=(rng.integers(2, 5), 2))
    return middles[rng.integers(len(middles), size=n)] + rng.normal(size=(n, 2))


def counts(rng, n):
    """Counts of two to four kinds of rows, with zeros."""
    means = rng.gamma(0.7, 8.0, (rng.integers(2, 5), 3))
    return rng.poisson(means[rng.integers(len(means), size=n)])


def documents(rng, n):
    """Counts of four words in texts of 5 to 40, on two to four topics."""
    topics = rng.dirichlet(np.full(4, 0.5), rng.integers(2, 5))
    lengths = rng.integers(5, 41, n)
    return rng.multinomial(lengths, topics[rng.integers(len(topics), size=n)])


def switches(rng, n):
    """Zeros and ones of two to four kinds of rows."""
    chances = rng.choice([0.1, 0.9], (rng.integers(2, 5), 5))
    return rng.random((n, 5)) < chances[rng.integers(len(chances), size=n)]


def spectra(rng, n):
    """Positive numbers of magnitudes from 1e-2 to 1e2."""
    means = 10 ** rng.uniform(-2, 2, (rng.integers(2, 5), 3))
    return means[rng.integers(len(means), size=n)] * rng.gamma(4.0, 0.25, (n, 3))


def codes(rng, n):
    """Codes of three categories in four columns."""
    common = rng.integers(0, 3, (rng.integers(2, 5), 4))
    drawn = common[rng.integers(len(common), size=n)]
    return np.where(rng.random((n, 4)) < 0.2, rng.integers(0, 3, (n, 4)), drawn)


def mixtures(rng, n):
    """A column of each of `MIXED`."""
    return np.column_stack([squared_rows(rng, n)[:, 0], counts(rng, n)[:, 0], codes(rng, n)[:, 0]])


def directions(rng, n):
    """Rows in three columns that point in one of two to four directions."""
    means = rng.normal(size=(rng.integers(2, 5), 3))
    return means[rng.integers(len(means), size=n)] + 0.3 * rng.normal(size=(n, 3))


ROWS = {
    "squared": squared_rows,
    "cosine": directions,
    "poisson": counts,
    "multinomial": documents,
    "bernoulli": switches,
    "itakura-saito": spectra,
    "categorical": codes,
    "mixed": mixtures,
}
"""Rows, (n, d), by the name of the divergence."""


@dataclass(frozen=True)
class Case:
    """A kind of table, and the parameters that go with it."""

    divergence: str
    missing: str = "error"
    outliers: bool = False
    discount: bool = False

    @property
    def name(self):
        parts = [self.divergence, *(["missing"] if self.missing != "error" else [])]
        parts += ["unscaled"] * (self.missing == "unscaled")
        return " ".join(parts + ["outliers"] * self.outliers + ["discount"] * self.discount)

    @property
    def kinds(self):
        """The divergence as the reference takes it."""
        return MIXED if self.divergence == "mixed" else self.divergence

    @property
    def parameters(self):
        """The divergence and the missing values as a fit takes them."""
        given = {}
        if self.divergence == "mixed":
            given["divergence"] = dict(enumerate(MIXED))
        elif self.divergence == "cosine":
            given["metric"] = "cosine"
        elif self.divergence != "squared":
            given["divergence"] = self.divergence
        if self.missing != "error":
            given["missing"] = self.missing
        return given

    def instance(self, seed, n, most=3):
        """Rows of this kind, with whole weights from 1 to `most`, at a price and a price of outliers."""
        rng = np.random.default_rng(seed)
        X = ROWS[self.divergence](rng, n).astype(float)
        weights = rng.integers(1, most + 1, n).astype(float)
        if self.missing != "error":
            holes = rng.random(X.shape) < 0.25
            if self.divergence == "multinomial":  # counts that are left must not all be 0
                holes[np.arange(n), X.argmax(axis=1)] = False
            X[holes] = np.nan
        plain = table(X, self.kinds, weights, missing=self.missing)
        inertia = plain.inertia(range(n)) or 1.0
        share = (0.05, 0.1, 0.2, 0.3)[seed % 4]
        price, extra = Price(share * inertia), {}
        if self.discount:
            penalty = share * inertia
            price = Price(penalty, (0.3 + 0.3 * (seed % 3)) * penalty, FLOOR * penalty)
            extra["discount"] = price.discount
        tau = math.inf
        if self.outliers:
            tau = inertia / weights.sum() * (0.5, 1.0, 1.5)[seed % 3]
            extra["outlier_penalty"] = tau
        rows = table(X, self.kinds, weights, missing=self.missing, outlier_penalty=tau)
        return Instance(rows, price, self.parameters | extra)


@dataclass(frozen=True)
class Instance:
    """Rows at a price, as the reference and as a fit take them."""

    rows: object
    price: Price
    parameters: dict

    def model(self, **parameters):
        return DPMeans(**({"penalty": self.price.penalty} | self.parameters | parameters))

    @property
    def radius(self):
        """A penalty at which many rows open clusters, where it is a radius."""
        rows = self.rows
        return 0.7 * rows.inertia(range(rows.n)) / rows.weights.sum()

    def radius_model(self, **parameters):
        """A fit at that penalty."""
        flat = {"discount": 0.0} if "discount" in self.parameters else {}
        return self.model(penalty=self.radius, **flat, **parameters)


CASES = [
    *map(Case, ROWS),
    Case("squared", missing="observed"),
    Case("squared", missing="unscaled"),
    Case("squared", outliers=True),
    Case("squared", discount=True),
    Case("squared", missing="observed", outliers=True),
    Case("squared", missing="observed", discount=True),
    Case("cosine", outliers=True),
    Case("poisson", outliers=True),
    Case("poisson", missing="observed"),
    Case("multinomial", missing="observed"),
    Case("multinomial", outliers=True, discount=True),
    Case("bernoulli", outliers=True),
    Case("itakura-saito", outliers=True),
    Case("categorical", missing="observed"),
    Case("categorical", outliers=True),
    Case("mixed", missing="observed", outliers=True),
]
NAMED = {case.name: case for case in CASES}


@cache
def searched(name, seed, n=7):
    """An instance of a case, and the end of the search on it, of an array or of chunks of three rows."""
    instance = NAMED[name].instance(seed, n)
    X = instance.rows.X if seed % 2 else da.from_array(instance.rows.X, chunks=(3, -1))
    model = instance.model(search=True, random_state=seed)
    return instance, model.fit(X, sample_weight=instance.rows.weights)
