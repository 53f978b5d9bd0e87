"""`equipoise colocation profile`: what it prints, and which profiles it refuses."""

from pathlib import Path

import pytest
import yaml
from cli.programs import invoke
from click.testing import Result

from equipoise.contracts.colocation.classes import QosClass, allowed
from equipoise.contracts.load.pod_priority import PriorityClass

OFFLINE = "{name: offline, qosClass: BE, band: batch, namespaces: [offline]}"


def made(tmp_path: Path, text: str, *arguments: str) -> Result:
    file = tmp_path / "profile.yaml"
    file.write_text(text)
    return invoke("colocation", "profile", str(file), *arguments)


def kinds(result: Result) -> list[tuple[str, str]]:
    assert 0 == result.exit_code, result.output
    return [(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(result.stdout)]


SHARED = [
    ("MutatingAdmissionPolicy", "equipoise-colocation"),
    ("ValidatingAdmissionPolicy", "equipoise-colocation-check"),
    ("ValidatingAdmissionPolicy", "equipoise-colocation-classes"),
    ("ValidatingAdmissionPolicyBinding", "equipoise-colocation-classes"),
]
OWN = [
    ("ConfigMap", "colocation-offline"),
    ("MutatingAdmissionPolicyBinding", "equipoise-colocation-offline"),
    ("ValidatingAdmissionPolicyBinding", "equipoise-colocation-offline"),
]
CLASSES = [("PriorityClass", f"equipoise-{band}") for band in ("prod", "mid", "batch", "free")]
VALIDATION = [("ValidatingAdmissionPolicy", "equipoise-qos"), ("ValidatingAdmissionPolicyBinding", "equipoise-qos")]


def test_the_shared_policies_and_the_objects_of_the_profile_are_printed(tmp_path: Path) -> None:
    assert SHARED + OWN == kinds(made(tmp_path, OFFLINE))


def test_classes_and_validation_are_printed_on_request(tmp_path: Path) -> None:
    """The classes first: the API server refuses pods whose class does not exist."""
    result = made(tmp_path, OFFLINE, "--priority-classes", "--qos-validation")

    assert CLASSES + SHARED + VALIDATION + OWN == kinds(result)


def test_several_profiles_share_one_policy(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(OFFLINE.replace("offline", "other"))
    found = kinds(made(tmp_path, OFFLINE, str(other)))

    assert len(found) == len(set(found)) == len(SHARED) + 2 * len(OWN)


def test_an_older_api_server_gets_its_version(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(made(tmp_path, OFFLINE, "--api-version", "v1beta1").stdout))
    versions = {each["apiVersion"] for each in documents if each["kind"].startswith("Mutating")}

    assert {"admissionregistration.k8s.io/v1beta1"} == versions


FAULTS = {
    "percent: abc": 'percent: "abc" is not allowed: expected int',
    "percent: 101": "percent: 101 is not allowed",
    "band: huge": 'band: "huge" is not allowed: expected prod or mid or batch or free',
    "qosClass: be": 'qosClass: "be" is not allowed: expected LSE or LSR or LS or BE or SYSTEM',
    "name: A": 'name: "A" is not allowed: expected a name of at most 40',
    "colour: red": "colour: there is no such setting",
    "band: prod": "band: prod is not allowed with qosClass BE: use mid or batch or free",
    "priorityClassName: other": "priorityClassName: other is not allowed with band batch: use equipoise-batch or koord",
    "qosClass: LS": "resources: convert to batch needs qosClass BE, not LS",
    "namespaces: []": "namespaces: is missing",
    "namespaces: [A]": "namespaces[0]: 'A' is not the name of a namespace",
    "labels: {a b: c}": "labels.a b: is not the name of a label",
    "labels: {a: b c}": "labels.a: 'b c' is not the value of a label",
    "labels: {equipoise.dev/qos: BE}": "labels.equipoise.dev/qos: is set by the profile itself",
    "labels: {koordinator.sh/qosClass: LS}": "labels.koordinator.sh/qosClass: LS is not allowed with qosClass BE",
    "labels: {koordinator.sh/priority-class: koord-prod}": "koord-prod is not allowed with band batch: use koord-batch",
    "annotations: {a b: c}": "annotations.a b: is not the name of an annotation",
    'annotations: {a: "b\\nc"}': "annotations.a: a value has one line",
    "terminationGracePeriodSeconds: -1": "terminationGracePeriodSeconds: -1 is not allowed",
    "objectSelector: {matchExpressions: [{key: a, operator: In}]}": "objectSelector.matchExpressions[0].values: In",
    "objectSelector: {matchExpressions: [{key: a, operator: Is}]}": 'matchExpressions[0].operator: "Is" is not allowed',
    "namespaceSelector: {matchLabels: {a: b c}}": "namespaceSelector.matchLabels.a: is not a label and its value",
    "namespaceSelector: [a]": 'namespaceSelector: ["a"] is not allowed: expected object',
}


@pytest.mark.parametrize("line", FAULTS)
def test_a_fault_is_named_with_its_path(tmp_path: Path, line: str) -> None:
    """And with the file; the exit code is that of invalid input, and nothing is printed to stdout."""
    result = made(tmp_path, profile_with(line))

    assert (2, "") == (result.exit_code, result.stdout)
    assert "profile.yaml: " in result.stderr
    assert FAULTS[line] in result.stderr


def profile_with(line: str) -> str:
    document = yaml.safe_load(OFFLINE) | yaml.safe_load(line)
    return yaml.safe_dump(document)


@pytest.mark.parametrize("text", ["", "[a]", "a: [", "name: a\nname: b"])
def test_a_file_without_a_profile_is_refused(tmp_path: Path, text: str) -> None:
    result = made(tmp_path, text)

    assert (2, "") == (result.exit_code, result.stdout)
    assert "profile.yaml: " in result.stderr


def test_missing_fields_are_named(tmp_path: Path) -> None:
    assert "profile.yaml: qosClass: is missing" in made(tmp_path, "{name: a, band: mid}").stderr


def test_two_profiles_of_one_name_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(OFFLINE)

    assert "name: offline is the name of several profiles" in made(tmp_path, OFFLINE, str(other)).stderr


KOORDINATOR: dict[QosClass, set[PriorityClass]] = {
    "LSE": {"prod", "mid", "batch", "free"},
    "LSR": {"prod"},
    "LS": {"prod", "mid", "batch", "free"},
    "BE": {"mid", "batch", "free"},
    "SYSTEM": {"prod", "mid", "batch", "free"},
}


@pytest.mark.parametrize("qos", KOORDINATOR)
def test_class_and_band_go_together_as_in_koordinator(tmp_path: Path, qos: QosClass) -> None:
    for band in KOORDINATOR["LS"]:
        text = f"{{name: a, qosClass: {qos}, band: {band}, resources: keep, namespaces: [a]}}"

        assert (band in KOORDINATOR[qos]) == allowed(qos, band) == (made(tmp_path, text).exit_code == 0)
