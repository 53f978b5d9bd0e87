"""Objects that the values of an installation name must exist."""

from collections.abc import Mapping
from typing import Any

import pytest

from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.install.named_objects import SECRET_VALUES, missing_objects
from equipoise.cli.prepare.secret_contents import PARTS, secret_names
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.kubernetes.client import CONFIG_MAPS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "equipoise-system"
SECRET = {"name": "a", "secret": {"secretName": "mine"}}
CONFIG_MAP = {"name": "b", "configMap": {"name": "ours"}}


def projected(source: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": "c", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}, source]}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"collector.extraVolumes": [SECRET, CONFIG_MAP]}, ["Secret mine", "ConfigMap ours"]),
        ({"scorer.extraVolumes": [projected({"secret": {"name": "mine"}})]}, ["Secret mine"]),
        ({"scorer.extraVolumes": [projected({"configMap": {"name": "ours"}})]}, ["ConfigMap ours"]),
        ({"scorer.extraVolumes": [{"name": "a", "secret": {"secretName": "mine", "optional": True}}]}, []),
        ({"scorer.extraVolumes": [{"name": "a", "emptyDir": {}}]}, []),
        ({"scorer.extraVolumes": "nothing that is a list"}, []),
        ({"nats.existingSecret": "mine"}, ["Secret mine"]),
        ({"nats.existingSecret": "equipoise-nats"}, []),
        ({"nats.existingSecret": "equipoise-nats", "prepare.enabled": False}, ["Secret equipoise-nats"]),
        ({"nats.existingSecret": "equipoise-nats", "prepare.enabled": "false"}, ["Secret equipoise-nats"]),
        ({"extender.tls.existingSecret": "mine"}, ["Secret mine"]),
        ({"extender.tls.existingSecret": ""}, []),
        ({"extender.tls.existingSecret": "mine", "certManager.enabled": True}, []),
        ({"nats.existingSecret": "mine", "certManager.enabled": True}, ["Secret mine"]),
        ({"extender.tls.existingSecret": "mine", "extender.enabled": False}, []),
        ({"hints.webhook.tls.existingSecret": "mine", "hints.enabled": "false"}, []),
        ({"agent.extraVolumes": [SECRET], "agent.enabled": False}, []),
        ({"nats.existingSecret": "mine", "nats.enabled": False}, ["Secret mine"]),
        ({}, []),
    ],
)
async def test_an_object_that_nothing_creates_is_named_until_it_exists(
    given: dict[str, Any], expected: list[str]
) -> None:
    kube = MemoryKube(ManualClock())
    findings = await missing_objects(kube, NAMESPACE, given)
    assert [finding.message.partition(",")[0] for finding in findings] == expected
    assert all(next(iter(given)) in finding.message for finding in findings)
    for name in ("mine", "ours", "equipoise-nats"):
        metadata = ObjectMeta(name=name, namespace=NAMESPACE)
        kube.put(SECRETS, SecretObject(metadata=metadata))
        kube.put(CONFIG_MAPS, ConfigMap(metadata=metadata))
    assert await missing_objects(kube, NAMESPACE, given) == []


def test_the_names_of_created_secrets_are_known() -> None:
    """Those of the Job equipoise-prepare."""
    assert set(SECRET_VALUES.values()) == {name for part in PARTS for name in secret_names(part)}
