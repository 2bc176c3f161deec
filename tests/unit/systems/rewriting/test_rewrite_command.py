"""etads-rewrite, in process, with untrained models: its output, continuing, refusals; pairs of text."""

from argparse import Namespace

import pytest
import torch
from folders import make_run, save_checkpoint
from helpers import make_batch, make_task, model_config
from selection_data import write_data
from test_likelihood import write_subset
from test_rewriting import MARK, SIZES, sharpen

from fairseq_etads.commands import rewrite as rewriting
from fairseq_etads.commands.labels import main as make_labels
from fairseq_etads.commands.rewrite import RewriteCandidate, choose_least_repetitive_candidates, main
from fairseq_etads.systems.rewriting.model import PointerExtractor
from fairseq_etads.systems.rewriting.training import Abstractor

DOCUMENTS = [[5, 6, MARK, 7, 45, 9, MARK, 10, 5, MARK, 12], [30, 31], [MARK, MARK, 4, 47, MARK, 8], [], [9] * 3]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The folder of prepared data, an untrained abstractor, and an extractor that has learned to stop."""
    folder = tmp_path_factory.mktemp("rewrite") / "run"
    make_run(folder, "pg_coverage", mark=True, tail=9)
    write_subset(folder / "prepared" / "bin", "test", DOCUMENTS, [[5]] * len(DOCUMENTS))
    for name, stops in (("rl", True), ("ml", False)):
        task = make_task(60, 20, mark=True, tail=9)
        torch.manual_seed(5)
        cfg = model_config("pointer_extractor", **SIZES, learn_to_stop=stops)
        model = task.build_model(cfg)
        sharpen(model)
        save_checkpoint(folder / f"{name}.pt", model, cfg, task)
    return folder


def rewrite(work, *options, extractor="rl.pt", status=0):
    files = ["--extractor", str(work / extractor), "--abstractor", str(work), "--device", "cpu", "--max-len", "6"]
    assert main([str(work / "prepared"), str(work / "out.txt"), *files, *options]) == status
    return (work / "out.txt").read_text().splitlines() if status == 0 else []


def expected(work, extractor, beam, diversity=1.0, rerank=False, most=None):
    """Expected output of the command, document by document."""
    args = Namespace(extractor=work / extractor, truncate_source=None, sentences=None)
    data = work / "prepared" / "bin"
    model, task = rewriting.load_extractor(args, data)
    checkpoint = str(work / "checkpoints" / "checkpoint_best.pt")
    abstractor = Abstractor(checkpoint, str(data), "", torch.device("cpu"), beam, diversity, 6)
    lines = []
    for document in DOCUMENTS:
        tokens = make_batch([document])
        (sentences,) = model.get_selected_sentences(tokens, model.extract(tokens, most))
        sentences = sentences or [words for words in model.split_document(tokens[0]) if len(words)]
        candidates = [
            [RewriteCandidate(abstractor.get_word_ids(h), float(h["positional_scores"].sum())) for h in beam]
            for words in sentences
            for beam in abstractor.rewrite([words])
        ]
        places = choose_least_repetitive_candidates(candidates) if rerank else [0] * len(candidates)
        texts = [beam[place].words for beam, place in zip(candidates, places)]
        lines.append(" <q> ".join(" ".join(task.tgt_dict[word] for word in words) for words in texts))
    return lines


def test_summaries_are_taken_and_rewritten_sentences(work, capsys):
    plain = rewrite(work)
    assert plain == expected(work, "rl.pt", 5) and plain[3] == ""
    assert "5 summaries of" in capsys.readouterr().out and not list(work.glob("out.txt.*"))
    assert rewrite(work, "--rerank", "--diversity", "2") == expected(work, "rl.pt", 5, 2.0, True) != plain
    assert rewrite(work, "--beam", "1", "--batch-size", "2") == expected(work, "rl.pt", 1)
    assert rewrite(work, "--beam", "1", extractor="ml.pt") == expected(work, "ml.pt", 1, most=5)
    found = rewrite(work, "--beam", "1", "--sentences", "1", extractor="ml.pt")
    assert found == expected(work, "ml.pt", 1, most=1) and not any("<q>" in line for line in found)


def test_where_nothing_is_taken_the_first_sentences_are_rewritten(work, monkeypatch):
    def stop_at_once(self, tokens, most=None):
        return torch.full((len(tokens), 1), self.encode_sentences(tokens).states.shape[1])

    monkeypatch.setattr(PointerExtractor, "extract", stop_at_once)
    found = rewrite(work, "--beam", "1")
    assert found == expected(work, "rl.pt", 1) and [line.count("<q>") for line in found] == [3, 0, 1, 0, 0]


def test_an_interrupted_command_goes_on(work, monkeypatch):
    whole = rewrite(work, "--beam", "1")
    (work / "out.txt").unlink()
    plain, calls = rewriting.summarise_by_rewriting, []

    def interrupted(documents, *arguments):
        calls.append(len(documents))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(documents, *arguments)

    monkeypatch.setattr(rewriting, "summarise_by_rewriting", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rewrite(work, "--beam", "1", "--batch-size", "2")
    assert not (work / "out.txt").exists()
    with open(work / "out.txt.partial", "a") as file:
        file.write("half a li")
    assert rewrite(work, "--beam", "1", "--batch-size", "2") == whole and calls == [2, 2, 2, 1]
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        rewrite(work, "--beam", "1", "--batch-size", "4")
    rewrite(work, "--beam", "2", "--batch-size", "4")
    assert calls[2:] == [4, 1], "what was made with other options is made again"


def test_models_of_another_kind_are_refused_in_a_line(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    rewrite(work, extractor="checkpoints/checkpoint_best.pt", status=2)
    assert capsys.readouterr().err.endswith("not a model of --arch pointer_extractor\n")
    rewrite(work, "--abstractor", "rl.pt", status=2)
    assert "--abstractor rl.pt: not a summarisation model of this project\n" in capsys.readouterr().err


def test_pairs_are_the_sentences_that_match(tmp_path, capsys):
    """Pairs are the same with two processes; subwords are joined, and unknown words of summaries are kept."""
    texts = [
        ("the c@@ at sat <q> a dog ran , <q> it rain@@ ed", "it rain@@ ed <q> the <unk> sat <q> dog"),
        ("<q> one two", "two <q> three"),
    ]
    write_data(tmp_path / "bin", {"train": texts * 40})
    for jobs in "12":
        assert make_labels([str(tmp_path), "--pairs", str(tmp_path / jobs), "--jobs", jobs]) == 0
        sources, targets = ((tmp_path / jobs / f"train.{side}").read_text() for side in ("source", "target"))
        assert sources.splitlines() == ["it rained", "the cat sat", "a dog ran,", "one two"] * 40
        assert targets.splitlines() == ["it rained", "the <unk> sat", "dog", "two"] * 40
    assert "160 pairs of sentences of 80 documents" in capsys.readouterr().out
    write_data(tmp_path / "plain", {"train": [("a b", "a")]})
    assert make_labels([str(tmp_path / "plain"), "--pairs", str(tmp_path / "3")]) == 2
    assert '"<q>"' in capsys.readouterr().err
