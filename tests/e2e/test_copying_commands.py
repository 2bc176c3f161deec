"""Copying unseen words, by the real commands: the answer is always such a word."""

import math
import random
import re
import shutil
import statistics
import string
import subprocess

import pytest
import toy
from helpers import run_command
from toy import hypotheses, summaries

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
    run_command([*toy.PREPROCESS, "bin", *splits, "--srcdict", "dict.txt"], cwd=directory)
    return directory


def train(riddles, *options):
    usual = ["--dropout", "0", "--pointer", "soft", "--criterion", "summarization_nll", "--lr", "2e-3"]
    usual += ["--validate-interval", "99"]
    return toy.train(riddles / "bin", riddles / "run", *usual, *options)


def generate(riddles, *options, data="bin", **more):
    model = riddles / "run" / "checkpoint_last.pt"
    return toy.generate(riddles / data, model, "--max-len-b", "5", *options, **more)


def test_words_never_seen_are_copied(riddles):
    """By fairseq-generate, in validation and by fairseq-interactive, which gets words that are in no file."""
    log = train(riddles, "--max-update", "350", "--eval-rouge", "--eval-rouge-samples", "40", *BEST)
    assert "p_gen=" in log and "copied=" in log
    # The answers' words are only in the dictionary's copy tail. In validation, too, they must be written as words.
    assert float(re.search(r"valid \|.*\| rouge1 ([\d.]+)", log)[1]) >= 90
    expected, found = (riddles / "test.target").read_text().splitlines(), summaries(generate(riddles))
    right = sum(found[number] == answer for number, answer in enumerate(expected))
    assert right >= 0.95 * len(expected), f"{right} of {len(expected)}"

    r = random.Random(9)
    asked = [riddle(r, r.choice([string.ascii_lowercase, *ALPHABETS])) for _ in range(60)]
    asked.insert(20, ([], ""))
    lines = "".join(" ".join(document) + "\n" for document, _ in asked)
    options = ("--buffer-size", "16", "--batch-size", "16")
    output = generate(riddles, *options, command="fairseq-interactive", input=lines, anew=True)
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
    train(riddles, "--max-update", "2", "--disable-validation", "--save-dir", str(tmp_path / "soft"))
    model = ["--path", str(tmp_path / "soft" / "checkpoint_last.pt")]
    fused = ["--lm-path", str(tmp_path / "checkpoint_last.pt"), "--lm-weight", "0.5"]
    plain, found = (hypotheses(generate(riddles, *model, *more, data=data)) for more in ([], fused))
    # After two steps, all of the 16 known words have nearly the same probability.
    changes = [found[number][0][0] - plain[number][0][0] for number in range(100)]
    assert statistics.median(changes) == pytest.approx(0.5 * math.log2(1 / 16), abs=0.5), changes
    words = " ".join(words for ((_, words), *_) in found.values()).split()
    assert any(word not in [*FILLERS, "named", "<unk>"] for word in words), "nothing was copied"
