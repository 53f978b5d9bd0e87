"""The names of Services, as CoreDNS answers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.testbed.processes.configuration import Document
from equipoise.testbed.real_nodes.dns import NO_SUCH_NAME, answer, names_of


def service(name: str, address: str | None) -> Document:
    spec = {} if address is None else {"clusterIP": address}
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def endpoint_slice(name: str, *endpoints: Document) -> Document:
    labels = {"kubernetes.io/service-name": name}
    return {"metadata": {"name": f"{name}-1", "namespace": "shop", "labels": labels}, "endpoints": list(endpoints)}


def question(name: str, kind: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return (
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00" + kind.to_bytes(2, "big") + b"\x00\x01"
    )


def test_a_service_has_its_cluster_ip() -> None:
    assert names_of([service("web", "10.79.0.5")], []) == {"web.shop.svc.cluster.local": ["10.79.0.5"]}


def test_a_headless_service_has_the_addresses_of_its_ready_endpoints_also_by_their_host_name() -> None:
    slices = [
        endpoint_slice(
            "nats",
            {"addresses": ["10.78.1.2"], "conditions": {"ready": True}, "hostname": "nats-0"},
            {"addresses": ["10.78.1.3"], "conditions": {}},
            {"addresses": ["10.78.1.4"], "conditions": {"ready": False}, "hostname": "nats-2"},
        )
    ]

    assert names_of([service("nats", "None")], slices) == {
        "nats.shop.svc.cluster.local": ["10.78.1.2", "10.78.1.3"],
        "nats-0.nats.shop.svc.cluster.local": ["10.78.1.2"],
    }


def test_the_slices_of_a_service_with_a_cluster_ip_and_slices_without_endpoints_add_no_name() -> None:
    slices = [
        endpoint_slice("web", {"addresses": ["10.78.1.2"]}),
        {"metadata": {"namespace": "shop"}, "endpoints": None},
    ]

    assert names_of([service("web", "10.79.0.5")], slices) == {"web.shop.svc.cluster.local": ["10.79.0.5"]}


def test_a_known_name_is_answered_with_its_addresses_in_any_case() -> None:
    response = answer(
        question("Web.shop.svc.cluster.local"), {"web.shop.svc.cluster.local": ["10.79.0.5", "10.79.0.6"]}
    )

    assert response[:2] == b"\x12\x34"
    assert response[3] & 0xF == 0
    assert response[6:8] == b"\x00\x02"
    assert response[-4:] == bytes([10, 79, 0, 6])


def test_an_unknown_name_does_not_exist() -> None:
    response = answer(question("nothing.shop.svc.cluster.local"), {})

    assert response[3] & 0xF == NO_SUCH_NAME
    assert response[6:8] == b"\x00\x00"


def test_a_known_name_has_no_addresses_of_another_type() -> None:
    response = answer(question("web", kind=28), {"web": ["10.79.0.5"]})

    assert response[3] & 0xF == 0
    assert response[6:8] == b"\x00\x00"


@given(st.binary(max_size=60))
def test_what_is_no_question_is_refused_and_nothing_else_is_raised(query: bytes) -> None:
    try:
        response = answer(query, {})
    except ValueError:
        return
    assert response[:2] == query[:2]


def test_an_incomplete_question_is_refused() -> None:
    with pytest.raises(ValueError, match="incomplete"):
        answer(question("web")[:-3], {})
