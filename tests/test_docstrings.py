"""Docstrings name the shapes of arrays, and all words are plain."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import dask_dpmeans

PACKAGE = Path(dask_dpmeans.__file__).parent
ARRAY = re.compile(r"NDArray|ndarray|\w*Array\b|\bRows\b|\bLabels\b|csr_array|csc_array")
"""Annotations of arrays."""
SIZE = r"`?[\w.']+`?(?: ?(?:[-+/]|\*+) ?`?[\w.']+`?)*"
SHAPE = re.compile(rf"\({SIZE},(?: {SIZE},?)*\)|\(\*shape\)|\(\.\.\.\)|\brows? of shape\b")
"""A shape, such as (n, d), (k,) or (2k,); (*shape) or (...) for any shape."""
PHRASES = {
    "where that": re.compile(r"\bwhere (that|it|there|they)\b", re.I),
    "that of": re.compile(r"\b(that|those) of\b", re.I),
    "as X has it": re.compile(r"\bas [\w`'. ]{1,30} (has|have|had) (it|them)\b", re.I),
}
ELSEWHERE = {"set_callbacks"}
"""Names of other packages that stand alone."""
OUR_FOLDERS = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
FIRST_WORDS = re.compile(r"(What|Of|The same|Whether what)\b")
"""Beginnings that a docstring should not have."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | Function


def files() -> list[Path]:
    """Every module of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def attribute_docs(node: ast.Module | ast.ClassDef) -> Iterator[ast.Constant]:
    """String expressions in a class or module, which document the attribute before them."""
    for statement in node.body:
        value = getattr(statement, "value", None)
        if (
            isinstance(statement, ast.Expr)
            and isinstance(value, ast.Constant)
            and isinstance(value.value, str)
        ):
            yield value


def takes_or_returns_arrays(function: Function) -> bool:
    """Whether an annotation of the function names an array type."""
    arguments = function.args
    each = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    annotations = [argument.annotation for argument in each if argument is not None] + [
        function.returns
    ]
    return any(
        ARRAY.search(ast.unparse(annotation))
        for annotation in annotations
        if annotation is not None
    )


def public_functions(tree: ast.Module) -> Iterator[tuple[str, Function, str]]:
    """Public functions and methods: name, node, and the docs of the class around it."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node, ""
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            docs = " ".join(str(each.value) for each in attribute_docs(node))
            for method in node.body:
                if isinstance(method, Function) and (
                    method.name == "__call__" or method.name[0] != "_"
                ):
                    yield f"{node.name}.{method.name}", method, docs


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings, attribute docs, messages and comments, with their lines."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def phrases_of(path: Path) -> list[str]:
    """Every phrase to avoid in a file: its line, and the phrase."""
    found = []
    for line, text in texts(path):
        for name, pattern in PHRASES.items():
            found += [
                f"{path.name}:{line} {name}: {match.group()}" for match in pattern.finditer(text)
            ]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Documented):
            doc = ast.get_docstring(node) or ""
            if FIRST_WORDS.match(doc):
                found.append(f"{path.name}: first words: {doc.splitlines()[0]}")
    return found


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_public_functions_of_arrays_name_shapes(path):
    functions = public_functions(ast.parse(path.read_text()))
    unnamed = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"
        for name, node, docs in functions
        if takes_or_returns_arrays(node)
        and not SHAPE.search((ast.get_docstring(node) or "") + docs)
    ]
    assert unnamed == []


def test_phrases_that_are_hard_to_read_are_not_used():
    found = [phrase for path in files() for phrase in phrases_of(path)]
    assert not found, "\n".join(found)


@cache
def known_names() -> frozenset[str]:
    """Every name in the code of the package, the stem of every file, and the words of short texts."""
    names = set()
    for path in files():
        source = path.read_text()
        names |= {*path.relative_to(PACKAGE.parent).with_suffix("").parts}
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                names.add(token.string)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.update(re.findall(r"\w+", node.value) if len(node.value) < 60 else [])
    return frozenset(names)


def unknown_names(path: Path, known: frozenset[str]) -> Iterator[str]:
    """Names in backticks in the docs of a file that no code has, but for names of other packages."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        for name in re.findall(r"(?<!`)`([a-zA-Z_][\w.]*)(?:\(\))?`(?!`)", str(node.value.value)):
            parts = name.split(".")
            ours = len(parts) == 1 or parts[0] in OUR_FOLDERS
            if ours and name not in ELSEWHERE and not known.issuperset(parts):
                yield f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"


def test_names_in_backticks_are_there():
    known = known_names()
    assert [name for path in files() for name in unknown_names(path, known)] == []


def test_a_name_that_is_not_there_is_found():
    known = known_names() - {"center_clusters"}
    path = PACKAGE / "kernels" / "center_clusters_compiled.py"
    assert [name.split()[-1] for name in unknown_names(path, known)][:1] == ["center_clusters"]


def test_the_words_of_a_file_are_found(tmp_path):
    path = tmp_path / "sample.py"
    path.write_text(
        'def f():\n    """What is there."""\n    return "those of it"  # as Elkan has it, where that is so\n'
    )
    assert len(phrases_of(path)) == 4


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("(n, d)", True),
        ("rows, (2k,)", True),
        ("(bins + 1,)", True),
        ("(n_boxes, 2 * k)", True),
        ("(of a row, or none)", False),
        ("all (of them)", False),
        ("f(x)", False),
    ],
)
def test_shapes_are_told_from_other_brackets(text, named):
    assert bool(SHAPE.search(text)) == named
