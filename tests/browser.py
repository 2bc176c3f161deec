"""A headless Chromium for tests of pages: logs, network requests, appearance, keys and styles.

Tests with the fixture ``browser`` are skipped if there is no Chromium with its driver (Debian's packages chromium and
chromium-driver) or no selenium.
"""

import base64
import json
import os
import shutil
from pathlib import Path

import pytest


class Browser:
    """A window of a headless Chromium without a network: it can reach only this machine.

    Attributes:
        driver: selenium's, for other operations.
    """

    def __init__(self, driver):
        self.driver = driver

    def open(self, page, width=1200, height=900, dark=False):
        """Show a page, a file or a URL, in a fresh window of that size. Earlier logs are cleared."""
        self.resize(width, height)
        self.dark(dark)
        self.driver.get("about:blank")
        self.console(), self.requests()
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)

    def resize(self, width, height=900):
        """Set the size of the page in CSS pixels, which may be narrower than Chromium lets a window be."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, on):
        """Set whether the reader prefers dark colours."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def console(self):
        """Messages that the page has logged since the last call, including errors and refusals of its policy."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """URLs that the page has requested since the last call, including its own."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def run(self, script, *arguments):
        """Run JavaScript, and return its result."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        """The first element that a CSS selector finds."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector):
        """All elements that a CSS selector finds."""
        return self.driver.find_elements("css selector", selector)

    def press(self, *keys):
        """Press keys one by one, at the current focus; "Tab", "ArrowRight" and so on, or characters."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        named = {
            "Esc": Keys.ESCAPE,
            "Enter": Keys.ENTER,
            "Space": Keys.SPACE,
            "Tab": Keys.TAB,
            "Home": Keys.HOME,
            "End": Keys.END,
            "ArrowLeft": Keys.ARROW_LEFT,
            "ArrowRight": Keys.ARROW_RIGHT,
            "ArrowUp": Keys.ARROW_UP,
            "ArrowDown": Keys.ARROW_DOWN,
        }
        for key in keys:
            ActionChains(self.driver).send_keys(named.get(key, key)).perform()

    def hover(self, element):
        """Move the mouse over an element, as :meth:`find` returns it."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).move_to_element(element).perform()

    def picture(self, whole=False):
        """A PNG of the visible part, or of the whole page."""
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


def start():
    """A :class:`Browser`; raises LookupError, which says what is missing."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        raise LookupError("needs selenium (pip install '.[dev]')") from None
    names = ("chromium", "chromium-browser", "google-chrome"), ("chromedriver", "chromium.chromedriver")
    chromium, chromedriver = (next(filter(None, map(shutil.which, given)), None) for given in names)
    if chromium is None or chromedriver is None:
        raise LookupError("needs Chromium and its driver (apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        *("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "no-first-run", "hide-scrollbars"),
        *("disable-background-networking", "disable-component-update", "force-color-profile=srgb"),
        "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    os.environ.setdefault("SE_AVOID_STATS", "true")  # otherwise selenium would collect usage data over the network
    return Browser(webdriver.Chrome(options=options, service=Service(chromedriver)))


@pytest.fixture(scope="session")
def browser():
    """The :class:`Browser` of all tests of a process; each test opens its own page."""
    try:
        started = start()
    except LookupError as error:
        pytest.skip(f"a browser {error}")
    yield started
    started.driver.quit()
