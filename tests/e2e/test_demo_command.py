"""``etads-demo`` from its users' view: the command, its page in a real browser, and its end by Ctrl-C."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from folders import make_folder

from fairseq_etads import Summarizer

pytest.importorskip("uvicorn", reason="needs the extra demo")

COMMAND = str(Path(sys.executable).parent / "etads-demo")
TEXT = "W5 w6 Zebra <img src=x onerror=alert(1)> yak w20 😀 w21 " + "w7 w8 w9, " * 30
WATCH = """
window.texts = [];
new MutationObserver(() => texts.push(document.querySelector("#summary").textContent)).observe(
    document.querySelector("#summary"), {childList: true, subtree: true, characterData: true});
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0]


@pytest.fixture(scope="module")
def summarizer(folder):
    return Summarizer.load(folder, "cpu")


@pytest.fixture(scope="module")
def page(folder):
    """URL of a running page. After the tests, Ctrl-C ends it; it must not have printed any text of documents."""
    command = [COMMAND, str(folder), "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = [process.stdout.readline() for _ in range(3)]
            url = re.search(r"http://127\.0\.0\.1:\d+/", said[2])[0]
            assert said[0] == f"== loading {folder}\n" and "reads the first 60 tokens" in said[1]
            yield url
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            assert (process.returncode, out, err) == (130, "", "\netads-demo: interrupted\n")
        finally:
            process.kill()


def until(condition):
    """Wait until the condition holds, for at most a minute; returns its result."""
    for _ in range(600):
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it never held")


def finished(browser):
    return until(lambda: browser.find("#state").text.startswith("score"))


def show(browser, page, **options):
    browser.open(page, **options)
    until(lambda: browser.find("#about").text)


def summarize(browser):
    until(lambda: browser.find("#summarize").is_enabled())
    browser.find("#summarize").click()
    finished(browser)


def paste(browser, text):
    """Paste a text like the clipboard: Chromium's driver cannot type characters such as emoji."""
    browser.run(
        "document.querySelector('#document').focus(); document.execCommand('selectAll');"
        "document.execCommand('insertText', false, arguments[0])",
        text,
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_documented_request_is_answered(page):
    text = (Path(__file__).parents[2] / "docs" / "demo.md").read_text(encoding="utf-8")
    command = re.search(r"^```bash\n(curl .*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    command = command.replace("http://127.0.0.1:8000/", page)
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=True)
    kinds = [json.loads(line)["kind"] for line in result.stdout.splitlines()]
    assert kinds[:3] == ["waiting", "document", "step"] and kinds[-1] == "summary"


def test_it_is_there_for_this_computer_only_and_a_taken_port_is_named(page, folder):
    port = page.split(":")[2].strip("/")
    with socket.socket() as other:  # another address of this computer must not be reachable either
        assert other.connect_ex(("127.0.0.2", int(port))) != 0
    result = subprocess.run([COMMAND, str(folder), "--port", port], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.fullmatch(rf"etads-demo: --port {port}: Address already in use; [^\n]+\n", result.stderr)


def test_a_document_is_summarised_while_one_looks_on(page, browser, summarizer):
    show(browser, page)
    browser.run(WATCH)
    paste(browser, TEXT)
    browser.press("Tab")  # Tab moves to the buttons; Ctrl+Enter works everywhere
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true, bubbles: true}))")
    finished(browser)
    want = summarizer.summarize(TEXT)
    assert browser.find("#summary").text == want.text
    seen = [text for text in browser.run("return texts") if text]
    assert len({len(text.split()) for text in seen}) >= 3, "it was shown while it grew"
    assert browser.find("#read").text == "The model read the first 60 of 100 words."
    shown = browser.find("#text").get_attribute("textContent")
    assert "<img src=x onerror=alert(1)> yak w20 😀" in shown, "text stays text"
    assert not browser.find_all("#text img, #summary img")
    assert browser.find("#said").get_attribute("textContent").startswith(f"Summary: {want.text}")
    asked = browser.requests()
    assert len(asked) >= 4 and all(url.startswith(page) for url in asked)

    words = summarizer.explain(TEXT).tokens
    browser.driver.switch_to.frame(browser.find("#explanation"))
    try:
        found = until(lambda: browser.find_all(".word"))
        assert [word.text for word in found] == [*(token.shown for token in words[:-1]), "end"]
        found[0].click()
        assert "summary, 1 of" in browser.find("#detail").text, "its own script may work"
        assert browser.run("try { return parent.document.title } catch (e) { return e.name }") == "SecurityError"
    finally:
        browser.driver.switch_to.default_content()
    browser.run("document.querySelector('#step').focus()")
    browser.press("Home")
    assert len(browser.find("#summary").text.split()) == 1 and "step 1" in browser.find("#state").text
    shades = browser.run(
        "return [...document.querySelectorAll('#text .read')].map((e) => Number(e.style.getPropertyValue('--weight')))"
    )
    assert max(shades) == 1 and not browser.find("#explanation").is_displayed()
    browser.press("End")
    finished(browser)
    assert browser.find("#explanation").is_displayed()
    browser.open(browser.find("#page").get_attribute("href"))
    assert browser.find("#summary .word").text == words[0].shown
    assert browser.console() == []


def test_wrong_options_are_said_and_a_search_can_be_stopped_on_a_small_dark_screen(page, browser):
    show(browser, page, width=320, dark=True)
    assert not browser.find("#summarize").is_enabled()
    browser.find("#example").click()
    until(lambda: browser.find("#summarize").is_enabled())
    browser.run("document.querySelector('details').open = true")
    browser.run("document.querySelector('#option-temperature').value = 0")
    browser.find("#summarize").click()
    assert until(lambda: browser.find("#problem").text) == "--temperature 0: choose more than 0"
    browser.find("#option-beam").clear()
    browser.find("#option-beam").send_keys("2")
    browser.find("#reset").click()
    values = [browser.run(f"return document.querySelector('#option-{name}').value") for name in ("temperature", "beam")]
    assert values == ["1", "3"]
    browser.run("document.querySelector('#form').requestSubmit(); document.querySelector('#stop').click()")
    until(lambda: browser.find("#state").text == "stopped")
    summarize(browser)
    assert [line for line in browser.console() if "400 (Bad Request)" not in line] == []
    assert browser.run("return document.documentElement.scrollWidth") <= 320
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, re.findall(r"\d+", ground)[:3])) < 200
