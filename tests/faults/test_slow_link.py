"""Data of the upstream arrives late and in order."""

import asyncio

from faults.slow_link import SlowLink


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while line := await reader.readline():
        writer.write(line)
    writer.close()


async def test_data_of_the_upstream_is_late() -> None:
    """Only with a delay, which holds for open connections too."""
    async with (
        await asyncio.start_server(_echo, "127.0.0.1", 0) as upstream,
        SlowLink(upstream.sockets[0].getsockname()[1]) as link,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(b"first\n")
        assert await reader.readline() == b"first\n"
        link.delay = 0.3
        begun = asyncio.get_running_loop().time()
        writer.write(b"second\nthird\n")
        assert [await reader.readline(), await reader.readline()] == [b"second\n", b"third\n"]
        assert asyncio.get_running_loop().time() - begun >= 0.3
        writer.close()
