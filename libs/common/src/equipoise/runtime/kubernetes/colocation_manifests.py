"""The manifests of k8s/colocation/profiles that are made from `equipoise.contracts.colocation`.

`python -m equipoise.runtime.kubernetes.colocation_manifests k8s/colocation/profiles` writes them.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from equipoise.contracts.colocation.classes import priority_classes
from equipoise.contracts.colocation.profile_policy import check_policy, guard, policy
from equipoise.contracts.colocation.qos_policy import qos_validation
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS
from equipoise.runtime.configuration.manifest_text import manifest_text

_HEADER = """\
# Made from equipoise.contracts.colocation by equipoise.runtime.kubernetes.colocation_manifests: do not edit.
"""


def policies(version: str) -> list[dict[str, Any]]:
    """What all profiles share, for the API servers that serve this version of the MutatingAdmissionPolicy."""
    return [policy(version), check_policy(version), *guard(version)]


def manifests_text(documents: Iterable[Mapping[str, Any]]) -> str:
    """As YAML; expressions are not folded."""
    return "---\n".join(manifest_text(document, width=1_000) for document in documents)


def colocation_manifests() -> Mapping[str, str]:
    """Text by file name."""
    return {
        **{_file(version): _HEADER + manifests_text(policies(version)) for version in API_VERSIONS},
        "priority-classes.yaml": _HEADER + manifests_text(priority_classes()),
        "qos-validation.yaml": _HEADER + manifests_text(qos_validation()),
    }


def _file(version: str) -> str:
    return "policy.yaml" if version == API_VERSIONS[0] else f"policy-{version}.yaml"


def main() -> None:
    for name, text in colocation_manifests().items():
        Path(sys.argv[1], name).write_text(text)


if __name__ == "__main__":
    main()
