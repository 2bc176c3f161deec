"""Batches of records, as engines pass them to a worker."""

import numpy as np
import pytest
from folders import make_folder

from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer import Summarizer
from fairseq_etads.summarizer.records import RecordSummarizer

TEXTS = ["w1 w2 New w3 new other w9", "", "W5 w6 w7 Zebra yak"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0])


def test_records_keep_their_fields_and_get_what_the_summarizer_says(folder):
    batch = {"id": np.array([7, 8, 9]), "article": np.array(TEXTS, dtype=object)}
    found = RecordSummarizer(folder, "article", "cpu", beam=2, max_len=5)(batch)
    expected = Summarizer.load(folder, "cpu").summarize(TEXTS, beam=2, max_len=5)
    assert list(found) == ["id", "article", "summary", "score", "problem"]
    assert found["id"] is batch["id"] and list(found["article"]) == TEXTS
    assert list(found["summary"]) == [summary.text for summary in expected] and found["summary"][0]
    assert found["score"] == pytest.approx([summary.score for summary in expected])
    assert list(found["problem"]) == ["", "", ""]


def test_a_record_without_a_text_does_not_stop_the_others(folder):
    found = RecordSummarizer(folder, device="cpu")({"text": [TEXTS[0], None, TEXTS[2]]})
    assert [bool(summary) for summary in found["summary"]] == [True, False, True]
    assert found["problem"][1] == "text number 1 (from 0) is of type NoneType, not str"


def test_what_is_wrong_is_said_before_the_first_batch_or_with_it(folder):
    with pytest.raises(InputError, match="beam"):
        RecordSummarizer(folder, beam=0)
    with pytest.raises(KeyError, match="no column 'text' with texts; choose from: 'article', 'id'"):
        RecordSummarizer(folder)({"article": ["w1"], "id": [1]})
