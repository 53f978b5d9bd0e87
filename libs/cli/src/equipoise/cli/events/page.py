"""docs/events.md: every subject with an example, made from the table of channels so that it cannot fall behind."""

import json
import textwrap

import msgspec

from equipoise.cli.events.asyncapi import address_of, name_of, summary_of
from equipoise.contracts.bus.channels import CHANNELS, Channel
from equipoise.contracts.bus.streams import stream_of

INTRODUCTION = """\
# Events: what you can listen to

Made by `equipoise events`; do not edit. The same as a document for programs: [asyncapi.yaml](asyncapi.yaml)
(`equipoise events -o asyncapi`).

Everything that the services say travels over NATS as JSON, and a plain subscription hears it: nothing has to be set up,
nobody is disturbed, and nothing that you do there can move a pod. Three ways:

```sh
equipoise tap eviction                      # readable, a line a message; -o json for programs
nats sub 'equipoise.eviction.outcome.>'     # the nats CLI; --user tap --password … --inbox-prefix _INBOX.tap
```

```python
client = await nats.connect("nats://127.0.0.1:4222")  # user="tap", password=…, inbox_prefix="_INBOX.tap"
async for message in (await client.subscribe("equipoise.eviction.outcome.>")).messages:
    print(message.subject, message.headers["ce-time"], message.data.decode())
```

Where the server has users, `tap` hears `equipoise.>`, may read back what the table calls *read back*, and may ask what
changes nothing (`score.explain`, `plan.preview`). `equipoise explain eviction` and `equipoise report` read back.

- Names are one token of a subject: their dots are written `_` (`node-1_example_com`). Kubernetes names hold no `_`, so
  it can be undone.
- Fields that end in `_at` are Unix seconds (UTC). Usage is cores and bytes; load is a share (0..1) of the node. **A
  value that is not known is `null` or absent, never 0.**
- Messages gain fields and never lose or change any: ignore what you do not know.
- The bus may lose, repeat or delay anything. Utilization and placement are whole states: the next one heals what was
  lost. `epoch` and `sequence` order them: drop what is lower than what you have. Intents and outcomes have ids.
- Every message carries the headers of CloudEvents (binary mode): `ce-specversion` 1.0, `ce-id` (also `Nats-Msg-Id`),
  `ce-source` (`/equipoise/<service>`), `ce-type` (`dev.equipoise.<message>.v1`), `ce-time`, `ce-datacontenttype`; and
  `traceparent` (W3C): an outcome carries on the trace of its intent, and an answer that of its question.

"""

EXAMPLE_WIDTH = 110


def page() -> str:
    """The whole page."""
    return INTRODUCTION + _table() + "\n" + "\n".join(map(_section, CHANNELS))


def _table() -> str:
    lines = ["| subject | said by | kept |", "|---|---|---|"]
    for channel in CHANNELS:
        anchor = name_of(channel).replace(".", "")
        lines.append(f"| [`{address_of(channel)}`](#{anchor}) | {_speakers(channel)} | {_kept(channel)} |")
    return "\n".join(lines) + "\n"


def _section(channel: Channel) -> str:
    subject, message = channel.example
    parts = [f"## {name_of(channel)}\n", f"{summary_of(channel.message)}\n", _who(channel)]
    parts += [f"```json\n{_text({'subject': subject, 'message': message})}\n```\n"]
    if channel.response is not None:
        parts += [f"Answer: {summary_of(channel.response)}\n", f"```json\n{_text(channel.response_example)}\n```\n"]
    return "\n".join(parts)


def _who(channel: Channel) -> str:
    if channel.responder is not None:
        return f"`{address_of(channel)}`: a question that the {channel.responder} answers. {_asking(channel)}\n"
    hearers = [*channel.subscribers, *channel.observers]
    heard = f"; heard by {', '.join(hearers)}" if hearers else "; for people and programs of theirs"
    return f"`{address_of(channel)}`: said by {_speakers(channel)}{heard}. Kept: {_kept(channel)}.\n"


def _asking(channel: Channel) -> str:
    if not channel.open_to_users:
        return "The user `tap` may not ask it."
    return f"Ask it with `nats request {channel.pattern} '…'`: the answer changes nothing."


def _speakers(channel: Channel) -> str:
    if channel.responder is not None:
        return f"who asks; answered by {channel.responder}"
    return "every service" if len(channel.publishers) == 5 else ", ".join(channel.publishers)


def _kept(channel: Channel) -> str:
    stream = stream_of(channel.pattern)
    if stream is None:
        return "not at all"
    what = "until settled" if stream.work_queue else "the last of each subject" if stream.last_per_subject else "all"
    limits = [_span(stream.max_age)] if stream.max_age is not None else []
    if stream.max_bytes is not None:
        limits.append(f"{stream.max_bytes // 2**20} MiB")
    kept = ", ".join([what, *([f"at most {' and '.join(limits)}"] if limits else [])])
    return f"{kept} (`{stream.name}`{', read back' if stream.open_to_users else ''})"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (seconds >= length and seconds % length == 0 and unit != "d"):
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _text(value: object) -> str:
    """JSON of several lines, with what fits on one kept there."""
    return _folded(msgspec.to_builtins(value), "")


def _folded(value: object, indent: str) -> str:
    line = _one_line(value)
    if len(indent) + len(line) <= EXAMPLE_WIDTH or not isinstance(value, (dict, list)):
        return line
    inner = indent + "  "
    if isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value):
        wrapped = textwrap.fill(line[1:-1], EXAMPLE_WIDTH, initial_indent=inner, subsequent_indent=inner)
        return f"[\n{wrapped}\n{indent}]"
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _folded(item, inner) for item in value) + f"\n{indent}]"
    rows = (f"{inner}{_one_line(key)}: {_folded(item, inner)}" for key, item in value.items())
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def _one_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
