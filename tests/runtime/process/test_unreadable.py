"""What cannot be read is named in /readyz, in a metric and in the log, in a bounded number of characters."""

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from equipoise.runtime.process.health import Health
from equipoise.runtime.process.unreadable import ENTRY_LIMIT, SOURCE_LIMIT, UnreadableThings


def test_what_cannot_be_read_is_a_problem_and_a_metric_until_it_is_readable(
    health: Health, metrics: CollectorRegistry
) -> None:
    """It may be read by the service or by its clients; a service stays ready."""
    client = UnreadableThings()
    health.include_unreadable(client)
    health.include_unreadable(client)
    health.warmed_up()
    for number in range(5):
        client.add("pods", f"shop/web-{number}", "status.startTime: not a time")
    health.unreadable.add("Prometheus", "up", "not a number")

    assert health.report().ready
    assert health.report().problems == [
        "Prometheus: 1 cannot be read: up (not a number)",
        "pods: 5 cannot be read: shop/web-0 (status.startTime: not a time), "
        "shop/web-1 (status.startTime: not a time), shop/web-2 (status.startTime: not a time), and 2 more",
    ]
    assert metrics.get_sample_value("equipoise_unreadable", {"source": "pods"}) == 5
    assert metrics.get_sample_value("equipoise_unreadable", {"source": "Prometheus"}) == 1

    client.replace("pods", {"shop/web-7": "status.startTime: not a time"})
    health.unreadable.remove("Prometheus", "up")
    assert list(client) == [("pods", "shop/web-7", "status.startTime: not a time")]
    client.replace("pods", {})
    assert health.report().problems == []
    assert metrics.get_sample_value("equipoise_unreadable", {"source": "pods"}) is None


def test_an_entry_is_logged_when_it_begins_and_ends_only() -> None:
    unreadable = UnreadableThings()
    with capture_logs() as lines:
        for reason in ("a", "a", "b"):
            unreadable.add("pods", "shop/web", reason)
        unreadable.remove("pods", "shop/web")
        unreadable.remove("pods", "shop/web")
    assert [line["event"] for line in lines] == ["cannot be read", "can be read again, or is gone"]


def test_the_text_of_a_tenant_is_cut_and_has_no_control_characters() -> None:
    unreadable = UnreadableThings()
    name = "\x1b]52;c;aGk=\x07\u202e\n" + "n" * 10_000
    unreadable.add("pods", name, "r\r\x9b" * 10_000)
    assert unreadable.problems[0].isprintable()
    assert len(unreadable.problems[0]) < 500
    unreadable.remove("pods", name)
    assert unreadable.problems == []


def test_the_number_of_entries_is_bounded() -> None:
    unreadable = UnreadableThings()
    for number in range(ENTRY_LIMIT + 10):
        unreadable.add("pods", str(number), "")
        unreadable.add(f"source {number}", "", "")
    assert unreadable.counts()["pods"] == ENTRY_LIMIT
    assert unreadable.problems[0].startswith(f"pods: {ENTRY_LIMIT} or more cannot be read: 0 (), 1 (), 2 (), and ")
    assert len(unreadable.counts()) == SOURCE_LIMIT
