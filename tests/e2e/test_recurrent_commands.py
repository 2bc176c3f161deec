"""The recurrent presets by the real commands: training, generation, factors, pointers, sentences."""

import json
import random
import string

import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from helpers import run_command
from seeds import shifted
from toy import PLUGIN, WORDS, by_two_workers, summaries

FACTORS = ["pos", "ner", "tf", "idf"]
POINTERS = ["sentence_rewriter"]
SPLITS = {"train": 1500, "valid": 30, "test": 60}
SIZES = ["--encoder-embed-dim", "32", "--encoder-hidden-size", "48", "--attention-dim", "32"]
TRAIN = [
    *("--criterion", "summarization_nll", "--batch-size", "25", "--required-batch-size-multiple", "1"),
    *("--num-workers", "0", "--clip-norm", "2", "--no-progress-bar", "--log-format", "simple"),
    *("--seed", str(shifted(7)), "--cpu", "--no-epoch-checkpoints"),
]
GENERATE = ["--beam", "3", "--max-len-b", "4", "--cpu", "--batch-size", "20"]


def write_corpus(directory):
    """The summary is the document's one word that its factors mark: a new word, which only a pointer can write."""
    r = random.Random(0)
    values = {name: {split: [] for split in SPLITS} for name in FACTORS}
    for split, count in SPLITS.items():
        with open(directory / f"{split}.source", "w") as sources, open(directory / f"{split}.target", "w") as targets:
            for _ in range(count):
                document = r.choices(WORDS, k=r.randint(3, 8))
                answer = "".join(r.choices(string.ascii_lowercase, k=8))
                document.insert(r.randint(0, len(document)), answer)
                document.insert(r.randint(1, len(document)), "<q>")
                sources.write(" ".join(document) + "\n")
                targets.write(f"{answer} {document[0] if document[0] != answer else WORDS[0]}\n")
                for name in FACTORS:
                    values[name][split].append(["yes" if word == answer else r.choice("ab") for word in document])
    return values


def write_factors(data, values):
    (data / "factors.json").write_text(json.dumps({"factors": FACTORS}))
    for name, splits in values.items():
        dictionary = Dictionary()
        lines = {split: [dictionary.encode_line(" ".join(v)) for v in rows] for split, rows in splits.items()}
        dictionary.save(str(data / f"dict.factor-{name}.txt"))
        for split, rows in lines.items():
            prefix = str(data / f"{split}.factor-{name}")
            builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
            for row in rows:
                builder.add_item(row)
            builder.finalize(f"{prefix}.idx")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    directory = tmp_path_factory.mktemp("recurrent")
    values = write_corpus(directory)
    # The encoder knows some answers of the training data, but none can be generated.
    run_command(
        ["etads-dictionary", "dict.txt", "--train", "train.source", "--size", str(len(WORDS) + 201), "--jobs", "1"]
        + ["--target-size", str(len(WORDS)), "--summaries", "train.target", "--target-dictionary", "dict.target.txt"]
        + ["--documents", "valid.source", "test.source"],
        cwd=directory,
    )
    run_command(
        ["fairseq-preprocess", "-s", "source", "-t", "target", "--destdir", "bin", "--tgtdict", "dict.target.txt"]
        + [f"--{split}pref={split}" for split in ("train", "valid", "test")]
        + ["--srcdict", "dict.txt"],
        cwd=directory,
    )
    write_factors(directory / "bin", values)
    return directory


def train_command(corpus, arch, save, *options):
    return [
        "fairseq-train",
        str(corpus / "bin"),
        *PLUGIN,
        "--arch",
        arch,
        *SIZES,
        *TRAIN,
        "--save-dir",
        str(save),
        *options,
    ]


def generate_command(corpus, save, *options):
    path = str(save / "checkpoint_last.pt")
    return ["fairseq-generate", str(corpus / "bin"), *PLUGIN, "--path", path, *GENERATE, *options]


OPTIMIZERS = {
    **{"words_lvt2k_hieratt": "lazy_adadelta", "feats_lvt2k": "lazy_adagrad"},
    **{"words_lvt2k_temp_att": "lazy_adam", "sentence_rewriter": "adam"},
}


def test_presets_train_with_lazy_optimisers_and_decode(corpus, tmp_path):
    for arch, optimizer in OPTIMIZERS.items():
        optimizer = ["--optimizer", optimizer, "--lr", "0.01", "--max-update", "6"]
        trick = ["--large-vocabulary-trick", "20"] if "lvt" in arch else []
        extra = ["--sort-within", "10", "--coverage-loss", "1", "--label-smoothing", "0.1"]
        run_command(train_command(corpus, arch, tmp_path / arch, *optimizer, *trick, *extra), cwd=tmp_path)
        unknown = [] if arch in POINTERS else ["--replace-unknown"]
        found = summaries(run_command(generate_command(corpus, tmp_path / arch, *unknown), cwd=tmp_path).stdout)
        assert sorted(found) == list(range(SPLITS["test"])), arch
        assert not any("<unk>" in words for words in found.values()), arch


def test_a_switch_learns_to_copy_the_word_that_a_factor_marks(corpus, tmp_path):
    options = ["--large-vocabulary-trick", "20", "--optimizer", "lazy_adam", "--lr", "4e-3", "--max-update", "240"]
    log = run_command(train_command(corpus, "feats_lvt2k_ptr", tmp_path, *options), cwd=tmp_path).stdout
    assert "p_gen=" in log
    assert "3,000 words of train's summaries (a sample of 1,500) are unknown, 50.00%; 1,500 of the unknown ones" in log
    found = summaries(run_command(generate_command(corpus, tmp_path), cwd=tmp_path).stdout)
    expected = (corpus / "test.target").read_text().splitlines()
    right = sum(found[number].split()[:1] == answer.split()[:1] for number, answer in enumerate(expected))
    assert right >= 0.95 * len(expected), f"{right} of {len(expected)}"

    result = run_command(
        ["fairseq-interactive", str(corpus / "bin"), *PLUGIN, "--path", str(tmp_path / "checkpoint_last.pt"), "--cpu"],
        cwd=tmp_path,
        check=False,
        input="word1 word2\n",
    )
    assert result.returncode != 0
    last = result.stdout.strip().splitlines()[-1]
    assert "the model reads source factors (idf, ner, pos, tf; --source-factors)" in last


def weights(save):
    return torch.load(save / "checkpoint_last.pt", weights_only=True)["model"]


def test_two_workers_with_a_lazy_optimiser_take_the_steps_of_one(corpus, tmp_path):
    """With several processes, gradients are dense, but rows with a gradient of 0 do not move, as with one process."""
    arch, options = "words_lvt2k", ["--large-vocabulary-trick", "20", "--lr", "0.01", "--max-update", "8"]
    options += ["--disable-validation"]

    def train(save, *more):
        return run_command(train_command(corpus, arch, save, *options, *more), cwd=tmp_path).stdout

    logs = by_two_workers(train, tmp_path / "two", "--optimizer", "lazy_adam")
    assert "as rank 1" in logs[1], "there were no two workers"
    train(tmp_path / "one", "--optimizer", "lazy_adam", "--update-freq", "2")
    train(tmp_path / "plain", "--optimizer", "adam", "--update-freq", "2")
    two, one, plain = (weights(tmp_path / name) for name in ("two", "one", "plain"))
    torch.testing.assert_close(two, one, atol=1e-4, rtol=1e-3)
    assert any(not torch.allclose(plain[name], value, atol=1e-3) for name, value in one.items()), "nothing is shown"


def test_half_precision_learns_with_a_lazy_optimiser(corpus, tmp_path):
    """Half precision as on a GPU, by the optimiser that also works without one."""
    options = ["--optimizer", "lazy_adam", "--lr", "0.01", "--large-vocabulary-trick", "20", "--temporal-attention"]
    options += ["--memory-efficient-fp16", "--fp16-init-scale", "4", "--log-interval", "20", "--max-update", "60"]
    log = run_command(train_command(corpus, "pg_coverage", tmp_path, *options), cwd=tmp_path).stdout
    losses = [float(part.split(" loss=")[1].split(",")[0]) for part in log.splitlines() if "train_inner" in part]
    assert len(losses) == 3 and losses[2] < losses[0] - 0.3, losses


@pytest.mark.parametrize("missing", ["factors.json", "train.factor-tf.idx"])
def test_missing_factors_are_refused_in_words(corpus, tmp_path, missing):
    (tmp_path / "bin").mkdir()
    for path in (corpus / "bin").iterdir():
        if path.name != missing:
            (tmp_path / "bin" / path.name).symlink_to(path)
    command = train_command(tmp_path, "feats_lvt2k", tmp_path, "--optimizer", "adam", "--max-update", "1")
    result = run_command(command, cwd=tmp_path, check=False)
    assert result.returncode != 0
    last = result.stdout.strip().splitlines()[-1]
    assert "--source-factors" in last and "etads-prepare --factors" in last
