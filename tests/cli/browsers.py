"""A real Chromium, driven through chromedriver by the WebDriver protocol (W3C): JSON over HTTP."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="chromium or chromedriver is not installed (Debian: apt-get install chromium chromium-driver)",
)

PATIENCE = 60.0
"""Seconds for one request, and for a condition."""


class Browser:
    """One window."""

    def __init__(self, http: ClientSession, session: str) -> None:
        self._http, self._session = http, session

    async def call(self, path: str, **body: Any) -> Any:
        """A command of the protocol. Raises AssertionError with the driver's text."""
        async with self._http.post(f"{self._session}/{path}", json=body) as response:
            value = (await response.json())["value"]
        assert response.status == 200, value
        return value

    async def open(self, url: str) -> None:
        await self.call("url", url=url)

    async def run(self, script: str, *arguments: Any) -> Any:
        """The value that the script returns."""
        return await self.call("execute/sync", script=script, args=list(arguments))

    async def until(self, script: str) -> Any:
        """Wait until the expression is true; its value."""
        async with asyncio.timeout(PATIENCE):
            while not (value := await self.run(f"return {script}")):  # noqa: ASYNC110  another process has no event
                await asyncio.sleep(0.05)
        return value

    async def devtools(self, method: str, **parameters: Any) -> Any:
        return await self.call("goog/cdp/execute", cmd=method, params=parameters)

    async def size(self, width: int, height: int, *, dark: bool = False) -> None:
        await self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.devtools("Emulation.setEmulatedMedia", features=features)

    async def press(self, *keys: str) -> None:
        """Each key is a character, or a key of the protocol such as \\ue007 (Enter)."""
        actions = [
            step for key in keys for step in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})
        ]
        await self.call("actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    async def log(self, kind: str) -> list[dict[str, Any]]:
        """`browser` (console) or `performance` (requests): what was added since the last call."""
        entries: list[dict[str, Any]] = await self.call("se/log", type=kind)
        return entries


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[Browser]:
    """`profile`: an empty folder."""
    assert DRIVER is not None
    driver = await asyncio.create_subprocess_exec(
        DRIVER, "--port=0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True
    )
    assert driver.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            output = ""
            while not (found := re.search(r"started successfully on port (\d+)", output)):
                line = await driver.stdout.readline()
                assert line, f"chromedriver ended:\n{output}"
                output += line.decode()
        arguments = [
            "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}",
            "--disable-background-networking", "--no-first-run", "--window-size=1280,900",
        ]  # fmt: skip
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": CHROMIUM, "args": arguments},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        async with ClientSession(timeout=ClientTimeout(total=PATIENCE)) as http:
            url = f"http://127.0.0.1:{found[1]}/session"
            async with http.post(url, json={"capabilities": {"alwaysMatch": capabilities}}) as response:
                created = (await response.json())["value"]
            assert "sessionId" in created, created
            session = f"{url}/{created['sessionId']}"
            try:
                yield Browser(http, session)
            finally:
                await http.delete(session)
    finally:
        driver.terminate()
        await driver.wait()
