"""Pages in a real browser: they open without a word of the console, and do what they offer."""

from __future__ import annotations

import pytest
import torch
from torch.nn import Linear, Sequential

import tsarchive
from tests.reporting.browser import Browser, executable
from tests.support.archives import ARCHIVES, ROOT, saved
from tests.support.executorch_files import FIXTURES
from tests.support.report_pages import hostile_program, program_with_a_view

pytestmark = pytest.mark.long("tests/reporting/test_report.py::test_pages_are_sound")

FILES = (
    ARCHIVES / "buffers.pt",
    ROOT / "fixtures/legacy/attributes-1.2.0.pt",
    ROOT / "fixtures/pt2/two_models.pt2",
    FIXTURES / "values.pte",
    FIXTURES / "data.ptd",
    FIXTURES / "linear.bpte",
    ROOT / "fixtures/hostile/file-package.pt",
    ROOT / "fixtures/hostile/pickle-reduce-os-system.pt",
    ROOT / "fixtures/hostile/file-half.pt",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = executable()
    if path is None:
        pytest.skip("there is no Chromium: 'apt-get install chromium' brings one")
    opened = Browser(path, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def shown(browser, tmp_path):
    """Opens the page about a file."""

    def show(f, **options):
        page = tmp_path / "page.html"
        tsarchive.report(f, page, **options)
        browser.open(page)
        return browser

    return show


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_complained_of_and_nothing_asked_for(path, shown):
    browser = shown(path, histograms="*")
    assert browser.complaints == []
    assert [url.partition("#")[0] for url in browser.requests] == [browser.value("location.href")]
    assert browser.value("document.styleSheets[0].cssRules.length") > 50


def test_hostile_names_run_nothing(shown, tmp_path):
    path = tmp_path / "hostile.pte"
    path.write_bytes(hostile_program())
    browser = shown(path)
    assert browser.complaints == []
    assert browser.value("document.scripts.length") == 2
    assert browser.value("document.images.length") == 0
    assert "alert(1)" in browser.value("document.body.innerText")


def test_the_policy_holds(browser, tmp_path):
    """What a page would do if an escape were missing, its policy refuses."""
    html = tsarchive.report(ARCHIVES / "buffers.pt").html
    path = tmp_path / "page.html"
    missed = (
        "<img src='x.png' onerror='window.ran = 1'><script>window.ran = 2</script>"
        "<p id='styled' style='color: rgb(1, 2, 3)'></p><iframe src='about:blank'></iframe>"
    )
    path.write_text(html.replace("<main", f"{missed}<main"))
    browser.open(path)
    assert browser.value("typeof ran") == "undefined"
    colour = "getComputedStyle(document.getElementById('styled')).color"
    assert browser.value(colour) != "rgb(1, 2, 3)"
    assert len(browser.complaints) >= 3
    assert all("Content Security Policy" in complaint for complaint in browser.complaints)


def rows(browser, name="tensors", column=0):
    return browser.value(
        f"[...document.querySelectorAll('#table-{name} tbody tr')]"
        f".filter(r => !r.hidden && !r.matches('.drawn')).map(r => r.cells[{column}].textContent)"
    )


def test_tables_sort(shown):
    browser = shown(ARCHIVES / "sequential.pt")
    names = rows(browser)
    heading = "#table-tensors th:nth-child({}) button".format
    browser.click(heading(1))
    assert rows(browser) == sorted(names)
    browser.click(heading(1))
    assert rows(browser) == sorted(names, reverse=True)
    browser.click(heading(5))
    sizes = [int(text.replace(",", "")) for text in rows(browser, column=4)]
    assert sizes == sorted(sizes)
    sorts = "[...document.querySelectorAll('#table-tensors th')].map(t => t.ariaSort)"
    assert browser.value(sorts)[:8] == ["none"] * 4 + ["ascending"] + ["none"] * 3


def test_tables_filter(shown, tmp_path):
    path = tmp_path / "four.pt"
    path.write_bytes(saved(torch.jit.script(Sequential(*[Linear(1, 1) for _ in range(4)]))))
    browser = shown(path)
    names = rows(browser)
    browser.click("[data-filter='table-tensors']")
    browser.type("weight")
    kept = [name for name in names if "weight" in name]
    assert rows(browser) == kept
    count = browser.value("document.querySelector('#count-tensors').textContent")
    assert count == f"{len(kept)} of {len(names)}"


def test_the_tree_folds(shown, tmp_path):
    path = tmp_path / "deep.pt"
    inner = Sequential(Sequential(Sequential(Linear(2, 2))))
    path.write_bytes(saved(torch.jit.script(Sequential(inner, inner, Linear(2, 2)))))
    browser = shown(path)
    opened = "document.querySelectorAll('#tree-root details[open]').length"
    every = browser.value("document.querySelectorAll('#tree-root details').length")
    browser.click("[data-fold='open']")
    assert browser.value(opened) == every > 3
    browser.click("[data-fold='close']")
    assert browser.value(opened) == 0
    browser.click("#tree-root summary")
    assert browser.value(opened) == 1
    browser.value("document.querySelector('#tree-root summary').focus()")
    browser.press("Enter", 13, "\r")
    assert browser.value(opened) == 0


def test_histograms_are_drawn_when_a_row_is_opened(shown):
    browser = shown(FIXTURES / "linear.pte", histograms="*")
    assert browser.value("document.querySelectorAll('svg.histogram').length") == 0
    browser.click("#table-tensors tbody tr:nth-child(2) .opens")
    bars = browser.value(
        "[...document.querySelectorAll('svg.histogram rect')].map(r => +r.getAttribute('height'))"
    )
    assert len(bars) == 64
    assert sum(height > 0 for height in bars) == 12
    told = browser.value("document.querySelector('tr.drawn').innerText")
    assert "5.5" in told
    box = "document.querySelector('svg.histogram').getBoundingClientRect()"
    assert browser.value(f"{box}.width > 300 && {box}.height > 50")
    browser.click("#table-tensors th:nth-child(1) button")
    following = "document.querySelector('tr.drawn').previousElementSibling.cells[0].textContent"
    assert browser.value(following) == "forward.2"
    browser.click(".opens[aria-expanded='true']")
    assert browser.value("document.querySelectorAll('tr.drawn').length") == 0
    assert browser.complaints == []


def test_rows_without_histograms_do_not_open(shown):
    browser = shown(FIXTURES / "linear.pte", histograms="nothing")
    assert browser.value("document.querySelectorAll('.opens').length") == 0


def test_the_memory_plan_is_drawn_and_told(shown):
    browser = shown(FIXTURES / "linear.pte")
    sizes = browser.value(
        "[...document.querySelectorAll('svg.plan .box rect')].map(r => {"
        " const b = r.getBoundingClientRect(); return [b.width, b.height]; })"
    )
    assert len(sizes) == 2
    assert all(width > 50 and height > 20 for width, height in sizes)
    told = "document.querySelector('.told').textContent"
    browser.value("document.querySelector('svg.plan').focus()")
    browser.press("ArrowRight", 39)
    assert browser.value(told).startswith("%1 float32[2, 4]\ninput, 32 bytes at 0")
    browser.press("ArrowRight", 39)
    assert browser.value(told).startswith("%4 float32[2, 3]\noutput")
    place = browser.value(
        "(() => { const e = document.querySelector('.box.input rect');"
        "e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
        "return {x: r.x + 9, y: r.y + 9}; })()"
    )
    browser.move(place)
    browser.wait(f"{told}.startsWith('%1 ')")
    fills = browser.value(
        "[...document.querySelectorAll('.box rect')].map(r => getComputedStyle(r).fill)"
    )
    assert len(set(fills)) == 2


def test_views_lie_over_what_they_show(shown, tmp_path):
    """A view is a dashed frame around the bytes of another value, which can be seen through it."""
    path = tmp_path / "views.pte"
    path.write_bytes(program_with_a_view())
    browser = shown(path)
    frames = browser.value(
        "['view', 'value'].map(role => document.querySelector(`.box.${role} rect`))"
        ".map(r => { const b = r.getBoundingClientRect(); const s = getComputedStyle(r);"
        " return [b.top, b.bottom, s.strokeDasharray, s.fillOpacity]; })"
    )
    assert frames[0][:2] == frames[1][:2]
    assert frames[0][2] != "none" == frames[1][2]
    assert float(frames[0][3]) < 0.5 < float(frames[1][3])


def test_lines_of_user_source_can_be_hidden(shown):
    browser = shown(ARCHIVES / "buffers.pt")
    height = "document.querySelector('.origin').getBoundingClientRect().height"
    assert browser.value(height) > 0
    browser.click("#show-origins")
    assert browser.value(height) == 0


def test_links_unfold_what_they_lead_to(shown):
    browser = shown(ARCHIVES / "buffers.pt")
    target = browser.value("document.querySelector('.origin a').hash.slice(1)")
    assert browser.value(f"document.getElementById('{target}').checkVisibility()") is False
    browser.click(".origin a")
    browser.wait(f"document.getElementById('{target}').checkVisibility()")


def test_light_and_dark_differ_and_paper_shows_all(shown):
    browser = shown(FIXTURES / "linear.pte")
    colour = "getComputedStyle(document.body).backgroundColor"
    browser.size(1200, 800)
    light = browser.value(colour)
    browser.size(1200, 800, dark=True)
    assert browser.value(colour) != light
    browser.value("dispatchEvent(new Event('beforeprint'))")
    assert browser.value("[...document.querySelectorAll('details')].every(d => d.open)")


@pytest.mark.parametrize("width", [800, 420, 360])
def test_narrow_windows_do_not_scroll_sideways(width, shown):
    browser = shown(ROOT / "fixtures/pt2/two_models.pt2")
    browser.size(width, 800)
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    names = browser.value(
        "[...document.querySelectorAll('.tree .told-of')].filter(e => e.checkVisibility())"
        ".map(e => [e, e.parentElement].map(each => each.getBoundingClientRect().width))"
    )
    assert names
    assert all(own > 0.55 * whole for own, whole in names)


# Pairs of text and ground below the contrast that WCAG 2 asks for at level AA.
PALE = """
(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (c) => c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const frame = e.closest("svg") ? e.parentElement.querySelector(":scope > rect") : null;
      const style = getComputedStyle(frame ?? e);
      const colour = numbers(frame ? style.fill : style.backgroundColor);
      if (frame || colour[3] !== 0) return colour;
    }
    return [255, 255, 255];
  };
  const pale = new Set();
  let looked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const isDrawn = !element.matches("script, title") && element.checkVisibility();
    if (!walker.currentNode.data.trim() || !isDrawn) continue;
    const style = getComputedStyle(element);
    const own = luminance(numbers(element.closest("svg") ? style.fill : style.color));
    const below = luminance(ground(element));
    const ratio = (Math.max(own, below) + 0.05) / (Math.min(own, below) + 0.05);
    looked += 1;
    if (ratio < 4.5) pale.add(`${element.outerHTML.slice(0, 60)} ${ratio.toFixed(2)}`);
  }
  return { looked, pale: [...pale] };
})()
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_can_be_read(dark, shown, tmp_path):
    hostile = tmp_path / "hostile.pte"
    hostile.write_bytes(hostile_program())
    for path in (ARCHIVES / "buffers.pt", FIXTURES / "linear.pte", FILES[7], hostile):
        browser = shown(path, histograms="*")
        browser.size(1200, 800, dark=dark)
        browser.value("for (const d of document.querySelectorAll('details')) d.open = true")
        found = browser.value(PALE)
        assert found["looked"] > 20
        assert found["pale"] == []


def test_all_that_acts_is_reached_by_keyboard_and_seen(shown):
    browser = shown(ARCHIVES / "buffers.pt")
    browser.size(800, 800)
    acting = "a[href], button, input, summary, [tabindex='0']"
    wanted = browser.value(
        f"[...document.querySelectorAll({acting!r})].filter(e => e.checkVisibility()).length"
    )
    browser.value("reached = new Set()")
    unseen = set()
    for _ in range(wanted + 2):
        browser.press("Tab", 9)
        browser.value("reached.add(document.activeElement).size")
        if browser.value("getComputedStyle(document.activeElement).outlineStyle") == "none":
            unseen.add(browser.value("document.activeElement.outerHTML.slice(0, 80)"))
    reached = browser.value("[...reached].filter(e => e.matches(" + repr(acting) + ")).length")
    assert reached >= wanted
    assert {each for each in unseen if not each.startswith("<body")} == set()


def test_boxes_of_the_data_flow_and_lines_of_code_lead_to_each_other(shown):
    browser = shown(ARCHIVES / "buffers.pt")
    browser.size(1200, 800)
    line = browser.value("document.querySelector('a.step').getAttribute('href').slice(1)")
    browser.click("a.step")
    browser.wait(f"location.hash === '#{line}'")
    box = browser.value("document.querySelector('a.step').id")
    browser.click(f"[id='{line}'] .drawn-as")
    browser.wait(f"location.hash === '#{box}'")
    assert browser.complaints == []


def test_paper_has_what_screens_scroll(shown):
    browser = shown(ARCHIVES / "buffers.pt")
    browser.call("Emulation.setEmulatedMedia", media="print")
    hidden = browser.value(
        "[...document.querySelectorAll('.scroll, pre, .flow-frame')]"
        ".filter(e => e.scrollHeight > e.clientHeight + 1 && "
        "getComputedStyle(e).overflowY !== 'visible').length"
    )
    browser.call("Emulation.setEmulatedMedia", media="")
    assert hidden == 0


def test_pages_about_two_files(shown, tmp_path):
    paths = [tmp_path / name for name in ("before.pt", "after.pt")]
    torch.manual_seed(0)
    model = Sequential(Linear(3, 3), Linear(3, 3))
    for path in paths:
        path.write_bytes(saved(torch.jit.script(model)))
        with torch.no_grad():
            model[1].weight.add_(1)
    browser = shown(paths[0], against=paths[1])
    assert browser.complaints == []
    assert [url.partition("#")[0] for url in browser.requests] == [browser.value("location.href")]
    assert rows(browser) == ["1.weight"]
    browser.click("#table-tensors .opens")
    bars = browser.value("document.querySelectorAll('svg.histogram rect').length")
    assert bars > 0
    height = "document.querySelector('.trees tr.alike').getBoundingClientRect().height"
    assert browser.value(height) > 0
    browser.click("#show-alike-modules")
    assert browser.value(height) == 0
    assert browser.complaints == []
