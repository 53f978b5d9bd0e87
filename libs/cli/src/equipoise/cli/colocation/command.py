"""`equipoise colocation`."""

from pathlib import Path

import click


@click.group()
def colocation() -> None:
    """Make the manifests of co-location: pods that use what other pods leave idle."""


@colocation.command()
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--namespace", "-n", default="equipoise-system", show_default=True, help="Namespace of the ConfigMaps.")
@click.option(
    "--api-version",
    type=click.Choice(["v1", "v1beta1"]),
    default="v1",
    show_default=True,
    help="Version of MutatingAdmissionPolicy that the API server has: v1beta1 before Kubernetes 1.36.",
)
@click.option("--priority-classes", is_flag=True, help="Also print the PriorityClasses equipoise-prod to -free.")
@click.option("--qos-validation", is_flag=True, help="Also print the policy that validates QoS classes of all pods.")
def profile(
    files: tuple[Path, ...], namespace: str, api_version: str, priority_classes: bool, qos_validation: bool
) -> None:
    """Print the manifests of colocation profiles: `equipoise colocation profile FILE | kubectl apply -f -`.

    Each file has one profile, as YAML. New pods that a profile selects get its QoS class and priority, and
    their cpu and memory become amounts of its band. Pods that exist do not change.
    """
    from equipoise.cli.colocation.profile import profile_manifests, read_profiles
    from equipoise.runtime.kubernetes.colocation_manifests import manifests_text

    documents = profile_manifests(
        read_profiles(files),
        namespace,
        api_version,
        with_priority_classes=priority_classes,
        with_qos_validation=qos_validation,
    )
    click.echo(manifests_text(documents), nl=False)
