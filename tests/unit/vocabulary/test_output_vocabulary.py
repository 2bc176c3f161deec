"""One word, three numbers: ids of the dictionary, extended ids and columns, against a loop over the words."""

import pytest
import torch
from helpers import make_batch, make_dictionary

from fairseq_etads.vocabulary.candidates import CandidateWords
from fairseq_etads.vocabulary.dictionary import remove_copy_tail
from fairseq_etads.vocabulary.output import OutputVocabulary

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


def test_slots_lead_back_to_the_words_of_their_own_document():
    vocabulary = OutputVocabulary.from_source(
        make_batch(DOCUMENTS), remove_copy_tail(make_dictionary(tail=6)), pointer=True
    )
    for number, document in enumerate(DOCUMENTS):
        ids = torch.tensor([5, *range(KNOWN, KNOWN + 2)])
        own = [*slots_of(document), UNK, UNK][:2]
        assert vocabulary.convert_to_dictionary_ids(ids, number).tolist() == [5, *own]


def test_documents_can_be_selected_and_repeated():
    dictionary = remove_copy_tail(make_dictionary(tail=6))
    tokens = make_batch(DOCUMENTS)
    candidates = CandidateWords(tokens, 9, KNOWN, 4, UNK, shared=False)
    vocabulary = OutputVocabulary.from_source(tokens, dictionary, True, candidates)
    chosen = vocabulary.select(torch.tensor([2, 0, 0]))
    expected = vocabulary.convert_to_target_columns(SUMMARIES)[[2, 0, 0]]
    assert torch.equal(chosen.convert_to_target_columns(SUMMARIES[[2, 0, 0]]), expected)
