"""Source factors from files to batches, and sorting within some batches."""

import json
import random

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from helpers import EOS, PAD, make_dictionary, make_task

from fairseq_etads.data.pairs import SummarizationDataset, detect_language_pair, load_factor, load_factor_dictionaries

SIZES = [6, 4, 1, 9]


def write_factor(directory, name, values, split="train"):
    """Write lists of words as DATA/SPLIT.factor-NAME.* by fairseq's own builder, and their dictionary."""
    dictionary = Dictionary()
    lines = [dictionary.encode_line(" ".join(words), append_eos=True) for words in values]
    dictionary.save(str(directory / f"dict.factor-{name}.txt"))
    prefix = str(directory / f"{split}.factor-{name}")
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(line)
    builder.finalize(f"{prefix}.idx")
    return dictionary


@pytest.fixture
def directory(tmp_path):
    r = random.Random(0)
    for name, letters in (("tf", "abc"), ("pos", "XYZ")):
        write_factor(tmp_path, name, [[r.choice(letters) for _ in range(size - 1)] for size in SIZES])
    (tmp_path / "factors.json").write_text(json.dumps({"factors": ["tf", "pos"]}))
    return tmp_path


@pytest.mark.parametrize("left, multiple", [(False, 1), (True, 8)])
def test_values_are_truncated_and_padded_like_words(directory, left, multiple):
    """Also with --required-seq-len-multiple."""
    dictionaries = load_factor_dictionaries(str(directory))
    assert list(dictionaries) == ["tf", "pos"]
    factors = {n: load_factor(str(directory), "train", n, d, SIZES) for n, d in sorted(dictionaries.items())}
    words = make_dictionary()
    source = [torch.tensor([*range(4, 3 + size), EOS]) for size in SIZES]
    limits = {"truncate_source": 5, "truncate_target": 5, "left_pad_source": left, "pad_to_multiple": multiple}
    dataset = SummarizationDataset(source, SIZES, words, **limits, factors=factors)
    batch = dataset.collater([dataset[number] for number in range(4)])
    tokens, got = batch["net_input"]["src_tokens"], batch["net_input"]["factors"]
    assert tokens.shape[1] == (8 if multiple == 8 else 6)
    assert got.shape == (*tokens.shape, 2) and got.dtype == torch.int64
    assert (got[tokens == PAD] == PAD).all()
    for row, number in enumerate(batch["id"].tolist()):
        for column, name in enumerate(("pos", "tf")):
            expected = [*factors[name][number][:-1][:5].tolist(), EOS]
            assert got[row, tokens[row] != PAD, column].tolist() == expected


def test_files_that_do_not_belong_to_the_documents_are_refused(directory):
    dictionary = load_factor_dictionaries(str(directory))["tf"]
    with pytest.raises(FileNotFoundError, match=r'split "valid" has no values of the factor "tf".*--factors'):
        load_factor(str(directory), "valid", "tf", dictionary, SIZES)
    with pytest.raises(ValueError, match="4 documents, but split train has 3"):
        load_factor(str(directory), "train", "tf", dictionary, SIZES[:3])
    with pytest.raises(ValueError, match=r"1 documents have different numbers .* number 2 \(from 0; 1 and 2\)"):
        load_factor(str(directory), "train", "tf", dictionary, [6, 4, 2, 9])


@pytest.mark.parametrize(
    "text,message",
    [
        ("{", "expected"),
        ('{"factor": []}', "KeyError"),
        ('{"factors": "tf"}', "letters, digits"),
        ('{"factors": ["../../secret"]}', "letters, digits"),
        ('{"factors": ["tf"]}', 'names the factor "tf", but there is no '),
    ],
)
def test_a_bad_list_of_factors_is_refused_in_words(tmp_path, text, message):
    assert load_factor_dictionaries(str(tmp_path)) == {}
    (tmp_path / "factors.json").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=r"factors\.json") as error:
        load_factor_dictionaries(str(tmp_path))
    assert message in str(error.value)


def order_of(sort_within, epoch, seed=3, shuffle=True):
    words = make_dictionary()
    lengths = random.Random(1).choices(range(1, 30), k=103)
    texts = [torch.full((length,), 5) for length in lengths]
    how = {"truncate_source": 50, "truncate_target": 50, "sort_within": sort_within, "shuffle": shuffle}
    dataset = SummarizationDataset(texts, lengths, words, texts, lengths, words, **how)
    dataset.set_epoch(epoch)
    np.random.seed(seed)
    return dataset, dataset.ordered_indices()


def test_sorting_within_some_batches_or_as_fairseq():
    dataset, order = order_of(20, epoch=1)
    assert sorted(order) == list(range(103)), "every pair once"
    for start in range(0, 103, 20):
        sizes = dataset.src_sizes[order[start : start + 20]]
        assert (np.diff(sizes) >= 0).all()
    assert (np.diff(dataset.src_sizes[order]) < 0).any()
    assert not dataset.can_reuse_epoch_itr_across_epochs
    assert (order_of(20, epoch=1)[1] == order).all(), "the same when training resumes"
    other = order_of(20, epoch=2)[1]
    assert set(other[:20]) != set(order[:20]), "other documents come together in the next epoch"
    seeded = order_of(20, epoch=1, seed=4)[1]
    assert set(seeded[:20]) != set(order[:20]), "--seed decides"
    for sort_within, shuffle in ((0, True), (20, False)):
        dataset, order = order_of(sort_within, epoch=1, shuffle=shuffle)
        assert (np.diff(dataset.src_sizes[order]) >= 0).all()
        assert dataset.can_reuse_epoch_itr_across_epochs


def test_a_checkpoint_remembers_the_dictionaries_of_its_factors():
    task = make_task()
    task.factor_dictionaries = {"tf": make_dictionary(words=5), "pos": make_dictionary(words=6)}
    task.factors.request_factors(("tf",))
    state = task.state_dict()
    assert list(state["factor_dictionaries"]) == ["tf"]
    other = make_task()
    other.factor_dictionaries = {"tf": make_dictionary(words=5), "pos": make_dictionary(words=7)}
    other.load_state_dict(state)
    other.factor_dictionaries["tf"] = make_dictionary(words=7)
    with pytest.raises(ValueError, match='the dictionary of the factor "tf"'):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="different factors"):
        task.factors.request_factors(("pos",))


def test_folders_with_other_values_of_a_factor_are_refused(directory, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    task = make_task(data=f"{directory}:{other}")
    task.factors.request_factors(("tf",))  # a missing file is reported with the split
    write_factor(other, "pos", [["Z"]])
    task.factors.request_factors(("tf",))  # the model does not read the other factor
    write_factor(other, "tf", [["e"]])
    with pytest.raises(ValueError, match=r'have different dictionaries: entry 4 of dict\.factor-tf\.txt is "e"'):
        task.factors.request_factors(("tf",))


def test_a_factors_file_is_not_taken_for_a_pair(tmp_path):
    """fairseq's function returned "factor" and "tf" if it found that file first."""
    for name in ("train.factor-tf.idx", "dict.factor-tf.txt", "a.factor-source.idx", "valid.doc-sum.sum.bin"):
        (tmp_path / name).touch()
    assert detect_language_pair(str(tmp_path)) == ("doc", "sum")
    (tmp_path / "valid.doc-sum.sum.bin").rename(tmp_path / "valid.doc-sum.doc")  # the file name with --dataset-impl raw
    assert detect_language_pair(str(tmp_path)) == ("doc", "sum")
