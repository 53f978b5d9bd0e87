"""Requests an explanation from a scorer, and prints it."""

from equipoise.cli.bus import send_request
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.explain.scores_text import show
from equipoise.cli.terminal import print_result
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.process.logging import configure_logging


def pod_request(name: str, node: str) -> ExplainRequest:
    """`name` is NAMESPACE/NAME, `node` may be empty. Raises InvalidInput."""
    namespace, pod = pod_name(name)
    return ExplainRequest(namespace=namespace, name=pod, node=node)


def pod_name(name: str) -> tuple[str, str]:
    """Namespace and name from NAMESPACE/NAME. Raises InvalidInput."""
    namespace, _, pod = name.partition("/")
    if not namespace or not pod or "/" in pod:
        raise InvalidInput(f"{name!r} is not a pod: use NAMESPACE/NAME, for example shop/web-5d8f7")
    return namespace, pod


async def run_explain(request: ExplainRequest, server: Nats, *, as_json: bool) -> None:
    """The command. Raises BusError, and CommandFailed if the scorer cannot explain."""
    configure_logging(Logging(level="error"), "explain")
    problem = f"no scorer responds at {server.url}: check that one is running and ready (/readyz)"
    explanation = await send_request(server, SCORE_EXPLAIN, request, Explanation, no_responder=problem)
    if explanation.problem:
        raise CommandFailed(explanation.problem)
    print_result(explanation, lambda explanation, to: show(explanation, to, request.node), as_json=as_json)
