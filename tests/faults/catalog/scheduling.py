"""kube-scheduler with a scorer that is killed, silent, slow, invalid, overloaded, or has old measurements.

kube-scheduler uses the extender entry of k8s/scheduler/extender.yaml. A second, stock kube-scheduler schedules as many
pods at the same time: its times are the baseline.
"""

import asyncio
import json
import math
import signal
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from equipoise.cli.certificates.issue import client_pair, new_ca, server_pair
from equipoise.testbed.objects import pod, pod_template
from equipoise.testbed.processes import configuration
from equipoise.testbed.processes.command_lines import kubeconfig_file
from equipoise.testbed.processes.loopback import responds
from faults import cluster_setup
from faults.background import background
from faults.catalog.fault import Extent, fault
from faults.extender_proxy import ExtenderProxy, Meter
from faults.fault_proxy import Fault, ProxiedRequest, around, delay, hold, respond
from faults.history import PodBatch, ScheduledPod
from faults.rig import Inconclusive, Program, Rig

ENTRY = Path(__file__).parents[3] / "k8s" / "scheduler" / "extender.yaml"
WITH_EXTENDER, STOCK = "default-scheduler", "stock"
"""Names of the schedulers."""

BURST = 200
"""Pods created at once."""

PODS = f"/api/v1/namespaces/{cluster_setup.BATCHES}/pods"


@dataclass
class Extender:
    """The scorer, and the kube-scheduler that uses it through a proxy."""

    rig: Rig
    scorer: Program
    proxy: ExtenderProxy
    meter: Meter
    section: dict[str, Any]
    """`scorer.extender` of the configuration."""

    http_timeout: float = 0.0

    async def start_scorer(self) -> None:
        """Again, after it has ended."""
        await self.scorer.start(extender=self.section)

    async def configure(self, http_timeout: float | None = None) -> None:
        """kube-scheduler with the shipped entry, and this httpTimeout in seconds."""
        entry = yaml.safe_load(ENTRY.read_text())["extenders"][0]
        for name in ("enableHTTPS", "tlsConfig"):
            del entry[name]
        entry["urlPrefix"] = self.proxy.url
        if self.section["filter"]:
            entry["filterVerb"] = "filter"
        if http_timeout is not None:
            entry["httpTimeout"] = f"{http_timeout * 1000:.0f}ms"
        self.http_timeout = float(entry["httpTimeout"].removesuffix("ms")) / 1000
        await asyncio.to_thread(self.rig.cluster.restart_scheduler, {"extenders": [entry]})

    async def schedule(self, what: str, count: int, *, interval: float) -> None:
        """This many pods, one per `interval`, by both schedulers; recorded when all of them are bound."""
        pods, baseline = await _create(self.rig, count, (WITH_EXTENDER, STOCK), interval=interval)
        await _bound(self.rig)
        self.record(what, pods, baseline)
        await _delete(self.rig)

    async def burst(self, scheduler: str = WITH_EXTENDER) -> Sequence[ScheduledPod]:
        """Pods that are created at once, when all of them are bound."""
        (pods,) = await _create(self.rig, BURST, (scheduler,), cpu="200m")
        await _bound(self.rig)
        await _delete(self.rig)
        return pods

    def record(
        self, what: str, pods: Sequence[ScheduledPod], baseline: Sequence[ScheduledPod], *, times: bool = True
    ) -> None:
        """`times`: whether the times of the baseline can be compared."""
        self.rig.recorder.batches.append(
            PodBatch(
                at=self.rig.clock.now(),
                what=what,
                pods=tuple(pods),
                baseline=tuple(baseline),
                http_timeout=self.http_timeout if times else None,
            )
        )


@asynccontextmanager
async def extender(rig: Rig, *, filters: bool = False, authority: "Authority | None" = None) -> AsyncIterator[Extender]:
    """kube-scheduler with the scorer, until the end of the block; and a stock kube-scheduler."""
    section: dict[str, Any] = {"filter": filters}
    scheme, tls = "http", None
    if authority is not None:
        section["tls"] = authority.section
        scheme, tls = "https", authority.client
    (program,) = await rig.start("scorer", extender=section)
    meter = Meter(rig.recorder, rig.clock, lambda: program.pid)
    upstream = f"{scheme}://127.0.0.1:{rig.port('scorer-0-extender')}"
    try:
        async with (
            background(meter.run()),
            ExtenderProxy(upstream, rig.port("extender-proxy"), meter, tls=tls) as proxy,
        ):
            proxy.reseed(rig.generator.randrange(2**32))
            found = Extender(rig, program, proxy, meter, section)
            stock = await _start_stock_scheduler(rig)
            try:
                await found.configure()
                yield found
            finally:
                proxy.clear()
                rig.cluster.guard.stop(stock, number=signal.SIGKILL)
                with suppress(Inconclusive):
                    await _delete(rig)
                await asyncio.to_thread(rig.cluster.restart_scheduler, {})
    finally:
        program.kill()


class Authority:
    """A CA, a server's certificate, and one of kube-scheduler."""

    def __init__(self, folder: Path, now: float) -> None:
        folder.mkdir(exist_ok=True)
        ca = new_ca(now)
        server = server_pair(ca, [], [ip_address("127.0.0.1")], 1, now)
        client = client_pair(ca, 1, now)
        self.ca_file, self.cert_file, self.key_file = (folder / name for name in ("ca.crt", "tls.crt", "tls.key"))
        for file, content in (
            (self.ca_file, ca.certificate_text),
            (self.cert_file, server.certificate_text),
            (self.key_file, server.key_text),
            (folder / "client.crt", client.certificate_text),
            (folder / "client.key", client.key_text),
        ):
            file.write_bytes(content)
        self.section = {
            "certificateFile": str(self.cert_file),
            "keyFile": str(self.key_file),
            "clientCaFile": str(self.ca_file),
        }
        self.client = ssl.create_default_context(cafile=str(self.ca_file))
        self.client.load_cert_chain(folder / "client.crt", folder / "client.key")
        self.without_certificate = ssl.create_default_context(cafile=str(self.ca_file))


async def _start_stock_scheduler(rig: Rig) -> int:
    cluster, port = rig.cluster, rig.port("stock-scheduler")
    profiles = {"profiles": [{"schedulerName": STOCK}]}
    file = cluster.directory / "stock-scheduler.yaml"
    credentials = kubeconfig_file(cluster.directory, configuration.SCHEDULER)
    file.write_text(json.dumps(configuration.scheduler(profiles, str(credentials))))
    pid = cluster.guard.start(
        [
            rig.binaries.kube_scheduler,
            f"--config={file}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--authorization-always-allow-paths=/readyz",
        ],
        log=cluster.log("stock-scheduler"),
    )

    async def ready() -> bool:
        return await asyncio.to_thread(responds, f"https://127.0.0.1:{port}/readyz")

    await rig.until(ready, "the stock kube-scheduler is ready")
    return pid


async def _create(
    rig: Rig, count: int, schedulers: Sequence[str], *, interval: float = 0.0, cpu: str = "10m"
) -> list[list[ScheduledPod]]:
    """This many pods for each scheduler, those of one number at the same time."""
    serial = f"{rig.clock.now() * 1000:.0f}"
    begun = asyncio.get_running_loop().time()
    limit = asyncio.Semaphore(16)

    async def create(name: str, number: int, scheduler: str) -> None:
        await asyncio.sleep(max(0.0, begun + number * interval - asyncio.get_running_loop().time()))
        template = pod_template("batch", cpu=cpu, spec={"schedulerName": scheduler, "terminationGracePeriodSeconds": 0})
        async with limit:
            await rig.api.request("POST", PODS, pod(name, template, namespace=cluster_setup.BATCHES))

    names = [[f"batch-{serial}-{place}-{number}" for number in range(count)] for place in range(len(schedulers))]
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            for of_scheduler, scheduler in zip(names, schedulers, strict=True):
                tasks.create_task(create(of_scheduler[number], number, scheduler))
    return [[ScheduledPod(pod=name) for name in of_scheduler] for of_scheduler in names]


async def _bound(rig: Rig) -> None:
    """Until no pod of a batch is pending; the checks report those that remain."""

    async def bound() -> bool:
        return not (await rig.api.request("GET", f"{PODS}?fieldSelector=spec.nodeName%3D"))["items"]

    with suppress(Inconclusive):
        await rig.until(bound, "all pods are bound")


async def _delete(rig: Rig) -> None:
    await rig.api.request("DELETE", PODS, {"gracePeriodSeconds": 0})

    async def gone() -> bool:
        return not (await rig.api.request("GET", f"{PODS}?limit=1"))["items"]

    await rig.until(gone, "the pods are deleted")


@asynccontextmanager
async def no_evictions(rig: Rig) -> AsyncIterator[None]:
    """Times are measured while no replacements of evicted pods are pending."""
    epoch, rig.descheduler.epoch = rig.descheduler.epoch, None
    try:
        await rig.all_settled()
        await rig.all_replicas_ready()
        yield
    finally:
        rig.descheduler.epoch = epoch


async def scorer_killed(rig: Rig, extent: Extent) -> None:
    """SIGKILL of the scorer at a random request of a burst of 200 pods; it is started again after the burst."""
    await rig.start("binder", 1)
    async with extender(rig, filters=True) as found:
        await rig.evictions(extent.evictions)
        async with no_evictions(rig):
            healthy = await found.burst()
            for _ in range(extent.times):
                killed = asyncio.Event()
                with found.meter.scorer_broken():

                    def kill(killed: asyncio.Event = killed) -> None:
                        found.scorer.send(signal.SIGKILL)
                        killed.set()

                    found.proxy.rule(around(before=kill), times=1, after=rig.generator.randrange(BURST))
                    pods = await found.burst()
                    await rig.until(killed.is_set, "the scorer was killed during the burst")
                    await rig.until(lambda: not found.scorer.runs, "the scorer has ended")
                    await found.start_scorer()
                found.record("the scorer was killed", pods, healthy)
        await rig.evictions(extent.evictions)


async def black_hole(rig: Rig, extent: Extent) -> None:
    """The scorer is suspended, or its requests are held, with httpTimeouts of 100 and 250 ms; 5 s in the long form."""
    await rig.start("binder", 1)
    ways = ("suspended", "held")
    cases = [(0.1, "suspended", 12), (0.25, "held", 8)]
    if extent.times > 1:
        cases = [(timeout, way, 20) for timeout in (0.1, 0.25) for way in ways] + [(5.0, "held", 2)]
    async with extender(rig, filters=True) as found:
        await rig.evictions(extent.evictions)
        async with no_evictions(rig):
            for timeout, way, count in cases:
                await found.configure(timeout)
                # Both verbs of a pod time out before the next pod is created.
                async with _silent(found, way):
                    what = f"{way}, httpTimeout {timeout * 1000:.0f} ms"
                    await found.schedule(what, count, interval=2.5 * timeout)
            await found.configure()
        await rig.evictions(extent.evictions)


@asynccontextmanager
async def _silent(found: Extender, way: str) -> AsyncIterator[None]:
    if way == "held":
        rule = found.proxy.rule(hold)
        yield
        rule.lift()
        if not rule.taken:
            raise Inconclusive("kube-scheduler sent no request")
        return
    with found.meter.scorer_broken():
        found.scorer.send(signal.SIGSTOP)
        try:
            yield
        finally:
            found.scorer.send(signal.SIGCONT)


async def jitter(rig: Rig, extent: Extent) -> None:
    """Half of the scorer's requests are 50 ms late, half 300 ms; one of a hundred takes 20 s."""
    await rig.start("binder", 1)
    async with extender(rig, filters=True) as found:
        await rig.evictions(extent.evictions)
        async with no_evictions(rig):
            # Above every threshold, so that the filter must not refuse all of them.
            rig.collector.hot = frozenset(cluster_setup.NODES)
            count = 20 * extent.times
            # At least one.
            once = found.proxy.rule(delay(20.0), times=1, after=rig.generator.randrange(count))
            found.proxy.rule(delay(20.0), share=0.01)
            found.proxy.rule(delay(0.05), share=0.5)
            found.proxy.rule(delay(0.3))
            await found.schedule("jitter", count, interval=2.5 * found.http_timeout)
            if not once.taken:
                raise Inconclusive("no request took 20 s")
            rig.collector.hot = frozenset()
        await rig.evictions(2)
        found.proxy.clear()
        await rig.evictions(extent.evictions)


def _invalid_responses() -> list[Fault]:
    """To /prioritize."""
    host = cluster_setup.NODES[0]

    def scores(score: Any, name: str = host) -> Fault:
        return respond(200, json.dumps([{"Host": name, "Score": score}]))

    async def half(proxied: ProxiedRequest) -> web.StreamResponse:
        code, headers, body = await proxied.proxy.fetch(proxied.request, proxied.body)
        return web.Response(status=code, headers=headers, body=body[: len(body) // 2])

    async def aborted(proxied: ProxiedRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(proxied.request)
        await response.write(b'[{"Host":')
        proxied.abort()
        return response

    return [
        *(respond(code, {"Error": "a fault is injected"}) for code in (500, 503, 413)),
        *(respond(200, text) for text in ("{}", "null", "", "<html>502 Bad Gateway</html>")),
        half,
        aborted,
        *(scores(score) for score in (7.0, 7.5, "ten", None, -(2**62), 2**62, math.nan)),
        scores(10, "node-nowhere"),
    ]


async def invalid_responses(rig: Rig, extent: Extent) -> None:
    """The scorer's responses are replaced by errors 500, 503 and 413, truncated ones, `{}`, `null`, and floats."""
    await rig.start("binder", 1)
    kinds = _invalid_responses()
    rig.generator.shuffle(kinds)
    async with extender(rig) as found:
        await rig.evictions(extent.evictions)
        rules = [found.proxy.rule(kind, share=1 / (len(kinds) - place)) for place, kind in enumerate(kinds)]
        await rig.evictions(extent.evictions)
        async with no_evictions(rig):
            for _ in range(extent.times):
                await found.schedule("invalid responses", 4 * len(kinds), interval=0.1)
            while not all(rule.taken for rule in rules):
                await found.schedule("invalid responses", len(kinds), interval=0.1)
        for rule in rules:
            rule.lift()
        await rig.evictions(extent.evictions)


CLIENTS = 200
ADDRESSES = [f"127.0.0.{number}" for number in range(2, 22)]
"""Of the clients: the scorer accepts 16 connections from one address."""

TOO_LONG = b" " * 5_000_000


async def crowd(rig: Rig, extent: Extent) -> None:
    """200 clients: valid requests, bodies of 5 MB, bodies that do not end, idle connections, no certificate."""
    await rig.start("binder", 1)
    count = 20 * extent.times
    async with extender(rig) as found:
        await rig.evictions(extent.evictions)
        async with no_evictions(rig), _clients(found):
            await found.schedule("200 clients", count, interval=2.5 * found.http_timeout)
        await rig.evictions(1)
    authority = Authority(rig.cluster.directory / "extender", rig.clock.now())
    async with extender(rig, authority=authority) as found:
        async with no_evictions(rig), _without_certificate(found, authority):
            await found.schedule("200 clients without a certificate", count, interval=2.5 * found.http_timeout)
        await rig.evictions(extent.evictions)


@asynccontextmanager
async def _clients(found: Extender) -> AsyncIterator[None]:
    """Of 200 clients, 120 send valid requests, 40 bodies of 5 MB, 20 bodies that do not end, and 20 nothing."""
    request = json.dumps({"Pod": {"metadata": {}, "spec": {"containers": []}}, "NodeNames": cluster_setup.NODES})
    port = found.rig.port("scorer-0-extender")
    head = b"POST /prioritize HTTP/1.1\r\nHost: scorer\r\nContent-Length: 100000\r\n\r\n"
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(
                aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, local_addr=(address, 0)))
            )
            for address in ADDRESSES
        ]
        tasks = []
        for number in range(CLIENTS):
            session, address = sessions[number % len(sessions)], ADDRESSES[number % len(ADDRESSES)]
            place = number * 10 // CLIENTS
            if place < 6:
                tasks.append(_request(found, session, port, request.encode(), number))
            elif place < 8:
                tasks.append(_request(found, session, port, TOO_LONG, number))
            else:
                tasks.append(_connect(port, address, number, head if place < 9 else b""))
        async with background(*tasks):
            yield


async def _request(found: Extender, session: aiohttp.ClientSession, port: int, body: bytes, number: int) -> None:
    """Until cancelled."""
    url = f"http://127.0.0.1:{port}/prioritize"
    await asyncio.sleep(number * 0.02)
    while True:
        with found.meter.exchange("prioritize", b"{}" if body is TOO_LONG else body) as response:
            try:
                async with session.post(url, data=body) as received:
                    response.body = await received.read()
                    response.status = received.status
            except aiohttp.ClientError:
                response.caller_waits = False  # the scorer may close the connection to a client that sends too much
                if body is not TOO_LONG:
                    response.caller_waits = True
        await asyncio.sleep(found.rig.generator.uniform(0.5, 1.5))


async def _connect(port: int, address: str, number: int, send: bytes = b"", tls: ssl.SSLContext | None = None) -> None:
    """Sends this, then one byte at a time; connects again when the scorer has closed the connection."""
    await asyncio.sleep(number * 0.02)
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), ssl=tls)
            try:
                writer.write(send)
                while not reader.at_eof():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.5):
                            await reader.read(1024)
                    if send:
                        writer.write(b"{")
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.5)


@asynccontextmanager
async def _without_certificate(found: Extender, authority: Authority) -> AsyncIterator[None]:
    """Of 200 clients, 150 never begin the handshake, and 50 complete it without a certificate."""
    port = found.rig.port("scorer-0-extender")
    tasks = [
        _connect(
            port,
            ADDRESSES[number % len(ADDRESSES)],
            number,
            tls=authority.without_certificate if number % 4 == 0 else None,
        )
        for number in range(CLIENTS)
    ]
    async with background(*tasks):
        yield


async def herd(rig: Rig, extent: Extent) -> None:
    """A burst of 200 pods while the measured usage of the nodes does not change, and two of ten nodes are hot."""
    await rig.start("binder", 1)
    async with extender(rig) as found:
        await rig.evictions(extent.evictions)
        async with no_evictions(rig):
            for _ in range(extent.times):
                rig.collector.hot = frozenset(rig.generator.sample(cluster_setup.NODES, 2))
                since = rig.clock.now() + 2.0
                await rig.until(lambda since=since: rig.recorder.measured[-1].at > since, "the hot nodes are measured")
                rig.collector.freeze()
                try:
                    baseline = await found.burst(STOCK)
                    pods = await found.burst()
                finally:
                    rig.collector.unfreeze()
                found.record("a burst with frozen metrics", pods, baseline, times=False)
        await rig.evictions(extent.evictions)


FAULTS = (
    fault(scorer_killed, 1, intents=16, evictions=8, scored=BURST),
    fault(black_hole, 2, intents=16, evictions=8, scored=8),
    fault(jitter, 3, intents=16, evictions=8, scored=20),
    fault(invalid_responses, 4, intents=16, evictions=8, scored=8),
    fault(crowd, 5, intents=16, evictions=8, scored=200),
    fault(herd, 34, intents=16, evictions=8, scored=BURST),
)
