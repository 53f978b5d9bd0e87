"""What changes lies in `state/`: the objects of `decisions/` stay as they were made."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[1] / "services"
CONTAINERS = {"dict", "list", "set", "Counter", "defaultdict", "deque"}
CHANGES = {"add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert", "pop", "popitem",
           "popleft", "remove", "setdefault", "sort", "update"}  # fmt: skip


def attribute_of_self(node: ast.AST) -> str | None:
    """`x` of `self.x`, `self.x.y` and `self.x[i]`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr
        node = node.value
    return None


def stored(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """Each place that is assigned to or deleted, and the assigned expression."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield node, None
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            yield node.target, node.value


def is_container(value: ast.AST | None) -> bool:
    called = getattr(value, "func", None)
    displays = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    return isinstance(value, displays) or getattr(called, "id", "") in CONTAINERS


def changes(tree: ast.AST) -> Iterator[str]:
    """`Class.method: attribute` for each method that changes its own object after it was made."""
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        containers = {attribute_of_self(target) for target, value in stored(kind) if is_container(value)}
        for method in (node for node in kind.body if isinstance(node, ast.FunctionDef)):
            if method.name in {"__init__", "__post_init__"}:
                continue
            called = (node.func for node in ast.walk(method) if isinstance(node, ast.Call))
            names = [attribute_of_self(target) for target, _ in stored(method)] + [
                name
                for function in called
                if isinstance(function, ast.Attribute) and function.attr in CHANGES
                for name in (attribute_of_self(function.value),)
                if name in containers
            ]
            yield from sorted({f"{kind.name}.{method.name}: {name}" for name in names if name is not None})


def test_no_object_of_a_decision_changes_itself() -> None:
    found = {
        str(path.relative_to(SERVICES)): found
        for path in SERVICES.glob("*/src/equipoise/*/decisions/**/*.py")
        if (found := list(changes(ast.parse(path.read_text()))))
    }

    assert found == {}, "move what is kept to state/"


@pytest.mark.parametrize(
    "statement",
    ["self.count += 1", "self.kept = {}", "self.kept['a'] = 1", "self.kept.update(a=1)", "self.kept['a'].append(1)",
     "del self.kept['a']", "self.count, other = 1, 2", "self.row.load[0] = 1"],
)  # fmt: skip
def test_a_method_that_changes_its_object_is_found(statement: str) -> None:
    kept = "class Kept:\n def __init__(self):\n  self.kept = {}\n def change(self):\n  " + statement

    assert [found.split(":")[0] for found in changes(ast.parse(kept))] == ["Kept.change"]


@pytest.mark.parametrize(
    "statement", ["kept = {}; kept['a'] = self.kept", "return self.kept.get('a')", "self.draft.add(1)"]
)
def test_other_methods_are_not(statement: str) -> None:
    kept = "class Kept:\n def __init__(self, draft):\n  self.kept, self.draft = {}, draft\n def read(self):\n  "

    assert list(changes(ast.parse(kept + statement))) == []
