"""fairseq's own commands on the plugin: learn, copy unseen words, generate, validate, Hydra, shards, refusals.

Each command is started at least once as users start it; command_server.py runs the others.
"""

import math
import os
import random
import re
import shutil
import statistics
import string
import subprocess
from pathlib import Path

import corpora
import pytest
import torch
import toy
from helpers import run_command
from toy import PLUGIN, PREPROCESS, SMALL_MODEL, WORDS, generate, hypotheses, summaries

from fairseq_etads.systems.rewards.self_critical import TaggerSaliency
from fairseq_etads.training.task import SummarizationTask

CONFIGS = str(Path(__file__).parents[2] / "configs")
PAPER = ["--coverage-penalty", "1", "--length-penalty-type", "wu", "--lenpen", "0.9", "--no-repeat-ngram-size", "3"]
PAPER += ["--ngram-ignore-tokens", f"{WORDS[0]} {WORDS[1]}", "--infer-dtype", "int8", "--print-alignment", "hard"]


@pytest.mark.parametrize(
    "options, share",
    [([], 0.9), (PAPER, 0.85), (["--shortlist", "list.safetensors", "--infer-dtype", "int8"], 0.85)],
    ids=["plain", "paper", "shortlist"],
)
def test_a_learnt_task_is_solved_and_every_document_is_summarised(options, share, corpus, trained, tmp_path):
    """All words that a summary needs are in its document; a shortlist has few others."""
    if "--shortlist" in options:
        options = [str(tmp_path / word) if "." in word else word for word in options]
        command = ["etads-shortlist", str(corpus / "bin"), "--frequent", "1", "--per-word", "1", "--out", options[1]]
        said = run_command(command, cwd=tmp_path).stdout
        length, words = map(int, re.search(r"validation: (\d+) of (\d+) words are on the list", said).groups())
        assert length < words - 5 and "100.00% of the known words" in said
    found = summaries(generate(corpus / "bin", trained / "checkpoint_best.pt", *options, anew=not options))
    expected = (corpus / "text" / "test.target").read_text().splitlines()
    assert sorted(found) == list(range(len(expected))), "documents were skipped"
    right = sum(found[number] == target for number, target in enumerate(expected))
    assert right >= share * len(expected), f"{right} of {len(expected)}"


def test_validate_loads_the_checkpoint(trained, corpus):
    """With an untrained model the loss is over 4 bits."""
    command = ["fairseq-validate", str(corpus / "bin"), *PLUGIN, "--path", str(trained / "checkpoint_best.pt"), "--cpu"]
    output = run_command([*command, "--max-tokens", "400"], cwd=trained, anew=True).stdout
    assert float(re.search(r"\| loss ([\d.]+) \|", output)[1]) < 1


def test_hydra_trains_from_a_configuration_and_the_log_has_samples_and_curves(corpus, tmp_path):
    """An epoch has two updates, and there are two more of the next."""
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 32}
    sizes |= {"encoder_attention_heads": 2, "pointer": "soft"}
    options = [f"task.data={corpus / 'bin'}", *(f"model.{name}={value}" for name, value in sizes.items())]
    options += ["optimization.max_update=4", "dataset.max_tokens=2700", "common.log_interval=1"]
    options += ["task.truncate_source=8", "++task.validation_samples=2", "++model.decoder_attention_heads=2"]
    options += ["++model.focus_layers=none", "++dataset.num_workers=0", "++common.cpu=true"]
    command = ["fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", "etads", *options]
    run_command([*command, f"hydra.run.dir={tmp_path / 'run'}"], cwd=tmp_path, anew=True)
    (log,) = (tmp_path / "run").glob("*train.log")
    text = log.read_text()
    validations = text.count("valid on 'valid' subset")
    assert validations >= 2, "only one epoch: nothing was set up again"
    assert len(re.findall(r"validation sample [01] summary: +\S", text)) == 2 * validations
    assert "gate_q_proj" in text and "FocusAttention(" not in text
    (checkpoint,) = (tmp_path / "run").rglob("checkpoint_last.pt")
    assert len(summaries(generate(corpus / "bin", checkpoint))) == 37
    pytest.importorskip("matplotlib")
    said = run_command(["etads-plot", str(tmp_path / "run")], cwd=tmp_path).stdout
    assert f"run: 4 updates; {validations} validations on valid, lowest loss" in said
    assert (tmp_path / "run" / "curves.png").stat().st_size > 20_000


def test_processes_share_the_documents_of_fairseq_generate(corpus, trained, tmp_path, monkeypatch):
    """By --num-shards and under torchrun, even with more processes than batches; none is lost or repeated."""

    def share(*options):
        options = ["--max-tokens", "100", "--beam", "2", "--max-len-b", "6", *options]
        return generate(corpus / "bin", trained / "checkpoint_last.pt", *options)

    first, second = (hypotheses(share("--num-shards", "2", "--shard-id", number)) for number in "01")
    assert sorted([*first, *second]) == list(range(37)) and first and second
    assert not hypotheses(share("--num-shards", "100", "--shard-id", "99"))
    launched = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "RANK": "1"}
    for name, value in launched.items():
        monkeypatch.setenv(name, value)
    share("--results-path", str(tmp_path / "results"))
    assert os.listdir(tmp_path / "results") == ["2-of-2"]
    assert hypotheses((tmp_path / "results" / "2-of-2" / "generate-test.txt").read_text()) == second


SHARDED = ["--distributed-world-size", "2", "--ddp-backend", "fully_sharded", "--update-freq", "2"]
TRAIN = ["fairseq-train", "{data}", *PLUGIN, *SMALL_MODEL, "--lr", "1e-3", "--arch"]
GENERATE = ["fairseq-generate", "nowhere", *PLUGIN, "--path", "x.pt", "--cpu"]
REFUSED = [
    # gradients would be wrong at the end of an epoch
    ([*TRAIN, "etads", *SHARDED], "--update-freq 2 with --ddp-backend fully_sharded"),
    # fairseq ended with a KeyError after the first validation, when an epoch was lost
    (
        [*TRAIN, "etads", "--eval-rouge", "--best-checkpoint-metric", "rouge_l", "--max-update", "2"],
        "--best-checkpoint-metric rouge_l: not reported by validation; choose from loss, ppl, rouge1, rouge2, rougeL",
    ),
    ([*GENERATE, "--sampling", "--sampling-topk", "5"], "^fairseq-generate: error: --sampling: give --nbest 5 or"),
    ([*GENERATE, "--results-path", "/dev/null"], "^fairseq-generate: error: --results-path /dev/null: is not a folder"),
]


@pytest.mark.parametrize("command, words", REFUSED, ids=lambda value: "" if isinstance(value, list) else value[:40])
def test_bad_options_are_refused_in_a_line(command, words, corpus, tmp_path):
    command = [word.format(data=corpus / "bin") for word in command]
    result = run_command(command, cwd=tmp_path, check=False)
    assert result.returncode != 0 and re.search(words, result.stdout.strip().splitlines()[-1]), result.stdout
    assert "Traceback" not in result.stdout or command[0] == "fairseq-train"


BEST = ["--best-checkpoint-metric", "rouge1", "--maximize-best-checkpoint-metric"]
FILLERS = ["the", "package", "of", "holds", "tools", "for", "and", "with", "a", "to"]
ALPHABETS = ["äöüßéèêç", "вершина", "ヴェルサイユ宮殿", "αβγδεζ", "👍🏽🎉", "0123456789-", "'\"\\%{}$"]


def riddle(r, alphabet=string.ascii_lowercase):
    """A document of common words and three new ones, and the answer: the new word after "named"."""
    document = [r.choice(FILLERS) for _ in range(r.randint(3, 8))]
    names = ["".join(r.choices(alphabet, k=8)) for _ in range(3)]
    for name in names:
        document.insert(r.randint(0, len(document)), name)
    document.insert(document.index(names[0]), "named")
    return document, names[0]


def write_riddles(directory, split, count, seed):
    r = random.Random(seed)
    with open(directory / f"{split}.source", "w") as sources, open(directory / f"{split}.target", "w") as targets:
        for _ in range(count):
            document, answer = riddle(r)
            sources.write(" ".join(document) + "\n")
            targets.write(answer + "\n")


@pytest.fixture(scope="module")
def riddles(tmp_path_factory):
    directory = tmp_path_factory.mktemp("riddles")
    for seed, (split, count) in enumerate((("train", 2000), ("valid", 50), ("test", 100))):
        write_riddles(directory, split, count, seed)
    run_command(
        ["etads-dictionary", "dict.txt", "--train", "train.source", "train.target", "--size", "11", "--jobs", "1"]
        + ["--documents", "valid.source", "test.source"],
        cwd=directory,
    )
    splits = [f"--{split}pref={split}" for split in ("train", "valid", "test")]
    run_command([*PREPROCESS, "bin", *splits, "--srcdict", "dict.txt"], cwd=directory)
    return directory


def train_to_copy(riddles, *options):
    usual = ["--dropout", "0", "--pointer", "soft", "--criterion", "summarization_nll", "--lr", "2e-3"]
    usual += ["--validate-interval", "99"]
    return toy.train(riddles / "bin", riddles / "run", *usual, *options)


def answer(riddles, *options, data="bin", **more):
    model = riddles / "run" / "checkpoint_last.pt"
    return generate(riddles / data, model, "--max-len-b", "5", *options, **more)


def test_words_never_seen_are_copied(riddles):
    """By fairseq-generate, in validation and by fairseq-interactive, which gets words that are in no file."""
    log = train_to_copy(riddles, "--max-update", "350", "--eval-rouge", "--eval-rouge-samples", "40", *BEST)
    assert "p_gen=" in log and "copied=" in log
    # The answers' words are only in the dictionary's copy tail. In validation, too, they must be written as words.
    assert float(re.search(r"valid \|.*\| rouge1 ([\d.]+)", log)[1]) >= 90
    expected, found = (riddles / "test.target").read_text().splitlines(), summaries(answer(riddles))
    right = sum(found[number] == answer for number, answer in enumerate(expected))
    assert right >= 0.95 * len(expected), f"{right} of {len(expected)}"

    r = random.Random(9)
    asked = [riddle(r, r.choice([string.ascii_lowercase, *ALPHABETS])) for _ in range(60)]
    asked.insert(20, ([], ""))
    lines = "".join(" ".join(document) + "\n" for document, _ in asked)
    options = ("--buffer-size", "16", "--batch-size", "16")
    output = answer(riddles, *options, command="fairseq-interactive", input=lines, anew=True)
    found = summaries(output)
    assert sorted(found) == list(range(61)) and found[20] == ""
    right = sum(found[number] == answer for number, (_, answer) in enumerate(asked))
    assert right >= 0.9 * 61, f"{right} of 61"
    for number, (document, _) in enumerate(asked):
        assert set(found[number].split()) <= {*document, *FILLERS, "named"}, "a new word of another document"


def test_a_language_model_is_fused(riddles, tmp_path):
    """The language model has a dictionary without copy tail, dict.txt in DATA, as in docs/decoding.md."""
    known = subprocess.check_output(["grep", "-E", "^madeupword| [1-9][0-9]*$", "dict.txt"], cwd=riddles, text=True)
    assert known.count("\n") == 12
    (tmp_path / "known.txt").write_text(known)
    command = f"fairseq-preprocess --user-dir fairseq_etads --only-source --srcdict {tmp_path / 'known.txt'}"
    run_command([*command.split(), "--destdir", f"{tmp_path}/lm", "--trainpref", "train.target"], cwd=riddles)
    command = f"fairseq-train {tmp_path / 'lm'} --user-dir fairseq_etads --task language_modeling --cpu"
    command += " --arch transformer_lm --decoder-layers 1 --decoder-embed-dim 16 --decoder-ffn-embed-dim 16"
    command += " --decoder-attention-heads 2 --num-workers 0 --optimizer adam --lr 1e-3 --max-tokens 400 --max-update 2"
    command += " --tokens-per-sample 16 --sample-break-mode complete --disable-validation --no-epoch-checkpoints"
    run_command([*command.split(), "--save-dir", str(tmp_path)], cwd=tmp_path)
    data = tmp_path / "data"
    shutil.copytree(riddles / "bin", data)
    shutil.copyfile(tmp_path / "lm" / "dict.txt", data / "dict.txt")
    train_to_copy(riddles, "--max-update", "2", "--disable-validation", "--save-dir", str(tmp_path / "soft"))
    model = ["--path", str(tmp_path / "soft" / "checkpoint_last.pt")]
    fused = ["--lm-path", str(tmp_path / "checkpoint_last.pt"), "--lm-weight", "0.5"]
    plain, found = (hypotheses(answer(riddles, *model, *more, data=data)) for more in ([], fused))
    # After two steps, all of the 16 known words have nearly the same probability.
    changes = [found[number][0][0] - plain[number][0][0] for number in range(100)]
    assert statistics.median(changes) == pytest.approx(0.5 * math.log2(1 / 16), abs=0.5), changes
    words = " ".join(words for ((_, words), *_) in found.values()).split()
    assert any(word not in [*FILLERS, "named", "<unk>"] for word in words), "nothing was copied"


TAGGER = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--optimizer", "adam", "--lr", "0.02"]
TAGGER += ["--clip-norm", "2", "--batch-size", "4", "--max-update", "40", "--num-workers", "0", "--cpu", "--seed", "1"]


def test_a_tagger_of_salient_words_learns_the_answers_of_squad(tmp_path):
    """The commands of docs/rewards.md."""
    corpora.squad(tmp_path / "squad")
    run_command(["etads-corpus", "squad", "--data", "squad", "--out", "squad/text", "--jobs", "1"], cwd=tmp_path)
    # The summariser's data, with which the tagger shares the dictionary.
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            text = "Dr. Ada Zeno made the audio in 1800 . It weighs 2 tons , was by No question .\n"
            corpora.write(tmp_path / f"text/{split}.{side}", text * 3)
    run_command(["etads-prepare", "text", "prepared", "--tokens", "word", "--size", "100"], cwd=tmp_path)
    run_command(["etads-prepare", "squad/text", "squad/prepared", "--like", "prepared"], cwd=tmp_path)
    labelled = run_command(["etads-labels", "squad/prepared", "--kind", "words", "--jobs", "1"], cwd=tmp_path)
    assert "30 of 96 tokens of 12 documents are copied" in labelled.stdout, labelled.stdout
    command = ["fairseq-train", "squad/prepared/bin", "--user-dir", "fairseq_etads", "--task", "summarization"]
    command += ["--arch", "word_tagger", "--criterion", "selection_nll", "--labels", "squad/prepared/bin", *TAGGER]
    run_command([*command, "--save-dir", "runs/saliency"], cwd=tmp_path)
    tagger = TaggerSaliency(
        str(tmp_path / "runs/saliency/checkpoint_best.pt"), SummarizationTask.of_folder(tmp_path / "prepared/bin")
    )
    words = ["it", "weighs", "2", "tons"]
    (weights,) = tagger([words])
    salient = dict(zip(words, torch.tensor(weights) > 0.5))
    assert salient == {"it": False, "weighs": False, "2": True, "tons": True}, weights
