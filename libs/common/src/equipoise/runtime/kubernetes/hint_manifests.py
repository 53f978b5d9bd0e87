"""The manifests of k8s/hints that are made from `equipoise.contracts.hints`.

`python -m equipoise.runtime.kubernetes.hint_manifests k8s/hints` writes them.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from equipoise.contracts.hints.definition import definition
from equipoise.contracts.hints.policy import binding, policy
from equipoise.contracts.kubernetes.mutating_policy import API_VERSIONS
from equipoise.runtime.configuration.manifest_text import manifest_text

_HEADER = """\
# Made from equipoise.contracts.hints by equipoise.runtime.kubernetes.hint_manifests: do not edit.
"""
NEWEST = API_VERSIONS[0]


def hint_manifests() -> Mapping[str, str]:
    """Text by file name."""
    return {
        "definition.yaml": _HEADER + manifest_text(definition()),
        **{
            _file(version): _HEADER + manifest_text(policy(version)) + "---\n" + manifest_text(binding(version))
            for version in API_VERSIONS
        },
    }


def _file(version: str) -> str:
    return "policy.yaml" if version == NEWEST else f"policy-{version}.yaml"


def main() -> None:
    for name, text in hint_manifests().items():
        Path(sys.argv[1], name).write_text(text)


if __name__ == "__main__":
    main()
