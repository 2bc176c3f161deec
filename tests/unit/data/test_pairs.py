"""Pairs of documents and summaries: consistent truncation, batches that hold every document, sorting within some of
them, source factors from files to batches, and messages about unknown words.
"""

import json
import logging
import random

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from helpers import EOS, PAD, RECURRENT, make_dictionary, make_task, model_config
from selection_data import write_data

from fairseq_etads.data import pairs
from fairseq_etads.data.pairs import load_factor, load_factor_dictionaries
from fairseq_etads.vocabulary.dictionary import limit_known_words

KNOWN, GENERATED = 44, 20
NOTHING_TO_POINT_AT = "so there is no word from which to learn copying"
SIZES = [6, 4, 1, 9]


def make_dataset(sources, targets=None, truncate_source=5, truncate_target=3, tail=0, **options):
    sides, dictionary = [], make_dictionary(tail=tail)
    for texts in (sources, targets):
        tensors = None if texts is None else [torch.tensor([*text, EOS]) for text in texts]
        sides += [tensors, tensors and [len(tensor) for tensor in tensors], dictionary]
    limits = {"truncate_source": truncate_source, "truncate_target": truncate_target}
    return pairs.SummarizationDataset(*sides, **limits, **options)


@pytest.mark.parametrize(
    "text, kept", [([4, 5, 6, EOS], 3), ([4, 5, 6, 7, EOS], 3), ([4, 5, 6, 7], 3), ([], 0)], ids=str
)
def test_a_text_is_cut_to_its_first_words_and_an_end(text, kept):
    """Also if it is exactly as long as the limit, or had no end."""
    found = pairs.truncate_tokens(torch.tensor(text, dtype=torch.long), 3, EOS)
    assert found.tolist() == [4, 5, 6][:kept] + [EOS]


def test_a_summary_that_is_cut_may_stay_without_an_end():
    """The last target of a cut summary is a word; one that fits keeps its end. The decoder's input does not change."""
    summaries, (cut, plain) = [[7, 8, 9, 10], [8, 9, 7], []], ({"ends_if_cut": False}, {})
    dataset, as_ever = (make_dataset([[4] * 9, [5], [6]], summaries, **options) for options in (cut, plain))
    assert [item["target"].tolist() for item in dataset] == [[7, 8, 9], [8, 9, 7, EOS], [EOS]]
    assert dataset.tgt_sizes.tolist() == [3, 4, 1] and dataset[0]["source"].tolist() == [4] * 5 + [EOS]
    batch, full = (data.collater([data[number] for number in range(3)]) for data in (dataset, as_ever))
    row = batch["id"].tolist().index(0)
    assert batch["target"][row].tolist() == [7, 8, 9, PAD] and full["target"][row].tolist() == [7, 8, 9, EOS]
    assert batch["net_input"]["prev_output_tokens"][row].tolist() == [EOS, 7, 8, PAD]
    assert full["net_input"]["prev_output_tokens"][row].tolist() == [EOS, 7, 8, 9]
    assert batch["ntokens"] == full["ntokens"] - 1


@pytest.mark.parametrize("count", [7, 8, 23])
def test_batches_hold_every_document(count):
    """fairseq drops the last batch when its size is not a multiple of 8, its default."""
    dataset = make_dataset([[4] * (1 + n % 9) for n in range(count)], shuffle=False)
    indices = dataset.ordered_indices()
    batches = dataset.batch_by_size(indices, max_tokens=40, required_batch_size_multiple=8)
    assert np.concatenate(batches).tolist() == indices.tolist()
    for batch in batches:
        assert len(batch) * max(dataset.num_tokens(i) for i in batch) <= 40


def write_factor(directory, name, values):
    """Write lists of words as DATA/train.factor-NAME.* by fairseq's own builder, and their dictionary."""
    dictionary, path = Dictionary(), f"{directory}/train.factor-{name}"
    lines = [dictionary.encode_line(" ".join(words), append_eos=True) for words in values]
    dictionary.save(f"{directory}/dict.factor-{name}.txt")
    builder = indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(dictionary))
    for line in lines:
        builder.add_item(line)
    builder.finalize(f"{path}.idx")


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
    source = [range(4, 3 + size) for size in SIZES]
    dataset = make_dataset(source, left_pad_source=left, pad_to_multiple=multiple, factors=factors)
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
        ('{"factors": ["../../secret"]}', "letters, digits"),
        ('{"factors": ["tf"]}', 'names the factor "tf", but there is no '),
    ],
)
def test_a_bad_list_of_factors_is_refused_in_words(tmp_path, text, message):
    assert load_factor_dictionaries(str(tmp_path)) == {}
    (tmp_path / "factors.json").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=rf"factors\.json.*{message}"):
        load_factor_dictionaries(str(tmp_path))


def order_of(sort_within, epoch=1, seed=3, shuffle=True):
    texts = [[5] * length for length in random.Random(1).choices(range(29), k=103)]
    dataset = make_dataset(texts, texts, 50, 50, sort_within=sort_within, shuffle=shuffle)
    dataset.set_epoch(epoch)
    np.random.seed(seed)
    return dataset, dataset.ordered_indices()


def test_sorting_within_some_batches_or_as_fairseq():
    dataset, order = order_of(20)
    assert sorted(order) == list(range(103)), "every pair once"
    for start in range(0, 103, 20):
        sizes = dataset.src_sizes[order[start : start + 20]]
        assert (np.diff(sizes) >= 0).all()
    assert (np.diff(dataset.src_sizes[order]) < 0).any()
    assert not dataset.can_reuse_epoch_itr_across_epochs
    assert (order_of(20)[1] == order).all(), "the same when training resumes"
    for changed in ({"epoch": 2}, {"seed": 4}):
        assert set(order_of(20, **changed)[1][:20]) != set(order[:20]), "other documents come together"
    for sort_within, shuffle in ((0, True), (20, False)):
        dataset, order = order_of(sort_within, shuffle=shuffle)
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
    assert pairs.detect_language_pair(str(tmp_path)) == ("doc", "sum")
    (tmp_path / "valid.doc-sum.sum.bin").rename(tmp_path / "valid.doc-sum.doc")  # the file name with --dataset-impl raw
    assert pairs.detect_language_pair(str(tmp_path)) == ("doc", "sum")


def test_unknown_words_in_the_documents_of_a_pointer_are_told(caplog):
    def is_told(unknown, pointer="soft", tail=0, training=True):
        caplog.clear()
        documents = [torch.tensor([5] * (1000 - unknown) + [3] * unknown + [EOS])]
        pairs.check_unknown_document_words("train", documents, pointer, make_dictionary(tail=tail), training)
        return "cannot be copied" in caplog.text

    with pytest.raises(ValueError, match="the dictionary in DATA has no copy tail"):
        is_told(3)
    assert is_told(2), "two in a thousand are allowed"
    assert is_told(3, tail=9) and is_told(3, training=False) and not is_told(3, pointer="none") and not is_told(0)


def dictionary(known=GENERATED):
    return limit_known_words(make_dictionary(tail=9), known)


def test_words_are_counted_as_a_loop_counts_them(monkeypatch):
    documents = [[5, 30, 46, 3, GENERATED, KNOWN], [6, 47] * 5 + [48], [7], []]
    summaries = [[5, 30, 3, 47, GENERATED, KNOWN], [48, 47, 21], [], [8]]
    data = make_dataset(documents, summaries, 9, 9, tail=9)
    for known in (GENERATED, KNOWN):
        words = unknown = copyable = in_document = 0
        for document, summary in zip(documents, summaries):
            for word in summary:
                words += 1
                unknown += word == 3 or word >= known
                copyable += word >= known and word in document[:9]
                in_document += word != 3 and word in document[:9]
        assert pairs.count_summary_words(data, dictionary(known)) == (4, words, unknown, copyable, in_document)
    monkeypatch.setattr(pairs, "SAMPLE", 4)  # spread over the whole split
    data = make_dataset([[5]] * 10, [[46 if number in (1, 9) else 5] for number in range(10)], tail=9)
    found = pairs.count_summary_words(data, dictionary())  # of pairs 0, 3, 6 and 9
    assert (found.pairs, found.unknown) == (4, 1)


@pytest.mark.parametrize(
    "pointer,summaries,outcome",
    [
        ("none", [[5]], "fine"),
        ("switch", [[5], [30]], "fine"),  # the encoder knows the word, but the decoder does not
        ("switch", [[47, 3, 21], [6]], NOTHING_TO_POINT_AT),  # the word is unknown, but in no document
        ("soft", [[47, 5], [6]], "warned"),
        ("soft", [[46, 5]], "fine"),
        ("soft", [[8, 47], [8, 3]], "nothing to copy"),
        ("switch", [[], []], "fine"),  # without words, there is nothing to report
    ],
)
def test_a_pointer_without_a_word_to_copy_is_refused(pointer, summaries, outcome, caplog):
    data = make_dataset([[5, 30, 46, 3], [6, 46, 30, 3]][: len(summaries)], summaries, tail=9)
    if outcome in ("fine", "warned"):
        pairs.check_unknown_summary_words("train", data, pointer, dictionary())
        warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warnings) == (outcome == "warned")
    else:
        with pytest.raises(ValueError, match=f"--pointer {pointer}: .*{outcome}"):
            pairs.check_unknown_summary_words("train", data, pointer, dictionary())


def load(directory, split, checkpoint=False):
    languages = {"source_lang": "source", "target_lang": "target"}
    task = make_task(tail=9, target_words=GENERATED, data=str(directory), batch_size=None, **languages)
    task.build_model(model_config("gru_seq2seq", pointer="switch", **RECURRENT))
    if checkpoint:
        task.load_state_dict(task.state_dict())
    task.load_dataset(split)
    return task


def test_only_training_is_refused_and_only_once(tmp_path):
    nothing_to_copy, known = [("w1 w26", "w1 w2")], {"dictionary": make_dictionary(tail=9)}
    write_data(tmp_path, {"train": nothing_to_copy, "valid": nothing_to_copy}, **known)
    with pytest.raises(ValueError, match=NOTHING_TO_POINT_AT):
        load(tmp_path, "train")
    load(tmp_path, "valid")
    load(tmp_path, "train", checkpoint=True)  # fairseq-generate loads data in this way
    write_data(tmp_path, {"train": [("w1 w26", "w26 w2")]}, **known)
    task = load(tmp_path, "train")
    write_data(tmp_path, {"train": nothing_to_copy}, **known)
    task.load_dataset("train", epoch=2)  # the data of another directory, in the middle of training
