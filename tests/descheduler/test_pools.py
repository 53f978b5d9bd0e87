"""Label selectors of the configuration."""

from typing import Any

import msgspec
import pytest

from equipoise.descheduler.decisions.planning.selection import Selector


def read(told: dict[str, Any]) -> Selector:
    return msgspec.convert(told, Selector)


@pytest.mark.parametrize(
    ("told", "taken"),
    [
        ({}, True),
        ({"matchLabels": {"pool": "web"}}, True),
        ({"matchLabels": {"pool": "web", "zone": "b"}}, False),
        ({"matchExpressions": [{"key": "pool", "operator": "In", "values": ["web", "batch"]}]}, True),
        ({"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, False),
        ({"matchLabels": {"pool": "web"}, "matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, False),
    ],
)
def test_what_a_selector_takes(told: dict[str, Any], taken: bool) -> None:
    """All labels and all expressions, as Kubernetes has it."""
    assert read(told).takes({"pool": "web", "zone": "a"}) == taken


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"matchLabel": {"pool": "web"}}, "unknown field"),
        ({"matchExpressions": [{"key": "pool", "operator": "Near"}]}, "Near"),
        ({"matchExpressions": [{"key": "pool", "operator": "In"}]}, "In of pool must name values"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "Exists of a must not name values",
        ),
    ],
)
def test_what_would_take_everything_by_mistake_is_refused(told: dict[str, Any], fault: str) -> None:
    """A misspelt selector must not mean all nodes."""
    with pytest.raises(msgspec.ValidationError, match=fault):
        read(told)
