"""`equipoise tap`."""

from typing import TYPE_CHECKING

import click

from equipoise.cli.options import json_option, nats_options

if TYPE_CHECKING:
    from equipoise.runtime.configuration import Nats


@click.command()
@click.argument("subject", default="")
@nats_options
@json_option
def tap(subject: str, server: "Nats", as_json: bool) -> None:
    """Watch the messages of the services, one line per message.

    SUBJECT may be a pattern: eviction, 'utilization.node.*', '*.node.NAME'. The default is every subject.
    """
    import asyncio

    from equipoise.cli.tap.run import run_tap

    asyncio.run(run_tap(subject, server, as_json=as_json))
