"""Requests an explanation from a scorer, and prints it."""

import asyncio

import msgspec

from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.explain.scores_text import show
from equipoise.cli.terminal import console
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.explanation import ExplainQuestion, Explanation
from equipoise.runtime.bus import BusUnavailable, NoAnswer, connect
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

TIMEOUT = 20.0
"""Seconds for the bus and the scorer together; an answer takes milliseconds, a second attempt to connect seconds."""


def pod_request(name: str, node: str) -> ExplainQuestion:
    """`name` is NAMESPACE/NAME, `node` may be empty. Raises InvalidInput."""
    namespace, pod = pod_named(name)
    return ExplainQuestion(namespace=namespace, name=pod, node=node)


def pod_named(name: str) -> tuple[str, str]:
    """Namespace and name of a pod as people write it: NAMESPACE/NAME. Raises InvalidInput."""
    namespace, _, pod = name.partition("/")
    if not namespace or not pod or "/" in pod:
        raise InvalidInput(f"{name!r} names no pod: NAMESPACE/NAME, as in shop/web-5d8f7")
    return namespace, pod


async def run_explain(question: ExplainQuestion, server: Nats, *, as_json: bool) -> None:
    """The command. Raises BusError, and CommandFailed if the scorer cannot explain."""
    configure_logging(Logging(level="error"), "explain")
    explanation = await answer_of(question, server)
    if explanation.problem:
        raise CommandFailed(explanation.problem)
    if as_json:
        print(msgspec.json.encode(explanation).decode())
    else:
        show(explanation, console(), question.node)


async def answer_of(question: ExplainQuestion, server: Nats) -> Explanation:
    """Ask. Raises BusError when nobody answers in time."""
    try:
        async with asyncio.timeout(TIMEOUT), connect(server, "tap", clock=SystemClock()) as bus:
            return await bus.request(SCORE_EXPLAIN, question, Explanation, timeout=TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"nobody lets us in at {server.url} within {TIMEOUT:g} s: is NATS there (--nats), and is it the right user?"
        ) from None
    except NoAnswer:
        raise NoAnswer(f"no scorer answers at {server.url}: is one running, and ready (its /readyz)?") from None
