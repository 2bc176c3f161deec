"""A small corpus, and etads-prepare as a function and as a command, for the tests of preparation."""

import corpora
import pytest
from etads_preprocess.prepare import main
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


@pytest.fixture(name="refused")
def make_refused(capsys):
    """Run etads-prepare, which must refuse its arguments; returns the last line of its message."""

    def refused(*arguments):
        with pytest.raises(SystemExit) as stopped:
            as_program(main)([*map(str, arguments)])
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert stopped.value.code == 2 and error.startswith("etads-prepare: ")
        return error

    return refused
