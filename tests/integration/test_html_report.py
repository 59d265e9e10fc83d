"""The HTML report in Chromium, without network: drawn, sorted, filtered, by mouse and key, light, dark, printed."""

from dataclasses import replace

import pytest

from controller import against
from controller.comparison import compare
from controller.report import page as report
from controller.results import FAILED, UNSUPPORTED
from tests.browser import browser, figure, runners, watched
from tests.unit.controller.made_up import (
    JIT,
    MLP,
    OTHER_WORK,
    PASSED,
    RANDOM,
    campaign,
    cell,
    certified,
    lost,
    measurement,
    trial,
    trials,
)

__all__ = ["browser"]
pytestmark = pytest.mark.browser
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
CONTRAST = """
() => {
  const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (node) => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const nodes = [...document.querySelectorAll("h1, .sub, th, td, .verdict, li, figcaption, button, input, summary")];
  return Math.min(...nodes.map((node) => {
    const [a, b] = [getComputedStyle(node).color, paper(node)].map((text) => light(parse(text)));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
}
"""


def slow_start(run, number):
    """The same with a first step of its own."""
    return replace(run, step_seconds=(9.0 + number, *run.step_seconds[1:]))


def several():
    """Two workloads with certificates, a variant, failures, long curves, numbers of elsewhere, and hostile texts."""
    tensorflow, pytorch = cell("tensorflow-2.6.0"), cell("pytorch-1.11.0", variant=JIT)
    jittor, keras, odd = cell("jittor-1.3.1"), cell("keras-theano"), cell("odd-1")
    big = [cell(name, RANDOM) for name in ("tensorflow-2.6.0", "pytorch-1.11.0")]
    long = replace(
        measurement(100.0),
        step_seconds=tuple(0.05 if step else 9.0 for step in range(2000)),
        losses=(*(1 / (step + 1) for step in range(1999)), float("nan")),
        loss_steps=tuple(range(2000)),
    )
    entries = [
        *trials(tensorflow, 31.2, 30.5, 30.1),
        *(trial(pytorch, number, run=slow_start(long, number)) for number in range(3)),
        *trials(odd, 9.0, 8.0, 10.0),
        *lost(jittor, FAILED, "PROCESS_DIED", HOSTILE),
        *lost(keras, UNSUPPORTED, "UNSUPPORTED_LAYER", "lstm", count=1),
        *trials(big[0], 223.6, 225.0, 221.0),
        *trials(big[1], 226.9, 224.0, 220.0),
    ]
    cells = (tensorflow, pytorch, odd, jittor, keras, *big)
    whole = certified(campaign(*cells, workloads=(MLP, RANDOM), notes=(HOSTILE,)), PASSED, PASSED, OTHER_WORK)
    comparison = compare(whole, entries)
    older = compare(replace(whole, id="2023-1"), trials(tensorflow, 40.0, 41.0))
    return comparison, entries, against.campaign(comparison, "before", older)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    found = tmp_path_factory.mktemp("report") / "report.html"
    found.write_text(report.render(*several()), encoding="utf-8")
    return found


@pytest.fixture
def opened(browser, file):
    with watched(browser, file) as open_page:
        yield open_page


def test_it_is_drawn_and_runs_nothing_that_a_text_holds(opened):
    page = opened()
    assert page.title() == "mlp-mnist, resnet152-random: 20240102-030405-abc"
    assert page.evaluate("window.owned") is None
    assert page.locator("footer li").first.inner_text() == f"note: {HOSTILE}"
    figures = page.evaluate("Object.keys(figures)")
    assert figures == [f"{name}-{place}" for place in (0, 1) for name in ("times", "phases", "steps", "losses")]
    for name in figures:
        assert page.locator(f"#{name} svg.main-svg").first.is_visible()
        assert page.locator(f"#{name} .trace").count() > 0


def test_charts_show_the_numbers_of_the_rows(opened):
    page = opened()
    bars, dots, diamonds = figure(page, "times-0")
    rows = dict(zip(bars["y"], bars["x"], strict=True))
    assert rows == {"tensorflow-2.6.0": 30.5, "pytorch-1.11.0 (jit)": 100.0, "odd-1": 9.0}
    names = page.locator("#times-0 .ytick").all_text_contents()
    assert set(names) == {"tensorflow-2.6.0, 30.50 s", "pytorch-1.11.0 (jit), 100.0 s", "odd-1, 9.00 s, UNEQUAL"}
    place = bars["y"].index("tensorflow-2.6.0")
    first = next(row for row in several()[0].rows if row.label() == "tensorflow-2.6.0")
    assert bars["error_x"]["array"][place] == pytest.approx(first.seconds.interval.high - 30.5)
    assert bars["error_x"]["arrayminus"][place] == pytest.approx(30.5 - first.seconds.interval.low)
    assert sorted(dots["x"]) == [8.0, 9.0, 10.0, 30.1, 30.5, 31.2, 100.0, 100.0, 100.0]
    assert (diamonds["name"], diamonds["y"], diamonds["x"]) == ("before", ["tensorflow-2.6.0"], [40.5])
    assert {trace["name"]: trace["x"][0] for trace in figure(page, "phases-0")} == {"import": 2.5, "measure": 30.5}
    steps = next(each for each in figure(page, "steps-0") if each.get("name") == "pytorch-1.11.0 (jit)")
    assert len(steps["y"]) == 250 and set(steps["y"]) == {50.0}
    losses = next(each for each in figure(page, "losses-0") if each["name"] == "pytorch-1.11.0 (jit)")
    assert losses["y"][0] == pytest.approx(sum(1 / step for step in range(1, 9)) / 8, rel=1e-5)
    assert losses["y"][-1] is None


def test_tables_sort_by_mouse_and_by_key(opened):
    page = opened()
    table = page.locator("table.sortable").first
    seconds = table.get_by_role("columnheader", name="time s")
    seconds.get_by_role("button").click()
    assert seconds.get_attribute("aria-sort") == "ascending"
    assert runners(page)[:3] == ["odd-1", "tensorflow-2.6.0", "pytorch-1.11.0"]
    seconds.get_by_role("button").press("Enter")
    assert seconds.get_attribute("aria-sort") == "descending"
    # What was not measured stays at the end.
    assert runners(page)[:3] == ["pytorch-1.11.0", "tensorflow-2.6.0", "odd-1"]
    assert set(runners(page)[3:]) == {"jittor-1.3.1", "keras-theano"}
    names = table.get_by_role("columnheader", name="runner")
    names.get_by_role("button").press("Space")
    assert runners(page) == sorted(runners(page))
    assert (names.get_attribute("aria-sort"), seconds.get_attribute("aria-sort")) == ("ascending", None)


def test_rows_are_filtered(opened):
    page = opened()
    page.get_by_label("Filter rows").fill("PyTorch jit")
    assert runners(page) == ["pytorch-1.11.0"]
    assert page.get_by_role("status").inner_text().split()[1:] == ["of", "21", "rows"]
    page.get_by_label("Filter rows").fill("")
    assert len(runners(page)) == 5
    assert page.get_by_role("status").inner_text() == ""


def test_everything_is_reached_by_key(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the first table"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "theme"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "runner"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    summary = page.locator("#environments summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator("#environments details").first.get_attribute("open") is not None
    assert "version of torch" in page.locator("#environments details").first.inner_text()


def test_certificates_are_a_matrix(opened):
    page = opened()
    rows = {tuple(line.split("\t")) for line in page.locator("#certificates table").first.inner_text().splitlines()}
    assert rows >= {
        ("tensorflow-2.6.0", "pass", "not verified"),
        ("pytorch-1.11.0 (jit)", "pass", "-"),
        ("odd-1", "FAIL", "-"),
        ("jittor-1.3.1", "not verified", "-"),
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_each_theme(opened, scheme):
    page = opened(color_scheme=scheme)
    assert page.evaluate(CONTRAST) >= 4.5
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    assert page.evaluate("document.getElementById('times-0').layout.paper_bgcolor") in ("#ffffff", "#14171c")


def test_the_theme_can_be_chosen_over_the_systems(opened):
    page = opened(color_scheme="dark")
    colour = "document.getElementById('times-0').data[0].marker.color[0]"
    dark = page.evaluate(colour)
    button = page.get_by_role("button", name="Theme")
    button.click()
    assert button.inner_text() == "Theme: light"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.wait_for_function(f"{colour} !== '{dark}'")
    button.click()
    button.click()
    assert button.inner_text() == "Theme: automatic"
    page.wait_for_function(f"{colour} === '{dark}'")


def test_it_is_printed_light_and_without_controls(opened, tmp_path):
    page = opened(color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_label("Filter rows").is_visible()
    page.wait_for_function("document.getElementById('times-0').layout.paper_bgcolor === '#ffffff'")
    # Each chart has its whole height, and the next one begins below it.
    boxes = [chart.bounding_box() for chart in page.locator(".chart").all()]
    drawn = [svg.bounding_box() for svg in page.locator(".chart svg.main-svg:first-of-type").all()]
    assert len(boxes) == 8 and all(box["height"] >= 160 for box in boxes)
    assert all(svg["height"] == box["height"] for svg, box in zip(drawn, boxes, strict=True))
    assert page.pdf(path=tmp_path / "report.pdf").startswith(b"%PDF")


def test_a_narrow_window_scrolls_tables_not_the_page(opened):
    page = opened(viewport={"width": 420, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
