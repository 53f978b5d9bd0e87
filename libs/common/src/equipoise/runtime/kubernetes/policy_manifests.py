"""Generates those manifests of k8s that contain expressions of the API server, from `equipoise.contracts`.

`python -m equipoise.runtime.kubernetes.policy_manifests k8s` writes them.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.contracts.colocation.priority_classes import classes_binding, classes_policy, priority_classes
from equipoise.contracts.colocation.profile_policy import profile_policy, warning_policy
from equipoise.contracts.colocation.qos_policy import qos_binding, qos_policy
from equipoise.contracts.hints.definition import definition
from equipoise.contracts.hints.policy import binding, policy
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS
from equipoise.runtime.configuration.manifest_text import manifest_text

NEWEST = API_VERSIONS[0]


def policy_manifests() -> Mapping[str, str]:
    """The texts of the manifests, by file name below k8s."""
    hints, colocation = "equipoise.contracts.hints", "equipoise.contracts.colocation"
    return {
        "hints/definition.yaml": _text(hints, definition()),
        **{f"hints/{_file(version)}": _text(hints, policy(version), binding(version)) for version in API_VERSIONS},
        "colocation/profiles/priority-classes.yaml": _text(colocation, *priority_classes()),
        "colocation/profiles/qos.yaml": _text(colocation, qos_policy(), qos_binding()),
        **{
            f"colocation/profiles/{_file(version)}": _text(
                colocation,
                profile_policy(version),
                warning_policy(version),
                classes_policy(version),
                classes_binding(),
            )
            for version in API_VERSIONS
        },
    }


def _text(source: str, *documents: Mapping[str, Any]) -> str:
    header = f"# Made from {source} by equipoise.runtime.kubernetes.policy_manifests: do not edit.\n"
    return header + "---\n".join(manifest_text(document) for document in documents)


def _file(version: str) -> str:
    return "policy.yaml" if version == NEWEST else f"policy-{version}.yaml"


def main() -> None:
    for name, text in policy_manifests().items():
        Path(sys.argv[1], name).write_text(text)


if __name__ == "__main__":
    main()
