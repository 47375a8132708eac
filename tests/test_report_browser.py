"""Pages in a browser: what answers to clicks and keys, that nothing is loaded, and that all can read it."""

import re
import shutil
from pathlib import Path

import pytest
from overviews import overview, page_of

from dask_dpmeans.report import live_panels as live
from dask_dpmeans.report.page import html

sync_api = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
HOSTILE = [
    "$$\\sum x$$ <script>alert(1)</script> & \"quotes\" 'too' @{x} $name",
    "</script><img src=https://host/x onerror=alert(2)>" + "long-" * 60,
    "מדד הסיכון <b>{{ 7 * 7 }}</b>",
]
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective));
"""
SHOWN = """(id) => {
    const [view] = [...Bokeh.index.roots].filter((each) => document.getElementById(id).contains(each.el));
    const marks = view.model.renderers.find((each) => each.data_source.data.alpha).data_source.data;
    const strong = [...marks.cluster].filter((_, i) => marks.alpha[i] > 0.5);
    return [...new Set(strong)].sort((a, b) => a - b);
}"""
PLACE = """([id, x, y]) => {
    const [view] = [...Bokeh.index.roots].filter((each) => document.getElementById(id).contains(each.el));
    const box = view.el.getBoundingClientRect();
    const frame = view.frame;
    return [box.x + frame.x_scale.compute(x), box.y + frame.y_scale.compute(y)];
}"""


@pytest.fixture(scope="module")
def browser():
    """A browser without a window."""
    with sync_api.sync_playwright() as playwright:
        if CHROMIUM is None and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium is installed")
        found = playwright.chromium.launch(executable_path=CHROMIUM)
        yield found
        found.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Pages of few rows, of many, and of hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    found = {"few": overview(), "many": overview(12_000, 11), "hostile": overview(names=HOSTILE)}
    for name, each in found.items():
        (folder / f"{name}.html").write_text(html(page_of(each)), encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser, written):
    """Open a page and wait for its panels; at the end nothing may have failed or been loaded."""
    contexts, failures = [], []

    def open_page(name="few", width=1280, scheme="light", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(WATCH)
        page.on(
            "console", lambda each: failures.append(each.text) if each.type == "error" else None
        )
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("dialog", lambda dialog: failures.append(dialog.message))
        page.on(
            "request",
            lambda each: (
                failures.append(each.url) if not each.url.startswith(("file:", "data:")) else None
            ),
        )
        page.goto((written / f"{name}.html").as_uri())
        if scripts:
            for panel in ("map-1", "map-2", "sizes"):
                page.wait_for_selector(f".embedded #{panel}", state="attached")
        return page

    yield open_page
    for context in contexts:
        for page in context.pages:
            if page.evaluate("typeof violations === 'object'"):
                assert page.evaluate("violations") == []
        context.close()
    assert failures == []


def pressed(page):
    """Clusters that a card and a line of the table show as selected."""
    return page.eval_on_selector_all(
        ".card.selected, tr.selected", "found => found.map((each) => each.dataset.cluster)"
    )


def order(page):
    """Clusters of the cards that are seen, in order."""
    return page.eval_on_selector_all(
        ".cards .card:not([hidden])", "found => found.map((each) => Number(each.dataset.cluster))"
    )


# Selection


@pytest.mark.parametrize("name", ["few", "many"])
def test_a_click_on_a_card_highlights_its_cluster_everywhere(opened, name):
    page = opened(name)
    k = len(order(page))
    before = page.locator("#map-1").screenshot()
    page.get_by_role("button", name="Cluster 2", exact=True).first.click()
    assert pressed(page) == ["2", "2"]
    assert page.evaluate(SHOWN, "sizes") == page.evaluate(SHOWN, "map-1") == [2]
    told = page.locator("#selection")
    assert told.text_content().startswith("Cluster 2 (")
    assert told.get_by_role("link").get_attribute("href") == "#cluster-2"
    page.wait_for_timeout(200)
    assert page.locator("#map-1").screenshot() != before
    page.keyboard.press("Escape")
    assert pressed(page) == []
    assert told.text_content() == ""
    assert page.evaluate(SHOWN, "sizes") == list(range(k))


def test_a_click_on_a_bar_a_point_or_a_line_of_a_table_selects_the_cluster(opened):
    page, found = opened(), overview()
    third = found.clusters[2].cluster
    page.mouse.click(*page.evaluate(PLACE, ["sizes", 2, 1.0]))
    assert pressed(page) == [str(third)] * 2
    for number, density in enumerate(found.maps[:1], 1):
        place = density.points[density.labels == 1][0].tolist()
        page.mouse.click(*page.evaluate(PLACE, [f"map-{number}", *place]))
        assert pressed(page) == ["1", "1"]
    page.get_by_text("Clusters", exact=True).click()
    row = page.locator("tr[data-cluster='0']")
    row.get_by_role("button").press("Enter")
    assert pressed(page) == ["0", "0"]
    assert row.get_by_role("button").get_attribute("aria-pressed") == "true"
    assert page.evaluate(SHOWN, "map-1") == [0]


def test_a_click_on_boxes_selects_the_heaviest_cluster_and_the_others_fade(opened):
    page, found = opened("many"), overview(12_000, 11)
    cluster = found.maps[0].layers[0]
    image = """() => {
        const [view] = [...Bokeh.index.roots].filter((each) => byId.contains(each.el));
        const data = view.model.renderers.find((each) => each.data_source.name === "boxes").data_source.data;
        const shown = [0, 0];
        data.image[0].forEach((each, i) => shown[Number(data.cluster[0][i] === CLUSTER)] += each >>> 24);
        return shown;
    }""".replace("byId", "document.getElementById('map-1')").replace("CLUSTER", str(cluster))
    others, own = page.evaluate(image)
    page.mouse.click(*page.evaluate(PLACE, ["map-1", *found.maps[0].centers[cluster].tolist()]))
    assert pressed(page) == [str(cluster)] * 2
    faded, kept = page.evaluate(image)
    assert kept == own > 0
    assert faded < others / 7


@pytest.mark.parametrize("name", ["few", "many"])
def test_the_mouse_over_a_panel_tells_what_is_there(opened, name):
    page = opened(name)
    page.mouse.move(*page.evaluate(PLACE, ["sizes", 0, 1.0]))
    tip = page.locator(".tip:visible")
    first = overview(*((600, 5) if name == "few" else (12_000, 11))).clusters[0]
    assert re.match(rf"cluster {first.cluster}: \d", tip.text_content())
    assert f"{first.weight:,.0f}" in tip.text_content()
    density = overview(*((600, 5) if name == "few" else (12_000, 11))).maps[0]
    center = density.centers[first.cluster].tolist()
    if density.points is not None:
        center = density.points[7].tolist()
    page.mouse.move(*page.evaluate(PLACE, ["map-1", *center]))
    wanted = "row 7, cluster" if name == "few" else f"cluster {first.cluster}: "
    assert tip.text_content().startswith(wanted)


def test_the_wheel_zooms_the_map_only_with_control(opened):
    page = opened()
    start = """() => [...Bokeh.index.roots][0].model.x_range.start"""
    page.mouse.move(*page.evaluate(PLACE, ["map-1", *overview().maps[0].centers[0].tolist()]))
    before = page.evaluate(start)
    page.mouse.wheel(0, 120)
    page.wait_for_timeout(200)
    assert page.evaluate(start) == before
    assert page.evaluate("scrollY") > 0
    page.evaluate("scrollTo(0, 0)")
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.wait_for_timeout(200)
    page.keyboard.up("Control")
    assert page.evaluate(start) > before


# Cards and tables


def test_a_click_on_a_neighbor_selects_the_neighbor(opened):
    page = opened()
    near = overview().clusters[0].neighbors[1].cluster
    page.locator(".card .neighbors button").nth(1).click()
    assert pressed(page) == [str(near)] * 2


def test_cards_are_sorted_filtered_and_compared(opened):
    page = opened()
    assert order(page) == [4, 3, 2, 1, 0]
    page.get_by_label("Sort by").select_option("number")
    assert order(page) == [0, 1, 2, 3, 4]
    page.get_by_label("Sort by").select_option("doubt")
    assert order(page) == [4, 3, 2, 1, 0]
    radii = {each.cluster: each.radius for each in overview().clusters}
    page.get_by_label("Sort by").select_option("radius")
    assert order(page) == sorted(radii, key=radii.get, reverse=True)
    page.get_by_label("Filter").fill("CLUSTER 3 horsepower")
    assert 3 in order(page)
    page.get_by_label("Filter").fill("nothing of this name")
    assert order(page) == []
    assert page.locator("#status").text_content() == "0 of 5 clusters"
    page.get_by_label("Filter").fill("")
    for cluster in (1, 3, 0):  # the last two count
        page.get_by_role("button", name=f"Compare cluster {cluster}").click()
    comparison = page.get_by_role("region", name="Comparison")
    assert comparison.get_by_role("heading", level=3).all_text_contents()[0] == "Clusters 3 and 0"
    left, right = (each.bounding_box() for each in comparison.locator(".card").all())
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    page.get_by_role("button", name="Compare cluster 0").click()
    assert comparison.is_hidden()


def test_tables_are_sorted_by_number_from_the_keyboard(opened):
    page = opened("many")
    page.get_by_text("Clusters", exact=True).click()
    head = page.get_by_role("columnheader", name="weight")
    weights = page.locator("table td:nth-child(2)")

    def values():
        return [float(each.replace(",", "")) for each in weights.all_text_contents()]

    head.get_by_role("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert values() == sorted(values(), reverse=True)
    head.get_by_role("button").press("Space")
    assert head.get_attribute("aria-sort") == "ascending"
    assert values() == sorted(values())


# Without scripts, on paper, for all


def test_without_scripts_the_pictures_and_cards_are_there(opened):
    page = opened(scripts=False)
    assert page.locator(".overview img").count() == 2
    assert all(each.is_visible() for each in page.locator(".overview img").all())
    assert page.locator(".card").count() == 5
    assert page.locator("button:visible, input:visible, .live:visible").count() == 0
    page.get_by_text("Clusters", exact=True).click()
    assert page.locator("table").is_visible()


def test_without_bokeh_the_page_is_static_and_cards_answer(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(live, "AVAILABLE", False)
    text = html(page_of(overview()))
    assert len(text) < 200_000
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    page = browser.new_page()
    failures = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.goto((tmp_path / "page.html").as_uri())
    page.get_by_role("button", name="Cluster 2", exact=True).first.click()
    assert pressed(page) == ["2", "2"]
    assert page.locator(".overview img").first.is_visible()
    assert failures == []
    page.close()


def test_print_opens_what_is_folded_and_has_the_pictures(opened):
    page = opened()
    assert page.locator("table").is_hidden()
    assert page.locator(".overview img").first.is_hidden()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("table").is_visible()
    assert page.locator(".overview img").first.is_visible()
    assert page.locator(".live:visible, .tools:visible").count() == 0
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("table").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_page_fits_and_axe_finds_nothing_serious(opened, width, scheme):
    page = opened("many", width, scheme)
    page.get_by_role("button", name="Compare cluster 1", exact=True).click()
    page.get_by_role("button", name="Compare cluster 3", exact=True).click()
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert serious == []


def test_a_panel_is_dark_where_the_page_is(opened):
    color = "getComputedStyle(document.querySelector('.live')).filter"
    assert opened("few").evaluate(color) == "none"
    assert opened("few", scheme="dark").evaluate(color) == 'url("#dark")'


# What comes from data


@pytest.mark.parametrize("width", [1280, 400])
def test_hostile_names_are_shown_as_they_are(opened, width):
    page = opened("hostile", width)
    assert page.locator("script").count() == 3  # the panels, Bokeh and ours
    assert page.locator("main script, main b").count() == 0
    assert page.locator(".card .name bdi", has_text="<script>alert(1)</script>").count() == 5
    assert page.locator(".card .name bdi", has_text="$$\\sum x$$ <script>").count() == 5
    assert page.locator(".card .name bdi", has_text="<b>{{ 7 * 7 }}</b>").count() == 5
    labels = page.evaluate(
        "[...Bokeh.index.roots].flatMap((each) => each.model.below ?? []).map((each) => each.axis_label.text)"
    )
    assert HOSTILE[0][:20] in labels[0]
    assert page.evaluate("typeof MathJax") == "undefined"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_in_a_page_ends_its_scripts_or_its_policy():
    text = html(page_of(overview(names=HOSTILE)))
    assert text.count("<script") == text.count("</script>") == 3
    assert "unsafe-eval" not in text
    assert "script-src 'sha256-" in text
    assert len(text.encode()) < 5_000_000


def test_a_page_is_the_same_text_however_many_were_written_before():
    assert html(page_of(overview())) == html(page_of(overview()))
