"""Contexts of a kubeconfig, and the cluster that a command connects to."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.contracts.configuration.shallow_yaml import ShallowLoader
from equipoise.runtime.configuration import Kubernetes, read_document, read_sections
from equipoise.runtime.process.bounded_files import read_bounded_text

IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
"""Settings of a user that requests are for another user. The client of the API server does not read them, so its
requests would have the permissions of the credentials."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """A context of a kubeconfig."""

    files: str
    """The path of a kubeconfig, or several separated by colons, as in KUBECONFIG."""

    name: str
    cluster: str
    server: str
    """The URL of the API server; empty if the kubeconfig does not have it."""


class ClusterName(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that a command connects to, for people."""

    context: str
    """Empty in a pod."""

    cluster: str
    server: str

    def __str__(self) -> str:
        name = f"{self.cluster} {self.server}".rstrip()
        return f"{name} (context {self.context})" if self.context else name


def cluster_name(connection: Kubernetes, environment: Mapping[str, str]) -> ClusterName:
    """The cluster's name, from the result of `cluster_connection`. Raises InvalidInput."""
    if not connection.kubeconfig:
        host, port = (environment.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        return ClusterName(context="", cluster="this pod's cluster", server=f"https://{host}:{port}")
    chosen = chosen_context(connection.kubeconfig, connection.context or None)
    return ClusterName(context=chosen.name, cluster=chosen.cluster, server=chosen.server)


def chosen_context(files: str, name: str | None) -> Context:
    """The context of this name; without a name, the current context.

    If several files define the same name, the first file counts. Raises InvalidInput, with the contexts that exist, and
    if the user of the context impersonates another one.
    """
    documents = [_read(Path(file)) for file in files.split(os.pathsep) if file and Path(file).exists()]
    if not documents:
        raise InvalidInput(f"no kubeconfig at {files}: use --kubeconfig")
    current = next((current for document in documents if (current := document.get("current-context"))), "")
    chosen = name or str(current)
    contexts = _named(documents, "contexts", "context")
    if chosen not in contexts:
        missing = f"no context {chosen!r}" if chosen else "no current context"
        raise InvalidInput(f"{files} has {missing} (it has: {', '.join(contexts) or 'none'}): use --context")
    user = _named(documents, "users", "user").get(str(contexts[chosen].get("user", "")), {})
    if impersonated := [key for key in IMPERSONATION if user.get(key)]:
        raise InvalidInput(
            f"context {chosen!r} of {files} is for another user ({impersonated[0]}: {user[impersonated[0]]}), and its "
            "credentials would be used without this: use a context with credentials of that user"
        )
    cluster = str(contexts[chosen].get("cluster", ""))
    server = _named(documents, "clusters", "cluster").get(cluster, {}).get("server", "")
    return Context(files=files, name=chosen, cluster=cluster, server=str(server))


def cluster_connection(
    configuration: Path | None, environment: Mapping[str, str], *, kubeconfig: str | None, context: str | None
) -> Kubernetes:
    """The connection to the cluster. Options override environment variables, which override the configuration file.

    Raises ConfigurationError and InvalidInput.
    """
    plain = {} if configuration is None else read_document(read_bounded_text(configuration))
    shared, _ = read_sections(plain, {}, environment)
    cluster = shared.kubernetes
    files = kubeconfig or cluster.kubeconfig
    if not files and "KUBERNETES_SERVICE_HOST" in environment:
        return cluster
    chosen = chosen_context(files or default_files(), context or cluster.context or None)
    return msgspec.structs.replace(cluster, kubeconfig=chosen.files, context=chosen.name)


def default_files() -> str:
    """The files that kubectl reads by default."""
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(read_bounded_text(path), Loader=ShallowLoader) or {}  # noqa: S506  a SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"{path} is not a kubeconfig: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise InvalidInput(f"{path} is not a kubeconfig: it must be a mapping with clusters, users and contexts")
    return document


def _named(documents: list[dict[str, Any]], plural: str, singular: str) -> dict[str, dict[str, Any]]:
    named: dict[str, dict[str, Any]] = {}
    for document in documents:
        entries = document.get(plural)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and "name" in entry:
                value = entry.get(singular)
                named.setdefault(str(entry["name"]), value if isinstance(value, dict) else {})
    return named
