"""Hooks of MkDocs: pages from outside docs/, links to them, formulas.

Links in the Markdown are those of the repository, so that they work wherever it is shown. In the
site README.md is the front page, docs/ is the root, and all else keeps its path. A program that a
page links to becomes a page with its source.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md", "results/**/*.md")
"""Of the repository, beside docs/."""

# Fences stay as they are; a link is outside of `code` where its brackets are.
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and what they, or those of docs/, link to."""
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    linked = {target for page in [*pages, *ROOT.glob("docs/**/*.md")] for target in links(page)}
    for path in dict.fromkeys([*pages, *sorted(linked)]):
        uri = site_uri(path)
        if uri is None or files.get_file_from_path(uri):
            continue
        if path.suffix == ".py":
            name = path.relative_to(ROOT).as_posix()
            source = f"# {name}\n\n```python\n{path.read_text(encoding='utf-8')}```\n"
            file = File.generated(config, uri, content=source, inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(file)
        else:
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links of the repository into links of the site."""
    return relinked(markdown, page.file.src_uri)


def on_page_content(content: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers draw without a script.

    On a narrow screen a displayed formula scrolls, and the page does not.
    """

    def formula(found: re.Match[str]) -> str:
        text = html.unescape(found[2]).strip()
        if found[1] == "span":
            return convert(text, display="inline")
        return f'<div style="overflow-x: auto">{convert(text, display="block")}</div>'

    return _FORMULA.sub(formula, content)


def links(page: Path) -> Iterator[Path]:
    """Files of the repository that a page links to, a folder's README.md for the folder."""
    for text in _FENCE.split(page.read_text(encoding="utf-8")):
        for found in _LINK.finditer(text):
            yield target(page.parent, found[1])


def target(folder: Path, link: str) -> Path:
    """Return what a link in a page of that folder means."""
    path = (folder / link).resolve()
    return path / "README.md" if path.is_dir() else path


def site_uri(path: Path) -> str | None:
    """Where a file of the repository is in the site; None if it is not in the repository."""
    if not path.is_file() or not path.is_relative_to(ROOT):
        return None
    uri = path.relative_to(ROOT).as_posix()
    if uri == "README.md":
        return "index.md"
    if uri.endswith(".py"):
        return f"{uri}.md"
    return uri.removeprefix("docs/")


def repository_path(uri: str) -> Path:
    """Return the file that a page of the site was made of."""
    if uri == "index.md":
        return ROOT / "README.md"
    inside = ROOT / "docs" / uri
    return inside if inside.exists() else ROOT / uri


def relinked(markdown: str, uri: str) -> str:
    """Return a page whose links are those of the site.

    Args:
      markdown: as it is in the repository.
      uri: of the page in the site.
    """
    here = repository_path(uri).parent

    def link(found: re.Match[str]) -> str:
        there = site_uri(target(here, found[1]))
        if there is None:
            return found[0]  # MkDocs says which page has a link to nothing
        return posixpath.relpath(there, posixpath.dirname(uri) or ".") + (found[2] or "")

    parts = _FENCE.split(markdown)
    fences = [*_FENCE.findall(markdown), ""]
    return "".join(_LINK.sub(link, text) + fence for text, fence in zip(parts, fences, strict=True))
