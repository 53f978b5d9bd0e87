"""The site that `make docs` builds."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from deployment.base import ROOT
from docs.build_site import OUTSIDE, POLICY, SECTIONS, build, moved, navigation

REQUESTS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
"""What a browser requests without a click."""


class Page(HTMLParser):
    """What it requests, links to, and the policy that it sets."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.links: list[str] = []
        self.policies: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        if tag == "a":
            self.links.append(found.get("href", ""))
        if tag in REQUESTS and found.get("rel") != "canonical":
            self.requests.append(found.get(REQUESTS[tag], ""))
        if tag == "meta" and found.get("http-equiv") == "Content-Security-Policy":
            self.policies.append(found["content"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("docs") / "site"
    assert build(out) == ""
    return out


def pages(site: Path) -> Iterator[str]:
    return (str(path.relative_to(site)) for path in site.rglob("*.html"))


def test_every_document_is_a_page_that_the_navigation_links_to(site: Path) -> None:
    documents = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    expected = {re.sub(r"\.md$", ".html", name) for name in [*documents, *OUTSIDE.values()]}
    expected = {name.replace("decisions/README.html", "decisions/index.html") for name in expected}

    assert {*pages(site)} == {*expected, "404.html"}
    assert len(expected) > 30
    linked = {re.sub(r"^\./|#.*$", "", link) for link in Page(site / "index.html").links} | {"index.html"}
    assert expected - linked == set()


def test_no_page_requests_anything_from_another_server(site: Path) -> None:
    """Not by itself, and by its policy not by a script either."""
    for name in pages(site):
        page = Page(site / name)
        assert [request for request in page.requests if re.match(r"(\w+:)?//", request)] == [], name
        assert page.policies == [POLICY], name
        assert len(page.requests) > 3, name
    assert "http" not in POLICY
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"""(?:url\(|@import)\s*["']?(?:\w+:)?//[^)"']+""", styles) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[a](b.md)", "page does not exist"),
        ("[a](#b)", "anchor does not exist"),
        ("# A title\n\n[a](page.md#a-title) [b](../CHANGELOG.md#nothing)", ""),
    ],
)
def test_a_broken_link_or_anchor_fails_the_build(tmp_path: Path, text: str, error: str) -> None:
    docs = tmp_path / "docs"
    (docs / "decisions").mkdir(parents=True)
    (docs / "decisions" / "README.md").write_text("# Decisions\n")
    for name in OUTSIDE:
        (tmp_path / name).write_text("# Nothing\n\n[a page](docs/page.md)\n")
    (docs / "page.md").write_text(text)

    printed = build(tmp_path / "site", docs)

    assert error in printed
    assert bool(error) == bool(printed)


def test_a_page_that_is_listed_nowhere_is_in_the_navigation() -> None:
    listed = {name for names in SECTIONS.values() for name in names}
    found = dict(navigation(["index.md", "new.md", "lab.md", "decisions/0002-b.md", "decisions/index.md"]))

    assert found == {
        "Use": ["lab.md"],
        "Understand": [],
        "Change": [],
        "More": ["new.md"],
        "Decisions": ["decisions/index.md", "decisions/0002-b.md"],
    }
    assert {*listed} <= {path.stem for path in (ROOT / "docs").glob("*.md")} | {"contributing", "changelog"}


def test_links_of_the_readme_are_adapted() -> None:
    assert moved("[a](docs/lab.md#x) [b](docs/decisions/) [c](CHANGELOG.md) [d](#e) [f](https://g.h/docs/)") == (
        "[a](lab.md#x) [b](decisions/index.md) [c](changelog.md) [d](#e) [f](https://g.h/docs/)"
    )


def test_a_folder_that_is_no_site_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("two years of work")

    assert "is not replaced" in build(tmp_path)
    assert (tmp_path / "thesis.txt").exists()
