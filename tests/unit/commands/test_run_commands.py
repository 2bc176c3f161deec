"""etads-export of a run, with its model card; etads-likelihood of the references of a run, kept, and compared."""

import json
import shutil

import pytest
import torch
from folders import make_run
from helpers import make_task
from selection_data import write_subset

from fairseq_etads.commands import compare as compare_command
from fairseq_etads.commands import likelihood
from fairseq_etads.commands.export import main as export
from fairseq_etads.commands.likelihood import read_likelihoods
from fairseq_etads.data.run_record import RunRecord, compute_data_fingerprint
from fairseq_etads.evaluation.resampling import compare_pairs
from fairseq_etads.summarizer.folder.config import read_config
from fairseq_etads.summarizer.folder.loading import load_folder
from fairseq_etads.vocabulary.dictionary import count_known_words

ROUGE = {"f1": 34.61, "precision": 40.4, "recall": 31.67, "f1_interval": [32.84, 36.59]}
SCORES = {"scores": {"rouge1": ROUGE}, "signature": "ROUGE|backend:x|v:1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "mine"
    make_run(path, pointer="soft", settings={"source_marks": True, "lowercase": False})
    (path / "finished.txt").write_text("fairseq-train data --arch etads\nmore\n")
    (path / "rouge.json").write_text(json.dumps(SCORES))
    (path / "text").mkdir()
    (path / "text" / "report.json").write_text('{"corpus": "cnndm"}')
    lengths = {"train.source": {"lines": 12000, "mean tokens": 68.04, "max tokens": 401}}
    (path / "prepared" / "report.json").write_text(json.dumps({"lengths": lengths}))
    return path


@pytest.mark.parametrize("longest,given,max_len", [(12, [], 12), (300, [], 20), (12, ["--min-len", "15"], 15)])
def test_summaries_are_as_long_as_in_the_training_data_which_runs_may_share(tmp_path, longest, given, max_len):
    make_run(tmp_path / "run", pointer="soft")
    shared = (tmp_path / "run" / "prepared").rename(tmp_path / "shared")
    RunRecord(["fairseq-train", "x"], str(shared), compute_data_fingerprint(shared)).write(tmp_path / "run")
    (shared / "report.json").write_text(json.dumps({"lengths": {"train.target": {"max tokens": longest}}}))
    assert export([str(tmp_path / "run"), str(tmp_path / "folder"), *given]) == 0
    assert read_config(tmp_path / "folder").decoding["max_len"] == max_len
    assert "fairseq-train x\n" in (tmp_path / "folder" / "README.md").read_text()


def test_an_empty_folder_is_filled_and_the_current_one_refused(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    assert export([str(run), str(tmp_path / "link")]) == 0 and read_config(tmp_path / "empty")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for given, message in (
        ([str(run), "."], "FOLDER .: is the current folder"),
        ([str(tmp_path / "empty"), "new"], "no checkpoints/checkpoint_best.pt or checkpoint_last.pt"),
    ):
        assert export(given) == 2
        assert message in capsys.readouterr().err


def test_a_run_becomes_a_folder_with_a_card(run, tmp_path):
    folder = tmp_path / "folder"
    options = "--beam 4 --min-len 2 --no-allow-unk --license mit --language en --title Short --dtype fp16"
    assert export([str(run), str(folder), *options.split()]) == 0
    config = read_config(folder)
    assert config.decoding == {"beam": 4, "min_len": 2, "max_len": 20, "lenpen": 1.0, "allow_unk": False}
    assert config.text["words"] == "spaces" and config.text["keep_case"]
    assert config.text["sentence_marks"] == "insert"
    assert load_folder(folder).tokenizer.encode("A bee. C dog.") == "A bee. <q> C dog."
    card = (folder / "README.md").read_text()
    for part in ("license: mit\nlanguage: en\n", "# Short\n", "fairseq-train data --arch etads\n", "Corpus: cnndm."):
        assert part in card, part
    for part in ("32.84 to 36.59 |", "| train.source | 12,000 | 68.04 | 401 |", "--beam 4", "stored as fp16"):
        assert part in card, part


@pytest.mark.parametrize(
    "options,words",
    [
        ("--prepared nowhere", "--prepared nowhere"),
        ("--extractor .", "no checkpoints/checkpoint_best.pt"),
        ("--license MIT:yes", "--license 'MIT:yes'"),
        ("--scores nowhere", "nowhere: No such file"),
        ("--scores nested", "not a report of scores"),
        ("--unkpen 2", "--unkpen 2.0 has no effect on models with --pointer"),
    ],
)
def test_wrong_options_are_refused(run, tmp_path, monkeypatch, options, words, capsys):
    (tmp_path / "nested").write_text("[" * 9999)
    monkeypatch.chdir(tmp_path)
    assert export([str(run), "folder", *options.split()]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "folder").exists()


def test_an_option_that_only_another_version_has_is_refused(tmp_path, capsys):
    """fairseq drops options that it does not know, and would export another model than that which was trained."""
    make_run(tmp_path / "run", arch="etads_basic")
    path = tmp_path / "run" / "checkpoints" / "checkpoint_best.pt"
    state = torch.load(path)
    state["cfg"]["model"]["attention_decay"] = 0.5
    torch.save(state, path)
    assert export([str(tmp_path / "run"), str(tmp_path / "folder")]) == 2
    assert "--attention-decay 0.5: --arch etads_basic has no such option here" in capsys.readouterr().err


V = count_known_words(make_task(tail=12).target_dictionary)
DOCUMENTS = [[8, 9, 10, 11, 12], [13, 14], [20, V + 5, 21, 8, 9, 22, V, 23], [9]]
SUMMARIES = [[8, 9], [15, 14, 16], [V, 22, V + 1], [9, 9, 9, 9]]
"""The model knows words below V. Of the other words, its document has V and V + 5, but not V + 1."""


@pytest.fixture
def pointed(tmp_path):
    """A run of a model that copies; also returns the model."""
    torch.manual_seed(1)
    model = make_run(tmp_path / "run", pointer="soft", task=make_task(tail=12))
    write_subset(tmp_path / "run" / "prepared" / "bin", "test", DOCUMENTS, SUMMARIES)
    return tmp_path / "run", model.eval()


def found(run):
    return read_likelihoods(run / "likelihood-test-best.json")


def test_likelihoods_are_those_of_a_loop(pointed):
    folder, model = pointed
    assert likelihood.main([str(folder)]) == 0
    scored = found(folder)
    for number, (document, summary) in enumerate(zip(DOCUMENTS, SUMMARIES)):
        source, total, unknown = torch.tensor([[*document, 2]]), 0.0, 0
        net_input = {"src_tokens": source, "src_lengths": torch.tensor([source.size(1)])}
        for t, word in enumerate([*summary, 2]):
            output = model(**net_input, prev_output_tokens=torch.tensor([[2, *summary[:t]]]))
            probabilities = model.get_normalized_probs(output, log_probs=False)[0, -1]
            slots = [other for other in document if other >= V]
            column = word if word < V else V + slots.index(word) if word in slots else 3
            unknown += column == 3
            total += float(probabilities[column].double().log())
        assert scored.log_likelihood[number] == pytest.approx(total, abs=1e-4)
        assert (scored.tokens[number], scored.unknown[number]) == (len(summary) + 1, unknown)
    assert scored.unknown == [0, 0, 1, 0]
    (folder / "likelihood-test-best.json").unlink()
    assert likelihood.main([str(folder), "--max-tokens", "8"]) == 0
    assert found(folder).log_likelihood == pytest.approx(scored.log_likelihood, abs=1e-5), "in other batches"


def test_they_are_kept_until_they_are_damaged_or_the_checkpoint_or_the_data_change(pointed, capsys, monkeypatch):
    folder, _ = pointed
    assert likelihood.main([str(folder)]) == 0
    first = found(folder)
    with monkeypatch.context() as patch:
        patch.setattr(likelihood, "_score_summaries", lambda *_: pytest.fail("scored again"))
        assert likelihood.main([str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("(scored before)")
    stored = folder / "likelihood-test-best.json"
    whole = stored.read_text()
    for damaged in ["", "[]", "{}", whole[:-5], json.dumps({**json.loads(whole), "more": 1})]:
        stored.write_text(damaged)
        assert likelihood.main([str(folder)]) == 0 and stored.read_text() == whole
    write_subset(folder / "prepared" / "bin", "test", DOCUMENTS[:3], SUMMARIES[:3])
    assert likelihood.main([str(folder)]) == 0
    assert len(found(folder).tokens) == 3
    path = folder / "checkpoints" / "checkpoint_best.pt"
    state = torch.load(path, weights_only=False)
    state["model"]["decoder.pointer.gate.bias"] += 2
    torch.save(state, path)
    assert likelihood.main([str(folder)]) == 0
    assert found(folder).log_likelihood[0] != pytest.approx(first.log_likelihood[0], abs=1e-3)


def test_what_cannot_be_scored_is_refused(pointed, capsys):
    folder, _ = pointed
    data = folder / "prepared" / "bin"
    for path in sorted(data.glob("test.source-target.source.*")):
        shutil.copy(path, data / f"valid.source-target.source{path.suffix}")
    for options, message in (
        (["--subset", "valid"], "--subset valid: it has no summaries to score"),
        (["--checkpoint", "last"], "--checkpoint last: no such file"),
        (["--prepared", str(folder / "checkpoints")], "has no folder bin"),
    ):
        assert likelihood.main([str(folder), *options]) == 2
        assert message in capsys.readouterr().err


def test_two_runs_are_compared_but_not_likelihoods_of_other_words(pointed, tmp_path, capsys):
    folder, _ = pointed
    torch.manual_seed(2)
    others = {"other": (V, SUMMARIES), "fewer": (V - 30, SUMMARIES), "shorter": (V, [*SUMMARIES[:3], [9]])}
    for name, (known, summaries) in others.items():
        make_run(tmp_path / name, pointer="soft", task=make_task(tail=12, target_words=known))
        write_subset(tmp_path / name / "prepared" / "bin", "test", DOCUMENTS, summaries)
    saved = tmp_path / "report.json"

    def compare(name):
        arguments = [str(folder), str(tmp_path / name), "--json", str(saved), "--bootstrap", "200"]
        return compare_command.main(["--likelihood", *arguments]), capsys.readouterr().err

    assert compare("other")[0] == 0
    row = json.loads(saved.read_text())["scores"]["log-likelihood"]
    scores = [found(folder).compute_per_token_means(), found(tmp_path / "other").compute_per_token_means()]
    assert [row["first"], row["second"]] == pytest.approx([x.mean() for x in scores])
    assert row["p_randomisation"] == compare_pairs(*(x[:, None] for x in scores), 200, 12345)["p_randomisation"][0]
    for name, message in (("fewer", "are unknown words"), ("shorter", "different tokens")):
        status, said = compare(name)
        assert status == 2 and message in said
