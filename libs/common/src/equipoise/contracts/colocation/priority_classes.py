"""The PriorityClasses of the bands, and the admission policy that prevents the deletion of a class in use."""

from typing import Any

from equipoise.contracts.colocation.policy_parts import metadata
from equipoise.contracts.colocation.profile import PREFIX, PRIORITY_CLASS, PROFILE_LABEL
from equipoise.contracts.kubernetes.mutating_policy import API_GROUP, POLICY_KIND

CLASSES_POLICY = f"{PREFIX}-classes"


def priority_classes() -> list[dict[str, Any]]:
    """One manifest for each band, with the values of Koordinator's classes. Only pods of the band prod preempt."""
    values = {"prod": 9000, "mid": 7000, "batch": 5000, "free": 3000}
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"equipoise-{band}"},
            "value": value,
            "preemptionPolicy": "PreemptLowerPriority" if band == "prod" else "Never",
            "description": f"Pods of the band {band} of co-location.",
        }
        for band, value in values.items()
    ]


def classes_policy(version: str) -> dict[str, Any]:
    """The policy that refuses to delete the PriorityClass of a profile. Without it, new pods would be refused."""
    rule = {"apiGroups": ["scheduling.k8s.io"], "apiVersions": ["v1"], "operations": ["DELETE"]}
    used = f"params.metadata.?annotations[?'{PRIORITY_CLASS}'].orValue('')"
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(CLASSES_POLICY),
        "spec": {
            "failurePolicy": "Ignore",
            "paramKind": {"apiVersion": f"{API_GROUP}/{version}", "kind": f"{POLICY_KIND}Binding"},
            "matchConstraints": {"resourceRules": [rule | {"resources": ["priorityclasses"]}]},
            "validations": [
                {
                    "expression": f"{used} != oldObject.metadata.name",
                    "messageExpression": f"""\
'new pods would be refused: first delete the {POLICY_KIND}Binding ' + params.metadata.name
+ ', which gives them this class'""",
                }
            ],
        },
    }


def classes_binding() -> dict[str, Any]:
    """The binding of the policy. Its parameters are the bindings of all profiles."""
    profiles = {"matchExpressions": [{"key": PROFILE_LABEL, "operator": "Exists"}]}
    return {
        "apiVersion": f"{API_GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": CLASSES_POLICY},
        "spec": {
            "policyName": CLASSES_POLICY,
            "validationActions": ["Deny"],
            "paramRef": {"selector": profiles, "parameterNotFoundAction": "Allow"},
        },
    }
