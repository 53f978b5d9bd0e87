"""The table of metrics in docs/metrics.md."""

from collections.abc import Iterator, Mapping

from monitored.exported import Exported, exported
from monitoring.__main__ import ROOT


async def test_the_page_lists_every_exported_metric() -> None:
    """With labels, services and the text of /metrics. The rows that the page should have are those of the failure."""
    page = (ROOT / "docs" / "metrics.md").read_text().partition("## Metrics of Equipoise")[2]
    listed = [line for line in page.splitlines() if line.startswith("| `")]

    assert listed == list(rows(await exported()))


def rows(known: Mapping[str, Exported]) -> Iterator[str]:
    """A histogram has one row, with the name of its family."""
    families = {
        each.family if name.endswith(("_bucket", "_sum", "_count")) else name: each for name, each in known.items()
    }
    for name, each in sorted(families.items()):
        labels = ", ".join(f"`{label}`" for label in each.labels)
        services = "all" if len(each.services) in (0, 5) else ", ".join(each.services)
        yield f"| `{name}` | {labels} | {services} | {each.text} |"
