"""One word, three numbers: ids of the dictionary, extended ids and columns, against a loop over the words."""

import pytest
import torch
from helpers import make_batch, make_dictionary

from fairseq_etads.vocabulary.dictionary import remove_copy_tail
from fairseq_etads.vocabulary.output import CandidateWords, OutputVocabulary

KNOWN, UNK = 44, 3
DICTIONARY = remove_copy_tail(make_dictionary(tail=6))
DOCUMENTS = [[5, 46, 7, 45, 46], [30], [47, 44, 47]]
SUMMARIES = torch.tensor([[5, 45, 46, 44, 40], [30, 45, 31, 3, 5], [44, 47, 46, 12, 2]])


def make_vocabulary(pointer=True, trick="own"):
    """The output vocabulary of DOCUMENTS, and the words that each document's list allows."""
    tokens = make_batch(DOCUMENTS)
    candidates, listed = None, [list(range(KNOWN))] * len(DOCUMENTS)
    if trick != "off":
        candidates = CandidateWords(tokens, 9, KNOWN, 4, UNK, shared=trick == "shared")
        masks = candidates.allowed if candidates.allowed is not None else [slice(None)] * len(DOCUMENTS)
        listed = [candidates.words[mask].tolist() for mask in masks]
    return OutputVocabulary.from_source(tokens, DICTIONARY, pointer, candidates), listed


def extended_id(word, number, pointer):
    """Slots are numbered by the first occurrence of their words in the document."""
    if word < KNOWN:
        return word
    own = list(dict.fromkeys(word for word in DOCUMENTS[number] if word >= KNOWN))
    return KNOWN + own.index(word) if pointer and word in own else UNK


def column_of(word, number, vocabulary, listed):
    wanted, candidates = extended_id(word, number, vocabulary.slots is not None), vocabulary.candidates
    if wanted >= KNOWN:
        return wanted if candidates is None else wanted - KNOWN + len(candidates)
    if wanted not in listed[number]:
        return UNK
    return wanted if candidates is None else candidates.words.tolist().index(wanted)


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("trick", ["off", "shared", "own"])
@pytest.mark.parametrize("pointer", [False, True])
def test_every_number_is_that_of_the_loop_and_leads_back(pointer, trick, beams):
    vocabulary, listed = make_vocabulary(pointer, trick)
    summaries = SUMMARIES.repeat_interleave(beams, dim=0)
    rows = [(row // beams, summary) for row, summary in enumerate(summaries.tolist())]
    extended = [[extended_id(word, number, pointer) for word in summary] for number, summary in rows]
    columns = [[column_of(word, number, vocabulary, listed) for word in summary] for number, summary in rows]
    assert vocabulary.convert_to_extended_ids(summaries).tolist() == extended
    assert vocabulary.convert_to_target_columns(summaries).tolist() == columns
    assert vocabulary.convert_to_producible_ids(summaries).tolist() == [
        [UNK if column == UNK else wanted for wanted, column in zip(*both)] for both in zip(extended, columns)
    ]
    for by_column, ids in ((False, extended), (True, columns)):
        searched = vocabulary._replace(by_column=by_column)
        got = searched.convert_to_search_ids(summaries)
        assert got.tolist() == ids
        words = [
            [UNK if found == UNK else word for word, found in zip(summary, found_ids)]
            for (_, summary), found_ids in zip(rows, ids)
        ]
        assert searched.convert_to_dictionary_ids(got).tolist() == words
        for (number, _), own_ids, own_words in zip(rows, got, words):
            assert searched.convert_to_dictionary_ids(own_ids, number).tolist() == own_words
        known = [[word if word < KNOWN else UNK for word in row] for row in words]
        assert searched.convert_to_known_ids(got).tolist() == known


@pytest.mark.parametrize("trick, by_column", [("off", False), ("shared", False), ("own", False), ("own", True)])
def test_words_that_a_summary_cannot_contain_are_omitted(trick, by_column):
    vocabulary, listed = make_vocabulary(trick=trick)
    words = [7, 45, UNK, 30, 44, 43]
    for number in range(len(DOCUMENTS)):
        columns = {word: column_of(word, number, vocabulary, listed) for word in words}
        possible = [word for word in words if word == UNK or columns[word] != UNK]
        ids = [columns[word] if by_column else extended_id(word, number, True) for word in possible]
        searched = vocabulary._replace(by_column=by_column)
        assert searched.convert_words_to_search_ids(torch.tensor(words), number).tolist() == ids


def test_all_tensors_move_to_another_device():
    vocabulary, _ = make_vocabulary()
    moved = vocabulary.to("meta")
    for before, after in ((vocabulary.slots, moved.slots), (vocabulary.candidates, moved.candidates)):
        tensors = [name for name, value in vars(before).items() if isinstance(value, torch.Tensor)]
        assert tensors and all(getattr(after, name).device.type == "meta" for name in tensors)
        assert all(getattr(before, name).device.type == "cpu" for name in tensors)
    plain, _ = make_vocabulary(pointer=False, trick="off")
    assert plain.to("meta") == plain == plain.select(torch.tensor([1]))
