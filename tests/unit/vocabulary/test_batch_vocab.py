"""Word identity in ids: the copy tail of the dictionary and the slots of a batch."""

import io
import random

import pytest
import reference
import torch
from fairseq.data import Dictionary
from helpers import make_dictionary

from fairseq_etads.layers.embedding import VocabularyEmbedding
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, count_known_words, remove_copy_tail
from fairseq_etads.vocabulary.output import BatchVocab, hide_unknown_words

SPECIALS = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}


@pytest.mark.parametrize("seed", range(40))
def test_slots_equal_a_loop(seed):
    r = random.Random(seed)
    known, rows, width = r.choice([4, 7, 10, 14]), r.randint(1, 5), r.randint(1, 12)
    source = torch.tensor([[r.randrange(14) for _ in range(width)] for _ in range(rows)])
    expected = [reference.extended_ids(row, known) for row in source.tolist()]
    vocab = BatchVocab(source, known, **SPECIALS)
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
    empty = BatchVocab(torch.zeros(0, 3, dtype=torch.long), 6, **SPECIALS)
    assert empty.output_width == 6 and empty.slot_words.shape == (0, 0) and empty.word_columns.shape == (0, 1)
    bare = BatchVocab(torch.tensor([[2], [2]]), 6, **SPECIALS)
    assert bare.output_width == 6 and bare.word_columns.tolist() == [[0], [0]]


def test_with_bounds_no_value_is_read_from_a_gpu_and_a_cpu_does_not_need_them():
    """Tensors on the device "meta" have shapes but no values, so reading one would fail."""
    ids = torch.full((3, 5), 4, device="meta")
    vocabulary = BatchVocab(ids, 6, bounded=True, **SPECIALS)
    assert vocabulary.output_width == 6 + 5
    assert vocabulary.slot_words.shape == vocabulary.word_columns.shape == vocabulary.is_word.shape == (3, 5)
    tensors = [value for value in vars(vocabulary).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == 7 and all(value.device == ids.device for value in tensors)
    with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
        BatchVocab(ids, 6, **SPECIALS)
    assert BatchVocab(torch.tensor([[4, 7, 7]]), 6, bounded=True, **SPECIALS).output_width == 6 + 1
