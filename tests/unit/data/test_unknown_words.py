"""Messages about data when training starts: unknown words, and pointers without a word to copy."""

import logging

import pytest
import torch
from helpers import EOS, RECURRENT, make_dictionary, make_task, model_config
from selection_data import write_data

from fairseq_etads.data.pairs import SummarizationDataset, check_unknown_summary_words, count_summary_words
from fairseq_etads.vocabulary.dictionary import limit_known_words

KNOWN, GENERATED = 44, 20
NOTHING_TO_POINT_AT = "so there is no word from which to learn copying"


def make_pairs(documents, summaries, truncate_source=9):
    dictionary = make_dictionary(tail=9)
    sides = [[torch.tensor([*text, EOS]) for text in texts] for texts in (documents, summaries)]
    source, target = ((texts, [len(text) for text in texts], dictionary) for texts in sides)
    return SummarizationDataset(*source, *target, truncate_source=truncate_source, truncate_target=9)


def dictionary(known=GENERATED):
    return limit_known_words(make_dictionary(tail=9), known)


def test_words_are_counted_as_a_loop_counts_them(monkeypatch):
    documents = [[5, 30, 46, 3, GENERATED, KNOWN], [6, 47] * 5 + [48], [7], []]
    summaries = [[5, 30, 3, 47, GENERATED, KNOWN], [48, 47, 21], [], [8]]
    pairs = make_pairs(documents, summaries)
    for known in (GENERATED, KNOWN):
        words = unknown = copyable = in_document = 0
        for document, summary in zip(documents, summaries):
            for word in summary:
                words += 1
                unknown += word == 3 or word >= known
                copyable += word >= known and word in document[:9]
                in_document += word != 3 and word in document[:9]
        assert count_summary_words(pairs, dictionary(known)) == (4, words, unknown, copyable, in_document)
    monkeypatch.setattr("fairseq_etads.data.pairs.SAMPLE", 4)  # spread over the whole split
    pairs = make_pairs([[5]] * 10, [[46 if number in (1, 9) else 5] for number in range(10)])
    found = count_summary_words(pairs, dictionary())  # of pairs 0, 3, 6 and 9
    assert (found.pairs, found.unknown) == (4, 1)


@pytest.mark.parametrize(
    "pointer,summaries,outcome",
    [
        ("none", [[5]], "fine"),
        ("switch", [[5], [30]], "fine"),  # the encoder knows the word, but the decoder does not
        ("switch", [[47, 3, 21], [6]], NOTHING_TO_POINT_AT),  # the word is unknown, but in no document
        ("soft", [[5], [6]], "fine"),
        ("soft", [[47, 5], [6]], "warned"),
        ("soft", [[46, 5]], "fine"),
        ("soft", [[8, 47], [8, 3]], "nothing to copy"),
        ("switch", [[], []], "fine"),  # without words, there is nothing to report
    ],
)
def test_a_pointer_without_a_word_to_copy_is_refused(pointer, summaries, outcome, caplog):
    pairs = make_pairs([[5, 30, 46, 3], [6, 46, 30, 3]][: len(summaries)], summaries)
    with caplog.at_level(logging.INFO):
        if outcome in ("fine", "warned"):
            check_unknown_summary_words("train", pairs, pointer, dictionary())
            warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
            assert len(warnings) == (outcome == "warned")
            figures = "1 of 2 words of train's summaries (a sample of 1) are unknown, 50.00%; 1 of the unknown ones are"
            assert (figures in caplog.text) == (summaries == [[46, 5]])
        else:
            with pytest.raises(ValueError, match=f"--pointer {pointer}: .*{outcome}"):
                check_unknown_summary_words("train", pairs, pointer, dictionary())


def load(directory, split, checkpoint=False):
    languages = {"source_lang": "source", "target_lang": "target"}
    task = make_task(tail=9, target_words=GENERATED, data=str(directory), batch_size=None, **languages)
    task.build_model(model_config("gru_seq2seq", pointer="switch", **RECURRENT))
    if checkpoint:
        task.load_state_dict(task.state_dict())
    task.load_dataset(split)
    return task


def test_only_training_is_refused_and_only_once(tmp_path):
    nothing_to_copy, copied = [("w1 w26", "w1 w2")], [("w1 w26", "w26 w2")]
    write_data(tmp_path, {"train": nothing_to_copy, "valid": nothing_to_copy}, dictionary=make_dictionary(tail=9))
    with pytest.raises(ValueError, match=NOTHING_TO_POINT_AT):
        load(tmp_path, "train")
    load(tmp_path, "valid")
    load(tmp_path, "train", checkpoint=True)  # fairseq-generate loads data in this way
    write_data(tmp_path, {"train": copied}, dictionary=make_dictionary(tail=9))
    task = load(tmp_path, "train")
    write_data(tmp_path, {"train": nothing_to_copy}, dictionary=make_dictionary(tail=9))
    task.load_dataset("train", epoch=2)  # the data of another directory, in the middle of training
