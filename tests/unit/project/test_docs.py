"""README.md, CONTRIBUTING.md and docs/ name only files and headings that exist."""

import re

import pytest
from documented import PAGES, ROOT

FOLDERS = ("", "fairseq_etads", "preprocess", "scripts", "tests", "tests/unit")
"""Folders in which paths in the pages may begin, besides the folders that the same line names."""
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(
    r"(?:[\w.-]+/)*[\w-]+\.(?:py|sh)|(?:scripts|tests|docs|benchmarks|preprocess|fairseq_etads)/[\w./-]*"
)


@pytest.fixture(params=[*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def page(request):
    return request.param


def test_files_exist(page):
    text = page.read_text(encoding="utf-8")
    # files that the reader writes, with the contents on the page
    written = set(re.findall(r"^# (?:new file )?(?:\S*/)?(\w+\.py)\b", text, re.MULTILINE))
    for line in text.splitlines():
        words = {word.rstrip(".,") for word in re.findall(r"[\w./{,}-]+", line)}
        rooms = ["", *(word for word in words if word.endswith("/"))]
        for name in set(filter(_FILE.fullmatch, words)):
            found = any((ROOT / folder / room / name).exists() for folder in FOLDERS for room in rooms)
            assert found or name.rpartition("/")[2] in written, name


def test_relative_links_resolve(page):
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)], link
