"""The summary of a fitted estimator in a notebook."""

from html import escape
from typing import Any

import numpy as np

from dask_dpmeans.checks import format_count

MOST_BARS = 10
"""Clusters with a bar, the heaviest."""
BAR = (
    '<div style="display:flex;gap:.6em;align-items:center"><span style="min-width:6em">{name}</span>'
    '<span style="background:#4390de;height:.8em;width:{width:.1f}em"></span>'
    "<span>{share:.1%}</span></div>"
)


def summary_html(model: Any) -> str:
    """Return the number of clusters, the objective and the sizes of a fitted estimator as HTML."""
    weights, words = model.cluster_weights_, model.description()
    k, shares = len(weights), weights / weights.sum()
    order = np.argsort(-weights, kind="stable")[:MOST_BARS].tolist()
    lines = [f"<strong>{escape(type(model).__name__)}: {format_count(k, 'cluster')}</strong>"]
    if hasattr(model, "objective_"):
        lines.append(f"{escape(words.objective_name)}: {model.objective_:.6g}")
    choice = getattr(model, "choice_", None)
    if choice is not None:
        lines.append(escape(choice.explain(k)))
    text = "".join(f"<p style='margin:.2em 0;max-width:60em'>{line}</p>" for line in lines)
    bars = "".join(
        BAR.format(
            name=f"cluster {each}", width=15 * shares[each] / shares.max(), share=shares[each]
        )
        for each in order
    )
    rest = ""
    if k > MOST_BARS:
        rest = f"<p>and {k - MOST_BARS:,} more, {1 - shares[order].sum():.1%} of the weight</p>"
    return f'<div style="margin-bottom:.6em">{text}{bars}{rest}</div>'
