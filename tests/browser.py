"""Chromium for tests of pages: the one that the system has, without network, and pages whose faults are caught."""

import contextlib
import os
import shutil

import pytest


def program():
    """Path of the browser, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def launch(playwright):
    """A headless browser. Chromium has no sandbox for root."""
    arguments = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    return playwright.chromium.launch(executable_path=program(), args=arguments)


@pytest.fixture(scope="module")
def browser():
    """Skips, or fails where a browser is required (TRAINYARD_REQUIRE_BROWSER=1)."""
    if program() is None:
        text = "there is no Chromium: apt-get install chromium"
        (pytest.fail if os.environ.get("TRAINYARD_REQUIRE_BROWSER") == "1" else pytest.skip)(text)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = launch(playwright)
        yield found
        found.close()


@contextlib.contextmanager
def watched(browser, file):
    """Opens a report as often as asked; in the end nothing may have been complained about or fetched."""
    contexts, faults = [], []

    def open_page(**options):
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda request: faults.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-drawn]", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def runners(page, table=0):
    """Names of the visible rows of a sortable table, from the top."""
    return page.locator("table.sortable").nth(table).locator("tbody tr:visible th").all_inner_texts()


def figure(page, name):
    """The traces of a chart as they are drawn."""
    return page.evaluate(f"document.getElementById('{name}').data.map((trace) => JSON.parse(JSON.stringify(trace)))")
