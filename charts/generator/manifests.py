"""The objects of k8s, parsed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"

OPTIONAL = (
    "prepare/prepare.yaml",
    "scheduler/second-scheduler.yaml",
    "scheduler/equipoise-scheduler.yaml",
    "live-page/live-page.yaml",
    "hints/definition.yaml",
    "hints/annotator.yaml",
    "hints/policy.yaml",
    "hints/webhook.yaml",
    "consolidation/annotator.yaml",
    "deletion-costs/annotator.yaml",
    "surge/binder.yaml",
    "cert-manager/certificates.yaml",
    "colocation/reclaimer.yaml",
    "colocation/reclaimer-fence.yaml",
    "colocation/agent.yaml",
    "colocation/evictions/evictions.yaml",
)

Document = dict[str, Any]


class Manifests:
    """The objects of k8s/base and of what is optional beside it, by file."""

    def __init__(self, folder: Path = K8S) -> None:
        base = yaml.safe_load((folder / "base" / "kustomization.yaml").read_text())
        paths = [folder / "base" / name for name in base["resources"]]
        paths += [folder / name for name in OPTIONAL]
        self.files: dict[str, list[Document]] = {
            # Through JSON: what an anchor refers to must not change with its first use.
            str(path.relative_to(folder)): json.loads(
                json.dumps(list(filter(None, yaml.safe_load_all(path.read_text()))))
            )
            for path in paths
        }

    def __iter__(self) -> Iterator[Document]:
        for documents in self.files.values():
            yield from documents

    def at(self, kind: str, name: str, path: str) -> Any:
        """The value at this path of the one object of this kind and name."""
        value: Any
        (value,) = (each for each in self if each["kind"] == kind and each["metadata"]["name"] == name)
        for key in path.split("."):
            value = value[int(key) if isinstance(value, list) else key]
        return value
