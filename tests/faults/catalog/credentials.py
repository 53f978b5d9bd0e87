"""Credentials end while they are used: NATS passwords, tokens of ServiceAccounts, and the CA of the API server.

Tokens cannot expire within a test: the shortest lifetime is ten minutes. A token of a ServiceAccount that was deleted
and created again is rejected in the same way. New credentials arrive later than the old ones end.
"""

import asyncio
import json
import signal
from collections.abc import Iterable

from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.catalog.binders import ACK_WAIT
from faults.catalog.fault import Extent, fault
from faults.catalog.scheduling import Authority, Extender, extender, no_evictions
from faults.rig import Rig

BINDERS = ("binder-0", "binder-1")
USERS = (*BINDERS, "scorer-0")

WITHOUT = 3.0
"""Seconds without valid credentials."""


async def credentials(rig: Rig, extent: Extent) -> None:
    """NATS passwords change, ServiceAccounts are recreated, the API server's CA changes; services know it later."""
    passwords = _Passwords(rig)
    async with no_evictions(rig):
        await passwords.require()
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    await rig.start("binder", 2)
    try:
        async with extender(rig) as found:
            await rig.evictions(extent.evictions)
            for _ in range(extent.times):
                await _new_passwords(rig, found, passwords)
                await rig.evictions(extent.evictions)
                await _new_service_accounts(rig)
                await rig.evictions(extent.evictions)
            await _new_ca(rig, extent)
            await rig.evictions(extent.evictions)
            async with no_evictions(rig):
                pass
    finally:
        rig.stop_programs()
        await passwords.abolish()
    # Pending intents are settled by a binder without a user.
    await rig.recreate_consumer()
    await rig.start("binder", 1)


class _Passwords:
    """The users of nats-server: the services'. The harness connects without one."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._first = self._password = rig.password_file.read_text()
        self._changes = 0
        self._configuration = rig.cluster.directory / "nats.conf"
        self._before = self._configuration.read_text()

    async def require(self) -> None:
        """From now on."""
        self._write()
        await self._restart()

    def change(self) -> None:
        """At the server, which closes connections with the old password."""
        self._changes += 1
        self._password = f"{self._first}-{self._changes}"  # I19 finds it in logs
        self._write()
        self._rig.cluster.kill("nats-server", signal.SIGHUP)

    def hand_out(self) -> None:
        """To the services, which read the file when they start."""
        self._rig.password_file.write_text(self._password)

    async def abolish(self) -> None:
        self._rig.password_file.write_text(self._first)
        self._configuration.write_text(self._before)
        await self._restart()

    def _write(self) -> None:
        users = [{"user": user, "password": self._password} for user in ("binder", "scorer")]
        users.append({"user": "harness", "password": "unchanged"})
        self._configuration.write_text(json.dumps({"authorization": {"users": users}, "no_auth_user": "harness"}))

    async def _restart(self) -> None:
        """nats-server does not reload `no_auth_user`."""
        await asyncio.to_thread(self._rig.cluster.restart, "nats-server")
        await self._rig.connected()


async def _new_passwords(rig: Rig, found: Extender, passwords: _Passwords) -> None:
    """Services whose password is rejected end; the kubelet starts them again, here with the new password."""
    with found.meter.scorer_broken():
        passwords.change()
        await rig.until(lambda: not any(rig.program(user).runs for user in USERS), "services without access end")
        await found.schedule("NATS passwords changed", 12, interval=2.5 * found.http_timeout)
        passwords.hand_out()
        await found.start_scorer()
    await rig.start("binder", 2)


async def _new_service_accounts(rig: Rig) -> None:
    path = f"/api/v1/namespaces/{cluster_setup.OWN}/serviceaccounts"
    for user in BINDERS:
        await rig.api.request("DELETE", f"{path}/{user}")

    async def rejected() -> bool:
        """The API server remembers for 10 s that a token was valid."""
        return all([await _rejected(rig, rig.tokens[user]) for user in BINDERS])

    await rig.until(rejected, "the tokens are rejected")
    await asyncio.sleep(WITHOUT)
    for user in BINDERS:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": user}}
        await rig.api.request("POST", path, account)
        await rig.write_kubeconfig(user)


async def _rejected(rig: Rig, token: str) -> bool:
    try:
        await rig.api.request("GET", f"/api/v1/namespaces/{cluster_setup.OWN}", token=token)
    except ApiError as error:
        return error.status == 401
    return False


async def _new_ca(rig: Rig, extent: Extent) -> None:
    """And the old one again."""
    authority = Authority(rig.cluster.directory / "new-ca", rig.clock.now())
    before = await rig.proxy.present(authority.cert_file, authority.key_file)
    try:
        await asyncio.sleep(WITHOUT)
        await _hand_out(rig, BINDERS, authority)
        await rig.evictions(extent.evictions)
    finally:
        await rig.proxy.present(*before)
        await _hand_out(rig, BINDERS, None)


async def _hand_out(rig: Rig, users: Iterable[str], authority: Authority | None) -> None:
    for user in users:
        await rig.write_kubeconfig(user, None if authority is None else authority.ca_file)


FAULTS = (fault(credentials, 35, intents=20, evictions=12, scored=4),)
