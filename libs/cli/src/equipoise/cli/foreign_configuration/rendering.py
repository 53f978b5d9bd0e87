"""Prints a translation as YAML with comments, and its remarks as a table."""

from typing import Any

import yaml
from rich.console import Console

from equipoise.cli.foreign_configuration.translation import Remark, Setting, Translation
from equipoise.cli.terminal import table
from equipoise.runtime.configuration import API_VERSION, KIND

_HEADER = """\
# Translated by `equipoise config from`. The comments name the settings of the source.
# Evictions are dry runs. Set binder.evict to true when `equipoise plan` shows what you want.
"""


def document_text(translation: Translation) -> str:
    """The configuration as YAML, with the origin of each setting as a comment."""
    settings = translation.document
    settings["binder"] = {"evict": Setting(value=False, origin="")} | settings.get("binder", {})
    lines = [f"apiVersion: {API_VERSION}", f"kind: {KIND}", *_mapping(settings, 0)]
    return _HEADER + "\n".join(lines) + "\n"


def _mapping(settings: dict[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for name, value in settings.items():
        lines += _entry(f"{'  ' * depth}{name}:", value, depth)
    return lines


def _entry(prefix: str, value: Any, depth: int) -> list[str]:
    if isinstance(value, Setting):
        text = f"{prefix} {_flow(value.value)}"
        return [f"{text}  # {value.origin}" if value.origin else text]
    if isinstance(value, dict):
        return [prefix, *_mapping(value, depth + 1)] if value else [f"{prefix} {{}}"]
    if isinstance(value, list):
        return [prefix, *(line for item in value for line in _item(item, depth + 1))]
    return [f"{prefix} {_flow(value)}"]


def _item(settings: dict[str, Any], depth: int) -> list[str]:
    first, *others = _mapping(settings, depth + 1)
    return [f"{'  ' * depth}- {first.lstrip()}", *others]


def _flow(value: Any) -> str:
    """The value on one line, in ASCII."""
    text = yaml.safe_dump([value], default_flow_style=True, width=10**9, allow_unicode=False)
    return text.strip()[1:-1]


def print_remarks(remarks: list[Remark], to: Console) -> None:
    """Print a row per remark, those about lost settings first."""
    if not remarks:
        return
    rows = table("result", "setting", "value", "reason")
    order = {"not translated": 0, "changed": 1, "note": 2}
    for remark in sorted(remarks, key=lambda remark: order[remark.result]):
        rows.add_row(remark.result, remark.setting, remark.value, remark.reason)
    to.print(rows)
