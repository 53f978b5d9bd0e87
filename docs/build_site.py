"""`python docs/build_site.py` builds the documentation as one site, into site/. A broken link or anchor is an error.

README, CONTRIBUTING and CHANGELOG become pages. Pages that SECTIONS does not list are added, so that none is missing.
The generator is Zensical, by the authors of Material for MkDocs, whose support ends in May 2027.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files outside of docs/, and their pages."""

SECTIONS = {
    "Use": (
        "install",
        "operate",
        "diagnose",
        "runbooks",
        "upgrading",
        "metrics",
        "lab",
        "traces",
        "security",
        "reliability",
    ),
    "Understand": ("architecture", "others", "glossary", "events", "peers", "benchmarks"),
    "Change": ("extending", "contributing", "changelog"),
}
"""Names of pages, in order."""

CONFIGURATION = """[project]
site_name = "Equipoise"
site_description = "Levels the real load of a Kubernetes cluster."
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
custom_dir = "theme"
features = ["navigation.sections", "navigation.top", "content.code.copy", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""

TEMPLATE = """{% extends "base.html" %}
{% block extrahead %}
<meta http-equiv="Content-Security-Policy" content="POLICY">
{% endblock %}
"""
POLICY = "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
"""The theme can load parts from other servers. Browsers refuse that: a reader's address goes nowhere else."""

_MARK = "sitemap.xml"

_LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)(#[^)]*)?\)")


def moved(text: str) -> str:
    """A file of the root of the repository, with its links as seen from docs/."""

    def link(match: re.Match[str]) -> str:
        target = match[1].removeprefix("docs/")
        target = (
            "decisions/index.md" if target in ("decisions/", "decisions/README.md") else OUTSIDE.get(target, target)
        )
        return f"]({target}{match[2] or ''})"

    return _LINK.sub(link, text)


def navigation(pages: Iterable[str]) -> list[tuple[str, list[str]]]:
    """The pages in their sections; decisions are the last one, and what is listed nowhere comes before them."""
    left = sorted(pages)
    found = []
    for section, names in SECTIONS.items():
        listed = [f"{name}.md" for name in names if f"{name}.md" in left]
        found.append((section, listed))
        left = [page for page in left if page not in listed]
    decisions = [page for page in left if page.startswith("decisions/")]
    decisions.sort(key=lambda page: (not page.endswith("/index.md"), page))
    other = [page for page in left if page not in decisions and page != "index.md"]
    return [*found, *([("More", other)] if other else []), ("Decisions", decisions)]


def stage(folder: Path, docs: Path = ROOT / "docs") -> Path:
    """Writes the sources of the site, and returns the path of its configuration."""
    target = folder / "docs"
    shutil.copytree(docs, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for path in target.rglob("*.md"):
        above = "../" * (len(path.relative_to(target).parts) - 1)
        text = path.read_text(encoding="utf-8")
        for source, page in OUTSIDE.items():
            text = text.replace(f"]({above}../{source}", f"]({above}{page}")
        path.write_text(text, encoding="utf-8")
    for source, page in OUTSIDE.items():
        (target / page).write_text(moved((docs.parent / source).read_text(encoding="utf-8")), encoding="utf-8")
    (target / "decisions" / "README.md").rename(target / "decisions" / "index.md")
    pages = [str(path.relative_to(target)) for path in target.rglob("*.md")]
    sections = [f"{{{json.dumps(name)} = {json.dumps(names)}}}" for name, names in navigation(pages)]
    (folder / "theme").mkdir()
    (folder / "theme" / "main.html").write_text(TEMPLATE.replace("POLICY", POLICY))
    configuration = folder / "zensical.toml"
    configuration.write_text(CONFIGURATION.format(nav=f'["index.md", {", ".join(sections)}]'))
    return configuration


def build(out: Path, docs: Path = ROOT / "docs") -> str:
    """Builds the site into `out`, which is replaced if it is one. Returns the errors; empty if there are none."""
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        return f"{out} is not replaced, because it has no {_MARK} of an earlier build: choose another --out"
    with tempfile.TemporaryDirectory() as name:
        configuration = stage(Path(name), docs)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(configuration)]
        environment = {**os.environ, "NO_COLOR": "1"}
        result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603  ours
        if result.returncode:
            printed = re.sub(r"\x1b\[[\d;]*m", "", result.stdout + result.stderr)
            return printed.partition("Traceback")[0]
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(Path(name) / "site", out)
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the documentation as one site.")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "site", help="folder; a site in it is replaced (default: site)"
    )
    options = parser.parse_args()
    errors = build(options.out)
    print(errors or f"{options.out}/index.html", file=sys.stderr if errors else sys.stdout)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
