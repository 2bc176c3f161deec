"""Likelihoods of references: equal to a loop over the words, cached and recomputed when necessary; tests with seeds."""

import json
import shutil

import pytest
import torch
from fairseq.data import indexed_dataset
from folders import make_run
from helpers import make_task

from fairseq_etads.commands import compare as compare_command
from fairseq_etads.commands import likelihood
from fairseq_etads.commands.likelihood import read_likelihoods
from fairseq_etads.evaluation.resampling import compare_pairs
from fairseq_etads.vocabulary.dictionary import count_known_words

V = count_known_words(make_task(tail=12).target_dictionary)
DOCUMENTS = [[8, 9, 10, 11, 12], [13, 14], [20, V + 5, 21, 8, 9, 22, V, 23], [9]]
SUMMARIES = [[8, 9], [15, 14, 16], [V, 22, V + 1], [9, 9, 9, 9]]
"""The model knows words below V. Of the other words, its document has V and V + 5, but not V + 1."""


def write_subset(data, subset, documents=DOCUMENTS, summaries=SUMMARIES, words=100):
    for side, texts in (("source", documents), ("target", summaries)):
        prefix = f"{data}/{subset}.source-target.{side}"
        builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=words)
        for tokens in texts:
            builder.add_item(torch.tensor([*tokens, 2]))
        builder.finalize(f"{prefix}.idx")


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(1)
    model = make_run(tmp_path / "run", pointer="soft", task=make_task(tail=12))
    write_subset(tmp_path / "run" / "prepared" / "bin", "test")
    return tmp_path / "run", model.eval()


def found(run, subset="test"):
    return read_likelihoods(run / f"likelihood-{subset}-best.json")


def test_likelihoods_are_those_of_a_loop(run):
    folder, model = run
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


def test_they_are_kept_until_they_are_damaged_or_the_checkpoint_or_the_data_change(run, capsys, monkeypatch):
    folder, _ = run
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


def test_what_cannot_be_scored_is_refused(run, capsys):
    folder, _ = run
    data = folder / "prepared" / "bin"
    for path in sorted(data.glob("test.source-target.source.*")):
        shutil.copy(path, data / f"valid.source-target.source{path.suffix}")
    for options, message in (
        (["--subset", "nix"], "--subset nix: "),
        (["--subset", "valid"], "--subset valid: it has no summaries to score"),
        (["--checkpoint", "last"], "--checkpoint last: no such file"),
        (["--prepared", str(folder / "checkpoints")], "has no folder bin"),
    ):
        assert likelihood.main([str(folder), *options]) == 2
        assert message in capsys.readouterr().err


def test_two_runs_are_compared_but_not_likelihoods_of_other_words(run, tmp_path, capsys):
    folder, _ = run
    torch.manual_seed(2)
    others = {"other": (V, SUMMARIES), "fewer": (V - 30, SUMMARIES), "shorter": (V, [*SUMMARIES[:3], [9]])}
    for name, (known, summaries) in others.items():
        make_run(tmp_path / name, pointer="soft", task=make_task(tail=12, target_words=known))
        write_subset(tmp_path / name / "prepared" / "bin", "test", summaries=summaries)
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
