"""The limits of one reading of the cluster."""

import asyncio

import pytest

from equipoise.cli.cluster_now.options import limited_reading
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.progress import Activity


async def test_a_reading_that_takes_too_long_ends_with_what_it_waited_for() -> None:
    activity = Activity("measuring the last 5m", lambda _: None)
    with pytest.raises(CommandFailed, match="not read within 0 s; unfinished: measuring the last 5m: 0 of 1 queries"):
        async with limited_reading(activity, 0.01):
            await activity.count(asyncio.Event().wait())


async def test_another_timeout_is_not_called_one_of_the_reading() -> None:
    with pytest.raises(TimeoutError, match="of a connection"):
        async with limited_reading(Activity("connecting", lambda _: None), 60.0):
            raise TimeoutError("of a connection")
