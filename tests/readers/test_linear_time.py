"""Laws of time: no text from outside, however long, is decided in more than linear time.

An annotation has up to 256 kB, and whoever may create a pod writes it. A service that needs minutes for it answers
nothing meanwhile: a regular expression runs while no other thread does.
"""

import inspect
import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers.catalog import READERS, modules
from readers.poisons import places, poisoned

from equipoise.agent.decisions.cgroup_names import pod_uid, qos_group
from equipoise.cli.foreign_configuration.schema import GoDuration
from equipoise.contracts.colocation.profile import stored_profile_faults
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.redaction import redacted
from equipoise.contracts.kubernetes.labels import integer, is_label_value
from equipoise.contracts.kubernetes.quantity import known_quantity
from equipoise.contracts.plain_text import plain_text, visible
from equipoise.contracts.unreadable.lenient_decoding import shallow
from equipoise.scheduling.model.quantities import read_quantity

LENGTH = 256 * 1024
"""Bytes of all annotations of an object, at most."""

BUDGET = 2.0
"""Seconds of CPU time for such a text. Linear readers need milliseconds, quadratic ones minutes."""

UNITS = (
    *'9a0As.-_"\\[{}] ,%/=:1e<@#',
    *("9.", "a.", "a-", "-9", "9a", '"\\', '\\"', "0m", "1.5", "a/", "[{", '{"a":', "0-", "a=", "://", ".9", "9s"),
    *(
        " - at `$",
        "'\\",
        "\\ud800",
        "1h",
        "e9",
        "a\n",
        'permissions violation for publish to "',
        "The disruption budget ",
    ),
)
"""What texts repeat."""

TEXTS = st.builds(
    lambda units, end: ("".join(units) * LENGTH)[:LENGTH] + end,
    st.lists(st.sampled_from(UNITS), min_size=1, max_size=2),
    st.sampled_from(["", "!", '"', "s", "%"]),
)

READS: Mapping[str, Callable[[str], Any]] = {
    "duration": Duration.parse,
    "duration of Go": GoDuration.parse,
    "quantity": lambda text: known_quantity("cpu", text),
    "quantity of kube-scheduler": read_quantity,
    "integer": integer,
    "label": is_label_value,
    "profile": lambda text: list(stored_profile_faults(dict.fromkeys(("percent", "labels", "annotations"), text))),
    "text in messages": lambda text: plain_text(text, 300),
    "text on terminals": visible,
    "setting": redacted,
    "cgroup": lambda text: (pod_uid(text), qos_group(text)),
    "document that ends within a text": lambda text: shallow(b'{"metadata":{"name":"' + text.encode()),
}
"""Readers of single texts."""

some = settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow], deadline=None)


class TooLong(Exception):
    """More CPU time than `BUDGET`."""


@contextmanager
def budget() -> Iterator[None]:
    """Ends what takes longer: `re` looks for signals. CPU time of this process, whatever else the machine does."""

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, BUDGET)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def patterns() -> Iterator[Any]:
    """Every regular expression of the product, with the methods that its module calls."""
    for module in modules():
        source = inspect.getsource(import_module(module))
        for name, value in vars(import_module(module)).items():
            if isinstance(value, re.Pattern) and re.search(rf"^{name} = re", source, re.MULTILINE):
                methods = set(re.findall(rf"\b{name}\.(\w+)\(", source)) or {"fullmatch"}
                yield pytest.param(value, methods, id=f"{module}.{name}")


@pytest.mark.parametrize(("pattern", "methods"), list(patterns()))
def test_every_regular_expression_takes_linear_time(pattern: re.Pattern[Any], methods: set[str]) -> None:
    for unit in UNITS:
        for end in ("", "!"):
            text: Any = (unit * LENGTH)[:LENGTH] + end
            text = text.encode() if isinstance(pattern.pattern, bytes) else text
            for method in methods:
                with budget():
                    if method == "sub":
                        pattern.sub(lambda _: "", text)
                    elif method == "finditer":
                        assert all(pattern.finditer(text))
                    else:
                        getattr(pattern, method)(text)


@pytest.mark.parametrize("name", READS)
@some
@given(text=TEXTS)
def test_a_text_takes_linear_time(name: str, text: str) -> None:
    with budget(), suppress(ValueError):
        READS[name](text)


@pytest.mark.parametrize("name", READERS)
@some
@given(data=st.data())
def test_a_document_with_a_long_text_takes_linear_time(name: str, data: st.DataObject) -> None:
    reader = READERS[name]
    path = data.draw(st.sampled_from(list(places(reader.example)) or [()]))
    document = poisoned(reader.example, path, json.dumps(data.draw(TEXTS))).encode()
    if data.draw(st.booleans()):  # the connection ended within it
        document = document[: document.rindex(b'"', 0, document.rindex(b'"'))]
    with budget(), suppress(*reader.errors):
        reader.read(document)
