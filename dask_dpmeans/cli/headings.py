"""Options of long commands under headings, the ones that most people need first."""

import click

FEW = 12
"""Commands with at most so many options list them without headings."""
HEADINGS = {
    "More about the rows": "weights samples features variables fill_missing storage_options",
    "Distances and other costs": (
        "metric divergence missing discount outlier_penalty outlier_share min_cluster_weight "
        "kernel gamma degree coef0 approximation components"
    ),
    "Search and its end": "effort gap_tol init max_iter tol max_clusters",
    "Output": "dry live as_json",
    "Where to run": (
        "scheduler scheduler_file workers threads memory_limit worker_timeout tls_ca_file tls_cert "
        "tls_key"
    ),
}
"""Names of options, by heading.

The others come first: what only this command has, and what most people need."""


class CommandWithHeadings(click.Command):
    """A command whose help lists many options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: the ones that most people need, and then each heading with its own."""
        params = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        if len(params) <= FEW:
            super().format_options(ctx, formatter)
            return
        places = {name: title for title, names in HEADINGS.items() for name in names.split()}
        for title in ("Options", *HEADINGS):
            records = [
                each.get_help_record(ctx)
                for each in params
                if places.get(str(each.name), "Options") == title
            ]
            lines = [each for each in records if each is not None]
            if lines:
                with formatter.section(title):
                    formatter.write_dl(lines)
