"""The large-vocabulary trick: words and columns against a loop."""

import math

import pytest
import reference
import torch
from helpers import NotOnCpu

from fairseq_etads.vocabulary.candidates import CandidateWords
from fairseq_etads.vocabulary.output import BatchVocab

SIZE, UNK, SPECIALS = 60, 3, 4


def random_texts(seed, rows=5, length=9):
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(0, SIZE + 20, (rows, length), generator=generator)
    texts[-1, 4:] = 1  # padding
    return texts


@pytest.mark.parametrize("limit", [1, 4, 10, 25, 59, 60, 200])
@pytest.mark.parametrize("seed", range(4))
def test_a_shared_list_is_that_of_the_loop(seed, limit):
    texts = random_texts(seed)
    found = CandidateWords(texts, limit, SIZE, SPECIALS, UNK, shared=True)
    assert found.words.tolist() == reference.candidates(texts.tolist(), limit, SIZE, SPECIALS)
    assert found.allowed is None


@pytest.mark.parametrize("limit", [1, 4, 10, 25, 59, 60, 200])
@pytest.mark.parametrize("seed", range(4))
def test_lists_of_their_own_are_those_of_the_loop(seed, limit):
    texts = random_texts(seed)
    found = CandidateWords(texts, limit, SIZE, SPECIALS, UNK, shared=False)
    together = set()
    for text, allowed in zip(texts.tolist(), found.allowed):
        own = reference.candidates([text], limit, SIZE, SPECIALS)
        assert found.words[allowed].tolist() == own
        together |= set(own)
    assert found.words.tolist() == sorted(together)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("limit", [1, 25, 60, 200])
def test_lists_on_a_gpu_are_those_on_a_cpu(shared, limit):
    texts = random_texts(1)
    found = CandidateWords(texts.as_subclass(NotOnCpu), limit, SIZE, SPECIALS, UNK, shared=shared)
    expected = CandidateWords(texts, limit, SIZE, SPECIALS, UNK, shared=shared)
    assert torch.equal(found.words, expected.words)
    assert shared or torch.equal(found.allowed, expected.allowed)
    with pytest.raises(AssertionError, match="would wait"):
        int(found.words[0])


@pytest.mark.parametrize("frequent", [[4], [7, 30, 12], [SIZE]])
def test_lists_are_joined_on_a_gpu_as_on_a_cpu(frequent):
    ids, frequent = random_texts(0, rows=3).clamp(max=SIZE - 1), torch.tensor(frequent)
    expected = sorted({*range(int(frequent.max())), *ids.flatten().tolist()})
    with torch.device("meta"):  # tensors are not created on the default device
        assert CandidateWords._join_lists(ids, frequent).tolist() == expected
        assert CandidateWords._join_lists_on_gpu(ids, frequent, SIZE).tolist() == expected


def test_special_symbols_keep_their_numbers_and_columns_lead_back():
    found = CandidateWords(random_texts(0), 12, SIZE, SPECIALS, UNK, shared=True)
    count = len(found)
    assert found.words[:SPECIALS].tolist() == [0, 1, 2, 3]
    ids = torch.arange(SIZE + 3)
    columns = found.convert_to_columns(ids)
    for word, column in zip(ids.tolist(), columns.tolist()):
        if word >= SIZE:
            assert column == word - SIZE + count
        elif word in found.words.tolist():
            assert found.words[column] == word
        else:
            assert column == UNK


def test_columns_are_turned_back_into_extended_ids():
    found = CandidateWords(random_texts(0), 12, SIZE, SPECIALS, UNK, shared=True)
    ids = torch.cat([found.words, torch.arange(SIZE, SIZE + 3)])  # every candidate, and three slots
    assert found.convert_to_extended_ids(found.convert_to_columns(ids)).equal(ids)
    assert found.convert_to_extended_ids(found.convert_to_columns(ids)[None]).equal(ids[None])


@pytest.mark.parametrize("gradient", [True, False])
def test_logits_are_restricted_in_place_only_where_no_gradient_is_wanted(gradient):
    found = CandidateWords(random_texts(1), 12, SIZE, SPECIALS, UNK, shared=False)
    logits = torch.zeros(len(found.allowed), 1, len(found))
    with torch.set_grad_enabled(gradient):
        restricted = found.mask_unlisted_words(logits)
    assert restricted.isinf().any()
    assert bool(logits.isinf().any()) is not gradient


def test_scores_are_spread_over_the_words_that_they_belong_to():
    found = CandidateWords(random_texts(1), 12, SIZE, SPECIALS, UNK, shared=True)
    scores = torch.randn(2, 3, len(found) + 2)
    wide = found.reindex_by_extended_id(scores)
    assert wide.shape == (2, 3, SIZE + 2)
    ids = [*found.words.tolist(), SIZE, SIZE + 1]
    assert torch.equal(wide[:, :, ids], scores)
    assert wide.isfinite().sum() == scores.numel()


def test_words_of_other_documents_have_no_probability():
    texts = torch.tensor([[50, 2], [51, 2], [52, 2]])
    found = CandidateWords(texts, 6, SIZE, SPECIALS, UNK, shared=False)
    logits = found.mask_unlisted_words(torch.zeros(6, 1, len(found)))  # two beams each
    assert [row.isfinite().sum().item() for row in logits] == [6] * 6
    place = found.words.tolist().index(51)
    assert logits[:, 0, place].isfinite().tolist() == [False, False, True, True, False, False]
    ids = torch.tensor([[50, 51], [50, 51], [51, 50], [51, 50], [51, 52], [4, 52]])
    expected = [[place - 1, UNK], [place - 1, UNK], [place, UNK], [place, UNK], [UNK, place + 1], [4, place + 1]]
    assert found.convert_to_columns(ids).tolist() == expected
    chosen = found.select(torch.tensor([2, 0]))
    assert torch.equal(chosen.allowed, found.allowed[[2, 0]]) and chosen.words is found.words


def test_a_batchs_vocabulary_numbers_columns():
    source = torch.tensor([[5, 70, 55, 70, 2], [55, 9, 2, 1, 1]])
    found = CandidateWords(source, 8, SIZE, SPECIALS, UNK, shared=True)
    plain = BatchVocab(source, SIZE, pad=1, bos=0, eos=2, unk=3)
    vocab = BatchVocab(source, SIZE, pad=1, bos=0, eos=2, unk=3, candidates=found)
    assert (vocab.softmax_width, vocab.output_width) == (len(found), len(found) + 1)
    assert torch.equal(vocab.source_columns, found.convert_to_columns(plain.source_columns))
    assert torch.equal(vocab.word_columns[vocab.is_word], found.convert_to_columns(plain.word_columns)[plain.is_word])
    words = torch.tensor([[70, 5], [70, 55]])
    assert torch.equal(vocab.encode(words), plain.encode(words))
    assert torch.equal(vocab.decode(plain.encode(words)), plain.decode(plain.encode(words)))


@pytest.mark.parametrize("shared", [False, True])
def test_two_texts(shared):
    found = CandidateWords(torch.tensor([[50, 2], [51, 2]]), 6, SIZE, SPECIALS, UNK, shared=shared)
    lists = [[0, 1, 2, 3, 4, 50], [0, 1, 2, 3, 4, 51]]
    assert found.words.tolist() == ([0, 1, 2, 3, 50, 51] if shared else sorted({*lists[0], *lists[1]}))
    if shared:
        assert found.allowed is None and found.select(torch.tensor([1])).allowed is None
    else:
        assert [found.words[allowed].tolist() for allowed in found.allowed] == lists


def test_what_is_on_no_list_has_the_logarithm_of_nothing():
    found = CandidateWords(torch.tensor([[50, 2], [51, 2]]), 6, SIZE, SPECIALS, UNK, shared=False)
    logits = found.mask_unlisted_words(torch.zeros(2, 1, len(found)))
    assert logits.eq(-math.inf).sum() == 2 and logits.eq(0).sum() == 2 * len(found) - 2
    scores = found.reindex_by_extended_id(torch.zeros(2, 1, len(found)))
    assert scores.eq(-math.inf).sum() == 2 * (SIZE - len(found)) and scores.eq(0).sum() == 2 * len(found)


@pytest.mark.parametrize("shared", [False, True])
def test_everything_is_on_the_texts_device(shared):
    """Tensors are not created on the default device, here another one: torch would refuse to mix the two."""
    texts = random_texts(0)
    with torch.device("meta"):
        found = CandidateWords(texts, 12, SIZE, SPECIALS, UNK, shared=shared)
        found.reindex_by_extended_id(found.mask_unlisted_words(torch.zeros(5, 1, len(found), device="cpu")))
    assert found.words.device == found.convert_to_columns(texts).device == texts.device


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("length", [0, 3])
def test_no_texts_at_all(shared, length):
    found = CandidateWords(torch.empty(0, length, dtype=torch.long), 12, SIZE, SPECIALS, UNK, shared=shared)
    assert found.words.tolist() == list(range(12)) and found.allowed is None
    assert found.convert_to_columns(torch.empty(0, 4, dtype=torch.long)).shape == (0, 4)
    assert found.reindex_by_extended_id(found.mask_unlisted_words(torch.zeros(0, 1, 12))).shape == (0, 1, SIZE)
