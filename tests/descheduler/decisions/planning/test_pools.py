"""Label selectors of the configuration."""

from typing import Any

import msgspec
import pytest

from equipoise.descheduler.decisions.planning.pools import Selector


def read(section: dict[str, Any]) -> Selector:
    return msgspec.convert(section, Selector)


@pytest.mark.parametrize(
    ("section", "matches"),
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
def test_a_selector_needs_all_labels_and_expressions(section: dict[str, Any], matches: bool) -> None:
    """As in Kubernetes."""
    assert read(section).matches({"pool": "web", "zone": "a"}) == matches


@pytest.mark.parametrize(
    ("section", "fault"),
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
def test_an_invalid_selector_is_refused(section: dict[str, Any], fault: str) -> None:
    """A misspelled one must not select all nodes."""
    with pytest.raises(msgspec.ValidationError, match=fault):
        read(section)
