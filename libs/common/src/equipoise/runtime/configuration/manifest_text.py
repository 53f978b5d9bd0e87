"""Manifests as YAML for people."""

from collections.abc import Mapping
from typing import Any

import yaml


def manifest_text(document: Mapping[str, Any], *, width: int = 120) -> str:
    """Fields in their order, expressions of several lines as they are. Longer lines than `width` are folded."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=width, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Equal values are written out, not as aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
