"""Configuration of the guide: `python -m sphinx -W examples/guide build/guide`."""

from importlib import metadata
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst
from sphinx_gallery.sorting import FileNameSortKey

project = "dask_dpmeans"
author = "The dask_dpmeans developers"
project_copyright = author
release = version = metadata.version("dask-dpmeans")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["templates"]
exclude_patterns = ["templates", "gallery/*.ipynb", "gallery/*.py"]
default_role = "py:obj"
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the functions below cannot be pickled

html_theme = "pydata_sphinx_theme"
html_title = project
html_show_sourcelink = False
html_static_path = ["static"]
html_css_files = ["guide.css"]
html_sidebars = {"**": ["sidebar.html"]}
html_theme_options = {
    "navbar_center": [],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

EXAMPLES = Path(__file__).parent.parent
FIGURE = "figure.png"
"""File in the folder of the examples that an example draws, before the gallery takes it."""
ARGUMENTS = {
    "earthquakes.py": ["--rows", "2000", "--figure", FIGURE],
    "image_patches.py": ["--rows", "1400", "--clusters", "8", "--sweeps", "1"],
    "local_minima.py": ["--figure", FIGURE],
    "fit_and_read.py": ["--figure", FIGURE],
    "moons_and_rings.py": ["400", "--figure", FIGURE],
    "graph_cuts.py": ["100", "--figure", FIGURE],
    "climate_zones.py": ["--figure", FIGURE],
    "clusters_of_any_shape.py": ["600", "--figure", FIGURE],
    "colors_of_an_image.py": ["--figure", FIGURE],
    "curvilinear_grid.py": ["--figure", FIGURE],
    "customers.py": ["--figure", FIGURE],
    "out_of_core.py": ["--rows", "20000", "--workers", "1"],
    "radius_or_price.py": ["--figure", FIGURE],
    "regions_of_the_sea.py": ["--figure", FIGURE],
    "shared_clusters.py": ["1"],
    "single_cells.py": ["--figure", FIGURE],
    "submit_to_cluster.py": ["--rows", "20000"],
    "three_gaussians.py": ["--sweeps", "300", "--orders", "20", "--figure", FIGURE],
    "uci_table.py": ["--splits", "1", "--sweeps", "60"],
    "winds.py": ["--figure", FIGURE],
}
"""Arguments with which the gallery runs an example: small data, so that all take seconds."""


class Arguments:
    """Give each example its arguments."""

    def __call__(self, gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
        return ARGUMENTS.get(Path(script_vars["src_file"]).name, [])

    def __repr__(self) -> str:
        return "Arguments()"


def drawn_figure(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Take the figure that an example has written, if there is one."""
    drawn = EXAMPLES / FIGURE
    if not drawn.exists():
        return ""
    path = next(block_vars["image_path_iterator"])
    drawn.rename(path)
    return str(figure_rst([path], gallery_conf["src_dir"]))


sphinx_gallery_conf = {
    "examples_dirs": "..",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": FileNameSortKey,
    "image_scrapers": (drawn_figure,),
    "reset_argv": Arguments(),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}


def run_and_return(command: click.Command, *arguments: Any, **options: Any) -> Any:
    """Run a command and return, where click would end the process."""
    return command.main(*arguments, **{"standalone_mode": False} | options)


def without_scikit_learn(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out methods that scikit-learn documents, such as `set_fit_request`."""
    module = getattr(member, "__module__", None) or ""
    return True if module.startswith("sklearn.") else None


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    click.Command.__call__ = run_and_return  # type: ignore[method-assign]
    app.connect("autodoc-skip-member", without_scikit_learn)
