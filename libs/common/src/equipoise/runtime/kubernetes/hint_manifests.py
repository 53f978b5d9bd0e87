"""The manifests of k8s/hints that are made from `equipoise.contracts.hints`.

`python -m equipoise.runtime.kubernetes.hint_manifests k8s/hints` writes them.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from equipoise.contracts.hints.definition import definition
from equipoise.contracts.hints.policy import API_VERSIONS, binding, policy

_HEADER = """\
# Made from equipoise.contracts.hints by equipoise.runtime.kubernetes.hint_manifests: do not edit.
"""
NEWEST = API_VERSIONS[0]


def hint_manifests() -> Mapping[str, str]:
    """Text by file name."""
    return {
        "definition.yaml": _HEADER + _text(definition()),
        **{
            _file(version): _HEADER + _text(policy(version)) + "---\n" + _text(binding(version))
            for version in API_VERSIONS
        },
    }


def _file(version: str) -> str:
    return "policy.yaml" if version == NEWEST else f"policy-{version}.yaml"


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines as they are; no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _text(document: Mapping[str, Any]) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)


def main() -> None:
    for name, text in hint_manifests().items():
        Path(sys.argv[1], name).write_text(text)


if __name__ == "__main__":
    main()
