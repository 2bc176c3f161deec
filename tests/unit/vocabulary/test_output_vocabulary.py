"""Output vocabularies against loops: words a dictionary knows, slots of a batch, lists of words, and their numbers."""

import io
import random

import pytest
import reference
import torch
from fairseq.data import Dictionary
from helpers import make_batch, make_dictionary

from fairseq_etads.layers.embedding import VocabularyEmbedding
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, count_known_words, remove_copy_tail
from fairseq_etads.vocabulary.output import BatchVocab, CandidateWords, OutputVocabulary, hide_unknown_words

IDS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}


@pytest.mark.parametrize("seed", range(40))
def test_slots_equal_a_loop(seed):
    r = random.Random(seed)
    known, rows, width = r.choice([4, 7, 10, 14]), r.randint(1, 5), r.randint(1, 12)
    source = torch.tensor([[r.randrange(14) for _ in range(width)] for _ in range(rows)])
    expected = [reference.extended_ids(row, known) for row in source.tolist()]
    vocab = BatchVocab(source, known, **IDS)
    assert vocab.source_columns.tolist() == [extended for extended, _ in expected]
    assert vocab.output_width == known + max(len(own) for _, own in expected)
    assert vocab.slots_used.tolist() == [len(own) for _, own in expected]
    assert torch.equal(vocab.decode(vocab.source_columns), source)
    for row, (extended, _) in enumerate(expected):
        words = [word for word in dict.fromkeys(extended) if word not in (0, 1, 2)]
        assert vocab.word_columns[row][vocab.is_word[row]].tolist() == words
        for place in range(width):
            copyable = source[row, place].item() not in (0, 1, 2)
            assert vocab.copyable[row, place] == copyable
            assert not copyable or vocab.word_columns[row, vocab.word_numbers[row, place]] == extended[place]
    if rows > 1:
        with pytest.raises(ValueError, match=f"1 rows cannot be divided evenly among {rows} documents"):
            vocab.encode(source[:1])


def test_known_words_end_where_the_counts_do():
    dictionary = make_dictionary(words=40, tail=5)
    assert count_known_words(dictionary) == 44 and len(dictionary) == 49
    head = remove_copy_tail(dictionary)
    assert len(head) == 44 and head.index("rare0") == head.unk() and head.index("w39") == 43
    assert len(dictionary) == 49 and dictionary.index("rare4") == 48, "the dictionary itself was changed"
    assert hide_unknown_words(torch.tensor([3, 43, 44, 48]), 44, unk=3).tolist() == [3, 43, 3, 3]
    ids = torch.tensor([[0, 43, 44], [700000, 1, 3]])
    plain = torch.nn.Embedding(44, 4, padding_idx=1)
    assert torch.equal(VocabularyEmbedding(plain, unk=3)(ids), plain(torch.tensor([[0, 43, 3], [3, 1, 3]])))


def test_fairseqs_padding_words_are_known_and_a_dictionary_without_counts_is_taken_whole():
    padded = make_dictionary(words=3)
    padded.pad_to_multiple_(8)
    head = remove_copy_tail(padded)
    padded.add_symbol("rare", n=0)
    padded.encode_line("newer", add_if_not_exist=True)  # as fairseq-generate does with --post-process
    assert count_known_words(padded) == len(head) == count_known_words(head) == 8 and len(padded) == 10
    bare = Dictionary()
    for word in "abc":
        bare.add_symbol(word, n=0)
    assert count_known_words(bare) == len(remove_copy_tail(bare)) == 7
    with pytest.raises(ValueError, match='"c", which has a count, follows "b"'):
        SummarizationDictionary.load(io.StringIO("a 5\nb 0\nc 3\n"))
    padded = SummarizationDictionary.load(io.StringIO("madeupword0000 0\na 0\n"))
    assert padded.known_words == 6, "no word has a count"


def test_a_loaded_dictionary_grows_only_when_told_to_and_never_within_the_known_words():
    text = io.StringIO()
    make_dictionary(words=4, tail=2).save(text)
    text.seek(0)
    dictionary = SummarizationDictionary.load(text)
    line = "w1 rare1 new new <unk> other"
    assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == [5, 9, 3, 3, 3, 3, 2]
    dictionary.grows = True
    assert dictionary.encode_line(line, add_if_not_exist=False).tolist() == [5, 9, 10, 10, 3, 11, 2]
    assert dictionary.encode_line("other", add_if_not_exist=False, append_eos=False).tolist() == [11]
    assert dictionary.known_words == count_known_words(dictionary) == len(remove_copy_tail(dictionary)) == 8


def test_a_batch_without_documents_or_words_has_no_slots():
    empty = BatchVocab(torch.zeros(0, 3, dtype=torch.long), 6, **IDS)
    assert empty.output_width == 6 and empty.slot_words.shape == (0, 0) and empty.word_columns.shape == (0, 1)
    bare = BatchVocab(torch.tensor([[2], [2]]), 6, **IDS)
    assert bare.output_width == 6 and bare.word_columns.tolist() == [[0], [0]]


def test_with_bounds_no_value_is_read_from_a_gpu_and_a_cpu_does_not_need_them():
    """Tensors on the device "meta" have shapes but no values, so reading one would fail."""
    ids = torch.full((3, 5), 4, device="meta")
    vocabulary = BatchVocab(ids, 6, bounded=True, **IDS)
    assert vocabulary.output_width == 6 + 5
    assert vocabulary.slot_words.shape == vocabulary.word_columns.shape == vocabulary.is_word.shape == (3, 5)
    tensors = [value for value in vars(vocabulary).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 7 and all(value.device == ids.device for value in tensors)
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        BatchVocab(ids, 6, **IDS)
    assert BatchVocab(torch.tensor([[4, 7, 7]]), 6, bounded=True, **IDS).output_width == 6 + 1


SIZE, UNK, FIRST = 60, 3, 4


def random_texts(seed, rows=5, length=9):
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(0, SIZE + 20, (rows, length), generator=generator)
    texts[-1, 4:] = 1  # padding
    return texts


def make_candidates(texts, limit=12, shared=False):
    return CandidateWords(texts, limit, SIZE, FIRST, UNK, shared=shared)


@pytest.mark.parametrize("limit", [1, 4, 10, 25, 59, 60, 200])
@pytest.mark.parametrize("seed", range(4))
def test_lists_are_those_of_the_loop(seed, limit):
    texts = random_texts(seed)
    found = make_candidates(texts, limit, shared=True)
    assert found.words.tolist() == reference.candidates(texts.tolist(), limit, SIZE, FIRST)
    assert found.allowed is None
    found = make_candidates(texts, limit)
    together = set()
    for text, allowed in zip(texts.tolist(), found.allowed):
        own = reference.candidates([text], limit, SIZE, FIRST)
        assert found.words[allowed].tolist() == own
        together |= set(own)
    assert found.words.tolist() == sorted(together)


@pytest.mark.parametrize("gradient", [True, False])
def test_logits_are_restricted_in_place_only_where_no_gradient_is_wanted(gradient):
    found = make_candidates(random_texts(1))
    logits = torch.zeros(len(found.allowed), 1, len(found))
    with torch.set_grad_enabled(gradient):
        restricted = found.mask_unlisted_words(logits)
    assert torch.equal(restricted[:, 0].isinf(), ~found.allowed)
    assert bool(logits.isinf().any()) is not gradient
    assert make_candidates(random_texts(1), shared=True).mask_unlisted_words(logits) is logits


@pytest.mark.parametrize("shared", [False, True])
def test_scores_are_spread_over_the_words_that_they_belong_to_on_the_texts_device(shared):
    """Tensors are not created on the default device, here another one: torch would refuse to mix the two."""
    texts, scores = random_texts(1), torch.randn(5, 3, 200)
    with torch.device("meta"):
        found = make_candidates(texts, shared=shared)
        scores = scores[:, :, : len(found) + 2]
        wide = found.reindex_by_extended_id(scores)
    assert wide.shape == (5, 3, SIZE + 2)
    assert torch.equal(wide[:, :, [*found.words.tolist(), SIZE, SIZE + 1]], scores)
    assert wide.isfinite().sum() == scores.numel()
    assert found.words.device == found.convert_to_columns(texts).device == texts.device


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
