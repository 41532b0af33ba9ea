"""HTML reports in headless Chromium: they render, what can be clicked works, and no request leaves the page."""

import json
import shutil
import tempfile
import time

import pytest
from tests.report.html.reports import evaluation, front
from tests.report.html.test_page import hostile_page
from tests.report.html.test_sweep_page import page_of
from tests.report.html.test_tokens_page import several_machines

from einmap.report.html.page import to_html

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="not run: chromium and chromedriver are not installed (Debian: chromium-driver)"
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PATIENCE = 30.0


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    for flag in (*FLAGS, f"--user-data-dir={profile.name}", "--window-size=1200,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()
    profile.cleanup()


@pytest.fixture
def show(browser, tmp_path):
    """Open a page, and wait until all that is in view is drawn. What was logged before is forgotten."""

    def opened(page):
        path = tmp_path / "report.html"
        path.write_text(to_html(page))
        browser.get_log("browser"), browser.get_log("performance")
        begin = time.perf_counter()
        browser.get(path.as_uri())
        wait(browser, "return document.documentElement.dataset.drawn === 'all'")
        print(f"\nopened and drawn in {time.perf_counter() - begin:.2f} s, {path.stat().st_size:,} bytes")
        return browser

    return opened


def wait(browser, script):
    end = time.monotonic() + PATIENCE
    while not (found := browser.execute_script(script)):
        assert time.monotonic() < end, script
        time.sleep(0.02)
    return found


def logged(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] != "INFO"]


def requested(browser):
    """What the browser asked for since the page was opened, but for the page itself and pages of its own."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("file:///", "data:", "blob:", "chrome://"))], len(sent)


def test_a_report_is_drawn_and_asks_for_nothing(show):
    browser = show(evaluation())
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('figure.plot')].filter(f => f.querySelector('.canvas').clientWidth)"
        ".map(f => f.querySelectorAll('.canvas svg path').length)"
    )
    assert len(drawn) >= 4 and min(drawn) > 3
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert logged(browser) == []
    outside, count = requested(browser)
    assert outside == [] and count >= 1


def test_a_page_on_tokens_is_drawn(show):
    browser = show(several_machines())
    marks = "return document.querySelectorAll('#front .canvas svg .mark-symbol path').length"
    assert browser.execute_script(marks) >= 4
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    assert logged(browser) == []
    assert requested(browser)[0] == []


def test_tabs_show_one_view_at_a_time(show):
    browser = show(evaluation())
    shown = "return [...document.querySelectorAll('#energy .panel')].map(p => !p.hidden)"
    assert browser.execute_script(shown) == [True, False, False]
    browser.find_elements("css selector", "#energy [role=tab]")[1].click()
    assert browser.execute_script(shown) == [False, True, False]
    wait(browser, "return document.querySelectorAll('#energy .panel:not([hidden]) svg path').length > 3")
    assert logged(browser) == []


def test_the_theme_changes_all_colours(show):
    browser = show(evaluation())
    colours = (
        "return [getComputedStyle(document.body).backgroundColor,"
        "getComputedStyle(document.querySelector('#latency .canvas text')).fill,"
        "getComputedStyle(document.querySelector('.picture svg > rect')).fill]"
    )
    before = browser.execute_script(colours)
    browser.find_element("id", "theme").click()
    after = browser.execute_script(colours)
    assert all(a != b for a, b in zip(before, after, strict=True))
    browser.find_element("id", "theme").click()
    assert browser.execute_script(colours) == before


def test_a_click_on_a_point_of_the_front_shows_its_mapping(show):
    page, _ = front()
    browser = show(page)
    chosen = "return [document.querySelector('.choices select').value, document.querySelector('.chosen').innerText]"
    number, text = browser.execute_script(chosen)
    assert number == "0"
    marks = browser.find_elements("css selector", ".choices .mark-symbol path")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", marks[2])
    from selenium.webdriver import ActionChains

    ActionChains(browser).move_to_element(marks[2]).click().perform()
    wait(browser, "return document.querySelector('.choices select').value === '2'")
    assert browser.execute_script(chosen)[1] != text
    assert browser.execute_script("return document.querySelectorAll('.chosen .picture svg').length") == 1
    assert logged(browser) == []
    assert requested(browser)[0] == []


def test_of_a_sweep_marks_are_chosen_on_the_front_and_beside_it(show):
    browser = show(page_of())
    value = "return document.querySelector('.choices select').value"
    marks = browser.find_elements("css selector", ".choices .mark-symbol path")
    assert len(marks) == 6  # the one that is beaten is drawn first
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", marks[0])
    from selenium.webdriver import ActionChains

    for mark, chosen in ((0, "5"), (3, "2"), (0, "5")):
        ActionChains(browser).move_to_element(marks[mark]).click().perform()
        wait(browser, f"{value} === '{chosen}'")
    assert browser.execute_script("return document.querySelectorAll('#axes .mark-line path').length") == 6
    assert logged(browser) == []


def test_hostile_texts_run_nothing(show):
    browser = show(hostile_page())
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    wait(browser, "return document.querySelectorAll('.plot svg').length > 0")
    assert browser.title.startswith("</script><img")
    assert (
        browser.execute_script("return document.images.length + document.querySelectorAll('script:not([type])').length")
        == 0
    )
    assert logged(browser) == []


def test_a_narrow_screen_does_not_scroll_sideways(show, browser):
    metrics = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        show(front()[0])
        assert browser.execute_script("return document.documentElement.scrollWidth") == 360
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
