"""Files of a run, of a run that goes on, and of checksummed input, damaged at random: an error, or the same answer.

Bits are flipped, files cut, emptied or deleted; two files exchanged, chunks of one array or of any others; and files
replaced by those of another output of the same shape.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import click

from dask_dpmeans import DPMeans, InputError, fit, load
from dask_dpmeans.api import synthetic as synthetic_rows
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.errors import CorruptStoreError

METHOD = DPMeans(16.0, random_state=0)
DAMAGES = ("flip", "cut", "empty", "delete", "swap", "swap near")
PART_ROWS = 256
"""Of a chunk of the input, so that there are several."""
Answer = tuple[object, ...]


class StopError(Exception):
    """Ends a fit after a step."""


def stop(number: int, *_: object) -> None:
    """Called with each committed step."""
    if number == 3:
        raise StopError


def damage(folder: Path, draw: random.Random, similar: Path | None = None) -> str:
    """Damage a file in a folder, beside which there may be a similar one; say how."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    file, what = (
        draw.choice(files),
        draw.choice(DAMAGES if similar is None else (*DAMAGES, "replace")),
    )
    whole = file.read_bytes()
    if what == "flip" and whole:
        place = draw.randrange(len(whole))
        file.write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << draw.randrange(8)]) + whole[place + 1 :]
        )
    elif what == "cut":
        file.write_bytes(whole[: draw.randrange(len(whole))] if whole else b"")
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "delete":
        file.unlink()
    elif what == "replace":
        other = similar / file.relative_to(folder)
        file.write_bytes(other.read_bytes() if other.is_file() else b"")
    elif what.startswith("swap"):
        other = draw.choice(exchangeable(file, files, near=what == "swap near"))
        what = f"{what} with {other.relative_to(folder)}:"
        file.write_bytes(other.read_bytes())
        other.write_bytes(whole)
    return f"{what} {file.relative_to(folder)}"


def exchangeable(file: Path, files: list[Path], *, near: bool) -> list[Path]:
    """Files that another may be exchanged with: metadata with metadata, chunks with chunks, `near` ones of one array.

    It alone, where there is no other.
    """
    others = [
        each
        for each in files
        if each != file and (each.name == "zarr.json") == (file.name == "zarr.json")
    ]
    array = next((folder.parent for folder in file.parents if folder.name == "c"), None)
    return [each for each in others if array in each.parents or not near] or [file]


def answer(run: Path) -> Answer:
    """What a finished run says, seconds aside."""
    model = load(run)
    history = [tuple(vars(record).values())[:-1] for record in model.history_]
    fitted = (
        model.objective_,
        model.n_passes_,
        model.random_state_,
        model.penalty,
        model.n_features_in_,
    )
    return (
        model.cluster_centers_.tobytes(),
        model.cluster_weights_.tobytes(),
        model.labels_.compute().tobytes(),
        (history, fitted),
    )


def synthetic(path: Path, seed: int) -> None:
    """Rows in several chunks."""
    with mock.patch.object(synthetic_rows, "PART_ROWS", PART_ROWS):
        write_synthetic(Synthetic("blobs", 3000, 2, 5, seed=seed), path)


def try_damage(
    seeds: range, say: Callable[[str], None] = lambda _: None
) -> tuple[Counter[str], list[str]]:
    """Outcomes by what was damaged; and what gave another answer, or an error of another package."""
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = ("data.zarr", "run.zarr", "begun.zarr")
        similar = {folder / each: folder / f"similar-{each}" for each in names}
        for seed, (stored, whole, begun) in enumerate((tuple(similar), tuple(similar.values()))):
            synthetic(stored, seed)
            fit(stored / "rows", whole, METHOD, threads=1, block_rows=256)
            with suppress(StopError):
                fit(stored / "rows", begun, METHOD, threads=1, block_rows=256, on_step=stop)
        whole, begun, data = (
            folder / "run.zarr",
            folder / "begun.zarr",
            folder / "data.zarr" / "rows",
        )
        expected = answer(whole)

        def read(target: Path) -> Answer:
            return answer(target)

        def resume(target: Path) -> Answer:
            fit(data, target, METHOD, threads=1, block_rows=256, resume=True)
            return answer(target)

        def refit(target: Path) -> Answer:
            shutil.rmtree(folder / "again.zarr", ignore_errors=True)
            fit(target / "rows", folder / "again.zarr", METHOD, threads=1, block_rows=256)
            return answer(folder / "again.zarr")

        trials = {
            "a result that is loaded": (whole, read),
            "a result that is resumed": (whole, resume),
            "a run that is resumed": (begun, resume),
            "input": (folder / "data.zarr", refit),
        }
        for seed in seeds:
            draw = random.Random(seed)
            what, (origin, use) = draw.choice(list(trials.items()))
            target = folder / "target.zarr"
            shutil.copytree(origin, target)
            how = damage(target, draw, similar[origin])
            try:
                same = use(target) == expected
                outcomes[f"{what}: {'same answer' if same else 'ANOTHER ANSWER'}"] += 1
                if not same:
                    wrong.append(f"{seed}: another answer after {how} of {what}")
            except (InputError, CorruptStoreError) as error:
                outcomes[f"{what}: error"] += 1
                say(f"{seed}: {how} of {what}: {error}")
            except Exception as error:
                wrong.append(f"{seed}: {type(error).__name__} after {how} of {what}: {error}")
            shutil.rmtree(target)
    return outcomes, wrong


@click.command(help=__doc__)
@click.option("--files", default=2000, show_default=True, help="Files to damage, one at a time.")
@click.option("--first", default=0, show_default=True, help="Seed of the first one.")
@click.option("--verbose", is_flag=True, help="Print each error.")
def main(files: int, first: int, verbose: bool) -> None:
    """Print the outcomes, and what went wrong."""
    outcomes, wrong = try_damage(
        range(first, first + files), click.echo if verbose else lambda _: None
    )
    for each in wrong:
        click.echo(each)
    for what, number in sorted(outcomes.items()):
        click.echo(f"{number:6d} {what}")
    click.echo(f"{files} files damaged, {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
