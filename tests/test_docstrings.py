"""The words of docstrings, as a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WITHOUT_SUBJECT = re.compile(
    r"(Of|By|As|For|In|On|At|To|From|With|Without|Until|Those|After|Before|Between|Under|Per|Also|Since|While|When"
    r"|Where|Because|If|That|And|Or|Then|Once|Not|Atomically|Even|Only|Separate|It"
    r"|Through|Against|Above|Below|Over|Unless|Whose|Given|Less than|More than)(?![\w-])"
)
"""The first words of a docstring that has no subject. "Of a node" means nothing in a hover box, "The load of a node"
does; "Per-pod" and "In-memory" begin a subject."""

WITHOUT_NOUN = re.compile(r"`\w+`: (of|by|with|in|at|on|for|from|as|so|behind|how|are|is) ")
"""A parameter that is described without a noun: "`load`: of a node" leaves open whether it is a number or a share."""

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
ASSIGNED = ast.Assign | ast.AnnAssign


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The line and text of the docstrings of modules, classes, functions, attributes and constants."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for before, statement in zip((None, *body), body, strict=False):
            documented = isinstance(node, DOCUMENTED) if before is None else isinstance(before, ASSIGNED)
            if documented and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                text = statement.value.value
                if isinstance(text, str):
                    yield statement.lineno, text.strip()


def without_subject(source: str) -> list[tuple[int, str]]:
    return [
        (line, text)
        for line, text in docstrings(source)
        if WITHOUT_SUBJECT.match(text) or WITHOUT_NOUN.search(" ".join(text.split()))
    ]


@pytest.mark.parametrize(
    "source",
    [
        '"""Of a node."""',
        'class Load:\n    """For each node: its load."""',
        'async def wait() -> None:\n    """Until it is ready."""',
        'LIMIT = 3\n"""Per node."""',
        '"""That the node is ready."""',
        '"""It is ready."""',
        '"""Atomically replaces the file."""',
        '"""Wait for a node.\n\n`load`:\nof the node. """',
        'def __init__(self) -> None:\n    self.loads: dict[str, float] = {}\n    """By\n    node."""',
    ],
)
def test_a_docstring_without_a_subject_is_found(source: str) -> None:
    assert len(without_subject(source)) == 1


@pytest.mark.parametrize(
    "text",
    ["The load of a node", "Per-pod usage", "In-memory bus", "Offered cores", "Format", "`load`: the load of a node"],
)
def test_a_docstring_with_a_subject_is_not_found(text: str) -> None:
    assert without_subject(f'"""{text}."""') == []


def test_every_docstring_of_the_product_has_a_subject() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for folder in ("libs", "services")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in without_subject(path.read_text(encoding="utf-8"))
    ]

    assert found == [], "begin it with what it describes: The load of a node, Waits until it is ready"
