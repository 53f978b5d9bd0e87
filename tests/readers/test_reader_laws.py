"""Laws for every reader of objects, metrics, messages and files, of all services and programs.

Whatever a part of its input is: a reader raises its documented errors only, what it cannot read is never 0, and what
is read beside it is the same as without it.
"""

import inspect
import json
import math
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readers.catalog import (
    DECODING_MODULES,
    LOAD_WATCHER,
    OBJECT,
    READERS,
    SERIES,
    TABLES,
    modules,
    read_proc,
    read_tables,
    resources,
    series,
)
from readers.poisons import NUMBERS, POISONS, TEXTS, places, poisoned

from equipoise.collector.decisions.query import Sample
from equipoise.collector.sources.load_watcher import _metrics
from equipoise.collector.sources.prometheus.json_document import decode_document
from equipoise.collector.sources.prometheus.samples import LabelCache, result_of, spacings, vector
from equipoise.lab.formats import FORMATS, TraceError
from equipoise.runtime.kubernetes.http.responses import read_page

DECODES = re.compile(
    r"json\.decode\(|json\.Decoder\(|json\.loads?\(|yaml\.(?:safe_)?load|csv\.reader\(|np\.load\(|msgspec\.convert\("
    r"|TolerantDecoder\("
)

few = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])


def numbers(value: Any) -> Iterator[float]:
    """All numbers in a result."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from numbers([getattr(value, name) for name in value.__struct_fields__])
    elif isinstance(value, dict):
        yield from numbers(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from numbers(each)


def is_marked(value: Any) -> bool:
    """Whether an object is marked as one that cannot be read."""
    metadata = getattr(value, "metadata", None)
    return bool(getattr(metadata, "unreadable", ""))


def test_every_module_that_decodes_anything_is_covered_by_a_reader_of_the_catalog() -> None:
    """Add the reader of a new module to `catalog.py`, and its name to `DECODING_MODULES`."""
    decoding = {name for name in modules() if DECODES.search(inspect.getsource(import_module(name)))}
    assert decoding - DECODING_MODULES.keys() == set()
    assert DECODING_MODULES.keys() - decoding == set(), "these decode nothing any more"
    assert {name for readers in DECODING_MODULES.values() for name in readers} - READERS.keys() == set()


def test_the_tables_of_the_product_are_in_the_catalog() -> None:
    assert TABLES.keys() == FORMATS.keys()
    assert len(resources()) > 30


@pytest.mark.parametrize("name", READERS)
def test_the_example_is_read(name: str) -> None:
    reader = READERS[name]
    result = reader.read(json.dumps(reader.example).encode())
    assert result is not None
    assert not is_marked(result)


@pytest.mark.parametrize("name", READERS)
@few
@given(st.data())
def test_a_part_that_cannot_be_read_is_a_documented_error_or_unknown_and_never_0(
    name: str, data: st.DataObject
) -> None:
    reader = READERS[name]
    path = data.draw(st.sampled_from(list(places(reader.example)) or [()]))
    text = poisoned(reader.example, path, data.draw(POISONS))
    try:
        result = reader.read(text.encode(errors="surrogatepass"))
    except reader.errors:
        return
    if is_marked(result):
        return
    clean = [number for number in numbers(reader.read(json.dumps(reader.example).encode())) if number == 0]
    assert len([number for number in numbers(result) if number == 0]) <= len(clean) + _removed(reader.example, path)
    assert not any(math.isinf(number) for number in numbers(result)), "an amount that is infinite"


def _removed(document: Any, path: tuple[Any, ...]) -> int:
    """How many parts the poison replaced, besides itself: their defaults may be 0."""
    for key in path:
        document = document[key]
    return 1_000 if isinstance(document, dict | list | tuple) else 0


@pytest.mark.parametrize("name", [name for name in resources() if "accessreviews" not in name])
@few
@given(st.data())
def test_an_object_that_cannot_be_read_hides_no_other_of_its_page(name: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in places(OBJECT) if path != ("metadata",)]))
    good = json.dumps(OBJECT)
    page = (
        f'{{"metadata":{{"resourceVersion":"9"}},"items":[{good},{poisoned(OBJECT, path, data.draw(POISONS))},{good}]}}'
    )
    alone = read_page(f'{{"metadata":{{}},"items":[{good}]}}'.encode(), resources()[name].model).items

    items = read_page(page.encode(errors="surrogatepass"), resources()[name].model).items

    assert [items[0], items[-1]] == [*alone, *alone]
    assert len(items) in (2, 3)


@pytest.mark.parametrize("kind", ["vector", "matrix"])
@few
@given(st.data())
def test_a_series_that_cannot_be_read_hides_no_other_of_its_answer(kind: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(places(SERIES))))
    others = [json.dumps(series(node=node)) for node in ("node-b", "node-c")]
    items = f"{others[0]},{poisoned(SERIES, path, data.draw(POISONS))},{others[1]}"
    body = f'{{"status":"success","data":{{"resultType":"{kind}","result":[{items}]}}}}'
    read = vector if kind == "vector" else spacings

    found: list[Sample] = read(
        result_of(decode_document(body.encode(errors="surrogatepass")), kind), "node", LabelCache(("node",))
    )

    expected = 1.5 if kind == "vector" else 15.0
    assert [sample.value for sample in found if sample.node in ("node-b", "node-c")] == [expected, expected]


@few
@given(st.data())
def test_a_node_of_load_watcher_that_cannot_be_read_is_no_number(data: st.DataObject) -> None:
    node = LOAD_WATCHER["data"]["NodeMetricsMap"]["node-a"]  # type: ignore[index]
    path = data.draw(st.sampled_from(list(places(node))))

    metrics = _metrics(msgspec.Raw(poisoned(node, path, data.draw(POISONS)).encode(errors="surrogatepass")))

    assert all(metric.value != 0 for metric in metrics)


@pytest.mark.parametrize("name", TABLES)
@few
@given(st.data())
def test_a_cell_of_a_trace_that_cannot_be_read_is_an_error_of_its_place(name: str, data: st.DataObject) -> None:
    tables, about = TABLES[name]
    table = data.draw(st.sampled_from(sorted(tables)))
    lines = [line.split(",") for line in tables[table].splitlines()]
    row = data.draw(st.integers(0, len(lines) - 1))
    cell = data.draw(st.integers(0, len(lines[row]) - 1))
    lines[row][cell] = data.draw(st.sampled_from([*NUMBERS, *map(json.loads, TEXTS), '"', "\ud800", "x" * 200_000]))
    changed = "\n".join(",".join(line) for line in lines) + "\n"
    try:
        trace = read_tables(tables | {table: changed.encode(errors="replace").decode()}, about)
    except TraceError:
        return
    assert not any(math.isinf(number) for number in numbers(trace))


@few
@given(st.one_of(st.text(), st.sampled_from([*NUMBERS, *TEXTS])))
def test_what_the_kernel_does_not_write_is_unknown(text: str) -> None:
    for line in (text, f"cpu {text} 1 2 3 4", f"MemTotal: {text} kB\nMemAvailable: 5 kB", f"0-{text}"):
        cpu, memory, cpus = read_proc(line)
        assert cpu is None or cpu > 0
        assert memory is None or memory.total > 0
        assert cpus >= 1
