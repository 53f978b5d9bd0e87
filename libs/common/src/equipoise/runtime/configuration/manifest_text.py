"""Writes manifests as YAML for people."""

from collections.abc import Mapping
from typing import Any

import yaml


def manifest_text(document: Mapping[str, Any], *, width: int = 120) -> str:
    """The YAML of a manifest. Fields keep their order, and texts of several lines their lines. Lines longer than
    `width` are folded."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=width, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """A dumper that writes equal values out instead of using aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
