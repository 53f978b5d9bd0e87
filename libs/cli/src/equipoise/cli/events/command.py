"""`equipoise events`."""

import click


@click.command()
@click.option("-o", "--output", type=click.Choice(["text", "asyncapi"]), default="text", show_default=True)
def events(output: str) -> None:
    """Document the messages on the bus.

    Prints a page with an example of each message, or an AsyncAPI 3 document (YAML).
    """
    from equipoise.cli.events.asyncapi import asyncapi_yaml
    from equipoise.cli.events.page import page

    click.echo(asyncapi_yaml() if output == "asyncapi" else page(), nl=False)
