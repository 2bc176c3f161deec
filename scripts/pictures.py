"""Make docs/pictures/demo.png and explain.png again. Needs the extras demo, plots and dev, and a Chromium."""

import io
import logging
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from fairseq_etads import Summarizer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import browser as browsers  # noqa: E402

logging.disable(logging.INFO)  # fairseq shows all messages of selenium
package, article = (ROOT / "scripts" / "pictures.txt").read_text(encoding="utf-8").strip().split("\n\n")
browser = browsers.start()
pictures = {}
with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
    page.write(Summarizer.load("debian", "cpu").explain(package).to_html())
    page.flush()
    browser.open(Path(page.name), width=1100)
    browser.find("#evidence .sentence").click()
    browser.run("document.querySelectorAll('.needs-script.wide, details').forEach((card) => card.remove())")
    pictures["explain.png"] = browser.picture(whole=True)
with subprocess.Popen(["etads-demo", "--port", "0"], stdout=subprocess.PIPE, text=True) as server:
    browser.open(next(found[0] for line in server.stdout if (found := re.search(r"http://\S+/", line))), 1100, 1250)
    browser.driver.implicitly_wait(60)
    browser.find("#document").send_keys(article)
    browser.find("#summarize").click()
    browser.driver.switch_to.frame(browser.find("#explained:not([hidden]) #explanation"))
    browser.find("#evidence .sentence").click()
    pictures["demo.png"] = browser.picture()
    server.terminate()
browser.driver.quit()
for name, picture in pictures.items():  # of few colours, which takes a third
    Image.open(io.BytesIO(picture)).quantize(96).save(ROOT / "docs" / "pictures" / name, optimize=True)
