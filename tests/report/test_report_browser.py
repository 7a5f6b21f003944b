"""The report in a real browser. Skipped where there is none: `apt-get install chromium`."""

import threading
from contextlib import contextmanager
from hashlib import sha256

import pytest

from continual_learning import report
from continual_learning.report import live
from continual_learning.report import page as page_module
from tests.analysis import study_folders
from tests.report import browser as driver
from tests.report import hostile, report_study

pytestmark = pytest.mark.skipif(
    driver.find() is None, reason="there is no chromium to open the report in"
)
MAIN = "document.querySelector('canvas.chart')"
SMALL = "document.querySelectorAll('canvas.small')"


@pytest.fixture(scope="module")
def browser():
    path = driver.find()
    assert path is not None
    with driver.Browser(path) as made:
        yield made


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A study of an ant; with more rows than are drawn, so that there are three levels."""
    folder = tmp_path_factory.mktemp("report")
    study = report_study.write(
        folder / "ant",
        report_study.ant(tasks=8, iterations=102, seeds=4),
        methods=("adam", "cpr"),
        until={"adam": 0.7},
    )
    report.write([study], folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.fixture
def page(browser, address):
    """The page, new, on a desktop."""
    browser.size(1280, 900)
    browser.dark(False)
    browser.open(address)
    browser.run("localStorage.clear()")
    browser.run(f"{MAIN}.scrollIntoView({{block: 'center'}})")
    browser.settle()
    return browser


def picture(page, which: str = MAIN) -> str:
    page.settle()
    return sha256(page.run(f"{which}.toDataURL()").encode()).hexdigest()


def press(page, label: str) -> None:
    """Clicks the button of that name."""
    page.run(
        "[...document.querySelectorAll('button')].find((b) => "
        f"(b.getAttribute('aria-label') ?? b.textContent) === {label!r}).click()"
    )


def where(page) -> str:
    page.settle()
    return page.run("document.querySelector('.where').textContent")


def drag(page, start: float, end: float) -> None:
    """Drags the mouse over the large chart, from one share of its width to another."""
    box = page.run(
        f"(({{x, y, width, height}}) => [x, y, width, height])({MAIN}.getBoundingClientRect())"
    )
    x, y, width, height = box

    def mouse(kind: str, share: float, buttons: int) -> None:
        page.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x + share * width,
            y=y + height / 2,
            button="left" if buttons or kind == "mouseReleased" else "none",
            buttons=buttons,
            clickCount=int(kind != "mouseMoved"),
        )

    mouse("mouseMoved", start, 0)
    mouse("mousePressed", start, 1)
    for share in (start + (end - start) / 2, end):
        mouse("mouseMoved", share, 1)
    mouse("mouseReleased", end, 0)
    page.settle()


def key(page, name: str, settle: bool = True) -> None:
    for kind in ("keyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key=name)
    if settle:
        page.settle()


# safety ------------------------------------------------------------------------------------------


def test_it_opens_without_errors_and_without_a_request(page, address):
    assert page.errors() == []
    assert [each for each in page.requests() if not each.startswith("data:")] == [address]
    assert page.run("document.querySelectorAll('canvas').length") == 25


def test_it_could_not_reach_the_network(page):
    violated = """new Promise((done) => {
        addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));
        fetch('http://127.0.0.1:1/').catch(() => setTimeout(() => done('nothing'), 5000));
    })"""
    assert page.run(violated) == "connect-src"
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"hacked = 1\">')")
    script = "Object.assign(document.createElement('script'), {text: 'hacked = 1'})"
    page.run(f"document.body.append({script})")
    page.settle()
    assert page.run("typeof hacked") == "undefined"


def test_hostile_names_stay_text(browser, tmp_path):
    report.write([hostile.write(tmp_path)], tmp_path / "report.html")
    browser.size(1280, 900)
    browser.open((tmp_path / "report.html").as_uri())
    for button in range(browser.run("document.querySelectorAll('button').length")):
        browser.run(f"document.querySelectorAll('button')[{button}].focus()")
        browser.run(f"document.querySelectorAll('button')[{button}].click()")
    browser.run(f"{MAIN}.focus()")
    key(browser, "ArrowRight")
    browser.settle()
    assert browser.errors() == []
    assert browser.run("typeof hacked") == "undefined"
    assert not [name for name, _ in browser.events if name == "Page.javascriptDialogOpening"]
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 2
    assert (
        browser.run("document.querySelectorAll('main svg[onload], main b[onmouseover]').length")
        == 0
    )
    text = browser.run("document.body.textContent")
    assert hostile.METHOD in text and all(attack.strip() in text for attack in hostile.ATTACKS[:4])
    chips = "[...document.querySelectorAll('.chip.method')].map((chip) => chip.textContent)"
    assert any(hostile.METHOD in chip for chip in browser.run(chips))


# what is shown -----------------------------------------------------------------------------------


def test_methods_can_be_switched(page):
    whole, small = picture(page), picture(page, f"{SMALL}[0]")
    page.run("document.querySelectorAll('.chip.method')[0].click()")
    assert picture(page) != whole
    assert picture(page, f"{SMALL}[0]") != small
    assert (
        page.run("document.querySelector('.chip.method').getAttribute('aria-pressed')") == "false"
    )
    page.run("document.querySelectorAll('.chip.method')[0].click()")
    assert picture(page) == whole


def test_seeds_can_be_switched(page):
    whole = picture(page)
    press(page, "Seed 2")
    one_less = picture(page)
    press(page, "No seeds")
    none = picture(page)
    assert len({whole, one_less, none}) == 3
    assert "0 of 4" in page.run("document.querySelector('.seeds summary').textContent")
    strip = "document.querySelector('canvas.strip')"
    assert page.run(f"{strip}.clientHeight") == 0
    press(page, "Seed 3")
    page.settle()
    assert page.run(f"{strip}.clientHeight") > 0
    press(page, "All seeds")
    assert picture(page) == whole


def test_zoom_move_and_reset(page):
    whole, range_ = picture(page), where(page)
    assert range_ == "Steps 0 to 160.4M"
    drag(page, 0.3, 0.6)
    zoomed = where(page)
    assert zoomed != range_ and picture(page) != whole
    press(page, "Later")
    later = where(page)
    press(page, "Drag to move instead of to zoom")
    drag(page, 0.5, 0.4)
    assert len({range_, zoomed, later, where(page)}) == 4
    press(page, "Zoom out")
    press(page, "Reset zoom")
    assert where(page) == range_
    page.run("document.activeElement.blur()")
    assert picture(page) == whole


def test_keys_and_readout(page):
    page.run(f"{MAIN}.focus()")
    key(page, "ArrowRight")
    text = page.run("document.querySelector('.tip').textContent")
    assert "Return of ended episodes: IQM" in text and "friction" in text
    assert "CPR" in text and "[" in text
    said = page.run("document.querySelector('.spoken').textContent")
    assert said.startswith("Step ") and "task 5" in said
    for _ in range(25):
        key(page, "ArrowRight", settle=False)
    assert "Adam" + "0 of 4 seeds" in page.run("document.querySelector('.tip').textContent")
    key(page, "+")
    assert where(page) != "Steps 0 to 160.4M"
    key(page, "0")
    assert where(page) == "Steps 0 to 160.4M"
    key(page, "Escape")
    assert page.run("document.querySelector('.tip').hidden")


def test_the_readout_names_tasks(browser, tmp_path):
    arms = study_folders.arms(tmp_path / "arms", methods=("adam",), seeds=2)
    report.write([arms], tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    browser.settle()
    browser.run(f"{MAIN}.focus()")
    key(browser, "ArrowRight")
    said = browser.run("document.querySelector('.spoken').textContent")
    assert "task 6, drawer-close" in said and not browser.errors()


def test_smoothing_and_metric(page):
    def choose(index: int, value: str) -> None:
        box = f"document.querySelectorAll('.choices select')[{index}]"
        page.run(f"{box}.value = {value!r}; {box}.dispatchEvent(new Event('change'))")

    fine = picture(page)
    choose(1, "1")
    coarse = picture(page)
    choose(0, "policy_gradient_norm")
    assert len({fine, coarse, picture(page)}) == 3
    assert "log scale" in page.run("document.querySelector('.stage h4').textContent")


def test_tables_can_be_sorted(page):
    column = (
        "[...document.querySelector('table').tBodies[0].rows].map((r) => +r.cells[3].dataset.value)"
    )
    page.run("document.querySelectorAll('table .sort')[3].click()")
    down = page.run(column)
    page.run("document.querySelectorAll('table .sort')[3].click()")
    assert down == sorted(down, reverse=True) and page.run(column) == sorted(down)


def test_several_experiments(browser, tmp_path):
    a = report_study.write(tmp_path / "a", methods=("adam",))
    b = report_study.write(tmp_path / "b", report_study.ant(4, 12, 2), methods=("cpr",))
    report.write([a, b], tmp_path / "report.html")
    browser.open((tmp_path / "report.html").as_uri())
    assert browser.errors() == []
    assert browser.run("document.querySelectorAll('.stage').length") == 2
    assert browser.run("document.querySelectorAll('.toc a').length") == 2


# how it looks ------------------------------------------------------------------------------------


def test_light_and_dark(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, drawn = page.run(ground), picture(page)
    page.dark(True)
    page.settle()
    dark, in_dark = page.run(ground), picture(page)
    assert dark != light and in_dark != drawn
    theme = "document.getElementById('theme')"
    page.run(f"{theme}.value = 'light'; {theme}.dispatchEvent(new Event('change'))")
    assert (page.run(ground), picture(page)) == (light, drawn)
    page.run(f"{theme}.value = 'auto'; {theme}.dispatchEvent(new Event('change'))")
    assert page.run(ground) == dark


@pytest.mark.parametrize("which", ["ant", "hostile"])
def test_a_phone_does_not_scroll_sideways(browser, address, tmp_path, which):
    if which == "hostile":
        report.write([hostile.write(tmp_path)], tmp_path / "report.html")
        address = (tmp_path / "report.html").as_uri()
    browser.size(360, 740, mobile=True)
    browser.open(address)
    browser.run("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    browser.settle()
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.run("innerWidth") == 360


def test_print_shows_charts_and_hides_controls(page):
    page.dark(True)
    page.settle()
    page.run("dispatchEvent(new Event('beforeprint'))")
    blank = """[...document.querySelectorAll('canvas.chart')].filter((canvas) => {
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return !data.some((value) => value);
    }).length"""
    assert page.run(blank) == 0
    assert page.run("document.documentElement.dataset.theme") == "light"
    page.call("Emulation.setEmulatedMedia", media="print")
    seen = "(name) => getComputedStyle(document.querySelector(name)).display"
    assert page.run(f"['.choices', '.seeds', '.bar'].map({seen})") == ["none"] * 3
    assert page.run(f"['.card', 'canvas.chart', 'table'].map({seen})") == ["flex", "block", "table"]
    page.call("Emulation.setEmulatedMedia", media="")
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.documentElement.dataset.theme ?? 'auto'") == "auto"
    assert page.pdf().startswith(b"%PDF")


def test_all_controls_have_names(page):
    unnamed = """[...document.querySelectorAll('button, select, canvas, summary, a')].filter((e) =>
        !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).length"""
    assert page.run(unnamed) == 0


# live --------------------------------------------------------------------------------------------


def test_the_live_page_follows_and_keeps_the_view(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "POLL", 200)
    monkeypatch.setattr(live, "SECONDS", 0.1)
    experiment = report_study.ant(tasks=6, iterations=12, seeds=2)
    study = report_study.write(tmp_path / "s", experiment, ("adam", "cpr"), until={"cpr": 0.5})
    browser.size(1280, 900)
    with serving(study) as (address, end):
        browser.open(address)
        browser.wait("document.getElementById('live').textContent === 'live'")
        assert "not finished" in browser.run("document.querySelector('.facts').textContent")
        browser.run(f"{MAIN}.scrollIntoView()")
        browser.run("document.querySelectorAll('.chip.method')[0].click()")
        press(browser, "Seed 1")
        press(browser, "Zoom in")
        browser.wait("document.querySelector('.where').textContent !== ''")
        zoomed = where(browser)
        report_study.finish(study, experiment, "cpr", begun=0.5)
        browser.wait("document.querySelector('.facts')?.textContent.includes('Statefinished')")
        browser.wait("document.documentElement.dataset.ready === 'true'")
        browser.run(f"{MAIN}.scrollIntoView()")
        assert where(browser) == zoomed
        pressed = "[...document.querySelectorAll('.method, .seed')].map((b) => b.ariaPressed)"
        assert browser.run(pressed) == ["false", "true", "true", "false"]
        end()
        browser.wait("document.getElementById('live').className === 'live gone'")


@contextmanager
def serving(study):
    """A live page: its address, and what ends its server."""
    with live.serve(live.Live([study]), 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()

        def end() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        try:
            yield f"http://127.0.0.1:{server.server_port}/", end
        finally:
            end()
