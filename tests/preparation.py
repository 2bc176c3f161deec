"""A small corpus and etads-prepare as a function, for the tests of preparation."""

import corpora
import pytest
from etads_preprocess.prepare import prepare_data as prepare_with

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.text.files import read_lines


@pytest.fixture(name="text")
def make_text(tmp_path):
    """A small corpus in six files."""
    return corpora.plain(tmp_path / "text")


def lines(path):
    return list(read_lines(path))


def prepare(text, out, tokens, size, lowercase, jobs, **more):
    return prepare_with(PreparationSettings(tokens, size, lowercase, **more), text, out, jobs)
