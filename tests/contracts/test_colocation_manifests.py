"""The policies of colocation profiles and their manifests. tests/e2e/test_colocation_profiles.py runs them."""

import pytest
import yaml
from deployment.base import ROOT

from equipoise.contracts.colocation.classes import PRIORITY_CLASS_BANDS, priority_classes
from equipoise.contracts.colocation.profile import Profile, config_map, stored_document
from equipoise.contracts.colocation.profile_policy import POLICY_VERSION, VERSION, bindings
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS
from equipoise.contracts.load.pod_priority import PRIORITY_CLASSES, priority_class_of
from equipoise.runtime.kubernetes.colocation_manifests import colocation_manifests, policies

FOLDER = ROOT / "k8s" / "colocation" / "profiles"


@pytest.mark.parametrize("name", colocation_manifests())
def test_the_manifests_are_the_generated_ones(name: str) -> None:
    """`python -m equipoise.runtime.kubernetes.colocation_manifests k8s/colocation/profiles` writes them."""
    assert colocation_manifests()[name] == (FOLDER / name).read_text()


def test_every_resource_of_the_kustomization_exists() -> None:
    resources = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]

    assert [] == [name for name in resources if not (FOLDER / name).exists()]
    assert colocation_manifests().keys() == {*resources, "policy-v1beta1.yaml"}


def test_the_policies_of_all_versions_differ_in_their_version_only() -> None:
    texts = [str(policies(version)).replace(f"k8s.io/{version}'", "k8s.io/v1'") for version in API_VERSIONS]

    assert [texts[0]] * len(texts) == texts


def test_every_policy_has_a_version() -> None:
    """By which a newer one is recognized."""
    found = [
        each["metadata"]["annotations"][POLICY_VERSION] for each in policies("v1") if "Binding" not in each["kind"]
    ]

    assert [str(VERSION)] * 3 == found


def test_priority_classes_are_in_koordinators_bands() -> None:
    """With other names and values than Koordinator's own."""
    found = {each["metadata"]["name"]: each["value"] for each in priority_classes()}

    assert [f"equipoise-{band}" for band in PRIORITY_CLASS_BANDS] == list(found)
    assert list(PRIORITY_CLASS_BANDS) == [priority_class_of({}, value, "Burstable") for value in found.values()]
    assert not found.keys() & PRIORITY_CLASSES.keys()
    assert not {9_000, 7_000, 5_000, 3_000} & set(found.values())


PROFILE = Profile(
    name="offline",
    qos_class="BE",
    band="batch",
    percent=30,
    labels={"a": "b"},
    annotations={"why": "1=1"},
    termination_grace_period_seconds=5,
    namespaces=["offline"],
)


def test_a_config_map_has_the_whole_profile() -> None:
    """What is read from it is the profile without the pods that it selects."""
    stored = config_map(PROFILE, "equipoise-system")

    assert {
        "name": "offline",
        "qosClass": "BE",
        "band": "batch",
        "priorityClassName": "equipoise-batch",
        "percent": 30,
        "resources": "convert",
        "labels": {"a": "b"},
        "annotations": {"why": "1=1"},
        "terminationGracePeriodSeconds": 5,
    } == stored_document(stored["metadata"]["name"], stored["data"])


def test_a_profile_never_selects_the_namespaces_of_the_system_and_of_equipoise() -> None:
    for binding in bindings(PROFILE, "own", "v1"):
        expressions = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]

        assert {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", "own"],
        } in expressions
