"""The ledger in its ConfigMap, as text."""

import msgspec
import yaml
from binder.ledgers import a_ledger, an_entry
from binder.worlds import World
from builders import NOW

from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.ledger_json import decode, encode, summary
from equipoise.runtime.kubernetes.client import CONFIG_MAPS


async def test_the_config_map_shows_what_happened(world: World) -> None:
    """In lines of text: outcome, pod, nodes, totals."""
    await world.outcome_of("web-1")
    (config_map,) = world.kube.stored(CONFIG_MAPS)
    assert "evicted  shop/web-1  node-a -> node-b" in config_map.data["summary"]
    assert "carried out since 2027-01-15 08:00:00 UTC: 1 evictions, 0 dry runs" in config_map.data["summary"]
    lines = [line for line in config_map.data["ledger"].splitlines() if '"shop"' in line]
    assert ["settledAt" in line for line in lines] == [True, True], "its entry, and its reason for a day"


def test_yaml_shows_the_ledger_as_blocks_of_text() -> None:
    """No line ends in a space, and every entry is one line."""
    entries = [an_entry(f"pod-{number}", detail="two\nlines and  a tab\t") for number in range(30)]
    ledger = a_ledger(*entries, outage_ended_at=NOW, outage="the bus was unavailable for 90 s")
    for text in (summary(ledger), encode(ledger)):
        assert all(line == line.rstrip() for line in text.splitlines())
        assert f"|\n  {text.splitlines()[0]}" in yaml.safe_dump({"data": text}, default_style="|", width=10_000)
    assert summary(ledger).count("shop/pod-") == 20
    assert "and 10 more below" in summary(ledger)
    assert len(encode(ledger).splitlines()) < 50
    assert decode(encode(ledger)) == msgspec.json.decode(encode(ledger), type=Ledger) == ledger
