"""What a kubeconfig says of contexts, to name the cluster before anything is done to it."""

import os
from pathlib import Path
from typing import Any

import msgspec
import yaml

from equipoise.cli.exit_codes import WrongInput


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Where a command would go."""

    files: str
    """As KUBECONFIG has it: one or several, parted by colons."""

    name: str
    cluster: str
    server: str
    """Empty when the file does not say."""


def chosen_context(files: str, name: str | None) -> Context:
    """The named context, else the current one; of several files the first that knows a name wins.

    Raises WrongInput when there is no such file or context, with those that are there.
    """
    documents = [_read(Path(file)) for file in files.split(os.pathsep) if file and Path(file).exists()]
    if not documents:
        raise WrongInput(f"there is no kubeconfig at {files}: give one with --kubeconfig")
    chosen = name or next((current for document in documents if (current := document.get("current-context"))), "")
    contexts = _named(documents, "contexts", "context")
    if chosen not in contexts:
        wanted = f"no context {chosen!r}" if chosen else "no current context"
        raise WrongInput(f"{files} has {wanted} (it has: {', '.join(contexts) or 'none'}): choose one with --context")
    cluster = str(contexts[chosen].get("cluster", ""))
    server = _named(documents, "clusters", "cluster").get(cluster, {}).get("server", "")
    return Context(files=files, name=chosen, cluster=cluster, server=str(server))


def default_files() -> str:
    """Where kubectl looks when it is told nothing."""
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongInput(f"{path} is no kubeconfig: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise WrongInput(f"{path} is no kubeconfig: it must be a mapping with clusters, users and contexts")
    return document


def _named(documents: list[dict[str, Any]], plural: str, singular: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for document in documents:
        for entry in document.get(plural) or []:
            if isinstance(entry, dict) and "name" in entry:
                found.setdefault(str(entry["name"]), entry.get(singular) or {})
    return found
