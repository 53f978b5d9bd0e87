"""Which node a series is of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.node_names import AMBIGUOUS, host_of, node_names, texts_of
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeAddress, NodeStatus

NAMES = node_names(
    {
        "worker-1": {"10.0.0.1", "fd00::1", "worker-1.example.com"},
        "worker-2.example.com": {"10.0.0.2"},
        "twin-1": {"10.0.0.9", "fd00::9"},
        "twin-2": {"10.0.0.9"},
        "same.a": set(),
        "same.b": set(),
    }
)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("worker-1", "worker-1"),
        ("worker-1:9100", "worker-1"),
        ("worker-1:metrics", "worker-1"),
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1:9100", "10.0.0.1"),
        ("[fd00::1]:9100", "fd00::1"),
        ("[FD00:0:0:0::1]", "fd00::1"),
        ("fd00:0::1", "fd00::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[::ffff:10.0.0.1]:10250", "10.0.0.1"),
        ("http://10.0.0.1:9100/metrics", "10.0.0.1"),
        ("https://[fd00::1]:10250/metrics", "fd00::1"),
        ("10-0-0-1.cloud:9100", "10-0-0-1.cloud"),
        ("", ""),
        (":", ":"),
        ("[", "["),
    ],
)
def test_a_host_has_no_port_and_one_form(text: str, host: str) -> None:
    """IPv6 in brackets or without, shortened or not, and IPv4 written as IPv6."""
    assert host == host_of(text)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("worker-1", "worker-1"),
        ("10.0.0.1:9100", "worker-1"),
        ("[fd00:0::1]:9100", "worker-1"),
        ("worker-1.example.com:9100", "worker-1"),
        ("WORKER-1.lan.", "worker-1"),
        ("worker-2", "worker-2.example.com"),
        ("worker-2:9100", "worker-2.example.com"),
        ("fd00::9", "twin-1"),
        ("10.0.0.9", AMBIGUOUS),
        # None of these is a node.
        ("worker-3", "worker-3"),
        ("worker-2.other", "worker-2.other"),
        ("same", "same"),
        ("10.0.0.3:9100", "10.0.0.3"),
        ("worker", "worker"),
    ],
)
def test_a_node_is_named_by_any_of_its_names_and_addresses(text: str, node: str) -> None:
    """One of several nodes is not chosen, and a part of a name is no name."""
    assert node == NAMES.of(host_of(text))


def test_nodes_that_share_an_address_name_each_other() -> None:
    """Each is the reason why no sample is of the other."""
    assert {
        "twin-1": "10.0.0.9 is also of node twin-2",
        "twin-2": "10.0.0.9 is also of node twin-1",
    } == NAMES.shared


def test_the_name_of_a_node_is_never_the_address_of_another() -> None:
    """Host names are what the kubelet says."""
    names = node_names({"a": {"b", "10.0.0.1"}, "b": {"10.0.0.2"}})

    assert ("b", {}) == (names.of("b"), names.shared)


def test_every_address_of_the_status_names_a_node() -> None:
    """Whatever its type, and the label that the scheduler reads."""
    addresses = [
        NodeAddress(type=kind, address=text)
        for kind, text in (
            ("InternalIP", "10.0.0.1"), ("InternalIP", "FD00:0::1"), ("ExternalIP", "203.0.113.7"),
            ("Hostname", "Worker-1"), ("InternalDNS", "worker-1.internal"), ("", ""),
        )
    ]  # fmt: skip
    labels = {"kubernetes.io/hostname": "host-1"}
    node = Node(metadata=ObjectMeta(name="n", labels=labels), status=NodeStatus(addresses=addresses))

    assert {
        "10.0.0.1", "fd00::1", "203.0.113.7", "Worker-1", "worker-1", "worker-1.internal", "host-1",
    } == texts_of(node)  # fmt: skip


@given(text=st.text(max_size=40) | st.ip_addresses().map(str) | st.from_regex(r"\[[0-9a-f:]{1,20}\]:[0-9]{1,6}"))
def test_any_text_is_the_host_of_a_label(text: str) -> None:
    """Tenants may choose it: it is no error, and its host is its own host."""
    host = host_of(text)

    assert isinstance(NAMES.of(host), str)
    assert not NAMES.has(host) or host in text.casefold() or ":" in text
