"""A report in a browser: no error, no request, every picture drawn, controls that work; skipped where there is none."""

from __future__ import annotations

import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("numbers", "two", "three")


@pytest.fixture(scope="module")
def browser():
    """Playwright's own Chromium, or one that is installed."""
    with playwright.sync_playwright() as tool:
        installed = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
        made, reasons = None, []
        for path in (None, *installed):
            try:
                made = tool.chromium.launch(executable_path=path, args=["--no-sandbox"])
                break
            except playwright.Error as error:
                reasons.append(str(error).splitlines()[0])
        if made is None:
            pytest.skip(f"no browser: {reasons[0]}")
        yield made
        made.close()


@pytest.fixture
def opened(browser, pages, tmp_path):
    """A report from disk, offline; what went wrong is collected and must be nothing."""
    contexts, wrong = [], []

    def open_page(name, **options):
        path = tmp_path / f"{name}.html"
        path.write_text(pages[name], encoding="utf-8")
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_offline(True)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"error: {error}"))

        def seen(request):
            if request.url != path.as_uri() and not request.url.startswith("data:"):
                wrong.append(f"request: {request.url}")

        page.on("request", seen)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_drawn(opened, name, scheme, width):
    page = opened(name, color_scheme=scheme, viewport={"width": width, "height": 900})
    boxes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map(s => [s.getBoundingClientRect().width,"
        " s.getBoundingClientRect().height, s.querySelectorAll('path, use, image').length])"
    )
    assert len(boxes) >= 9
    assert all(w > 150 and h > 80 and marks > 5 for w, h, marks in boxes)
    images = page.evaluate(
        "Promise.all([...document.querySelectorAll('svg image')].map(own => new Promise(done => {"
        " const test = new Image(); test.onload = () => done(test.naturalWidth); test.onerror = () => done(0);"
        " test.src = own.href.baseVal; })))"
    )
    assert images
    assert all(size > 0 for size in images)
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out to the side
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = [sum(map(int, own[4:-1].split(","))) for own in (ink, paper)]
    assert (light[0] < light[1]) == (scheme == "light")
    label = page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill")
    assert label == ink  # pictures take the page's ink


def test_a_tree_can_be_walked_with_the_keyboard(opened):
    page = opened("three")
    first = page.inner_text("#tree")
    page.fill("#tree-stage", "3")
    page.press("#tree-stage", "Tab")
    assert page.inner_text("#tree") != first
    page.select_option("#tree-output", index=1)
    third = page.inner_text("#tree")
    page.fill("#tree-stage", "1")
    page.press("#tree-stage", "Tab")
    page.select_option("#tree-output", index=0)
    assert page.inner_text("#tree") == first  # drawn by the script as it was written into the page
    assert third != first
    page.focus("#tree summary")
    was = page.evaluate("document.querySelector('#tree details').open")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('#tree details').open") != was
    page.fill("#tree-stage", "999")
    page.press("#tree-stage", "Tab")
    assert page.inner_text("#tree")


def test_without_scripts_the_first_tree_is_there(opened):
    page = opened("numbers", java_script_enabled=False)
    assert page.locator("#tree li").count() > 3
    assert page.locator("figure").count() >= 9


def test_it_prints(opened):
    page = opened("numbers", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert page.pdf()[:4] == b"%PDF"


def test_first_tab_goes_to_the_content(opened):
    page = opened("numbers")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
