"""A change of an object of k8s: what becomes a template expression."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from charts.generator.manifests import Document
from charts.generator.template import Node, Text, When, Yaml

NAMESPACE = "equipoise-system"
RELEASE_NAMESPACE = Text("{{ $.Release.Namespace }}")

Rewrite = Callable[[Any], Node]


@dataclass(frozen=True)
class Change:
    """`path` is separated by `/`; a list's `-` appends an item.

    A `value` that is a function gets the old value, which it may change: it is a copy.
    """

    kind: str
    name: str
    path: str
    value: Node | Rewrite


def value_of(expression: str) -> Text:
    """A scalar. `toJson` writes a string with quotation marks, and everything else as YAML has it, too."""
    return Text(f"{{{{ {expression} | toJson }}}}")


def filled(expression: str) -> When:
    """A mapping or list that is left out when it is empty."""
    return When(expression, Yaml(f"toYaml {expression}"))


def item_named(items: list[Node], name: str) -> Document:
    """The one item of this name. Raises ValueError."""
    found: list[Document] = [each for each in items if isinstance(each, dict) and each.get("name") == name]
    if len(found) != 1:
        raise ValueError(f"not one item {name} in a list of k8s, but {len(found)}")
    return found[0]


def only_if(condition: str, name: str, items: list[Node]) -> list[Node]:
    """The item of this name is there only under the condition."""
    conditional = item_named(items, name)
    return [When(condition, each) if each is conditional else each for each in items]
