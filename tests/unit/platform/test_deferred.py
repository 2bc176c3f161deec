"""Deferred imports: nothing is imported before it is used, and imported names work."""

import subprocess
import sys

import pytest

from fairseq_etads.platform.deferred_imports import defer_imports

MODULES = ("wave", "xml", "xml.dom", "xml.dom.minidom", "colorsys")
"""Small modules of Python, in place of large ones."""


def find_modules():
    return {name: module for name, module in sys.modules.items() if name in MODULES or name.startswith("xml.")}


@pytest.fixture(autouse=True)
def not_imported():
    """Remove the modules for a test, and afterwards those that it imported: the old packages do not contain them."""
    before = find_modules()
    for name in before:
        del sys.modules[name]
    yield
    for name in find_modules():
        del sys.modules[name]
    sys.modules.update(before)


def test_functions_work_and_import_the_module_with_their_first_call():
    with defer_imports("colorsys"):
        from colorsys import rgb_to_hls
    assert "colorsys" not in sys.modules
    assert rgb_to_hls(1.0, 1.0, 1.0) == (0.0, 1.0, 0.0)
    assert sys.modules["colorsys"].rgb_to_hls is not rgb_to_hls


def test_modules_of_deferred_packages_can_be_imported_from_them():
    with defer_imports("xml", "xml.dom", "xml.dom.minidom"):
        from xml.dom import minidom
        from xml.dom.minidom import parseString
    assert not any(name.startswith("xml") for name in sys.modules)
    assert minidom.parseString("<a/>").documentElement.tagName == parseString("<a/>").documentElement.tagName == "a"


def test_modules_that_are_there_stay():
    import colorsys

    with defer_imports("colorsys"):
        from colorsys import rgb_to_hls
    assert rgb_to_hls is colorsys.rgb_to_hls
    assert sys.modules["colorsys"] is colorsys


def test_an_error_inside_leaves_no_stand_in():
    with pytest.raises(KeyError), defer_imports("colorsys"):
        raise KeyError
    assert "colorsys" not in sys.modules


def test_the_plugin_and_the_tokenizer_import_no_statistics():
    code = """
import sys, fairseq_etads
from fairseq_etads.text.words import split_sentences
assert split_sentences("One dog. Two cats.") == ["One dog.", "Two cats."]
print([name for name in ("sklearn", "scipy.sparse", "scipy.stats") if name in sys.modules])
from fairseq.criterions import sentence_prediction
f1, pearson = sentence_prediction.f1_score([1, 0, 1], [1, 1, 1]), sentence_prediction.pearsonr([1, 2, 3], [2, 4, 6])
print(round(f1, 3), round(pearson[0], 3))
from sklearn.metrics import f1_score
print(f1_score.__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["[]", "0.8 1.0", "sklearn.metrics._classification"], done.stderr


def test_a_model_folder_summarises_without_a_compiler():
    """torch imports its compiler and sympy, which takes a second, for operators on the device "meta"."""
    code = """
import sys
from fairseq_etads import Summarizer
print(Summarizer.load("debian", device="cpu").summarize(["Library for parsing XML."])[0].text != "")
print([name for name in ("torch._dynamo", "sympy", "sklearn", "scipy.stats") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["True", "[]"], done.stderr
