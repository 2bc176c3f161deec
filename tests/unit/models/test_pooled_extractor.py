"""The pooled sentence extractor: its features against a loop, its two halves, and older checkpoints."""

import copy
import math
from collections import Counter

import pytest
import reference
import torch
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from helpers import EOS, PAD, make_batch, make_dictionary, make_task, model_config

from fairseq_etads.layers.pooled_sentences import CONTENT_WEIGHT, PLACES, REFERENCE_LENGTH, SentenceFeatures
from fairseq_etads.layers.sentence_selector import group_words_by_sentence
from fairseq_etads.models import selector
from fairseq_etads.models.selector import FOLD_WORDS, SentenceExtractor

MARK = 43
SIZES = {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "sentence_place_dim": 2, "dropout": 0.0}
DOCUMENTS = [
    [5, 6, MARK, 7, 45, 9, 10, 11, MARK, 46, 5, MARK, 12],
    [30, 31, 32, MARK, 33, 30],
    [4, 47, MARK, MARK, 8],
    [21, MARK],
    [38, 38, 38, 39, MARK, 38, 40, MARK, 39, 41, 42],
]


def build(**options):
    torch.manual_seed(1)
    return make_task(tail=9, mark=True).build_model(model_config("pooled_extractor", **{**SIZES, **options})).eval()


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
    found = features(SentenceFeatures(words), make_batch(DOCUMENTS, left=True, width=18))
    different = set()
    for row, document in enumerate(DOCUMENTS):
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
    expected, found = (
        features(part, tokens, 100) for part in (SentenceFeatures(words), SentenceFeatures(words).half())
    )
    torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-3)
    assert expected[0, 0, 0] > 0.9


def test_places_far_inside_share_a_vector():
    model = build(cross_fit=False, sentence_features=False)
    document = [token for number in range(PLACES + 20) for token in (5 + number % 3, MARK)]
    logits, real = model(make_batch([document]))
    assert real.sum() == PLACES + 20 and logits[real].isfinite().all()


@pytest.mark.parametrize("fold", [0, 1])
def test_half_of_the_documents_never_trains_the_extractor_that_scores_it(fold):
    model = build()
    r = torch.Generator().manual_seed(3)
    tokens = make_batch([torch.randint(5, 40, (9,), generator=r).tolist() for _ in range(40)])
    folds = model.assign_folds(tokens)
    assert 10 < folds.sum() < 30, "both halves have documents"
    mine = tokens[folds == fold]
    held_out, mean = model(mine, held_out=True).logits, model(mine).logits
    optimizer = torch.optim.SGD(model.train().parameters(), lr=1.0)
    output = model(mine)
    output.logits[output.real].sum().backward()
    optimizer.step()
    model.eval()
    torch.testing.assert_close(model(mine, held_out=True).logits, held_out, rtol=0, atol=0)
    assert not torch.allclose(model(mine).logits, mean, atol=1e-4), "the other one has learnt"


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_extractor_without_documents_in_a_batch_has_a_gradient_of_0(workers, fold, monkeypatch):
    """Without a gradient, several workers would wait for one. A single worker leaves the extractor alone."""
    monkeypatch.setattr(selector, "has_several_workers", lambda: workers > 1)
    model = build()
    with torch.no_grad():
        for member in (model, model.other):
            member.embed_tokens.weight[20] = 60000  # the sum exceeds the range of fp16; the document lacks the word
    assert model.half().train()(make_batch([[5, 6, MARK, 7]])).logits[0, 0].isfinite()
    model = build()
    (document,) = (d for d in ([5, 6, MARK, 7], [5, 7, MARK, 7]) if model.assign_folds(make_batch([d])) == fold)
    output = model.train()(make_batch([document]))
    output.logits[output.real].sum().backward()
    idle = {name: p for name, p in model.named_parameters() if name.startswith("other.") == (fold == 1)}
    without = {name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    assert without == set(idle)
    assert all((parameter.grad is None) == (workers == 1) for parameter in idle.values())


def test_new_documents_get_the_mean_of_both_and_training_documents_one_of_them():
    model, alone, tokens = build(), build(cross_fit=False), make_batch(DOCUMENTS)
    logits = []
    for prefix in ("", "other."):
        alone.load_state_dict({name: model.state_dict()[prefix + name] for name in alone.state_dict()})
        logits.append(alone(tokens).logits)
    real, folds = model(tokens).real, model.assign_folds(tokens).bool()[:, None]
    torch.testing.assert_close(model(tokens).logits[real], ((logits[0] + logits[1]) / 2)[real])
    held_out = model(tokens, held_out=True).logits
    torch.testing.assert_close(held_out[real], torch.where(folds, logits[1], logits[0])[real])
    trained = model.train()(tokens).logits
    torch.testing.assert_close(trained[real], torch.where(folds, logits[0], logits[1])[real])


def test_a_document_stays_in_its_half():
    model = build()
    documents = [*DOCUMENTS, [5 + number % 30 for number in range(FOLD_WORDS + 9)]]
    expected = model.assign_folds(make_batch(documents)).tolist()
    assert model.assign_folds(make_batch(documents, left=True, width=90)).tolist() == expected
    changed = [
        [MARK, *DOCUMENTS[0]],
        *DOCUMENTS[1:],
        documents[-1][:FOLD_WORDS],
    ]  # --truncate-source; marks do not count
    assert model.assign_folds(make_batch(changed)).tolist() == expected


def test_an_average_of_the_extractor_keeps_which_words_are_numbers():
    """--store-ema averages all weights, but these are True or False."""
    model = build()
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
    assert isinstance(model, SentenceExtractor) and model.other is None and not model.pools
    assert {name.split(".")[0] for name in model.state_dict()} == {"embed_tokens", "words", "sentences", "scores"}
