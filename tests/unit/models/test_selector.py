"""Content selectors: against oracles, trained, and their figures; the pooled extractor and its two halves."""

import copy
import math
import random
from collections import Counter

import pytest
import reference
import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.logging import metrics
from fairseq.models.ema import build_ema
from helpers import EOS, PAD, make_batch, make_dictionary, make_task, model_config
from omegaconf import OmegaConf
from selection_data import names_of_scores
from small_models import TAGGERS
from steps import make_criterion

from fairseq_etads.data.labels import (
    EDGES,
    compute_roc_auc,
    find_best_f1_threshold,
    find_histogram_bin,
    make_empty_histogram,
)
from fairseq_etads.layers.sentence_selector import NoveltyScorer, SpellingEncoder, TaggerLSTM, group_words_by_sentence
from fairseq_etads.models import selector
from fairseq_etads.models.selector import CONTENT_WEIGHT, FOLD_WORDS, PLACES, REFERENCE_LENGTH, SentenceFeatures
from fairseq_etads.text.subsequences import compute_f1
from fairseq_etads.training.losses import count_labels_in_bins

MARK = 43
EXTRACTOR = {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "max_sentences": 3, "max_sentence_words": 4}
POOLED = {**EXTRACTOR, "sentence_place_dim": 2}
SIZES = {"word_tagger": TAGGERS["word_tagger"], "sentence_extractor": EXTRACTOR, "pooled_extractor": POOLED}
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
    """A batch with labels: words below 8 are copied, or every second sentence is selected."""
    tokens = make_batch([*DOCUMENTS, [7, MARK, 20, 5, 9, MARK, 30]])
    labels = tokens < 8 if model.unit == "words" else (tokens == MARK).cumsum(1) % 2
    unlabelled = (tokens == PAD) | (tokens == EOS) | (tokens == MARK)
    return {"net_input": {"src_tokens": tokens}, "labels": labels.float().masked_fill(unlabelled, -1), "ntokens": 1}


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
        there = torch.ones(1, 60, dtype=torch.bool)
        counts = count_labels_in_bins(torch.tensor([logits]), torch.tensor([labels]).float(), there)
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
    with pytest.raises(ValueError, match="the split has no labels"):
        task.build_criterion(CRITERION)(model, {"net_input": {}})
    task.cfg.eval_rouge = True
    with pytest.raises(ValueError, match="--eval-rouge has no effect"):
        task.build_criterion(CRITERION)
    plain = make_task()
    plain.build_model(model_config("etads"))
    with pytest.raises(ValueError, match="selection_nll does not go with one that writes summaries"):
        plain.build_criterion(CRITERION)


POOLED_DOCUMENTS = [
    [5, 6, MARK, 7, 45, 9, 10, 11, MARK, 46, 5, MARK, 12],
    [30, 31, 32, MARK, 33, 30],
    [4, 47, MARK, MARK, 8],
    [21, MARK],
    [38, 38, 38, 39, MARK, 38, 40, MARK, 39, 41, 42],
]


def pooled(**options):
    """A pooled extractor that reads whole documents."""
    return build("pooled_extractor", dropout=0.0, max_sentences=100, max_sentence_words=60, **options)[1]


def features(words, tokens, most=20):
    """Features of the sentences of a batch."""
    real = (tokens != PAD) & (tokens != EOS) & (tokens != MARK)
    ids, there, _ = group_words_by_sentence(tokens, real, MARK, most, 20)
    return words(ids, there)


def features_of(document, dictionary):
    """The ten features of each sentence of a document (a list of lists of ids), by the definition."""
    total = sum(max(1, count) if number >= 4 else 1 for number, count in enumerate(dictionary.count))
    known = len(dictionary.count)

    def weight(word):
        count = max(1, dictionary.count[word]) if 4 <= word < known else 1
        return max(0.0, -math.log(REFERENCE_LENGTH * count / total))

    rarest = max(map(weight, range(known)))
    counts = Counter(word for sentence in document for word in sentence)
    weights = {word: weight(word) if word < known else rarest for word in counts}
    norm = math.sqrt(sum((count * weights[word]) ** 2 for word, count in counts.items()))
    last = max(number for number, sentence in enumerate(document) if sentence)
    rows, before = [], set()
    for number, sentence in enumerate(document):
        own = Counter(sentence)
        if not own:
            rows.append([0.0] * 10)
            continue
        dot = sum(own[word] * counts[word] * weights[word] ** 2 for word in own)
        length = math.sqrt(sum((own[word] * weights[word]) ** 2 for word in own))
        content = [word for word in own if weights[word] > CONTENT_WEIGHT]
        numbers = sum(any(letter.isdigit() for letter in dictionary[word]) for word in sentence if word < known)
        rows.append(
            [
                dot / max(length * norm, 1e-6),
                math.log1p(len(sentence)) / 4,
                number / (last + 1),
                (last - number) / (last + 1),
                float(number == last),
                sum(counts[word] > own[word] for word in content) / max(len(content), 1),
                sum(word not in before for word in content) / max(len(content), 1),
                sum(counts[word] >= 4 for word in content) / max(len(content), 1),
                sum(own[word] for word in content) / len(sentence),
                min(5, numbers) / 5,
            ]
        )
        before |= set(own)
    return rows


def test_features_are_those_of_a_loop():
    words = make_dictionary(30)
    words.count[4:] = [10 ** (number % 4) for number in range(30)]  # common words and rare ones
    words.symbols[5:8] = ["the", "a2", "of"]
    words.symbols[8:30] = ["word" + chr(90 + number) for number in range(8, 30)]
    found = features(SentenceFeatures(words), make_batch(POOLED_DOCUMENTS, left=True, width=18))
    different = set()
    for row, document in enumerate(POOLED_DOCUMENTS):
        sentences = [[document[place] for place in places] for places in reference.sentences_of(document, MARK)[0]]
        expected = features_of(sentences, words)
        torch.testing.assert_close(found[row, : len(expected)], torch.tensor(expected), rtol=1e-5, atol=1e-6)
        assert not found[row, len(expected) :].any()
        different.update((column, round(value, 3)) for sentence in expected for column, value in enumerate(sentence))
    assert all(len({v for c, v in different if c == column}) > 1 for column in range(10)), "every feature was tried"


def test_features_are_the_same_in_half_precision():
    """The square of a document's sum of weights exceeds the range of fp16, and words of weight 0 make it NaN."""
    words = make_dictionary(30)
    words.count[4:] = [1_000_000] + [50] * 29
    tokens = make_batch([[*[5, 20, 21, 22, MARK] * 80, 4, 4, 4]])
    expected = features(SentenceFeatures(words), tokens, 100)
    found = features(SentenceFeatures(words).half(), tokens, 100)
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-3)
    assert expected[0, 0, 0] > 0.9


def test_places_far_inside_share_a_vector():
    model = pooled(cross_fit=False, sentence_features=False)
    document = [token for number in range(PLACES + 20) for token in (5 + number % 3, MARK)]
    logits, real = model(make_batch([document]))
    assert real.sum() == PLACES + 20 and logits[real].isfinite().all()


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_extractor_without_documents_in_a_batch_has_a_gradient_of_0(workers, fold, monkeypatch):
    """Without a gradient, several workers would wait for one. A single worker leaves the extractor alone."""
    monkeypatch.setattr(selector, "has_several_workers", lambda: workers > 1)
    model = pooled()
    with torch.no_grad():
        for member in (model, model.other):
            member.embed_tokens.weight[20] = 60000  # the sum exceeds the range of fp16; the document lacks the word
    assert model.half().train()(make_batch([[5, 6, MARK, 7]])).logits[0, 0].isfinite()
    model = pooled()
    (document,) = (d for d in ([5, 6, MARK, 7], [5, 7, MARK, 7]) if model.assign_folds(make_batch([d])) == fold)
    output = model.train()(make_batch([document]))
    output.logits[output.real].sum().backward()
    idle = {name: p for name, p in model.named_parameters() if name.startswith("other.") == (fold == 1)}
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert without == set(idle)
    assert all((parameter.grad is None) == (workers == 1) for parameter in idle.values())


def test_new_documents_get_the_mean_of_both_and_training_documents_one_of_them():
    model, alone, tokens = pooled(), pooled(cross_fit=False), make_batch(POOLED_DOCUMENTS)
    logits = []
    for prefix in ("", "other."):
        alone.load_state_dict({name: model.state_dict()[prefix + name] for name in alone.state_dict()})
        logits.append(alone(tokens).logits)
    real, folds = model(tokens).real, model.assign_folds(tokens).bool()[:, None]
    assert folds.any() and not folds.all()
    torch.testing.assert_close(model(tokens).logits[real], ((logits[0] + logits[1]) / 2)[real])
    held_out = model(tokens, held_out=True).logits
    torch.testing.assert_close(held_out[real], torch.where(folds, logits[1], logits[0])[real])
    trained = model.train()(tokens).logits
    torch.testing.assert_close(trained[real], torch.where(folds, logits[0], logits[1])[real])


def test_a_document_stays_in_its_half():
    model = pooled()
    documents = [*POOLED_DOCUMENTS, [5 + number % 30 for number in range(FOLD_WORDS + 9)]]
    expected = model.assign_folds(make_batch(documents)).tolist()
    assert model.assign_folds(make_batch(documents, left=True, width=90)).tolist() == expected
    # marks do not count, nor what --truncate-source cuts off
    changed = [[MARK, *documents[0]], *documents[1:-1], documents[-1][:FOLD_WORDS]]
    assert model.assign_folds(make_batch(changed)).tolist() == expected


def test_an_average_of_the_extractor_keeps_which_words_are_numbers():
    """--store-ema averages all weights, but these are True or False."""
    model = pooled()
    average = build_ema(model, EMAConfig(store_ema=True, ema_decay=0.5, ema_fp32=True), "cpu")
    start = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    average.step(model, 1)
    trained = dict(model.named_parameters())
    for name, weight in average.get_model().state_dict().items():
        torch.testing.assert_close(weight, start[name] + 0.5 if name in trained else start[name])


def test_extractors_from_before_load_as_they_were():
    """Older options do not mention pools and halves, and their weights have the same names."""
    names = ("encoder_embed_dim", "encoder_hidden_size", "max_sentences", "max_sentence_words")
    new = model_config("sentence_extractor", **dict.fromkeys(names, 5))
    old = type(new)({name: new[name] for name in (*names, "_name", "dropout", "encoder_embed_path")})
    model = make_task(mark=True).build_model(old)
    assert model.other is None and not model.pools
    assert {name.split(".")[0] for name in model.state_dict()} == {"embed_tokens", "words", "sentences", "scores"}
