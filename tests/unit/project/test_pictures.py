"""docs/pictures/: the drawings of scripts/pictures.py, readable on light and dark screens, and described in words."""

import importlib.util
import re
from xml.etree import ElementTree

import pytest
from documented import PAGES, ROOT

FOLDER = ROOT / "docs" / "pictures"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def pictures():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_what_the_script_draws(pictures):
    assert sorted(path.stem for path in FOLDER.glob("*.svg")) == sorted(pictures.PICTURES)
    for name, draw in pictures.PICTURES.items():
        drawn, stored = draw().to_svg(), (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
        assert _NUMBER.sub("0", drawn) == _NUMBER.sub("0", stored), f"{name}: run scripts/pictures.py"
        numbers = ([float(number) for number in _NUMBER.findall(text)] for text in (drawn, stored))
        # The tolerance is a tenth of a pixel, because another processor may round differently.
        assert list(next(numbers)) == pytest.approx(list(next(numbers)), abs=0.11), f"{name}: run scripts/pictures.py"


def test_the_pointer_shows_a_mixture(pictures):
    """The right column is p_gen times the middle one plus 1 - p_gen times the left one."""
    step = pictures.POINTER_STEP
    generating = 1 / (1 + 2.718281828 ** -step["gate"])
    copy, vocabulary = dict(step["document"]), dict(step["vocabulary"])
    for word, share in step["mixture"]:
        least = generating * vocabulary.get(word, 0) + (1 - generating) * copy.get(word, 0)
        # Words that are not shown are less probable.
        assert least - 1e-3 <= share <= least + generating * min(vocabulary.values()), word
    assert [share for _, share in step["mixture"]] == sorted((share for _, share in step["mixture"]), reverse=True)


def luminance(colour):
    """The relative luminance of WCAG 2.1."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("screen", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    "ink,paper",
    [("ink", "paper"), ("ink", "box"), ("soft", "paper"), ("soft", "box")]
    + [(colour, "paper") for colour in ("blue", "orange", "green")],
)
def test_text_is_readable(ink, paper, screen, pictures):
    """A contrast of at least 4.5, as WCAG 2.1 asks for text."""
    dark, light = sorted(luminance(pictures.COLOURS[name][screen]) for name in (ink, paper))
    assert (light + 0.05) / (dark + 0.05) >= 4.5


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_is_complete_in_itself(path):
    text = path.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.find("{http://www.w3.org/2000/svg}title").text
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"(?:href|src|url)\s*[=(]\s*[\"']?(?!#)", text.replace("http://www.w3.org/2000/svg", ""))
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        size, x = float(element.get("font-size")), float(element.get("x"))
        length = 0.62 * size * len(element.text)  # the width of the text in a wide font
        left = {"start": x, "middle": x - length / 2, "end": x - length}[element.get("text-anchor")]
        assert -0.15 * length <= left and left + 0.85 * length <= width, f"{element.text!r} is cut off"
        assert 0 < float(element.get("y")) < height


def test_every_picture_is_shown_and_described():
    shown = {}
    for page in PAGES:
        for description, path in re.findall(r"!\[([^]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            shown[(page.parent / path).resolve()] = description
    assert set(shown) == {*FOLDER.rglob("*.svg"), *FOLDER.rglob("*.png")}
    assert all(len(description.split()) >= 15 for description in shown.values()), "what does it show?"
