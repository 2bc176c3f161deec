"""Content selectors: against oracles, trained, and their figures."""

import math
import random

import pytest
import reference
import torch
from fairseq.logging import metrics
from helpers import EOS, PAD, make_batch, make_dictionary, make_task, model_config
from omegaconf import OmegaConf
from selection_data import names_of_scores
from steps import make_criterion

from fairseq_etads.data.labels import (
    EDGES,
    compute_roc_auc,
    find_best_f1_threshold,
    find_histogram_bin,
    make_empty_histogram,
)
from fairseq_etads.layers.sentence_selector import NoveltyScorer, SpellingEncoder, TaggerLSTM
from fairseq_etads.summarizer.folder.loading import list_architectures
from fairseq_etads.text.subsequences import compute_f1
from fairseq_etads.training.selection import count_labels_in_bins

MARK = 43
TAGGER = {"encoder_embed_dim": 6, "letter_dim": 3, "letter_filters": 5, "encoder_hidden_size": 4}
EXTRACTOR = {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "max_sentences": 3, "max_sentence_words": 4}
POOLED = {**EXTRACTOR, "sentence_place_dim": 2}
SIZES = {"word_tagger": TAGGER, "sentence_extractor": EXTRACTOR, "pooled_extractor": POOLED}
CRITERION = OmegaConf.create({"_name": "selection_nll"})
DOCUMENTS = [[5, 6, MARK, 7, 45, 9, 10, 11, MARK, 46, 5, MARK, 12], [30], [MARK, MARK, 4, 47], [], [21, MARK]]


def build(arch, **options):
    task = make_task(tail=9, mark=True)
    torch.manual_seed(1)
    return task, task.build_model(model_config(arch, **{**SIZES[arch], **options})).eval()


def units(model, documents, **options):
    """Probabilities of each document's units within the limit, in order."""
    with torch.no_grad():
        logits, real = model(make_batch(documents, **options))
    return [row[there].tolist() for row, there in zip(logits.sigmoid(), real)]


def test_words_from_letters_are_those_of_a_loop():
    words = make_dictionary(3)
    for symbol in ("ä", "supercalifragilistic", "ab"):
        words.add_symbol(symbol)
    torch.manual_seed(2)
    encoder = SpellingEncoder(words, 3, 4)
    tokens = torch.tensor([[7, 8, 9], [9, PAD, EOS]])
    found = encoder(tokens)
    for place in ((0, 0), (0, 1), (0, 2), (1, 0)):
        spelled = [258, *(1 + byte for byte in words[int(tokens[place])].encode()), 257]
        spelled += [0] * (5 - len(spelled))
        vectors, convolution = encoder.letters.weight[torch.tensor(spelled)], encoder.convolution  # (L, 3)
        expected = torch.zeros(4)
        for start in range(len(spelled) - 4):
            for k in range(4):
                value = convolution.bias[k] + (convolution.weight[k].T * vectors[start : start + 5]).sum()
                expected[k] = torch.maximum(expected[k], value)
        torch.testing.assert_close(found[place], expected)


def test_the_lstm_is_torchs():
    torch.manual_seed(3)
    ours, theirs = TaggerLSTM(5, 4, 2, 0.0), torch.nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True)
    for layer, directions in enumerate(ours.layers):
        for end, lstm in zip(("", "_reverse"), directions):
            for name, weight in lstm.named_parameters():
                weight.data = getattr(theirs, name.replace("l0", f"l{layer}{end}")).data
    x = torch.randn(1, 7, 5)
    for start in (0, 2):  # padded on the right, and on the left
        padded, mask = torch.randn(1, 9, 5), torch.ones(1, 9, dtype=torch.bool)
        padded[:, start : start + 7], mask[:, start : start + 7] = x, False
        found = ours(padded, mask)
        torch.testing.assert_close(found[:, start : start + 7], theirs(x)[0])
        assert not found[mask].any()


def test_the_memory_of_what_was_taken_is_that_of_the_paper():
    torch.manual_seed(5)
    scores = NoveltyScorer(3, 4).double()
    states, missing = torch.randn(1, 5, 3).double(), torch.tensor([[False, False, True, False, False]])
    found = scores(states, missing)[0]
    real = [0, 1, 3, 4]
    with torch.no_grad():
        expected = reference.novel_sentences([states[0, i] for i in real], names_of_scores(scores))
    torch.testing.assert_close(found[real], torch.stack(expected))


def make_sample(model):
    """A batch with labels: words below 8 are copied, and sentences with such a word are selected."""
    tokens = make_batch([*DOCUMENTS, [7, MARK, 20, 5, 9, MARK, 30]])
    labels = ((tokens < 8) & (tokens > 3)).float()
    if model.unit == "sentences":
        for row, values in zip(tokens, labels):
            numbers = (row == MARK).long().cumsum(0)
            for number in numbers.unique():
                values[numbers == number] = values[numbers == number].max()
    labels.masked_fill_((tokens == PAD) | (tokens == EOS) | (tokens == MARK), -1)
    return {"net_input": {"src_tokens": tokens}, "labels": labels, "ntokens": 1}


@pytest.mark.parametrize("arch", ["word_tagger", "pooled_extractor"])
def test_the_loss_is_that_of_a_loop(arch):
    """The sum over the words of a batch, or over its documents the mean of their sentences."""
    task, model = build(arch)
    sample = make_sample(model)
    tokens = sample["net_input"]["src_tokens"]
    logits, real = model(tokens)
    labels = model.convert_token_to_unit_values(sample["labels"], tokens)
    losses = [
        [math.log1p(math.exp(-x if y else x)) for x, y, there in zip(*rows) if there]
        for rows in zip(logits.tolist(), labels.tolist(), (real & (labels >= 0)).tolist())
    ]
    if model.unit == "words":
        expected, size = sum(map(sum, losses)), sum(map(len, losses))
    else:
        expected, size = sum(sum(row) / max(len(row), 1) for row in losses), len(losses)
    loss, found_size, logs = task.build_criterion(CRITERION)(model, sample)
    assert loss.item() == pytest.approx(expected, rel=1e-5) and found_size == size
    assert sum(map(sum, logs["histogram"].tolist())) == sum(map(len, losses))


def test_a_worker_without_batches_changes_no_figure():
    """fairseq-validate lets it log nothing while other workers still have batches."""
    task, model = build("word_tagger")
    criterion, found = task.build_criterion(CRITERION), []
    logs = criterion(model, make_sample(model))[2]
    for outputs in ([logs], [{}, logs, {}], [{}]):
        with metrics.aggregate(new_root=True) as aggregator:
            task.reduce_metrics(outputs, criterion)
        found.append(aggregator.get_smoothed_values())
    assert found[0] == found[1] and found[0]["loss"] > 0 and found[2]["loss"] == 0


def test_the_area_and_f1_are_those_of_all_pairs_and_thresholds():
    r = random.Random(7)
    for _ in range(20):
        labels = [r.random() < 0.3 for _ in range(60)]
        logits = [r.gauss(0.7 * label, 1) for label in labels]
        counts = count_labels_in_bins(
            torch.tensor([logits]), torch.tensor([labels]).float(), torch.ones(1, 60, dtype=torch.bool)
        )
        by_hand = make_empty_histogram()
        for x, y in zip(logits, labels):
            by_hand[y][find_histogram_bin(1 / (1 + math.exp(-x)))] += 1
        assert counts.tolist() == by_hand
        pairs = [(a > b) + (a == b) / 2 for a, x in zip(logits, labels) if x for b, y in zip(logits, labels) if not y]
        assert compute_roc_auc(counts) == pytest.approx(sum(pairs) / len(pairs), abs=0.02)
        best = max(f1_of(logits, labels, threshold) for threshold in EDGES)
        found, threshold = find_best_f1_threshold(counts)
        assert found == pytest.approx(best)
        assert f1_of(logits, labels, math.log(threshold / (1 - threshold)) + 1e-9) == pytest.approx(best)
    assert compute_roc_auc(make_empty_histogram()) == 0.5 and find_best_f1_threshold(make_empty_histogram())[0] == 0


def f1_of(logits, labels, threshold):
    chosen = [x > threshold for x in logits]
    return compute_f1(sum(c and y for c, y in zip(chosen, labels)), sum(chosen), sum(labels))


def test_what_does_not_go_with_a_selector_is_refused():
    with pytest.raises(ValueError, match='--arch sentence_extractor needs "<q>" at the ends of sentences'):
        make_task().build_model(model_config("sentence_extractor", **EXTRACTOR))
    task, model = build("word_tagger")
    with pytest.raises(ValueError, match="summarization_nll does not go with an architecture that selects"):
        make_criterion(task)
    with pytest.raises(ValueError, match="cannot write summaries: use it with etads-select"):
        task.build_generator([model], None)
    assert not set(SIZES).intersection(list_architectures()), "a folder is for models that write summaries"
    with pytest.raises(ValueError, match="the split has no labels"):
        task.build_criterion(CRITERION)(model, {"net_input": {}})
    task.cfg.eval_rouge = True
    with pytest.raises(ValueError, match="--eval-rouge has no effect"):
        task.build_criterion(CRITERION)
    plain = make_task()
    plain.build_model(model_config("etads"))
    with pytest.raises(ValueError, match="selection_nll does not go with one that writes summaries"):
        plain.build_criterion(CRITERION)
    plain.cfg.labels = "here"
    with pytest.raises(ValueError, match="--labels here has no effect without --criterion selection_nll"):
        make_criterion(plain)
