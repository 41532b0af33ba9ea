"""The studio in headless Chromium: mouse, keyboard, two windows, narrow and dark, without a word on the console."""

import json
import time

import pytest
from tests.report.html.test_browser import browser, logged, pytestmark, wait  # noqa: F401
from tests.studio.serving import served

from einmap import evaluate, load
from einmap.mapping.pretty import pretty
from einmap.studio.assets import asset, bundle

for _module in ("starlette", "uvicorn", "websockets"):
    pytest.importorskip(_module)

SHOWN = "return document.querySelector('.total') !== null"


@pytest.fixture
def studio(browser, tmp_path):  # noqa: F811
    """A server, and its page in the browser; nothing may have been said on the console at the end."""
    with served(folders=[tmp_path]) as (server, address):
        browser.set_window_size(1400, 900)
        browser.get_log("browser")
        browser.get(address)
        wait(browser, SHOWN)
        yield server, browser
        assert logged(browser) == []
        browser.get("about:blank")


def block(driver, at):
    return driver.find_element("css selector", f'.block[data-at="{at}"]')


def drag(driver, grip, target, below=True):
    from selenium.webdriver import ActionChains

    half = target.size["height"] // 2 - 3
    ActionChains(driver, duration=40).click_and_hold(grip).move_by_offset(3, 9).pause(0.1).move_to_element_with_offset(
        target, 0, half if below else -half
    ).perform()
    wait(driver, "const g = document.querySelector('.ghost p'); return g !== null && g.textContent !== ''")
    ActionChains(driver).release().perform()


def said(driver, words):
    wait(driver, f"return document.querySelector('.said').textContent.includes({json.dumps(words)})")


def keys(driver, *pressed):
    from selenium.webdriver import ActionChains

    ActionChains(driver).key_down(pressed[0]).send_keys(*pressed[1:]).key_up(pressed[0]).perform()


def test_blocks_are_moved_by_mouse_and_the_numbers_are_those_of_evaluate(studio):
    server, driver = studio
    chips = driver.find_elements("css selector", '.block[data-at="nodes[4]"] .chip')
    drag(driver, chips[0], block(driver, "nodes[5]"))
    said(driver, "sink B@nodes[4] below nodes[5]")
    drag(driver, block(driver, "nodes[7]"), block(driver, "nodes[8]"))
    said(driver, "interchange nodes[8] nodes[7]")
    cost = evaluate(load("simple", "matmul"), server.session.mapping)
    shown = {
        e.get_attribute("data-name"): float(e.get_attribute("data-value"))
        for e in driver.find_elements("css selector", ".total")
    }
    assert shown == {"energy": cost.energy, "latency": cost.latency, "edp": cost.edp}


def test_an_invalid_drop_changes_nothing_and_says_why_before_it_is_dropped(studio):
    server, driver = studio
    before = pretty(server.session.mapping)
    drag(driver, block(driver, "nodes[0]"), block(driver, "nodes[5]"))
    said(driver, "the holders of one tensor keep their order")
    drag(driver, block(driver, "nodes[1]"), block(driver, "nodes[3]"))
    said(driver, "where nothing stands between them (move storage away first)")
    assert pretty(server.session.mapping) == before


def test_all_is_done_by_keyboard_alone(studio):
    from selenium.webdriver.common.keys import Keys

    server, driver = studio
    driver.execute_script("document.querySelector('.block').focus()")
    for _ in range(5):
        keys(driver, Keys.ARROW_DOWN)
    assert driver.switch_to.active_element.get_attribute("data-at") == "nodes[5]"
    keys(driver, Keys.ALT, Keys.ARROW_DOWN)
    said(driver, "interchange nodes[6] nodes[5]")
    wait(driver, "return document.activeElement.dataset.at === 'nodes[6]'")  # the loop that was moved
    keys(driver, Keys.CONTROL, "z")
    wait(driver, "return document.querySelector('[data-do=undo]').disabled")
    driver.execute_script("document.querySelector('.block[data-at=\"nodes[1]\"]').focus()")
    keys(driver, "]")
    said(driver, "reshape nodes[1] 32")
    keys(driver, "p")
    wait(driver, "return document.querySelector('.block.pinned') !== null")
    driver.execute_script("document.querySelector('.block[data-at=\"nodes[2]\"]').focus()")
    keys(driver, Keys.DELETE)
    said(driver, "bypass nodes[2]")
    assert server.session.command().endswith("--do 'reshape nodes[1] 32' --do 'bypass nodes[2]'")


def test_p_pins_as_a_capital_too_but_not_where_it_prints(studio):
    from selenium.webdriver.common.keys import Keys

    _, driver = studio
    driver.execute_script("document.querySelector('.block[data-at=\"nodes[1]\"]').focus()")
    driver.execute_script(
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'p', ctrlKey: true, bubbles: true}))"
    )
    driver.execute_script("document.querySelector('.block[data-at=\"nodes[2]\"]').focus()")
    keys(driver, Keys.SHIFT, "p")
    wait(driver, "return document.querySelector('.block.pinned') !== null")
    pinned = driver.find_elements("css selector", ".block.pinned")
    assert [one.get_attribute("data-at") for one in pinned] == ["nodes[2]"]


def test_the_slider_and_the_menu_give_rewrites(studio):
    server, driver = studio
    block(driver, "nodes[1]").click()
    wait(driver, "return document.querySelector('.slider') !== null")
    driver.execute_script(
        "const s = document.querySelector('.slider input'); s.focus();"
        "for (const v of [1, 2, 3]) { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    said(driver, "reshape nodes[1] 8")
    wait(driver, "return document.querySelector('.block[data-at=\"nodes[1]\"]').textContent.includes('by 8')")
    assert server.session.command().endswith("simple_matmul --do 'reshape nodes[1] 8'")


def test_one_tensor_is_chosen_and_any_rewrite_is_written(studio):
    from selenium.webdriver.common.keys import Keys

    server, driver = studio
    block(driver, "nodes[4]").click()
    wait(driver, "return document.querySelector('[data-move=part]') !== null")
    driver.execute_script(
        "const s = document.querySelector('[data-move=part]'); s.value = 'B'; s.dispatchEvent(new Event('change'))"
    )
    wait(driver, "return [...document.querySelectorAll('.moves button')].some(b => b.title === 'bypass B@nodes[4]')")
    driver.find_element("css selector", "[data-do=rewrite]").send_keys("tile m#2 4 n#2 4", Keys.ENTER)
    said(driver, "tile m#2 4 n#2 4")
    assert server.session.command().endswith("--do 'tile m#2 4 n#2 4'")
    driver.find_element("css selector", "[data-do=rewrite]").send_keys("tile m", Keys.ENTER)
    said(driver, "cannot be read")


def test_a_reload_and_a_second_window_show_the_same(studio):
    server, driver = studio
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(f"http://127.0.0.1:{server.port}/{server.token}/")
    wait(driver, SHOWN)
    second = driver.current_window_handle
    driver.switch_to.window(first)
    driver.execute_script("document.querySelector('.block[data-at=\"nodes[1]\"]').focus()")
    keys(driver, "[")
    said(driver, "reshape nodes[1] 8")
    driver.switch_to.window(second)
    by_8 = "return document.querySelector('.block[data-at=\"nodes[1]\"]').textContent.includes('by 8')"
    wait(driver, by_8)
    driver.refresh()
    wait(driver, SHOWN)
    wait(driver, by_8)
    driver.close()
    driver.switch_to.window(first)


def test_a_search_is_begun_and_kept_and_a_file_is_saved(studio, tmp_path):
    _, driver = studio
    driver.find_element("css selector", "[data-do=search]").click()
    wait(driver, "return document.querySelector('.told').textContent.includes('found the optimum')")
    assert "20% above the optimum" in driver.find_element("css selector", '.total[data-name="edp"]').text
    driver.find_element("css selector", "[data-do=compare]").click()
    wait(driver, "return document.querySelector('dialog[open] pre') !== null")
    assert "LoopTree" in driver.find_element("css selector", "dialog pre").text
    driver.find_element("css selector", "dialog .close").click()
    driver.find_element("css selector", "[data-do=keep]").click()
    wait(driver, "return document.querySelector('.total[data-name=edp] .gap').textContent.startsWith('0%')")
    driver.find_element("css selector", "[data-do=files]").click()
    wait(driver, "return document.querySelector('[data-do=save]') !== null")
    driver.find_element("css selector", "[data-do=save]").click()
    wait(driver, "return document.querySelector('dialog').textContent.includes('wrote mapping.yaml')")
    assert evaluate(load("simple", "matmul", tmp_path / "mapping.yaml")).valid
    driver.find_element("css selector", "[data-do=save]").click()
    said(driver, "tick 'replace' to write over it")
    driver.find_element("css selector", "dialog input[type=checkbox]").click()
    driver.find_element("css selector", "[data-do=save]").click()
    said(driver, "wrote mapping.yaml")  # what was refused is not said any more


def test_numbers_are_explained_and_drawn_and_the_architecture_is_edited(studio):
    from selenium.webdriver.common.keys import Keys

    _, driver = studio
    driver.find_element("css selector", ".barred .name").click()
    wait(driver, "return document.querySelector('.explanation pre').textContent.includes('each chunk fetched')")
    for box in driver.find_elements("css selector", "details:not([open]) > summary"):
        if box.is_displayed():
            driver.execute_script("arguments[0].click()", box)
    wait(
        driver,
        "return document.querySelectorAll('.plot').length > 1 && document.querySelectorAll('.drawing svg').length === 2",
    )
    field = driver.find_element("css selector", '[data-path="arch.nodes[1].size"]')
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("8\t")
    said(driver, "memory 'GlobalBuffer' needs")


def test_a_lesson_is_passed(studio):
    _, driver = studio
    driver.find_element("css selector", "[data-do=lessons]").click()
    driver.find_element("css selector", "[data-lesson=four_cases]").click()
    wait(driver, "return document.querySelector('.lesson .task') !== null")
    drag(
        driver,
        driver.find_element("css selector", '.block[data-at="nodes[4]"] .chip'),
        block(driver, "nodes[1]"),
        below=False,
    )
    wait(driver, "return document.querySelector('.lesson .passed') !== null")
    driver.find_element("css selector", "[data-do=end-lesson]").click()
    wait(driver, "return document.querySelector('.lesson').childElementCount === 0")


def test_a_question_of_a_lesson_is_answered(studio):
    _, driver = studio
    driver.find_element("css selector", "[data-do=lessons]").click()
    driver.find_element("css selector", "[data-lesson=delayed]").click()
    wait(driver, "return document.querySelectorAll('[data-answer]').length === 3")
    driver.find_element("css selector", "[data-answer=all-reduce]").click()
    wait(driver, "return document.querySelector('.lesson .wrong') !== null")
    driver.find_element("css selector", "[data-answer=reduce-scatter]").click()
    wait(driver, "return document.querySelector('.lesson .passed') !== null")


def test_a_run_is_played_to_its_end(studio):
    _, driver = studio
    driver.find_element("css selector", "[data-do=play]").click()
    wait(driver, "return document.querySelector('.play figure') !== null")
    assert len(driver.find_elements("css selector", ".play figure")) == 3
    driver.execute_script(
        "const s = document.querySelector('[data-do=step]'); s.value = 1e6; s.dispatchEvent(new Event('input'))"
    )
    counts = [row.text for row in driver.find_elements("css selector", ".play tbody tr")]
    assert "GlobalBuffer read A 262,144" in counts
    driver.find_element("css selector", "[data-do=run]").click()
    wait(driver, "return document.querySelector('.play output').textContent.startsWith('frame 3')")


def test_two_steps_are_compared_and_a_run_jumps_to_the_next_tile(studio):
    server, driver = studio
    server.session.handle('{"do": "move", "text": "split k 8"}')
    driver.refresh()
    wait(driver, SHOWN)
    driver.find_element("css selector", "[data-do=differences]").click()
    wait(driver, "return document.querySelector('dialog pre')?.textContent.includes('k by 8')")
    driver.find_element("css selector", "dialog .close").click()
    driver.find_element("css selector", "[data-do=play]").click()
    wait(driver, "return document.querySelector('[data-do=jump]') !== null")
    driver.execute_script(
        "const s = document.querySelector('[data-do=jump]'); s.value = s.options[s.options.length - 1].value;"
        "s.dispatchEvent(new Event('change'))"
    )
    assert not driver.find_element("css selector", ".play output").text.startswith("frame 1 of")


def test_a_link_holds_the_whole_state(studio):
    server, driver = studio
    server.session.handle('{"do": "move", "text": "split k 8"}')
    driver.refresh()
    wait(driver, SHOWN)
    driver.find_element("css selector", "[data-do=text]").click()
    link = wait(driver, "return document.querySelector('pre.link')?.textContent")
    server.session.handle('{"do": "reset"}')
    driver.get("about:blank")
    driver.get(f"http://127.0.0.1:{server.port}/{server.token}/{link}")
    wait(driver, "return document.querySelector('.block[data-at=\"nodes[5]\"]')?.textContent.includes('by 8')")
    assert driver.execute_script("return location.hash") == ""


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_narrow_screen_in_both_themes(studio, dark):
    _, driver = studio
    theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        block(driver, "nodes[1]").click()
        wait(driver, "return document.querySelector('.slider') !== null")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 390
        ground = driver.execute_script("return getComputedStyle(document.querySelector('.middle')).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is not dark
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_widget_is_the_same_page_over_a_model(browser, tmp_path):  # noqa: F811
    from einmap.studio.session import Session

    session = Session(load("simple", "matmul", "simple_matmul"))
    answers = {do: session.handle(json.dumps({"do": do})) for do in ("look", "details", "text")}
    model = (
        "const answers = " + json.dumps(answers).replace("<", "\\u003c") + "; let hear;"
        "const model = { on: (_, f) => (hear = f), off() {}, send: ({ id, message }) =>"
        " setTimeout(() => hear({ id, answer: answers[message.do] ?? { kind: 'moves', options: [] } })) };"
    )
    module = bundle("widget.js").replace(
        "export default { render };", f"{model} render({{ model, el: document.body }});"
    )
    page = f"<!doctype html><meta charset=utf-8><style>{asset('studio.css')}</style><body><script type=module>{module}</script>"
    (tmp_path / "widget.html").write_text(page)
    browser.get_log("browser")
    browser.get((tmp_path / "widget.html").as_uri())
    wait(browser, SHOWN)
    assert len(browser.find_elements("css selector", ".block")) == 9
    time.sleep(0.1)
    assert logged(browser) == []
