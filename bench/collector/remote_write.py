"""Writes two hours of kubelet metrics to a real Prometheus by remote write, up to now.

`python -m bench.collector.remote_write URL NODES PODS SPACING [LAST]`: PODS per node, a sample every SPACING seconds,
only samples after LAST if given. Prints the time (Unix seconds) of the newest sample.
"""

import struct
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence

HISTORY = 7_200
SLICE = 2_400
"""Seconds per pass over all series: Prometheus rejects samples an hour older than its newest ones."""

RATES = 50
"""Number of different usages. Series with the same usage share their encoded samples."""

SERIES_PER_REQUEST = 2_000


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    """A protobuf field of type bytes."""
    return bytes((number << 3 | 2,)) + varint(len(content)) + content


def labels(**pairs: str) -> bytes:
    ordered = sorted({"job": "kubelet", "metrics_path": "/metrics/resource", **pairs}.items())
    return b"".join(field(1, field(1, name.encode()) + field(2, value.encode())) for name, value in ordered)


def name(metric: str) -> dict[str, str]:
    return {"__name__": metric}


def series(nodes: int, pods: int) -> Iterator[tuple[bytes, str, int]]:
    """The labels of each series, what it measures, and the number of its usage."""
    for number in range(nodes):
        node = f"n-{number}"
        yield labels(node=node, **name("node_cpu_usage_seconds_total")), "node cpu", number % RATES
        yield labels(node=node, **name("node_memory_working_set_bytes")), "node memory", number % RATES
    for number in range(nodes * pods):
        pod = {"node": f"n-{number % nodes}", "namespace": "shop", "pod": f"web-{number}"}
        yield labels(**pod, **name("pod_cpu_usage_seconds_total")), "pod cpu", number % RATES
        yield labels(**pod, **name("pod_memory_working_set_bytes")), "pod memory", number % RATES


def samples(what: str, usage: int, times: Sequence[int]) -> bytes:
    """The samples of a counter of CPU seconds or a constant gauge of bytes, at these times (Unix seconds)."""
    cores = (8 if what.startswith("node") else 0.2) * (1 + usage / RATES)
    encoded = []
    for at in times:
        value = cores * (at - 1_700_000_000) if what.endswith("cpu") else 2.0**30 * (1 + usage)
        encoded.append(field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + varint(at * 1_000)))
    return b"".join(encoded)


def uncompressed(body: bytes) -> bytes:
    """The block format of Snappy with a single literal."""
    return varint(len(body)) + b"\xfc" + struct.pack("<I", len(body) - 1) + body


def push(url: str, body: bytes) -> None:
    headers = {
        "Content-Type": "application/x-protobuf",
        "Content-Encoding": "snappy",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
    }
    request = urllib.request.Request(f"{url}/api/v1/write", uncompressed(body), headers)  # noqa: S310  local
    urllib.request.urlopen(request, timeout=120).close()  # noqa: S310  local


def fill(url: str, all_series: Sequence[tuple[bytes, str, int]], times: Sequence[int]) -> None:
    encoded = {
        (what, usage): samples(what, usage, times)
        for what in ("node cpu", "node memory", "pod cpu", "pod memory")
        for usage in range(RATES)
    }
    for begin in range(0, len(all_series), SERIES_PER_REQUEST):
        part = all_series[begin : begin + SERIES_PER_REQUEST]
        push(url, b"".join(field(1, encoded_labels + encoded[what, usage]) for encoded_labels, what, usage in part))


def main(url: str, nodes: int, pods: int, spacing: int, last: int = 0) -> None:
    all_series = list(series(nodes, pods))
    at = last + spacing if last else int(time.time()) - HISTORY  # noqa: TID251  a separate program
    while (now := int(time.time())) - at >= spacing:  # noqa: TID251  a separate program
        times = list(range(at, min(at + SLICE, now), spacing))
        fill(url, all_series, times)
        print(f"up to {now - times[-1]} s ago", file=sys.stderr, flush=True)
        at = times[-1] + spacing
    print(at - spacing, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
