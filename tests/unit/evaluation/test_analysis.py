"""Analyses of summaries against loops, extracts against all, evidence against all paths, and curves of trainings."""

import errno
import gzip
import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_etads.commands import plot
from fairseq_etads.commands.analyse import main
from fairseq_etads.commands.evidence import main as evidence_main
from fairseq_etads.commands.plot import TrainingLog, read_log
from fairseq_etads.commands.plot import main as plot_main
from fairseq_etads.evaluation import rouge
from fairseq_etads.evaluation.analysis import (
    TENTHS,
    WORD_SPLITTERS,
    AnalysedDocument,
    analyse_systems,
    compute_repeated_ngram_share,
    find_greedy_oracle,
)
from fairseq_etads.evaluation.evidence import NOTICE, EvidenceFinder, find_evidence

SENTENCES = st.lists(st.lists(st.sampled_from("abcd"), max_size=5), max_size=4)


def grams(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def loop_novel(summary, source, n):
    found = grams(summary, n)
    return sum(all(gram != other for other in grams(source, n)) for gram in found) / len(found) if found else None


def loop_repeated(summary, n):
    found = grams(summary, n)
    return sum(found[i] in found[:i] for i in range(len(found))) / len(found) if found else None


def loop_positions(summary, source):
    tenths = [0.0] * TENTHS
    bigrams = grams(source, 2)
    for gram in grams(summary, 2):
        places = [place for place, other in enumerate(bigrams) if other == gram]
        for place in places:
            tenths[int(place / len(bigrams) * TENTHS + 1e-12)] += 1 / len(places)
    return tenths


def loop_novel_sentences(sentences, source):
    sentences = [sentence for sentence in sentences if sentence]
    whole = [sentence for sentence in sentences if tuple(sentence) in grams(source, len(sentence))]
    return 1 - len(whole) / len(sentences) if sentences else None


def same(found, expected):
    return found is expected if expected is None else found == pytest.approx(expected)


@settings(max_examples=150)
@given(SENTENCES, SENTENCES)
def test_every_figure_equals_a_loop(summary, document):
    source_words = [word for sentence in document for word in sentence]
    words = [word for sentence in summary for word in sentence]
    source = AnalysedDocument(source_words)
    for n in (1, 2, 3, 4):
        assert same(source.compute_novel_ngram_share(words, n), loop_novel(words, source_words, n))
        assert same(compute_repeated_ngram_share(words, n), loop_repeated(words, n))
    assert same(source.compute_novel_sentence_share(summary), loop_novel_sentences(summary, source_words))
    assert source.count_copied_bigrams(words) == pytest.approx(loop_positions(words, source_words))


def test_systems_are_analysed_with_the_text_of_documents_and_summaries():
    documents = ["In 1999 the band <q> met Anna", "Anna left"]
    systems = {"good": [["The year 1999 . "], ["Then Anna left"]], "bad": [["The year 2000"], ["Then Bob met Anna"]]}
    found = {name: analysis.figures for name, analysis in analyse_systems(documents, systems).items()}
    assert found["good"]["new numbers"] == found["good"]["new names"] == found["good"]["joined"] == 0
    assert found["bad"]["new numbers"] == found["bad"]["new names"] == 50
    assert found["good"]["novel 2-grams"] == pytest.approx(100 * (1 + 1 / 2) / 2)
    mark = analyse_systems(documents[:1], {"letter": [["They met Q", "Band of 1999 Anna"]]})["letter"]
    assert mark.figures["new names"] == 50, "the letter of the mark <q> is no word of the document"
    assert mark.figures["joined"] == 0, "a second source has at least two words"
    joined = analyse_systems(["In 1999 the band <q> met Anna"], {"a": [["1999 band met Anna"]]})["a"]
    assert joined.figures["joined"] == 100
    assert AnalysedDocument(["concat", "b"]).compute_novel_sentence_share([["cat", "b"]]) == 1, "parts of words"
    marked = analyse_systems(["a <q> b"], {"all": [["a b"]]}, WORD_SPLITTERS["space"], sentence_mark="")["all"]
    assert marked.figures["novel 2-grams"] == 100  # without a mark, <q> is a word between a and b


def test_figures_are_means_over_the_summaries_that_have_them():
    result = analyse_systems(["a b c d"] * 3, {"mine": [["a b", "x"], [], ["a"]]}, str.split)["mine"]
    assert result.figures["words"] == pytest.approx(4 / 3) and result.counted["words"] == 3
    assert result.figures["sentences"] == 1
    assert result.figures["copy rate"] == pytest.approx(100 * (2 / 3 + 1) / 2) and result.counted["copy rate"] == 2
    assert result.figures["novel 2-grams"] == 50 and result.counted["novel 2-grams"] == 1
    assert result.figures["novel 4-grams"] is None and result.counted["novel 4-grams"] == 0
    assert result.positions == [100, *[0] * 9]


def score_of(sentences, references):
    """Sum of ROUGE-1 and ROUGE-2 with the best reference."""
    text = " ".join(itertools.chain(*sentences))
    reports = [rouge([text], [" ".join(reference)], bootstrap=0, stem=False) for reference in references]
    return max(report.scores["rouge1"].f1 + report.scores["rouge2"].f1 for report in reports)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=4), max_size=5),
    st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=6), min_size=1, max_size=2),
)
def test_the_oracle_takes_the_best_step_every_time(document, references):
    chosen = find_greedy_oracle(document, references, 3)
    taken, best = [], 0.0
    while len(taken) < min(3, len(document)):
        others = [number for number in range(len(document)) if number not in taken]
        values = [score_of([document[i] for i in sorted([*taken, number])], references) for number in others]
        if max(values) <= best + 1e-9:
            break
        best = max(values)
        taken.append(min(number for number, value in zip(others, values) if value > best - 1e-9))
    assert chosen == sorted(taken)


def test_command_reports_systems_extracts_and_rouge(tmp_path, capsys):
    texts = {
        "src": "the cat sat on the mat . <q> it slept . <q> dogs bark .\none two three four . <q> five six seven .\n",
        "ref": "a cat slept on a mat .\nfive six . <q> one two .\n",
        "sys": "the cat slept . <q> it slept .\n\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [f"--source={tmp_path / 'src'}", f"--reference={tmp_path / 'ref'}", f"--system=mine={tmp_path / 'sys'}"]
    saved = tmp_path / "report.json"
    assert main([*files, "--lead=1", "--lead-words=3", "--oracle=2", "--json", str(saved)]) == 0
    report = json.loads(saved.read_text())["systems"]
    assert list(report) == ["reference", "mine", "lead-1", "lead-3-words", "oracle"]
    assert report["reference"]["rouge"] is None
    lines = [texts[name].splitlines() for name in ("sys", "ref")]
    assert report["mine"]["rouge"]["scores"] == json.loads(json.dumps(rouge(*lines).to_dict()["scores"]))
    leads = rouge(["the cat sat on the mat .", "one two three four ."], lines[1])
    assert report["lead-1"]["rouge"]["scores"]["rouge1"]["f1"] == pytest.approx(leads.scores["rouge1"].f1)
    assert report["lead-1"]["figures"]["copy rate"] == 100 and report["lead-1"]["figures"]["novel sentences"] == 0
    assert report["lead-3-words"]["figures"]["words"] == 3
    best = max(report[name]["rouge"]["scores"]["rouge1"]["f1"] for name in ("lead-1", "lead-3-words", "mine"))
    assert report["oracle"]["rouge"]["scores"]["rouge1"]["f1"] >= best
    assert report["mine"]["figures"]["repeated 1-grams"] == pytest.approx(100 / 5)
    # Extracts are made of sentences even where summaries are taken whole.
    assert main([*files, "--lead=1", "--no-sentence-split", "--json", str(saved)]) == 0
    assert json.loads(saved.read_text())["systems"]["lead-1"]["figures"]["words"] == (6 + 4) / 2
    assert main([*files, f"--system=lead-1={tmp_path / 'ref'}", "--lead=1"]) == 2
    assert "the name lead-1 is already used" in capsys.readouterr().err


QAGS = Path(os.environ.get("ETADS_CORPORA", "no folder")) / "qags"
CONTENT, FUNCTION, NUMBERS = ("red", "fox", "moon"), ("the", "of"), ("7", "9")
SENTENCE = st.lists(st.sampled_from(CONTENT + FUNCTION + NUMBERS), min_size=1, max_size=5)


def cost_of(sentence, path, words, sentence_of):
    """The cost of writing a sentence when each word is copied from the position in the path, or is None."""
    cost, last = 0.0, None
    for word, place in zip(sentence, path):
        if place is None:
            cost += 10 if word in NUMBERS else 1 if word in FUNCTION else 5
            continue
        if last is not None and place != last + 1:
            if sentence_of[place] != sentence_of[last]:
                cost += 1.5 if word in FUNCTION else 3
            else:
                cost += 1 + 0.1 * min(place - last - 1, 20) if place > last else 2
        last = place
    return cost


@settings(max_examples=60, deadline=None)
@given(st.lists(SENTENCE, min_size=1, max_size=3), SENTENCE)
def test_support_is_that_of_the_cheapest_of_all_paths(document, sentence):
    words = [word for each in document for word in each]
    sentence_of = [number for number, each in enumerate(document) for _ in each]
    ways = [[None, *(place for place, other in enumerate(words) if other == word)] for word in sentence]
    costs = [cost_of(sentence, path, words, sentence_of) for path in itertools.product(*ways)]
    content = sum(word not in FUNCTION for word in sentence)
    (found,) = find_evidence(" <q> ".join(map(" ".join, document)), [" ".join(sentence)])
    assert found.support == pytest.approx(math.exp(-min(costs) / max(1, content)))
    assert {new.word for new in found.new} == {w for w in sentence if w not in words and w not in FUNCTION}


def test_spellings_of_a_word_are_one():
    document = "It didn't cost 235,000 euros . <q> Five well-known poets' friends weren’t there , 31. 8 % came ."
    written = ["It did n't cost 235, 000 Euros .", "5 well known poets ' friends were n't there", "31.8 came"]
    for sentence in (*written, "poet's friend"):
        (found,) = find_evidence(document, [sentence])
        assert not found.new, sentence
    kinds = [(new.word, new.kind) for new in find_evidence(document, ["Then Mary paid 6.5 dollars"])[0].new]
    assert kinds == [("Mary", "name"), ("paid", "word"), ("6.5", "number"), ("dollars", "word")]


@pytest.mark.parametrize(
    "document", ["One fox ran. The moon rose. It was red.", "One fox ran.\n\n The  moon\trose. It was red."]
)
def test_sources_are_positions_in_the_document(document):
    found = EvidenceFinder(document).find("The red moon rose and the fox ran.")
    assert found.joined
    assert [source.number for source in found.sources] == [0, 1]
    texts = [" ".join(document[source.start : source.end].split()) for source in found.sources]
    assert texts == ["One fox ran.", "The moon rose."] and [source.words for source in found.sources] == [2, 2]
    assert [(new.word, new.start) for new in find_evidence(document, ["A blue fox"])[0].new] == [("blue", 2)]


def test_words_of_scripts_without_spaces_are_characters_and_no_text_has_no_sources():
    (found,) = find_evidence("北京大学很大。他们昨天去了上海。", ["他们去了上海。"])
    assert [source.number for source in found.sources] == [1] and not found.new and found.support > 0.8
    assert [new.word for new in find_evidence("Мир велик .", ["Мир мал ."])[0].new] == ["мал"]
    assert find_evidence("", ["a fox"])[0].sources == () and find_evidence("a fox", []) == []


@pytest.mark.skipif(not QAGS.is_dir(), reason="ETADS_CORPORA names no folder with qags/ (Wang et al. 2020)")
@pytest.mark.parametrize("name, least_auc, least_correlation", [("cnndm", 0.85, 0.68), ("xsum", 0.64, 0.2)])
def test_support_agrees_with_people(name, least_auc, least_correlation):
    rows = [json.loads(line) for line in (QAGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    support, votes = [], []
    for row in rows:
        found = find_evidence(row["article"], [sentence["text"] for sentence in row["sentences"]])
        support.append([evidence.support for evidence in found])
        votes.append([sentence["faithful"] for sentence in row["sentences"]])
    faithful = np.array([sum(vote) >= 2 for each in votes for vote in each])
    values = np.concatenate(support)
    pairs = values[faithful][:, None] - values[~faithful]
    assert np.mean((pairs > 0) + 0.5 * (pairs == 0)) >= least_auc
    assert np.corrcoef(list(map(np.mean, support)), list(map(np.mean, votes)))[0, 1] >= least_correlation


def test_the_command_writes_rows_and_a_page(tmp_path, capsys):
    for name, text in (("d", "A fox ran . <q> It rained .\nb </script><b>\n"), ("s", "A fox ran .\nMary 7\n")):
        (tmp_path / name).write_text(text)
    page, system = tmp_path / "page.html", f"mine={tmp_path / 's'}"
    command = ["--source", str(tmp_path / "d"), "--system", system, "--page", str(page), "--page-documents", "2"]
    assert evidence_main(command) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["systems"]["mine"][0]["support"] == 1 and second["line"] == 2
    assert [new["kind"] for new in second["systems"]["mine"][0]["new"]] == ["word", "number"]
    text = page.read_text()
    assert NOTICE in text and "Mary 7" in text and "</script><b>" not in text


STAMP = "2026-11-22 07:32:39 | INFO | {} | "
HYDRA = "[2026-11-22 07:32:39,123][{}][INFO] - "


def with_updates(updates, figures, sign, between):
    return between.join(f"{name}{sign}{value}" for name, value in {**figures, "num_updates": updates}.items())


def inner(updates, prefix=STAMP, **figures):
    values = with_updates(updates, figures, "=", ", ")
    return f"{prefix.format('train_inner')}epoch 001:  {updates:5d} / 160 {values}, lr=0.5, wps=10"


def validated(updates, name="valid", prefix=STAMP, **figures):
    values = with_updates(updates, figures, " ", " | ")
    return f"{prefix.format(name)}epoch 001 | valid on '{name}' subset | {values} | best_loss 1"


def epoch(updates, prefix=STAMP, **figures):
    return f"{prefix.format('train')}epoch 001 | {with_updates(updates, figures, ' ', ' | ')}"


def parse(*lines):
    log = TrainingLog()
    for line in lines:
        log.read_line(line)
    return log.sort_values().figures


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("prefix", [STAMP, HYDRA, ""])
def test_lines_of_every_origin_hold_the_same(prefix):
    found = parse(
        "2026-11-22 07:32:32 | INFO | fairseq.trainer | begin training epoch 1",
        inner(10, prefix, loss=8.5, p_gen=0.5, coverage_loss="1.5e-05"),
        inner(20, prefix, loss="7", p_gen="nan"),
        validated(20, prefix=prefix, loss=6, ppl=64),
        validated(20, "valid1", prefix=prefix, loss=5),
        epoch(20, prefix, loss=7.75, gnorm=1),
    )
    assert found["loss"] == {"train": {10: 8.5, 20: 7.0}, "valid": {20: 6.0}, "valid1": {20: 5.0}}
    assert found["p_gen"] == {"train": {10: 0.5}}, "what is not a number cannot be drawn"
    assert found["coverage_loss"] == {"train": {10: 1.5e-05}}
    assert found["ppl"] == {"valid": {20: 64.0}} and found["lr"] == {"train": {10: 0.5, 20: 0.5}}
    assert found["gnorm"] == {"train": {20: 1.0}}, "means over epochs stand for figures that have no others"


def test_json_lines():
    prefix = STAMP.format("train")
    found = parse(
        prefix + json.dumps({"epoch": 1, "update": 0.5, "loss": "8.5", "num_updates": "10", "lr": "0.5"}),
        prefix + json.dumps({"epoch": 1, "valid_loss": "6", "valid_num_updates": "10", "valid_best_loss": "6"}),
        prefix + json.dumps({"epoch": 1, "train_loss": "9", "train_gnorm": "2", "train_num_updates": "10"}),
        prefix + '{"epoch": 2, "loss": "8',
    )
    assert found["loss"] == {"train": {10: 8.5}, "valid": {10: 6.0}}
    assert found["gnorm"] == {"train": {10: 2.0}}


LOADED = STAMP.format("fairseq.trainer") + "Loaded checkpoint a/checkpoint_last.pt (epoch 2 @ 20 updates)"
ANEW = STAMP.format("fairseq.trainer") + "No existing checkpoint found a/checkpoint_last.pt"


@pytest.mark.parametrize(
    "again, expected",
    [
        # The training had reached 40, continues from 20, and is now at 30. So 35 and 40 belong to abandoned updates.
        ([LOADED, inner(30, loss=1)], {10: 9, 20: 8, 30: 1}),
        ([LOADED], {10: 9, 20: 8}),
        ([inner(30, loss=1)], {10: 9, 20: 8, 30: 1}),  # a --log-file does not record the loaded checkpoint
        ([ANEW, inner(15, loss=1)], {15: 1}),
        ([inner(40, loss=1)], {10: 9, 20: 8, 30: 7, 35: 7.5, 40: 1}),  # a line occurs twice, and the later one counts
    ],
)
def test_where_training_went_on_the_later_figures_count(again, expected):
    first = [inner(10, loss=9), inner(20, loss=8), inner(30, loss=7), inner(35, loss="7.5"), inner(40, loss=6)]
    validations = [validated(20, loss=5), validated(40, loss=4)]
    found = parse(*first[:2], validations[0], *first[2:], validations[1], *again)["loss"]
    assert found["train"] == expected
    assert 20 not in expected or found["valid"][20] == 5
    assert (40 in found.get("valid", {})) == (40 in expected), "validations are forgotten with their training"


def test_lines_that_an_interruption_cut_off(tmp_path):
    cut = inner(20, loss=8)
    cut = cut[: cut.index("num_updates=20") + len("num_updates=2")]
    text = "\n".join([inner(10, loss=9), cut + inner(30, loss=7), inner(40, loss=6)])
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"caf\xe9, which is not UTF-8\n" + text.encode()))
    found = read_log(tmp_path / "a.gz").figures["loss"]["train"]
    assert found == {10: 9.0, 30: 7.0}, "the last line may still be being written"


def test_panels_hold_every_figure_of_every_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    panels = []

    def collect(figure, path):
        drawn = [axes for axes in figure.axes if axes.get_visible()]
        lines = [{line.get_label(): list(zip(*line.get_data())) for line in axes.get_lines()} for axes in drawn]
        panels.append(dict(zip((axes.get_title() for axes in drawn), lines)))

    monkeypatch.setattr(plot, "save_figure", collect)
    for name, loss in (("first", 8), ("second", 6)):
        (tmp_path / name).mkdir()
        lines = [inner(10, loss=loss, sigma=0.5), inner(20, loss=loss - 1, sigma=0.25)]
        write(tmp_path / name / "train.log", *lines, *[validated(20, loss=loss - 2)] * (name == "first"))
    runs = [str(tmp_path / name) for name in ("first", "second")]
    empty = [write(tmp_path / "new", "2026-11-22 | begin"), write(tmp_path / "other", "epoch 1", '{"epoch": 1}')]
    assert plot_main([*runs, *empty]) == 0, "a run that has only begun is left out"
    assert list(panels[0]) == ["loss", "learning rate", "sigma"], "no panel for clocks and sizes"
    assert panels[0]["loss"] == {
        f"{runs[0]}: training": [(10, 8), (20, 7)],
        f"{runs[0]}: valid": [(20, 6)],
        f"{runs[1]}: training": [(10, 6), (20, 5)],
    }
    assert plot_main([runs[0], "--figures", "wps,loss"]) == 0
    assert list(panels[1]) == ["wps", "loss"]
    for options, words in ((empty, "none of the 2 logs"), ([runs[0], "--figures", "loss,lss"], '--figures "lss"')):
        assert plot_main(options) == 2 and words in capsys.readouterr().err


def test_a_plot_appears_when_it_is_complete_and_is_the_same_every_time(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure
    log = write(tmp_path / "train.log", inner(10, loss=9, ppl=4), inner(20, loss=8, ppl=60), validated(20, loss=5))
    plots = [tmp_path / name for name in ("a.svg", "b.svg")]
    for path in plots:
        assert plot_main([log, "--out", str(path)]) == 0
    assert plots[0].read_bytes() == plots[1].read_bytes()
    assert plot_main([str(tmp_path)]) == 0 and (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")

    def fail(self, path, **options):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(figure, "savefig", fail)
    assert plot_main([log, "--out", str(plots[0])]) != 0
    assert plots[0].read_bytes() == plots[1].read_bytes() and sorted(tmp_path.iterdir()) == before
