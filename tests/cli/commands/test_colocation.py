"""`equipoise colocation profile`: manifests of valid profiles, and clear errors for others."""

from typing import Any

import pytest
import yaml
from cli.programs import invoke

SELECTED = "namespaceSelector: {matchLabels: {team: offline}}"


def documents(profile: str, *arguments: str) -> list[dict[str, Any]]:
    result = invoke("colocation", "profile", "-", *arguments, text=f"profiles: [{{name: a, {SELECTED}{profile}}}]")
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def test_a_profile_is_a_config_map_and_two_bindings() -> None:
    found = documents("", "--namespace", "levelling", "--api-version", "v1beta1")
    assert [(each["kind"], each["metadata"]["name"]) for each in found] == [
        ("ConfigMap", "equipoise-colocation-a"),
        ("MutatingAdmissionPolicyBinding", "equipoise-colocation-a"),
        ("ValidatingAdmissionPolicyBinding", "equipoise-colocation-a"),
    ]
    assert found[1]["apiVersion"] == "admissionregistration.k8s.io/v1beta1"
    assert found[0]["metadata"]["namespace"] == found[1]["spec"]["paramRef"]["namespace"] == "levelling"


def test_a_profile_never_selects_the_namespaces_of_the_system() -> None:
    for binding in documents("")[1:]:
        (rule,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert rule["operator"] == "NotIn"
        assert {"kube-system", "equipoise-system"} <= set(rule["values"])


def test_a_binding_names_the_share_and_the_class_of_its_profile() -> None:
    """For the policies that warn, and that keep the class: they work without the ConfigMap."""
    assert documents(", percent: 99, band: free")[1]["metadata"]["annotations"] == {
        "equipoise.dev/colocation-percent": "99",
        "equipoise.dev/colocation-priority-class": "equipoise-free",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("profiles: []", "profiles"),
        ("profiles: [{name: a}]", "namespaceSelector must have"),
        (f"profiles: [{{name: A, {SELECTED}}}]", "profiles[0].name"),
        (f"profiles: [{{name: a, {SELECTED}, qos: LS}}]", "need the QoS class BE"),
        (f"profiles: [{{name: a, {SELECTED}, band: prod}}]", "BE goes with mid or batch or free"),
        (f"profiles: [{{name: a, {SELECTED}, qos: LSR, band: mid}}]", "LSR goes with prod"),
        (f"profiles: [{{name: a, {SELECTED}, qos: best}}]", "expected BE"),
        (f"profiles: [{{name: a, {SELECTED}, percent: 101}}]", "profiles[0].percent"),
        (f"profiles: [{{name: a, {SELECTED}, labels: {{'a b': c}}}}]", "not a valid label"),
        (f"profiles: [{{name: a, {SELECTED}, labels: {{equipoise.dev/qos: LS}}}}]", "is set by the profile itself"),
        (
            f"profiles: [{{name: a, {SELECTED}, labels: {{koordinator.sh/priority-class: koord-prod}}}}]",
            "must be koord-batch in the band batch",
        ),
        (f'profiles: [{{name: a, {SELECTED}, annotations: {{a: "b\\nc"}}}}]', "more than one line"),
        (f"profiles: [{{name: a, {SELECTED}, bands: mid}}]", "did you mean band"),
        (f"profiles: [{{name: a, {SELECTED}}}, {{name: a, {SELECTED}}}]", "different names"),
        ("profiles: [", "line 1"),
        ("", "profiles"),
    ],
)
def test_an_invalid_profile_is_refused_with_its_path_and_what_is_allowed(text: str, why: str) -> None:
    result = invoke("colocation", "profile", "-", text=text)
    assert result.exit_code == 2
    assert why in result.stderr
