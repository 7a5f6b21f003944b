"""The documentation is built without a warning, and needs nothing from elsewhere."""

import functools
import http.server
import importlib
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from docs import hooks
from tests.report.browser import Browser, find

ROOT = Path(__file__).parents[1]
PACKAGES = ["optim", "diagnostics", "envs", "envs.host", "networks", "analysis"]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, as `make docs` makes it."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    path = find()
    if path is None:
        pytest.skip("there is no chromium to open the site in")
    with Browser(path) as made:
        yield made


def visit(browser: Browser, address: str) -> None:
    browser.events.clear()
    browser.call("Page.navigate", url=address)
    browser.wait(f"location.href === {address!r} && document.readyState === 'complete'")


def test_every_page_fits_a_phone(site, browser):
    """Tables, programs and formulas scroll by themselves; the page is as wide as the screen."""
    browser.size(360, 740, mobile=True)
    wide = {}
    for page in site.rglob("*.html"):
        visit(browser, page.as_uri())
        width = browser.run("document.documentElement.scrollWidth")
        if width > 360:
            wide[page.relative_to(site).as_posix()] = width
    assert wide == {}


def test_the_search_is_shown_where_it_works(site, browser):
    """It needs a server: a page on the disk may not read the index beside it."""
    browser.size(1280, 900)
    shown = "document.querySelectorAll('.md-search, [for=__search]').length"
    visit(browser, (site / "units.html").as_uri())
    assert browser.run(shown) == 0
    assert browser.errors() == []
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        visit(browser, f"http://127.0.0.1:{server.server_port}/units.html")
        assert browser.run(shown) > 1
        browser.run("document.querySelector('[for=__search]').click()")
        browser.wait("document.activeElement.matches('.md-search__input')")
        browser.call("Input.insertText", text="dormant")
        browser.wait("document.querySelector('.md-search-result__item') !== null")
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Says nothing of requests."""

    def log_message(self, format, *args):
        pass


def test_nothing_is_loaded_from_elsewhere(site):
    """Links may lead away; scripts, styles, pictures and fonts are all here."""
    loaded = re.compile(
        r"""<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]*)"""
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    assert not [(page.name, found) for page in pages for found in loaded.findall(page.read_text())]
    styles = "\n".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.findall(r"url\(['\"]?(?:https?:)?//", styles)
    # The theme would load Mermaid from elsewhere for blocks of this class.
    assert not [page.name for page in pages if 'class="mermaid"' in page.read_text()]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(site, package):
    module = f"continual_learning.{package}"
    text = (site / "reference" / f"{package.split('.')[0]}.html").read_text()
    for name in importlib.import_module(module).__all__:
        if isinstance(getattr(importlib.import_module(module), name), int | float):
            continue
        assert f'id="{module}.{name}"' in text, name


def test_reset_methods_are_shown_with_their_arguments(site):
    text = re.sub(r"<[^>]+>", "", (site / "reference" / "optim.html").read_text())
    signature = text[text.index("CBP(") :].partition(")\n")[0]
    assert "replacement_rate" in signature and "transfer_bias" in signature


def test_formulas_are_drawn_without_a_script(site):
    text = (site / "methods_explained.html").read_text()
    assert text.count("<math") > 20 and "<mfrac>" in text
    assert "arithmatex" not in text and "\\operatorname" not in text


def test_what_lies_outside_the_folder_of_the_docs_is_there(site):
    front = (site / "index.html").read_text()
    assert 'href="paper_and_code.html"' in front
    assert 'src="results/random_labels/curves.svg"' in front
    assert (site / "results" / "random_labels" / "curves.svg").exists()
    results = (site / "results" / "slippery_ant" / "index.html").read_text()
    assert 'href="../../robots.html#is-it-friction"' in results
    source = (site / "examples" / "linen_cnn.py.html").read_text()
    assert "ResidualCNN" in source


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("index.md", "[a](docs/units.md#tracing)", "[a](units.md#tracing)"),
        ("index.md", "[a](results)", "[a](results/README.md)"),
        ("units.md", "[a](../examples/linen_cnn.py)", "[a](examples/linen_cnn.py.md)"),
        ("reference/optim.md", "[a](../units.md)", "[a](../units.md)"),
        ("results/slippery_ant/README.md", "[a](../../docs/sac.md)", "[a](../../sac.md)"),
        ("units.md", "[a](https://example.com/b.md)", "[a](https://example.com/b.md)"),
        ("units.md", "[a](#here), [b](nowhere.md)", "[a](#here), [b](nowhere.md)"),
        ("units.md", "```\n[a](../README.md)\n```", "```\n[a](../README.md)\n```"),
    ],
)
def test_links_of_the_repository_become_those_of_the_site(page, link, there):
    assert hooks.relinked(link, page) == there
