"""The page of `equipoise dashboard` in a real Chromium."""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cli.browsers import Browser, chromium, needs_chromium
from cli.live_pages import ShownCluster, publish, shown_page

from equipoise.cli.views.page.viewers import Viewers
from equipoise.runtime.process.clock import SystemClock

PAGE = Path(__file__).parents[4] / "libs/cli/page"
ENTER, ESCAPE, RIGHT = "\ue007", "\ue00c", "\ue014"
PAINTED = "window.equipoise && window.equipoise.firstPaint > 0 && document.querySelectorAll('.map canvas').length"

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def clock() -> SystemClock:
    return SystemClock()


@asynccontextmanager
async def a_browser(folder: Path, url: str, width: int = 1280, *, dark: bool = False) -> AsyncIterator[Browser]:
    async with chromium(folder / "profile") as browser:
        await browser.size(width, 900, dark=dark)
        await browser.open(url)
        await browser.until(PAINTED)
        yield browser


async def requested(browser: Browser) -> set[str]:
    """Schemes and hosts of all requests so far, without those of the browser for itself."""
    messages = [json.loads(entry["message"])["message"] for entry in await browser.log("performance")]
    sent = (each["params"]["request"]["url"] for each in messages if each["method"] == "Network.requestWillBeSent")
    urls = map(urlsplit, sent)
    return {f"{url.scheme}://{url.netloc}" for url in urls if url.scheme not in ("data", "chrome", "about")}


async def test_the_page_shows_the_cluster_and_explains_a_node(tmp_path: Path, clock: SystemClock) -> None:
    """By keyboard alone, without an error in the console, without a foreign request, on a wide and a narrow screen."""
    cluster = ShownCluster(40, clock.now())
    async with shown_page(cluster) as (url, viewers), a_browser(tmp_path, url) as browser:
        overview, tiles = await browser.run(
            "return [...document.querySelectorAll('.tiles')].map(each => each.innerText)"
        )
        plan = await browser.run("return document.querySelector('[aria-labelledby=plan-title]').innerText")
        moves = await browser.run("return document.querySelector('.feed').innerText")
        await browser.run("document.querySelector('[role=grid]').focus()")
        await browser.press(RIGHT, RIGHT)
        cell = await browser.until("document.getElementById('active-cell').textContent")
        await browser.press(ENTER)
        explained = await browser.until("document.querySelector('dialog[open] pre')?.textContent")
        title = await browser.run("return document.querySelector('dialog[open] h2').textContent")
        await browser.press(ESCAPE)
        await browser.until("!document.querySelector('dialog[open]') && document.activeElement.role === 'grid'")

        updates = await browser.run("return window.equipoise.updates")
        cluster.measure(clock.now(), level=1.0)
        publish(cluster, viewers)
        await browser.until(f"window.equipoise.updates > {updates}")
        await browser.until("document.querySelector('.pill.status').innerText === 'live'")

        await browser.run("document.querySelector('.feed button').click()")
        await browser.until("document.querySelector('dialog[open] .kind')?.textContent === 'eviction'")
        hosts = await requested(browser)
        console = [entry["message"] for entry in await browser.log("browser")]
        await browser.size(380, 800)
        await browser.until("window.innerWidth === 380 && document.documentElement.scrollWidth <= 380")

    assert "38of 40" in tiles
    assert "3,504 EURa month" in overview
    assert "38 of 40 nodes; the price of the others is unknown" in overview
    assert "1 move in progress" in overview
    assert "263 EUR a month, 61 pods to move, hottest hour from 52 % to 57 %" in overview
    assert "In sum: " in plan
    assert "gain and cost: 6.2 points; 1.50 GiB, 3 d old, ready in 12 s" in plan
    assert "gain and cost: 6.2 points; 1.50 GiB, 3 d old, ready in 12 s" in moves
    assert cell.startswith("node-01.example.com: CPU ")
    assert "node-01.example.com" == title
    assert "policy " in explained
    assert {url.rstrip("/")} == hosts
    assert [] == console


@pytest.mark.weekly
@pytest.mark.parametrize("nodes", [0, 1, 3, 700])
async def test_every_size_of_cluster_has_a_map(nodes: int, tmp_path: Path, clock: SystemClock) -> None:
    """Also without any node: then it is empty, with the reason."""
    cluster = ShownCluster(max(nodes, 1), clock.now())
    if nodes == 0:
        cluster.state._rows.clear()
    async with shown_page(cluster) as (url, _), chromium(tmp_path) as browser:
        await browser.size(1280, 900)
        await browser.open(url)
        await browser.until("window.equipoise && window.equipoise.firstPaint > 0")
        shown = await browser.until(
            "document.querySelector('.card .empty')"
            if nodes == 0
            else "document.querySelectorAll('.map canvas').length"
        )
        console = await browser.log("browser")

    assert shown
    assert [] == console


@pytest.mark.weekly
async def test_a_browser_that_slept_for_an_hour_gets_a_new_snapshot(tmp_path: Path, clock: SystemClock) -> None:
    """Its stream was closed, and the changes of an hour are not kept."""
    cluster = ShownCluster(40, clock.now())
    async with shown_page(cluster) as (url, viewers), a_browser(tmp_path, url) as browser:
        await connection_lost(viewers)
        cluster.measure(clock.now(), level=1.0)
        for _ in range(3_600):
            viewers.publish(b"{}")
        await browser.until("window.equipoise.snapshots === 2")
        spread = await browser.until("document.querySelector('.tiles.three .tile b').innerText")

    summary = cluster.state.everything().summary
    assert summary is not None
    assert f"{100 * (summary.spread.cpu or 0):.1f}" == spread


@pytest.mark.weekly
async def test_a_stream_that_is_silent_is_opened_again(tmp_path: Path, clock: SystemClock) -> None:
    """After a sleep of the machine the browser may not notice that the connection is dead. Nothing is sent twice."""
    cluster = ShownCluster(40, clock.now())
    async with shown_page(cluster) as (url, viewers), a_browser(tmp_path, url) as browser:
        before = next(iter(viewers._viewers))
        await browser.run("const now = Date.now; Date.now = () => now() + 3600000")
        async with asyncio.timeout(60):
            while before in viewers._viewers or len(viewers) == 0:  # noqa: ASYNC110  the browser has no event
                await asyncio.sleep(0.05)

        assert 1 == await browser.run("return window.equipoise.snapshots")


async def connection_lost(viewers: Viewers) -> None:
    viewers.close_all()
    async with asyncio.timeout(60):
        while len(viewers):  # noqa: ASYNC110  the streams end on their own
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sources of the page and its packages, as `npm ci` installs them."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed (Debian: apt-get install npm)")
    folder = tmp_path_factory.mktemp("page") / "page"
    shutil.copytree(PAGE, folder, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    if installed.returncode:
        pytest.skip(f"npm ci failed, is there a package registry? {installed.stderr[-300:]}")
    return folder


@pytest.mark.weekly
def test_building_the_page_again_gives_the_same_files(node_modules: Path, tmp_path: Path) -> None:
    """What is shipped is built from these sources."""
    node = shutil.which("node")
    assert node is not None
    subprocess.run([node, "build.mjs", str(tmp_path)], cwd=node_modules, check=True, timeout=100, env=os.environ)

    for file in sorted(tmp_path.iterdir()):
        shipped = files("equipoise.cli.views.page").joinpath("static", file.name).read_bytes()
        assert shipped == file.read_bytes(), f"{file.name}: cd libs/cli/page && npm ci && npm run build"


@pytest.mark.weekly
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
async def test_axe_finds_nothing(
    dark: bool, width: int, node_modules: Path, tmp_path: Path, clock: SystemClock
) -> None:
    """On the page with its table open, and on the drawer of an explanation."""
    axe = (node_modules / "node_modules/axe-core/axe.min.js").read_text()
    async with (
        shown_page(ShownCluster(40, clock.now())) as (url, _),
        a_browser(tmp_path, url, width, dark=dark) as browser,
    ):
        await browser.run("document.querySelector('details').open = true")
        await browser.until("document.querySelectorAll('details tbody tr').length")
        page = await violations(browser, axe)
        await browser.run("document.querySelector('.feed .way button').click()")
        await browser.until("document.querySelector('dialog[open] pre')")
        drawer = await violations(browser, axe)

    assert ([], []) == (page, drawer)


async def violations(browser: Browser, axe: str) -> list[str]:
    """Rule, text of the rule and elements, of each violation."""
    await browser.run(axe)
    found = await browser.run(
        "return axe.run().then(found => found.violations.map(each => "
        "`${each.id}: ${each.help}: ${each.nodes.map(node => node.html.slice(0, 200)).join(' | ')}`))"
    )
    assert isinstance(found, list)
    return found


@pytest.mark.weekly
async def test_dark_and_light_follow_the_system(tmp_path: Path, clock: SystemClock) -> None:
    """The maps and their legend are drawn again, too."""
    async with shown_page(ShownCluster(40, clock.now())) as (url, _), a_browser(tmp_path, url) as browser:
        pixel = (
            "return [getComputedStyle(document.body).backgroundColor, [...document.querySelectorAll('.map canvas')]"
            ".map(canvas => [...canvas.getContext('2d').getImageData(4, 20, 1, 1).data]), "
            "[...document.querySelectorAll('.ramp i')].map(part => getComputedStyle(part).backgroundColor)]"
        )
        light = await browser.run(pixel)
        await browser.size(1280, 900, dark=True)
        async with asyncio.timeout(60):
            while (dark := await browser.run(pixel))[1] == light[1]:  # noqa: ASYNC110  another process has no event
                await asyncio.sleep(0.05)

    assert light[0] != dark[0]
    assert all(one != other for one, other in zip(light[1] + light[2], dark[1] + dark[2], strict=True))
