"""The report as a file and as a server: what may run, who may ask, what is replaced."""

import base64
import hashlib
import html.parser
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from continual_learning import cli, report
from continual_learning.analysis import load, style
from continual_learning.analysis.curves import curves
from continual_learning.analysis.summary import as_published, ours
from continual_learning.report import live, tables
from continual_learning.report import page as page_module
from continual_learning.studies.store.store import Store
from tests.report import hostile, report_study
from tests.report.test_report import data_of, rows, text_of


class Elements(html.parser.HTMLParser):
    """Every element of a page, as (name, attributes)."""

    def __init__(self, text: str):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return report_study.write(tmp_path_factory.mktemp("studies") / "ant")


@pytest.fixture(scope="module")
def page(folder):
    return report.make([folder], command="continual report ant")


# what may run ------------------------------------------------------------------------------------


def test_only_our_script_and_style_may_run(page):
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    for kind, pattern in (
        ("script-src", r'<script type="module">(.*?)</script>'),
        ("style-src", r"<style>(.*?)</style>"),
    ):
        [text] = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"


def test_nothing_is_asked_for(page):
    for tag, attributes in Elements(page).found:
        assert "src" not in attributes and "style" not in attributes, tag
        assert not any(name.startswith("on") for name in attributes), tag
        if tag == "link":
            assert (attributes["href"] or "").startswith("data:")
    assert "@import" not in page and "url(" not in page


def test_a_live_page_may_ask_its_server(folder):
    page = report.make([folder], version="abc")
    assert "connect-src 'self'" in page
    assert data_of(page)["version"] == "abc"


def test_hostile_names_are_text(tmp_path):
    folder = hostile.write(tmp_path)
    out = tmp_path / "out" / "report.html"
    report.write([folder], out)
    text = out.read_text()
    tags = [tag for tag, _ in Elements(text).found]
    assert tags.count("script") == 2 and tags.count("style") == tags.count("title") == 1
    assert not {"img", "s", "u"} & set(tags)
    assert tags.count("b") == 1  # of the brand
    for _, attributes in Elements(text).found:
        assert not any(name.startswith("on") for name in attributes)
    data = data_of(text)
    names = [method["name"] for method in data["sections"][0]["methods"]]
    assert any(name.startswith(hostile.METHOD) for name in names)
    assert "\u2028" not in text[text.index('id="data"') :]


@pytest.mark.parametrize(
    "name", [hostile.FOLDER, "javascript:alert(1)", "//evil.example", "a b#c?d"]
)
def test_links_lead_to_folders_alone(tmp_path, name):
    folder = tmp_path / name.strip("/").replace("/", "_")
    folder.mkdir()
    address = tables.link(folder, tmp_path / "reports")
    assert re.fullmatch(r"\./[\w./%-]+", address)
    assert urllib.request.url2pathname(address).endswith(folder.name)


def test_colors_can_be_seen():
    """Contrast of texts by WCAG: 4.5 to 1; of lines on dark ground about 3 to 1 and more."""
    css = page_module._asset("page.css")
    colors = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", css))

    def contrast(a: str, b: str) -> float:
        high, low = sorted(
            (page_module._luminance([int(c[k : k + 2], 16) for k in (1, 3, 5)]) for c in (a, b)),
            reverse=True,
        )
        return (high + 0.05) / (low + 0.05)

    for ink in ("text", "muted", "accent"):
        for ground in ("page", "surface", "warn"):
            pairs = zip(colors[ink].split(", "), colors[ground].split(", "), strict=True)
            assert all(contrast(*pair) >= 4.5 for pair in pairs), (ink, ground)
    for color in (*style.colors(style.looks()).values(), *style.OTHERS):
        assert contrast(page_module.lightened(color), "#191c22") >= 3.5
    assert page_module.lightened("#E69F00") == "#E69F00"


# what is on it -----------------------------------------------------------------------------------


def test_specs_versions_and_the_command_are_there(page, folder):
    assert html.escape((folder / "study.toml").read_text()) in page
    assert html.escape((folder / "environment.json").read_text()) in page
    text = text_of(page)
    assert "with continual report ant" in text
    assert f"Data: {folder}" in text


@pytest.mark.parametrize(
    ("line", "shown"),
    [("resumed by continual", "resumed by continual"), ("word " * 99, "word " * 59 + "…")],
)
def test_the_last_line_of_the_log_ends_with_a_word(folder, tmp_path, line, shown):
    copy = shutil.copytree(folder, tmp_path / "ant")
    (copy / "log.txt").write_text(f"begun\n{line}\n")
    assert f"the log ends with “{shown}”" in text_of(report.make([copy]))


def test_links_go_to_the_data(folder, tmp_path):
    report.write([folder], tmp_path / "deep" / "report.html")
    text = (tmp_path / "deep" / "report.html").read_text()
    [address] = [
        a["href"] for tag, a in Elements(text).found if tag == "a" and "skip" not in str(a)
    ]
    assert (tmp_path / "deep" / address).resolve() == folder.resolve()


def test_tables_have_the_numbers_of_the_summaries(page, folder):
    shown = {float(value) for value in re.findall(r'data-value="([-\d.e]+)"', page)}
    for each in curves(load(folder), "episode_return", bin=2_000_000).values():
        for summary in (ours(each), as_published(each)):
            assert {estimate.value for estimate in summary[:3]} <= shown


# the command -------------------------------------------------------------------------------------


def test_the_command_writes_and_replaces_reports(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert cli.main(["report", str(folder)]) == 0
        assert re.fullmatch(r"report\.html \(\d\.\d MB\)\n", capsys.readouterr().out)
    assert report.MARK in Path("report.html").read_bytes()
    assert "with continual report" in text_of(Path("report.html").read_text())
    assert cli.main(["report", str(folder), "-o", "sub/x.html"]) == 0
    assert Path("sub/x.html").stat().st_size > 50_000


def fails(capsys, *words: str) -> str:
    assert cli.main(["report", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("continual: ")
    return captured.err


def test_the_command_refuses(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("thesis.html").write_text("<!doctype html><p>Years of work")
    assert "is no report" in fails(capsys, str(folder), "-o", "thesis.html")
    assert Path("thesis.html").read_text().endswith("work")
    assert "is a folder" in fails(capsys, str(folder), "-o", str(tmp_path))
    assert "There is no folder nowhere" in fails(capsys, "nowhere")
    assert "is not the folder of a study" in fails(capsys, str(tmp_path))
    assert "given twice" in fails(capsys, str(folder), str(folder))
    assert "--watch writes no file" in fails(capsys, str(folder), "--watch", "-o", "x.html")
    assert "--port goes with --watch" in fails(capsys, str(folder), "--port", "80")
    assert "at most 65,535" in fails(capsys, str(folder), "--watch", "--port", "high")
    assert sorted(os.listdir()) == ["thesis.html"]


# the live page -----------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path):
    return report_study.store(
        tmp_path / "s", {"name": "x", "tasks": 4}, {"cpr": rows({0: [0.5] * 4})}
    )


@pytest.fixture
def server(study, monkeypatch):
    monkeypatch.setattr(live, "SECONDS", 0.05)
    with live.serve(live.Live([study]), 0) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


def ask(address: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    request = urllib.request.Request(address, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def test_the_server_has_the_page_and_nothing_else(server, study):
    code, content, headers = ask(server + "/")
    assert code == 200 and report.MARK in content
    assert headers["Cache-Control"] == "no-store"
    assert "frame-ancestors" in headers["Content-Security-Policy"]
    version = ask(server + "/version")[1].decode()
    assert data_of(content.decode())["version"] == version
    for path in ("/study.toml", "/../study.toml", f"/{study}", "/?x", "/version/"):
        assert ask(server + path)[0] == 404
    assert ask(server + "/", "HEAD")[:2] == (200, b"")
    assert ask(server + "/", "POST")[0] == 501


@pytest.mark.parametrize(
    "name", ["evil.example", "127.0.0.1.evil.example", "evil.example:127.0.0.1", ""]
)
def test_other_names_are_refused(server, name):
    code, content, _ = ask(server + "/", Host=name)
    assert code == 403 and report.MARK not in content


@pytest.mark.parametrize("name", ["localhost", "localhost:9999", "127.0.0.1", "[::1]:80"])
def test_names_of_this_machine_are_served(server, name):
    assert ask(server + "/version", Host=name)[0] == 200


def until(condition) -> None:
    for _ in range(600):
        if condition():
            return
        threading.Event().wait(0.05)
    raise AssertionError("never")


def test_the_page_follows_the_study(server, study, capsys):
    before = ask(server + "/version")[1]
    with Store.open(study) as store:
        store.write_part("cpr", 1, {k: v[-4:] for k, v in rows({0: [0.5] * 8}).items()})
    until(lambda: ask(server + "/version")[1] != before)
    page = ask(server + "/")[1].decode()
    assert data_of(page)["sections"][0]["extent"] == 8
    part = study / "metrics/cpr/part-000000.parquet"
    whole, now = part.read_bytes(), ask(server + "/version")[1]
    part.write_bytes(whole[:-50])
    until(lambda: "cannot be read" in capsys.readouterr().err)
    assert ask(server + "/version")[1] == now  # the last page stays
    part.write_bytes(whole)
    until(lambda: ask(server + "/version")[1] != now)


def test_a_port_that_is_taken(server, study, capsys):
    port = server.rpartition(":")[2]
    assert f"Cannot use port {port}" in fails(capsys, str(study), "--watch", "--port", port)


def test_an_interrupt_ends_it_cleanly(study):
    # Programs that a shell put into the background ignore interrupts, and so do their children.
    code = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from continual_learning.cli import main
sys.exit(main(sys.argv[1:]))
"""
    words = [sys.executable, "-c", code, "report", str(study), "--watch"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[0]
            assert ask(address)[0] == 200
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out.strip(), err) == (0, "", "")


def test_the_python_of_the_page(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    names = {}
    exec(code.replace("runs/digits", str(folder)), names)
    assert report.MARK in names["page"].encode()
    assert (tmp_path / "digits.html").exists()


def test_a_reader_that_goes_away_leaves_no_traceback(monkeypatch, capsys):
    class Large:
        version, page = "1", bytes(50_000_000)

        def follow(self, stopped):
            pass

    with live.serve(Large(), 0) as made:  # pyright: ignore
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        for _ in range(3):
            reader = socket.create_connection(("127.0.0.1", made.server_port))
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reader.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            reader.recv(1000)
            reader.close()
        assert ask(f"http://127.0.0.1:{made.server_port}/version")[0] == 200
        made.shutdown()
        thread.join()
    assert capsys.readouterr().err == ""
