"""Parameters in Python as options of the command line."""

from collections.abc import Mapping

OPTIONS = {
    "random_state": "seed",
    "n_neighbors": "neighbors",
    "n_landmarks": "landmarks",
    "n_components": "components",
    "n_clusters": "clusters",
}
"""Parameters whose option has another name."""


def columns_text(named: Mapping[str, object]) -> str:
    """Return names by column as the text of an option, such as age=squared,color=categorical."""
    return ",".join(f"{column}={name}" for column, name in named.items())


def flags(parameters: Mapping[str, object]) -> list[str]:
    """Return parameters as options of a command."""
    found = []
    for name, value in parameters.items():
        found.append("--" + OPTIONS.get(name, name).replace("_", "-"))
        if isinstance(value, Mapping):
            found.append(columns_text(value))
        elif value is not True:
            found.append(str(value))
    return found
