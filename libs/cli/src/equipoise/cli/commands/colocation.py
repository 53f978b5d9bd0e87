"""`equipoise colocation`."""

from typing import IO

import click

from equipoise.cli.reclaimed.command import reclaimed


@click.group()
def colocation() -> None:
    """Pods that run on what others have requested but do not use."""


colocation.add_command(reclaimed)


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
    click.echo(_profile_manifests(file.read(), namespace=namespace, version=api_version), nl=False)


def _profile_manifests(text: str, *, namespace: str, version: str) -> str:
    """YAML of all profiles in the file. Raises ConfigurationError with the path of the fault."""
    from equipoise.contracts.colocation.profile import Profile, manifests
    from equipoise.runtime.configuration import ConfigurationError
    from equipoise.runtime.configuration.errors import convert
    from equipoise.runtime.configuration.manifest_text import manifest_text
    from equipoise.runtime.configuration.yaml_text import UnreadableYaml, read_yaml

    try:
        document = read_yaml(text)
    except UnreadableYaml as error:
        raise ConfigurationError(str(error)) from None
    items = document.get("profiles") if isinstance(document, dict) else None
    if not isinstance(items, list) or not items or len(document) > 1:
        raise ConfigurationError("the file must have one field, profiles: a list with at least one profile")
    profiles = [convert(item, Profile, f"profiles[{index}]") for index, item in enumerate(items)]
    if len({profile.name for profile in profiles}) < len(profiles):
        raise ConfigurationError("profiles must have different names")
    documents = [document for profile in profiles for document in manifests(profile, version, namespace)]
    return "---\n".join(manifest_text(document) for document in documents)
