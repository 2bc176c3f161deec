"""A small corpus, etads-prepare as a function, and refusals, for the tests of preparation."""

import contextlib
import io

import corpora
import pytest
from etads_preprocess.prepare import prepare_data as prepare_with
from programs import as_program

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files.inputs import read_lines


@pytest.fixture(name="text")
def make_text(tmp_path):
    """A small corpus in six files."""
    return corpora.plain(tmp_path / "text")


def lines(path):
    return list(read_lines(path))


def prepare(text, out, tokens, size, lowercase=True, jobs=1, **more):
    return prepare_with(PreparationSettings(tokens, size, lowercase, **more), text, out, jobs)


def refusal(main, *arguments):
    """The one line with which a command refuses its arguments."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as stopped:
        as_program(main)([*map(str, arguments)])
    error = errors.getvalue().splitlines()[-1]
    assert stopped.value.code == 2 and error.startswith("etads-"), errors.getvalue()
    return error
