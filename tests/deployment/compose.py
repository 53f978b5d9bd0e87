"""The programs of docker-compose.yml, with merge keys, anchors and variables resolved."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from deployment.base import ROOT
from deployment.certificates import SERVER_FILES
from deployment.programs import KUBECONFIG, VOLUME, Program, health_of

from equipoise.runtime.bus.permissions import STANDARD_USERS

COMPOSE = ROOT / "docker-compose.yml"
COLOCATION = ROOT / "docker-compose.colocation.yml"

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_SECONDS = re.compile(r"(\d+)s")


def compose_document(path: Path = COMPOSE, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """With every `${NAME:-default}` replaced. Raises KeyError for a variable without value and default."""
    values: Mapping[str, str] = {} if environment is None else environment

    def value(match: re.Match[str]) -> str:
        name, default = match.groups()
        return values[name] if default is None else values.get(name, default)

    document: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(value, path.read_text()))
    return document


def colocation_document() -> dict[str, Any]:
    """docker-compose.yml with docker-compose.colocation.yml, merged as compose does: mounts by their path."""
    document, added = compose_document(), compose_document(COLOCATION)
    (changed,) = document["services"].keys() & added["services"].keys()
    service = document["services"][changed]
    volumes = {_path(entry): entry for entry in (*service["volumes"], *added["services"].pop(changed)["volumes"])}
    service["volumes"] = list(volumes.values())
    document["services"] |= added["services"]
    document["secrets"] |= added["secrets"]
    return document


def _path(volume: str) -> str:
    return volume.removesuffix(":ro").rpartition(":")[2]


def compose_programs(document: Mapping[str, Any]) -> dict[str, Program]:
    secrets = document.get("secrets", {})
    volumes = set(document.get("volumes", {}))
    return {name: _program(name, service, secrets, volumes) for name, service in document["services"].items()}


def _program(name: str, service: Mapping[str, Any], secrets: Mapping[str, Any], volumes: set[str]) -> Program:
    check = service.get("healthcheck", {}).get("test", ["CMD"])
    assert check[0] == "CMD", f"{name}: the health check must not use a shell"
    return Program(
        name=name,
        image=service["image"],
        command=tuple(service["command"]),
        environment=_environment(service),
        mounts=_mounts(service, secrets, volumes),
        user=service.get("user"),
        read_only=service.get("read_only", False),
        grace_seconds=_seconds(service.get("stop_grace_period", "10s")),
        health=health_of(check[-1]) if len(check) > 1 else None,
        health_command=tuple(check[1:]),
        after={other: dependency["condition"] for other, dependency in service.get("depends_on", {}).items()},
    )


def _environment(service: Mapping[str, Any]) -> dict[str, str]:
    values = {key: str(value) for key, value in service.get("environment", {}).items()}
    if service.get("env_file") == "secrets/nats.env":  # created as in docs/install.md
        values |= {f"EQUIPOISE_{user.upper()}_PASSWORD": f"'secret:{user}'" for user in STANDARD_USERS}
    return values


def _mounts(service: Mapping[str, Any], secrets: Mapping[str, Any], volumes: set[str]) -> dict[str, str]:
    mounts = dict.fromkeys(service.get("tmpfs", ()), VOLUME)
    for entry in service.get("volumes", ()):
        source, target = entry.removesuffix(":ro").split(":")
        if source in volumes:
            mounts[target] = VOLUME
        elif source == "~/.kube/config":
            mounts[target] = KUBECONFIG
        elif source.startswith("./secrets/"):
            mounts[target] = _secret(source.removeprefix("./"))
        else:
            mounts[target] = os.path.normpath(source)
    for entry in service.get("secrets", ()):
        mounts[entry["target"]] = _secret(secrets[entry["source"]]["file"])
    return mounts


def _secret(file: str) -> str:
    name = file.removeprefix("secrets/")
    return f"secret:{SERVER_FILES.get(name, name)}"


def _seconds(text: str) -> int:
    match = _SECONDS.fullmatch(text)
    assert match, text
    return int(match[1])
