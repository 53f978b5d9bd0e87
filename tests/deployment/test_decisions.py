"""The index of the decisions, docs/decisions/README.md."""

import re

from deployment.base import ROOT

FOLDER = ROOT / "docs" / "decisions"
INDEX = (FOLDER / "README.md").read_text()
ROWS = re.findall(r"^\| \[(\d+)\]\(([\w.-]+)\) \| (.+?) \| (.+?) \| (.+?) \|$", INDEX, re.MULTILINE)
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")


def unused_numbers() -> list[int]:
    """The numbers of the table of numbers without a page."""
    (row,) = re.findall(r"^\| ([\d, ]+) \| never used", INDEX, re.MULTILINE)
    return [int(number) for number in row.split(", ")]


def test_the_index_lists_every_page_in_order_with_its_number_and_title() -> None:
    titles = [path.read_text().partition("\n")[0] for path in PAGES]

    assert [name for _, name, *_ in ROWS] == [path.name for path in PAGES]
    assert [f"# {number}. {title}" for number, _, title, *_ in ROWS] == titles
    assert [int(path.name[:4]) for path in PAGES] == [int(number) for number, *_ in ROWS]


def test_every_number_has_a_page_or_is_listed_as_unused() -> None:
    numbers = [int(number) for number, *_ in ROWS]

    assert sorted([*numbers, *unused_numbers()]) == list(range(1, max(numbers) + 1))
    assert unused_numbers() == sorted(unused_numbers())


def test_a_page_that_is_superseded_names_the_later_page_and_so_does_its_status() -> None:
    stated = {name: status for _, name, *_, status in ROWS if status.startswith("superseded")}
    superseded = {
        path.name: match[1]
        for path in PAGES
        if (match := re.search(r"^Superseded by \[\d+\]\(([\w.-]+)\)", path.read_text(), re.MULTILINE))
    }

    assert superseded
    assert {name: re.findall(r"\(([\w.-]+)\)", status)[0] for name, status in stated.items()} == superseded
