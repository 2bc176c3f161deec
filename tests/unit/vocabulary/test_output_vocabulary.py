"""One word, three numbers: ids of the dictionary, extended ids and columns, against a loop over the words."""

import pytest
import torch
from helpers import make_batch, make_dictionary

from fairseq_etads.vocabulary.dictionary import remove_copy_tail
from fairseq_etads.vocabulary.output import CandidateWords, OutputVocabulary

KNOWN, UNK = 44, 3
DOCUMENTS = [[5, 46, 7, 45, 46], [30], [47, 44, 47]]
SUMMARIES = torch.tensor([[5, 45, 46, 44, 40], [30, 45, 31, 3, 5], [44, 47, 46, 12, 2]])


def slots_of(document):
    """Dictionary ids of the words that the model does not know, in order of first occurrence."""
    return list(dict.fromkeys(word for word in document if word >= KNOWN))


def extended(word, document, pointer):
    if word < KNOWN:
        return word
    own = slots_of(document)
    return KNOWN + own.index(word) if pointer and word in own else UNK


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("trick", ["off", "shared", "own"])
@pytest.mark.parametrize("pointer", [False, True])
def test_every_number_is_that_of_the_loop(pointer, trick, beams):
    dictionary = remove_copy_tail(make_dictionary(tail=6))
    tokens = make_batch(DOCUMENTS)
    candidates = None
    if trick != "off":
        candidates = CandidateWords(tokens, 9, KNOWN, 4, UNK, shared=trick == "shared")
    vocabulary = OutputVocabulary.from_source(tokens, dictionary, pointer, candidates)
    summaries = SUMMARIES.repeat_interleave(beams, dim=0)
    got_extended = vocabulary.convert_to_extended_ids(summaries).tolist()
    got_columns = vocabulary.convert_to_target_columns(summaries).tolist()
    got_producible = vocabulary.convert_to_producible_ids(summaries).tolist()
    for row, summary in enumerate(summaries.tolist()):
        number = row // beams
        document = DOCUMENTS[number]
        listed = range(KNOWN)
        if candidates is not None:
            allowed = candidates.allowed[number] if candidates.allowed is not None else slice(None)
            listed = candidates.words[allowed].tolist()
        width = KNOWN if candidates is None else len(candidates)
        for place, word in enumerate(summary):
            wanted = extended(word, document, pointer)
            assert got_extended[row][place] == wanted
            if wanted >= KNOWN:
                column = wanted - KNOWN + width
            elif wanted not in listed:
                column = UNK
            else:
                column = wanted if candidates is None else candidates.words.tolist().index(wanted)
            assert got_columns[row][place] == column
            assert got_producible[row][place] == (UNK if column == UNK else wanted)


def make_vocabulary(pointer=True, trick="own", by_column=False):
    """The output vocabulary of DOCUMENTS, and the words that each document's list allows."""
    tokens = make_batch(DOCUMENTS)
    candidates, listed = None, [list(range(KNOWN))] * len(DOCUMENTS)
    if trick != "off":
        candidates = CandidateWords(tokens, 9, KNOWN, 4, UNK, shared=trick == "shared")
        masks = candidates.allowed if candidates.allowed is not None else [slice(None)] * len(DOCUMENTS)
        listed = [candidates.words[mask].tolist() for mask in masks]
    dictionary = remove_copy_tail(make_dictionary(tail=6))
    vocabulary = OutputVocabulary.from_source(tokens, dictionary, pointer, candidates)
    return vocabulary._replace(by_column=by_column), listed


def search_id_of(word, number, vocabulary, listed):
    """The search id of a word in the summary of a document, by a loop, or UNK for a word that cannot be produced."""
    if word >= KNOWN:
        own = slots_of(DOCUMENTS[number])
        if vocabulary.slots is None or word not in own:
            return UNK
        return own.index(word) + (len(vocabulary.candidates) if vocabulary.by_column else KNOWN)
    if not vocabulary.by_column:
        return word
    return vocabulary.candidates.words.tolist().index(word) if word in listed[number] else UNK


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("trick", ["shared", "own"])
@pytest.mark.parametrize("pointer", [False, True])
def test_search_ids_are_those_of_a_loop_and_lead_back(pointer, trick, by_column):
    vocabulary, listed = make_vocabulary(pointer, trick, by_column)
    got = vocabulary.convert_to_search_ids(SUMMARIES)
    expected = [
        [search_id_of(word, number, vocabulary, listed) for word in summary]
        for number, summary in enumerate(SUMMARIES.tolist())
    ]
    assert got.tolist() == expected
    words = [
        [word if found != UNK else UNK for word, found in zip(*rows)] for rows in zip(SUMMARIES.tolist(), expected)
    ]
    assert vocabulary.convert_to_dictionary_ids(got).tolist() == words
    for number, ids in enumerate(got):
        assert vocabulary.convert_to_dictionary_ids(ids, number).tolist() == words[number]
    assert vocabulary.convert_to_known_ids(got).tolist() == [
        [word if word < KNOWN else UNK for word in row] for row in words
    ]


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("trick", ["off", "shared", "own"])
def test_words_that_a_summary_cannot_contain_are_omitted(trick, by_column):
    vocabulary, listed = make_vocabulary(trick=trick, by_column=by_column and trick != "off")
    words = torch.tensor([7, 45, UNK, 30, 44, 43])
    for number in range(len(DOCUMENTS)):
        expected = [
            search_id_of(word, number, vocabulary, listed)
            for word in words.tolist()
            if word == UNK or (word in listed[number] if word < KNOWN else word in slots_of(DOCUMENTS[number]))
        ]
        assert vocabulary.convert_words_to_search_ids(words, number).tolist() == expected


def test_all_tensors_move_to_another_device():
    vocabulary, _ = make_vocabulary()
    moved = vocabulary.to("meta")
    for before, after in ((vocabulary.slots, moved.slots), (vocabulary.candidates, moved.candidates)):
        tensors = [name for name, value in vars(before).items() if isinstance(value, torch.Tensor)]
        assert tensors and all(getattr(after, name).device.type == "meta" for name in tensors)
        assert all(getattr(before, name).device.type == "cpu" for name in tensors)
    shared, _ = make_vocabulary(trick="shared")
    assert shared.to("meta").candidates.words.device.type == "meta" and shared.to("meta").candidates.allowed is None
    plain, _ = make_vocabulary(pointer=False, trick="off")
    assert plain.to("meta") == plain == plain.select(torch.tensor([1]))


def test_special_symbols_are_never_copied_and_lists_of_words_make_the_softmax_narrower():
    dictionary = remove_copy_tail(make_dictionary(tail=6))
    special = [dictionary.bos(), dictionary.pad(), dictionary.eos()]
    tokens = torch.tensor([[5, special[0], 46, special[1], 6, special[2]]])
    candidates = CandidateWords(tokens, 9, KNOWN, 4, UNK, shared=True)
    slots = OutputVocabulary.from_source(tokens, dictionary, True, candidates).slots
    assert slots.copyable.tolist() == [[True, False, True, False, True, False]]
    columns = [candidates.words.tolist().index(word) for word in (5, 6)]
    width = len(candidates)
    assert slots.word_columns.tolist() == [[columns[0], width, columns[1]]]
    assert slots.softmax_width == width and slots.output_width == width + 1
    bound = OutputVocabulary.from_source(tokens, dictionary, True, bounded=True).slots
    assert bound.output_width == KNOWN + 1, "a CPU does not need the upper bound"
    on_gpu = OutputVocabulary.from_source(tokens.to("meta"), dictionary, True, bounded=True).slots
    assert on_gpu.output_width == KNOWN + tokens.shape[1]
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):  # the actual number is read
        OutputVocabulary.from_source(tokens.to("meta"), dictionary, True)
