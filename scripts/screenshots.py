#!/usr/bin/env python3
"""Takes the pictures of pages in docs/pictures/ by a headless browser.

  scripts/screenshots.py [FOLDER]      docs/pictures/explain.png of docs/pictures/explain.json, which
                                       etads-explain model documents.txt --document 3 --json explain.json
                                       has written; into FOLDER, if it is given

It needs Chromium and its driver (apt-get install chromium chromium-driver) and selenium (pip install '.[dev]').
"""

import io
import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
CHOSEN = 2
"""The word of the summary that the picture shows, from 1."""


def main() -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    sys.argv[0] = "etads-explain"  # a command that starts without fairseq
    from browser import start
    from PIL import Image

    from fairseq_etads.explain.page import page

    data = json.loads((PICTURES / "explain.json").read_text(encoding="utf-8"))
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    browser = start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            path.write_text(page(data), encoding="utf-8")
            browser.open(path, width=1100)
            browser.find_all(".w")[CHOSEN - 1].click()
            below = browser.run("return document.getElementById('of-legend').parentElement.getBoundingClientRect().top")
            browser.resize(1100, int(below))
            picture = Image.open(io.BytesIO(browser.picture()))
    finally:
        browser.driver.quit()
    picture.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE).save(out / "explain.png", optimize=True)


if __name__ == "__main__":
    main()
