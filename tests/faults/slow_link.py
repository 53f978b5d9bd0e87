"""A TCP connection whose data arrives late, such as that of a server far behind its source."""

import asyncio
from contextlib import suppress
from typing import Self


class SlowLink:
    """Listens on the loopback interface inside its `async with`; what the upstream sends is `delay` seconds late."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._tasks: set[asyncio.Task[None]] = set()
        self.delay = 0.0

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        to_upstream: asyncio.StreamWriter | None = None
        try:
            from_upstream, to_upstream = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._copy(reader, to_upstream, late=False))
                directions.create_task(self._copy(from_upstream, writer, late=True))
        except* OSError:
            pass  # one side ended the connection
        finally:
            writer.close()
            if to_upstream is not None:
                to_upstream.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, late: bool) -> None:
        """In order; a chunk waits from when it was received."""
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def write() -> None:
            while True:
                received_at, chunk = await chunks.get()
                if late:
                    await asyncio.sleep(max(0.0, received_at + self.delay - loop.time()))
                writer.write(chunk)
                await writer.drain()

        writing = asyncio.create_task(write())
        try:
            while chunk := await reader.read(1 << 16):
                chunks.put_nowait((loop.time(), chunk))
        finally:
            writing.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await writing
        raise ConnectionError("the connection has ended")
