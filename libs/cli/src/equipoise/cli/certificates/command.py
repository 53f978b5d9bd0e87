"""`equipoise certificates`."""

from pathlib import Path

import click


@click.command()
@click.option(
    "--out", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder for the files."
)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["extender", "nats", "hints-webhook"]),
    default="extender",
    show_default=True,
    help="extender: the scorer and kube-scheduler. nats: the NATS server. hints-webhook: the webhook of hints.",
)
@click.option("--name", "names", multiple=True, help="Additional DNS name of the server. May be repeated.")
@click.option("--address", "addresses", multiple=True, help="IP address of the server. May be repeated.")
@click.option("--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="Validity in days.")
@click.option("--force", is_flag=True, help="Renew the certificates in the folder with the CA in the folder.")
def certificates(
    folder: Path, purpose: str, names: tuple[str, ...], addresses: tuple[str, ...], days: int, force: bool
) -> None:
    """Create TLS certificates, and print how to install them."""
    from equipoise.cli.certificates.issue import make_certificates
    from equipoise.cli.certificates.purposes import PURPOSES
    from equipoise.runtime.process.clock import SystemClock

    now = SystemClock().now()
    text = make_certificates(
        folder, PURPOSES[purpose], names=names, addresses=addresses, days=days, force=force, now=now
    )
    click.echo(text)
