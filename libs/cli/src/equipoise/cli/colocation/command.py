"""`equipoise colocation`."""

from typing import IO

import click


@click.group()
def colocation() -> None:
    """Pods that run on what others have requested but do not use."""


@colocation.command()
@click.argument("file", type=click.File())
@click.option(
    "--namespace", default="equipoise-system", show_default=True, help="Namespace of Equipoise, for the ConfigMaps."
)
@click.option(
    "--api-version",
    type=click.Choice(["v1", "v1beta1"]),
    default="v1",
    show_default=True,
    help="Version of MutatingAdmissionPolicy: v1beta1 for Kubernetes 1.34 and 1.35.",
)
def profile(file: IO[str], namespace: str, api_version: str) -> None:
    """Print the manifests of the profiles in FILE (`-`: standard input), for `kubectl apply -f -`.

    A profile makes new pods of some namespaces pods of a band. docs/colocation.md has an example.
    """
    from equipoise.cli.colocation.profiles import profile_manifests

    click.echo(profile_manifests(file.read(), namespace=namespace, version=api_version), nl=False)
