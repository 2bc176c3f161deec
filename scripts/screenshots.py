#!/usr/bin/env python3
"""Take screenshots of pages for docs/pictures/ in a headless browser.

  scripts/screenshots.py [FOLDER]                 create explain.png from docs/pictures/explain.json, which was written
                                                  by etads-explain model documents.txt --lines --document 3 --json FILE
  scripts/screenshots.py [FOLDER] --model MODEL   create demo.png from etads-demo with the model folder MODEL

The picture is written to FOLDER (default: docs/pictures). The script requires Chromium and its driver (apt-get install
chromium chromium-driver) and selenium (pip install '.[dev]').
"""

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
CHOSEN = 2
"""Number of the selected word in the summary, counting from 1."""


def capture_explanation(browser):
    """Take a screenshot of an explanation page. Returns the PNG image."""
    from fairseq_etads.summarizer.explanation_page import make_page

    data = json.loads((PICTURES / "explain.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(make_page(data), encoding="utf-8")
        browser.open(path, width=1100)
        browser.find_all(".w")[CHOSEN - 1].click()
        below = browser.run("return document.getElementById('of-legend').parentElement.getBoundingClientRect().top")
        browser.resize(1100, int(below))
        return browser.picture()


def capture_demo(browser, model):
    """Take a screenshot of etads-demo with a summary of its first example. Returns the PNG image."""
    from selenium.webdriver.support.ui import WebDriverWait

    wait = WebDriverWait(browser.driver, 60)
    with subprocess.Popen(["etads-demo", model, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)))[0]
            browser.open(url, width=1100)
            wait.until(lambda _: browser.find("#about").text)
            browser.find("#example").click()
            wait.until(lambda _: browser.find("#summarize").is_enabled())
            browser.find("#summarize").click()
            wait.until(lambda _: browser.find("#state").text.startswith("score"))
            browser.hover(browser.find_all("#summary .token")[CHOSEN - 1])
            browser.resize(1100, int(browser.run("return document.body.getBoundingClientRect().bottom")))
            return browser.picture()
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", default=PICTURES)
    parser.add_argument("--model", metavar="MODEL")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    sys.argv[0] = "etads-explain"  # the name of a command that can start without fairseq
    from browser import start
    from PIL import Image

    browser = start()
    try:
        png = capture_demo(browser, args.model) if args.model else capture_explanation(browser)
    finally:
        browser.driver.quit()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
    picture.save(args.folder / ("demo.png" if args.model else "explain.png"), optimize=True)


if __name__ == "__main__":
    main()
