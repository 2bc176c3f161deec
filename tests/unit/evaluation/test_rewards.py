"""Rewards, other scores than ROUGE, and reranking, against rouge-score, hand-computed cases and loops."""

import itertools
import json
import math
import random
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from fairseq.data import Dictionary
from helpers import make_dictionary
from rouge_score import rouge_scorer
from seeds import shifted
from test_evaluation_commands import write

from fairseq_etads.commands.compare import main as compare_main
from fairseq_etads.commands.rewrite import (
    RewriteCandidate,
    choose_least_repetitive_candidates,
    compute_candidate_limit,
)
from fairseq_etads.commands.rouge import main
from fairseq_etads.evaluation import other_scores
from fairseq_etads.evaluation.rewards import EntailmentReward, RougeSalReward, create_reward, rouge_sal
from fairseq_etads.evaluation.rouge import RougeSettings
from fairseq_etads.search.strategies import DiverseSiblingsSearch
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig, write_config, write_model
from fairseq_etads.text.subsequences import rouge_l, rouge_n


def random_text(generator, words, most):
    lengths = [generator.randint(1, most) for _ in range(generator.randint(0, 4))]
    return [generator.choices("abcdefgh"[:words], k=length) for length in lengths]


@pytest.mark.parametrize("words,most", [(2, 6), (4, 12), (8, 90)])
def test_rouge_l_is_that_of_rouge_score(words, most):
    """Ties are broken in the same way, so the union over sentences is also the same; ROUGE-1 and ROUGE-2 are, too."""
    generator = random.Random(shifted(words))
    for _ in range(60):
        hypothesis, reference = random_text(generator, words, most), random_text(generator, words, most)
        expected = rouge_scorer._summary_level_lcs(reference, hypothesis).fmeasure
        assert rouge_l(hypothesis, reference) == pytest.approx(expected, abs=1e-12), (hypothesis, reference)
        for n in (1, 2):
            grams = [rouge_scorer._create_ngrams([*itertools.chain(*text)], n) for text in (reference, hypothesis)]
            expected = rouge_scorer._score_ngrams(*grams).fmeasure
            assert rouge_n(hypothesis, reference, n) == pytest.approx(expected, abs=1e-12)


def test_rouge_sal_by_hand():
    reference, hypothesis = [["a", "b", "c"]], [["a", "c", "d"]]
    assert rouge_sal(hypothesis, reference, [[1, 1, 0]], [[1, 0, 1]]) == 1
    assert rouge_sal(hypothesis, reference, [[1, 1, 2]], [[1, 0, 1]]) == pytest.approx(2 * 0.5 / 1.5)
    assert rouge_sal(hypothesis, reference, [[3, 1, 0]], [[1, 4, 3]]) == pytest.approx(2 * 0.5 / 1.5)
    assert rouge_sal([["a", "a"]], [["a"]], [[3, 1]], [[1]]) == pytest.approx(2 * 0.75 / 1.75), "the first one counts"
    for empty in ([], [[]]):
        assert rouge_l(empty, reference) == rouge_n(reference, empty, 1) == 0
        assert rouge_sal(empty, reference, empty, [[1, 1, 1]]) == rouge_sal(reference, empty, [[1, 1, 1]], empty) == 0
    assert rouge_sal(hypothesis, reference, [[0, 0, 1]], [[1, 0, 1]]) == 0


@pytest.mark.parametrize("words,most", [(2, 6), (8, 40)])
def test_rouge_sal_is_rouge_l_if_all_words_weigh_alike_and_only_proportions_matter(words, most):
    generator = random.Random(shifted(words))
    for _ in range(60):
        texts = [random_text(generator, words, most) for _ in range(2)]
        alike = [[[1.0] * len(sentence) for sentence in text] for text in texts]
        assert rouge_sal(*texts, *alike) == pytest.approx(rouge_l(*texts), abs=1e-12)
        weights = [[[generator.uniform(0.1, 1) for _ in sentence] for sentence in text] for text in texts]
        doubled = [[[2 * weight for weight in row] for row in side] for side in weights]
        assert rouge_sal(*texts, *doubled) == pytest.approx(rouge_sal(*texts, *weights), abs=1e-12)


def test_each_sentence_has_the_weights_of_its_own_words():
    asked = []

    def saliency(sentences):
        asked.extend(sentences)
        return [[len(sentence) * (2 if word == "a" else 1) for word in sentence] for sentence in sentences]

    hypotheses, references = [[["a", "b"], ["c"]], [], [["b"]]], [[["a", "c"]], [["b"]], [["b", "d"], ["a"]]]
    found = RougeSalReward(saliency)(hypotheses, references, None)
    assert asked == [["a", "b"], ["c"], ["b"], ["a", "c"], ["b"], ["b", "d"], ["a"]]
    first = rouge_sal(hypotheses[0], references[0], [[4, 2], [1]], [[4, 2]])
    assert found == pytest.approx([first, 0, rouge_sal(hypotheses[2], references[2], [[1]], [[2, 2], [2]])])
    assert first == pytest.approx(2 * 5 / 7 / (1 + 5 / 7))


def test_entailment_of_each_sentence_by_the_whole_reference():
    """The probability here is the share of the sentence's words that are in the premise."""

    def score(premises, hypotheses):
        return [sum(w in p for w in h) / len(h) for p, h in zip(premises, hypotheses)]

    reference = [["a", "b"], ["c", "d"]]
    hypotheses = [[["a", "x"], ["c"]], [], [["b"]], [["a", "b", "c", "d"], ["a", "x", "x", "x"]], [["x"]]]
    references = [reference] * 4 + [[]]
    expected = [3 / 4 * (1 / 2 + 1) / 2, 0, 1 / 4, (1 + 1 / 4) / 2, 0]
    assert EntailmentReward(score)(hypotheses, references, None) == pytest.approx(expected)
    expected[3] *= 2
    assert EntailmentReward(score, None)(hypotheses, references, None) == pytest.approx(expected)
    assert EntailmentReward(score)([[]], [reference], None) == [0]


def make_length_reward():
    return lambda hypotheses, references, documents: [float(sum(map(len, text))) for text in hypotheses]


def test_rewards_are_found_by_name():
    texts = [[["a", "b"], ["c"]]], [[["a"]]], [[]]
    assert create_reward("rouge1")(*texts) == [pytest.approx(0.5)]
    assert create_reward(f"{__name__}:make_length_reward")(*texts) == [3.0]
    assert create_reward("mine", {"mine": make_length_reward})(*texts) == [3.0]
    for wrong in ("rouge3", "nonesuch:A", f"{__name__}:A"):
        with pytest.raises(ValueError, match=f"--rewards {wrong}"):
            create_reward(wrong)


def beams_of(r, sentences, size):
    """Candidates with few different words, so that bigrams repeat, even within a sentence. Scores may be equal."""
    return [
        [RewriteCandidate(tuple(r.choices(range(4), k=r.randint(0, 5))), -r.randint(1, 6) / 2) for _ in range(size)]
        for _ in range(sentences)
    ]


def test_it_is_the_best_of_all_combinations():
    r = random.Random(1)
    for _ in range(60):
        beams = beams_of(r, 3, 3)
        assert choose_least_repetitive_candidates(beams) == reference.best_combination(beams)
        assert choose_least_repetitive_candidates(beams, "words") == reference.best_combination(beams, ends=0)
    assert choose_least_repetitive_candidates([]) == []


def test_of_many_sentences_fewer_candidates_are_looked_at():
    assert [compute_candidate_limit(n)[0] for n in (1, 5, 6, 7, 8, 9, 14)] == [5, 5, 4, 3, 3, 2, 2]
    assert compute_candidate_limit(16) == [2] * 14 + [1] * 2
    r = random.Random(2)
    for sentences in (6, 7, 9, 16):
        beams = beams_of(r, sentences, 5)
        found = choose_least_repetitive_candidates(beams)
        pruned = [beam[:count] for beam, count in zip(beams, compute_candidate_limit(sentences))]
        assert all(place < len(beam) for place, beam in zip(found, pruned))
        if sentences < 9:
            assert found == reference.best_combination(pruned)


def test_diverse_siblings_are_those_of_a_loop():
    torch.manual_seed(3)
    strategy = DiverseSiblingsSearch(make_dictionary(6), 0.7)
    for step in (0, 2):
        lprobs, sums = torch.randn(2, 3, 10).log_softmax(2), -torch.rand(2, 3, step)
        scores, words, parents = strategy.step(step, lprobs.clone(), sums)
        for row in range(2):
            found = []
            for parent in range(3 if step else 1):
                before = sums[row, parent, step - 1].item() if step else 0.0
                order = lprobs[row, parent].argsort(descending=True)[:6].tolist()
                found += [(before + lprobs[row, parent, w].item() - 0.7 * i, w, parent) for i, w in enumerate(order)]
            best = sorted(found, reverse=True)[:6]
            torch.testing.assert_close(scores[row], torch.tensor([score for score, _, _ in best]))
            assert list(zip(words[row].tolist(), parents[row].tolist())) == [(w, parent) for _, w, parent in best]


HYPOTHESES = ["the auto runs . <q> it stops .", "", "a cat", "dogs sleep"]
REFERENCES = ["the car runs . <q> it stops .", "a dog", "a cat", "the cat is here"]


def lines_of(path, name):
    return [json.loads(line)[name] for line in path.read_text().splitlines()]


@pytest.fixture
def files(tmp_path):
    return [write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)]


@pytest.fixture(scope="module")
def wordnet(tmp_path_factory):
    """WordNet's files with one synset, car and auto, which are their own stems; as Debian's, without lexnames."""
    folder = tmp_path_factory.mktemp("wordnet")
    header = "  1 WordNet 9.7 Copyright 2026\n"
    for part in ("noun", "verb", "adj", "adv"):
        (folder / f"data.{part}").write_text(header)
        (folder / f"index.{part}").write_text(header)
        (folder / f"{part}.exc").write_text("")
    place = f"{len(header):08}"
    (folder / "data.noun").write_text(f"{header}{place} 06 n 02 car 0 auto 0 000 | a thing with wheels\n")
    (folder / "index.noun").write_text(f"{header}auto n 1 0 1 0 {place}\ncar n 1 0 1 0 {place}\n")
    return str(folder)


def meteor_by_hand(matches, chunks, hypothesis, reference):
    """Banerjee and Lavie (2005) with nltk's alpha 0.9, beta 3, gamma 0.5."""
    precision, recall = matches / hypothesis, matches / reference
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    return 100 * mean * (1 - 0.5 * (chunks / matches) ** 3)


def test_meteor_knows_synonyms_and_the_best_of_several_references_counts(files, wordnet, tmp_path, capsys):
    values = [meteor_by_hand(7, 1, 7, 7), 0, meteor_by_hand(2, 1, 2, 2), 0]
    saved = tmp_path / "report.json"
    options = ["--also", "meteor", "--wordnet", wordnet, "--json", str(saved), "--per-example"]
    lines, table = tmp_path / "lines.jsonl", tmp_path / "lines.tsv"
    assert main([*files, *options, str(lines)]) == 0
    assert lines_of(lines, "METEOR") == pytest.approx(values, abs=1e-3)
    score = json.loads(saved.read_text())["also"]["scores"]["METEOR"]
    low, high = score["interval"]
    assert low < score["mean"] < high and score["mean"] == pytest.approx(np.mean(values))
    assert "|wordnet:9.7|alpha:0.9|" in capsys.readouterr().out
    other = write(tmp_path / "other.txt", ["nothing", "", "", "dogs sleep"])  # empty references do not count
    assert main([*files, other, *options, str(table), "--bootstrap", "0"]) == 0
    assert json.loads(saved.read_text())["also"]["scores"]["METEOR"]["interval"] is None
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert rows[0][-1] == "METEOR" and len(set(map(len, rows))) == 1
    assert [float(row[-1]) for row in rows[1:]] == pytest.approx([*values[:3], values[2]], abs=1e-3)


def test_all_systems_of_a_comparison_are_scored_in_one_call(files, tmp_path, monkeypatch):
    """A scorer may load a model in a process of its own."""
    calls = []

    def score(hypotheses, references):
        calls.append(len(hypotheses))
        lengths = [len("".join(texts)) - len("".join(several[0])) for texts, several in zip(hypotheses, references)]
        return np.array(lengths, dtype=float)[:, None], "LENGTHS"

    monkeypatch.setattr(other_scores, "load_scorers", lambda args, load_entailment: {"rougesal": score})
    report = tmp_path / "report.json"
    command = [files[1], "--a", *files, "--b", files[0], "--json", str(report), "--bootstrap", "10"]
    assert compare_main(command) == 0
    row = json.loads(report.read_text())["scores"][other_scores.FIGURES["rougesal"][0]]
    assert calls == [3 * len(HYPOTHESES)]
    assert row["first_trainings"][1] == 0 and row["first_trainings"][0] == row["second"] != 0


def test_wordnet_is_debians_or_there_is_no_meteor(files, wordnet, tmp_path, capsys, monkeypatch):
    """Without synonyms, METEOR would be a different measure under the same name."""
    import nltk.data

    monkeypatch.setattr(nltk.data, "path", [])
    monkeypatch.setattr(other_scores, "DEBIAN_WORDNET", Path(wordnet))
    assert other_scores.find_wordnet(None).get_version() == "9.7"
    monkeypatch.setattr(other_scores, "DEBIAN_WORDNET", tmp_path / "none")
    assert main([*files, "--also", "meteor"]) == 2 and "needs WordNet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options, words",
    [
        ("bertscore --bertscore-model model", "pip install bert-score"),
        ("rougesal --saliency-documents model/empty", "there are no words in it"),
        ("entail --entail-model nowhere", "nowhere/model.safetensors: No such file"),
    ],
)
def test_what_a_score_lacks_is_named(files, tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.setitem(sys.modules, "bert_score", None)
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    write(Path("model/config.json"), ["{}"])
    write(Path("model/empty"), ["", "<q> !"])
    assert main([*files, "--also", *options.split()]) == 2
    assert words in capsys.readouterr().err


class FakeScorer:
    """The interface of bert-score's scorer: precision, recall and F1 as tensors."""

    num_layers = 2

    def __init__(self, folder):
        self.model_type, self.asked = str(folder), []

    def score(self, hypotheses, references):
        self.asked += zip(hypotheses, references)
        figures = {"the cat is here": (0.9, 0.3, 0.45), "dogs": (0.2, 0.8, 0.32)}
        return torch.tensor([figures.get(text, (0.25, 0.75, 0.5)) for text in references]).unbind(1)


def test_texts_reach_bertscore_without_marks_and_empty_ones_score_0(tmp_path, monkeypatch):
    monkeypatch.setattr(other_scores.metadata, "version", lambda name: "1")
    (tmp_path / "config.json").write_text("{}")
    scorer = FakeScorer(tmp_path)
    score = other_scores.adapt_scorer_to_sentences(partial(other_scores.score_with_bertscore, scorer))
    names = {"bertscore": score}
    references = [REFERENCES, ["", "", "", "dogs"]]
    heads, figures, (signature,) = other_scores.compute_scores(names, HYPOTHESES, references, RougeSettings())
    assert heads == ["BERTScore-F1", "BERTScore-P", "BERTScore-R"]
    assert figures[:3].tolist() == [[50, 25, 75], [0, 0, 0], [50, 25, 75]]
    assert figures[3] == pytest.approx([45, 90, 30]), "all of the reference with the highest F1"
    assert scorer.asked[0] == ("the auto runs . it stops .", "the car runs . it stops .")
    assert scorer.asked[2:] == [("dogs sleep", "the cat is here"), ("dogs sleep", "dogs")]
    assert "|layer:2|idf:no|rescaled:no|refs:2,best" in signature


@pytest.fixture
def texts(tmp_path):
    """Files of hypotheses and references, with words of different saliency."""
    hypotheses, references = ["The w1 ! <q> it w2 .", "", "the the"], ["w1 runs . <q> it stops .", "w3", "the w3"]
    return [write(tmp_path / "hyp.txt", hypotheses), write(tmp_path / "ref.txt", references)]


def test_rougesal_weighs_words_by_how_few_documents_have_them(texts, tmp_path):
    documents = write(tmp_path / "train.source", ["the w1 <q> it", "the it it w2", "the runs"])
    lines = tmp_path / "lines.jsonl"
    options = ["--also", "rougesal", "--saliency-documents", documents, "--per-example", str(lines)]
    assert main([*texts, *options]) == 0
    weight = {word: math.log(4 / (1 + n)) + 1 for word, n in {"the": 3, "it": 2, "w1": 1, "runs": 1, "w2": 1}.items()}
    weight |= dict.fromkeys(("stops", "w3"), math.log(4) + 1)
    hits = weight["w1"] + weight["it"]
    precision = hits / (hits + weight["the"] + weight["w2"])
    recall = hits / (hits + weight["runs"] + weight["stops"])
    last = 2 * 0.5 * (share := weight["the"] / (weight["the"] + weight["w3"])) / (0.5 + share)
    expected = [100 * 2 * precision * recall / (precision + recall), 0, 100 * last]
    assert lines_of(lines, "ROUGESal") == pytest.approx(expected, abs=1e-3)


def test_entailment_is_that_of_each_sentence_times_the_share_of_the_length(texts, tmp_path):
    nli, config, dictionary = tmp_path / "nli", NliConfig(embed_dim=4, width=5), Dictionary()
    for word in ["the", "w1", "it", "w2", "runs", "stops", "w3"]:
        dictionary.add_symbol(word)
    torch.manual_seed(shifted(1))
    model = config.make_model(dictionary)
    for parameter in model.parameters():
        parameter.data.mul_(2)
    nli.mkdir()
    write_config(nli, config, dictionary, {})
    write_model(nli, model.state_dict())
    other = write(tmp_path / "other.txt", ["", "", "the the the the w3"])  # an empty reference counts as missing
    lines = tmp_path / "lines.jsonl"
    assert main([*texts, other, "--also", "entail", "--entail-model", str(nli), "--per-example", str(lines)]) == 0

    def judged(premise, hypothesis):
        return EntailmentScorer.load(str(nli)).score([premise.split()], [hypothesis.split()]).item()

    premise = "w1 runs . it stops ."
    first = (judged(premise, "the w1 !") + judged(premise, "it w2 .")) / 2
    last = max(judged("the w3", "the the"), 2 / 5 * judged("the the the the w3", "the the"))
    assert lines_of(lines, "entailment") == pytest.approx([100 * first, 0, 100 * last], abs=1e-2)
