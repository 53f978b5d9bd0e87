"""The figures of real nodes, from what kubelets report."""

from typing import Any

from bench.real_nodes import start_seconds


def a_pod(component: str, started: str, ready: str, *, status: str = "True", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app.kubernetes.io/component": component}, **metadata},
        "status": {
            "containerStatuses": [{"state": {"running": {"startedAt": started}}}],
            "conditions": [{"type": "Ready", "status": status, "lastTransitionTime": ready}],
        },
    }


def test_the_slowest_pod_of_a_component_counts() -> None:
    """Not one that is not Ready, that is deleted, or that has ended."""
    at = "2026-11-28T10:00:00Z"
    ended = {"metadata": {"labels": {}}, "status": {"containerStatuses": [{"state": {"terminated": {}}}]}}
    pods = [
        a_pod("binder", at, "2026-11-28T10:00:02Z"),
        a_pod("binder", at, "2026-11-28T10:00:03Z"),
        a_pod("binder", at, "2026-11-28T10:00:50Z", status="False"),
        a_pod("scorer", at, "2026-11-28T10:00:50Z", deletionTimestamp=at),
        ended,
    ]

    assert start_seconds(pods) == {"binder": 3.0}
