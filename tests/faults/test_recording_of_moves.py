"""What the audit log shows of moves without a gap."""

import json
from pathlib import Path
from typing import Any

from builders import NOW

from equipoise.contracts.eviction.approval import APPROVAL_ROLE
from equipoise.contracts.eviction.surge import TEMPLATE_HASH
from equipoise.testbed.memory.clock import ManualClock
from faults.cluster_setup import MOVES, OWN
from faults.history_of_moves import Approvals, MovesHistory, ReadyEndpoints, Relabeling
from faults.recording_of_moves import MovesRecorder

AT = "2026-01-01T00:00:00.000000Z"
SECONDS = 1_767_225_600.0


def line(resource: str, verb: str, body: Any, *, namespace: str = MOVES, name: str = "", **fields: Any) -> str:
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "auditID": "request-1",
        "requestReceivedTimestamp": AT,
        "responseStatus": {"code": 200},
        "objectRef": {"resource": resource, "namespace": namespace, "name": name},
        "requestObject": body,
    }
    return json.dumps(event | fields) + "\n"


def history(tmp_path: Path, *lines: str) -> MovesHistory:
    log = tmp_path / "audit.log"
    log.write_text("".join(lines))
    recorder = MovesRecorder(ManualClock(NOW))
    recorder.require("web", 1)
    return recorder.history(log, {"request-1": SECONDS - 0.5})


def test_a_label_that_a_service_removes_or_restores(tmp_path: Path) -> None:
    """Refused and other patches are none."""
    labels = {"metadata": {"uid": "uid-1", "labels": {TEMPLATE_HASH: None}}}
    found = history(
        tmp_path,
        line("pods", "patch", labels, name="web-1"),
        line("pods", "patch", labels, name="web-2", responseStatus={"code": 403}),
        line("pods", "patch", {"metadata": {"labels": {"other": None}}}, name="web-3"),
        line("pods", "patch", {"metadata": {"uid": "uid-1", "labels": {TEMPLATE_HASH: "hash"}}}, name="web-1"),
    )
    detached = Relabeling(at=SECONDS, sent=SECONDS - 0.5, pod="web-1", workload="web", uid="uid-1", value=None)
    assert found.detached == [detached]
    assert [write.value for write in found.restored(detached, SECONDS + 1)] == ["hash"]


def test_the_ready_endpoints_of_a_service(tmp_path: Path) -> None:
    """Those of other namespaces are not counted."""
    conditions = {"a": {"ready": True}, "b": {"ready": False}}
    endpoints = [{"conditions": ready, "targetRef": {"uid": uid}} for uid, ready in conditions.items()]
    body = {"metadata": {"labels": {"kubernetes.io/service-name": "web"}}, "endpoints": endpoints}
    found = history(
        tmp_path,
        line("endpointslices", "create", {}, responseObject=body),
        line("endpointslices", "update", {}, responseObject=body, namespace="shop"),
        line("endpointslices", "update", {}, responseObject={**body, "endpoints": None}),
    )
    assert found.endpoints == (
        ReadyEndpoints(at=SECONDS, workload="web", ready=1),
        ReadyEndpoints(at=SECONDS, workload="web", ready=0),
    )


def test_the_approvals_of_a_descheduler(tmp_path: Path) -> None:
    rules = {"rules": [{"resourceNames": ["uid-1", "uid-2"]}]}
    found = history(
        tmp_path,
        line("roles", "update", rules, namespace=OWN, name=APPROVAL_ROLE),
        line("roles", "update", {"rules": None}, namespace=OWN, name=APPROVAL_ROLE),
        line("roles", "update", rules, namespace=OWN, name="another"),
    )
    approved = frozenset({"uid-1", "uid-2"})
    assert found.approvals == (Approvals(at=SECONDS, uids=approved), Approvals(at=SECONDS, uids=frozenset()))


def test_without_moves_nothing_is_read(tmp_path: Path) -> None:
    """Other faults do not pay for it."""
    assert MovesRecorder(ManualClock(NOW)).history(tmp_path, {}) == MovesHistory()
