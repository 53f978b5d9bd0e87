"""The permission file: every user can do its part of the table and nothing else, tried on a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest
from builders import an_intent
from bus_worlds import PATIENCE, NatsWorld, Received

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.bus.streams import STREAMS, stream_of
from equipoise.contracts.bus.subjects import ALL_SERVICES, ServiceName
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.runtime.bus import AlreadyQueued, BusError, Endpoint, NotPermitted, connect
from equipoise.runtime.bus.nats.nats_bus import NatsBus, open_bus
from equipoise.runtime.bus.permissions import USERS, User, own_pattern, permission_file, permissions_of
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

PASSWORDS = {user: f'{user}-"\\ $1' for user in USERS}


class Anything(msgspec.Struct):
    """A message of any kind."""


class Users:
    """A server with our permission file, and a way to be any of its users."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._url = url

    def settings(self, user: User) -> Nats:
        file = self._directory / user
        file.write_text(PASSWORDS[user])
        return Nats(url=self._url, user=user, password_file=str(file))

    def bus(self, user: User) -> AbstractAsyncContextManager[NatsBus]:
        return open_bus(self.settings(user), user, SystemClock(), None)


@pytest.fixture(scope="module")
async def users(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Users]:
    directory = tmp_path_factory.mktemp("users")
    world = NatsWorld(directory / "nats", permission_file(PASSWORDS))
    await world.start()
    users = Users(directory, world.settings.url)
    await setup_streams(users.settings("setup"), intent_max_age=60)
    yield users
    await world.stop()


def a_subject(channel: Channel, service: ServiceName) -> str:
    """A subject of the channel on which this service would publish."""
    return own_pattern(channel, service).replace("*", "x").replace(">", "x.y")


async def may(asking: Awaitable[object]) -> bool:
    """Whether the server permits it (whatever its response is then)."""
    try:
        async with asyncio.timeout(PATIENCE):
            await asking
    except NotPermitted:
        return False
    except (AlreadyQueued, BusError):
        return True
    return True


@pytest.mark.parametrize("service", ALL_SERVICES)
async def test_a_service_can_publish_on_its_own_channels_and_no_other(users: Users, service: ServiceName) -> None:
    """Each service is let to publish exactly the channels that the table gives it, health only its own."""
    async with users.bus(service) as bus:
        allowed = {c.pattern for c in CHANNELS if await may(bus.publish(a_subject(c, service), Anything()))}
        assert allowed == {channel.pattern for channel in CHANNELS if service in channel.publishers}
        for other in ALL_SERVICES:
            for its in (subjects.health(other, "x"), subjects.configuration(other, "x")):
                assert await may(bus.publish(its, Anything())) == (other == service), its


@pytest.mark.parametrize("service", ALL_SERVICES)
async def test_a_service_can_subscribe_to_its_own_channels_and_no_other(users: Users, service: ServiceName) -> None:
    """Each service is let to subscribe and to follow exactly the channels that the table gives it."""
    async with users.bus(service) as bus:
        received = {c.pattern for c in CHANNELS if await may(bus.subscribe(c.pattern, Anything, Received()))}
        queues = {stream for stream in STREAMS if stream.work_queue}
        assert received == {
            channel.pattern
            for channel in CHANNELS
            if (service in channel.subscribers and stream_of(channel.pattern) not in queues)
            or service in channel.observers
            or service == channel.responder
        }
        kept = [c for c in CHANNELS if (stream := stream_of(c.pattern)) is not None and not stream.work_queue]
        followed = {c.pattern for c in kept if await may(bus.subscribe_latest(c.pattern, Anything, Received()))}
        assert followed == {channel.pattern for channel in kept if service in channel.subscribers}


@pytest.mark.parametrize("service", ALL_SERVICES)
async def test_a_service_cannot_reach_around_the_table(users: Users, service: ServiceName) -> None:
    """No wildcard, foreign inbox, stream administration or raw read gets a service what the table does not give."""
    others = [other for other in USERS if other != service]
    async with users.bus(service) as bus:
        for pattern in (">", "*.>", "equipoise.>", "$JS.>", "$SYS.>", *(f"_INBOX.{other}.>" for other in others)):
            assert not await may(bus.subscribe(pattern, Anything, Received())), pattern
        for stream in STREAMS:
            empties = service == "descheduler" and stream.work_queue
            assert await may(asking(bus, f"$JS.API.STREAM.PURGE.{stream.name}")) == empties
            for verb in ("CREATE", "UPDATE", "DELETE", "MSG.GET", "SNAPSHOT"):
                assert not await may(asking(bus, f"$JS.API.STREAM.{verb}.{stream.name}")), f"{verb} {stream.name}"
            assert not await may(asking(bus, f"$JS.API.DIRECT.GET.{stream.name}"))
            deletes = service == "binder" and stream.work_queue
            assert await may(asking(bus, f"$JS.API.STREAM.MSG.DELETE.{stream.name}")) == deletes
            for consumer in (
                f"CREATE.{stream.name}.mine",
                f"CREATE.{stream.name}.mine.equipoise.>",
                f"CREATE.{stream.name}",
            ):
                assert not await may(asking(bus, f"$JS.API.CONSUMER.{consumer}")), consumer
            assert not await may(asking(bus, f"$JS.API.CONSUMER.DELETE.{stream.name}.binder"))
            assert not await may(asking(bus, f"$JS.API.CONSUMER.DURABLE.CREATE.{stream.name}.binder"))
        intents = "$JS.API.CONSUMER.{}.EQUIPOISE_INTENT.{}"
        assert not await may(asking(bus, intents.format("CREATE", "mine.equipoise.eviction.intent.>")))
        assert await may(asking(bus, intents.format("MSG.NEXT", "binder"))) == (service == "binder")


async def asking(bus: NatsBus, subject: str) -> None:
    """Publish on a subject of the server itself, as a hand-made client would."""
    await bus._link.client.publish(subject, b"{}", reply=bus._link.client.new_inbox())
    await bus._link.permitted(subject)


async def test_the_tap_receives_everything_and_only_sends_requests(users: Users) -> None:
    """The tap may subscribe to all subjects, inspect micro services and send open requests; nothing else."""
    async with users.bus("tap") as tap, users.bus("descheduler") as descheduler:
        received: Received[EvictionIntent] = Received()
        await tap.subscribe("equipoise.>", EvictionIntent, received)
        await descheduler.publish(subjects.eviction_intent("shop", "tapped"), an_intent("tapped"))
        await received.until(1)
        for channel in CHANNELS:
            requested = channel.pattern in (
                subjects.SCORE_EXPLAIN,
                subjects.PLAN_PREVIEW,
                subjects.PLAN_CONSOLIDATION,
            )
            assert await may(tap.publish(a_subject(channel, "scorer"), Anything())) == requested, channel.pattern
            if (stream := stream_of(channel.pattern)) is not None and not stream.work_queue:
                assert not await may(tap.subscribe_latest(channel.pattern, Anything, Received())), channel.pattern
        for stream in STREAMS:
            assert await may(asking(tap, f"$JS.API.STREAM.INFO.{stream.name}"))
            assert await may(asking(tap, f"$JS.API.DIRECT.GET.{stream.name}")) == stream.open_to_users
            assert not await may(asking(tap, f"$JS.API.STREAM.DELETE.{stream.name}"))
        assert not await may(tap.subscribe("$JS.>", Anything, Received()))
        assert await may(asking(tap, "$SRV.STATS.equipoise-scorer"))


async def test_setup_makes_streams_and_is_no_service(users: Users) -> None:
    """The setup user may create the streams repeatedly, but not publish or subscribe on them."""
    await setup_streams(users.settings("setup"), intent_max_age=60)
    async with users.bus("setup") as bus:
        for channel in CHANNELS:
            assert not await may(bus.publish(a_subject(channel, "scorer"), Anything())), channel.pattern
            assert not await may(bus.subscribe(channel.pattern, Anything, Received())), channel.pattern


async def test_each_service_does_its_part_as_itself(users: Users) -> None:
    """With these permissions an intent is published, processed and removed, and a request gets its response."""
    async with users.bus("descheduler") as descheduler, users.bus("binder") as binder, users.bus("scorer") as scorer:
        outcomes: Received[EvictionOutcome] = Received()
        worked: Received[EvictionIntent] = Received()
        await descheduler.subscribe(f"{subjects.PREFIX}.eviction.outcome.*.*", EvictionOutcome, outcomes)
        working = asyncio.create_task(binder.work(EvictionIntent, worked))
        await descheduler.publish(subjects.eviction_intent("shop", "worked"), an_intent("worked"))
        await worked.until(lambda deliveries: any(d.message.pod == "worked" for d in deliveries))
        working.cancel()
        assert binder.errors.total("permission") == 0

        async def rank(query: ExplainRequest) -> Explanation:
            return Explanation()

        await scorer.serve(
            "scorer", [Endpoint(subject=subjects.SCORE_EXPLAIN, request_type=ExplainRequest, handler=rank)]
        )
        async with users.bus("tap") as tap:
            stats = await tap._link.client.request("$SRV.STATS.equipoise-scorer", timeout=PATIENCE)
        assert b"explain" in stats.data
        assert scorer.errors.total("permission") == 0


async def test_a_user_without_its_password_is_not_let_in(users: Users, tmp_path: Path) -> None:
    """Passwords are taken literally, with all their quotes and dollars; another one is refused."""
    wrong = tmp_path / "wrong"
    wrong.write_text("scorer")
    settings = Nats(url=users.settings("scorer").url, user="scorer", password_file=str(wrong))

    async def open_for_ever() -> None:
        async with connect(settings, "scorer"):
            raise AssertionError("a wrong password was taken")

    opening = asyncio.create_task(open_for_ever())
    await asyncio.wait([opening], timeout=0.2)
    assert not opening.done()
    opening.cancel()
    await asyncio.wait([opening])


def test_only_one_service_may_publish_intents_and_outcomes() -> None:
    """Intents: the descheduler. Outcomes: the binder. Responses, only to other accounts: who responds to requests."""
    intents = {user for user in USERS if "equipoise.eviction.intent.*.*" in permissions_of(user).publish}
    outcomes = {user for user in USERS if "equipoise.eviction.outcome.*.*" in permissions_of(user).publish}
    responders = {user for user in USERS if "_R_.>" in permissions_of(user).publish}
    assert (intents, outcomes, responders) == ({"descheduler"}, {"binder"}, {"scorer", "descheduler"})
    assert "allow_responses" not in permission_file(PASSWORDS)


def test_a_password_may_be_a_variable_of_the_servers_environment() -> None:
    """nats-server replaces a variable such as $SCORER_PASSWORD; any other password is quoted."""
    text = permission_file({user: "$SCORER_PASSWORD" if user == "scorer" else "$2a$11$abc" for user in USERS})
    assert "user: scorer, password: $SCORER_PASSWORD," in text
    assert 'user: binder, password: "$2a$11$abc",' in text
