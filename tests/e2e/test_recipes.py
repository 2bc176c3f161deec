"""Recipes of etads-reproduce from raw data to scores, on tiny corpora in the real formats: each kind of chain once.

tests/unit/pipeline/test_recipe_values.py compares the options of all rows with the papers', and the files that each
command reads with those that earlier ones make. Only a run shows that the commands work on one another's files.
"""

import hashlib
import json
import math
import re
import shlex

import bart
import corpora
import pytest
from documented import ROOT
from helpers import run_command

from fairseq_etads.pipeline.recipes import load_recipe

STEPS = 12
SIZES = {"90000": "12", "68883": "4", "119505": "12", "68885": "4", "400000": "20", "200000": "12", "150000": "36"}
SIZES |= {"49996": "36", "29996": "12", "30000": "250"}
"""Documented sizes of dictionaries -> sizes for the tiny corpora, which leave words for a copy tail; with the four
special symbols multiples of 8, to which fairseq pads dictionaries.
"""
TRANSFORMER = (
    "--encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2 --decoder-attention-heads 2"
)
WIDTHS = "--encoder-embed-dim 8 --encoder-hidden-size 8"
RECURRENT = f"{WIDTHS} --attention-dim 8"
LIMITED = f"--max-update {STEPS}"
STAGES = f"--stage-steps 5 --steps {STEPS} --coverage-steps {STEPS}"


class Workshop:
    """A folder with raw corpora, data from the documented commands, and the runs of recipes."""

    def __init__(self, folder):
        self.folder = folder
        self._made = {}

    def run(self, command, check=True):
        """Run a command of the repository or of PATH in the folder; returns its output."""
        script = ROOT / command[0]
        words = [str(script) if script.is_file() else command[0], *map(str, command[1:])]
        return run_command(words, cwd=self.folder, check=check)

    def once(self, key, make):
        """Result of the first call of ``make`` for this key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def documented(recipe, corpus):
    """Options of a command by which a recipe's help makes its data; sizes are made small."""
    lines = [option.get("prepare", "") for option in load_recipe(recipe)["options"].values()]
    words = shlex.split(next(line for line in lines if line.startswith(f"etads corpus {corpus} ")))[3:]
    return [SIZES.get(word, word) for word in words]


def cnndm(shop, recipe, row):
    """CNN/Daily Mail as the recipe's help says, from its raw form; in GPT-2's pieces beside a random BART."""
    shop.once("raw cnndm", lambda: corpora.cnndm(shop.folder, (14, 3, 3), names=True))
    if recipe == "bart_cnndm":
        (shop.folder / "gpt2_bpe").mkdir()
        bart.gpt2_files(shop.folder / "gpt2_bpe")
        bart.save_bart(bart.make_bart(bart.bart_dictionary()), bart.bart_dictionary(), shop.folder / "bart.large")
    options = documented(recipe, "cnndm")
    options[options.index("--prepare") + 1] = out = f"{recipe}/data"
    place = options.index("--") if "--" in options else len(options)
    more = options[place:] or ["--", "--size", "36"]
    shop.run(["etads-corpus", "cnndm", *options[:place], "--expect", "13,3,3", "--jobs", "1", *more])
    return shop.folder / out


def gigaword(shop, recipe, row):
    """Gigaword by the command in the recipe's help, or for a row, and DUC-2004 for it in OUT-duc."""
    raw = shop.once("raw gigaword", lambda: corpora.gigaword(shop.folder / "RAW", sentences=2))
    duc = shop.once("raw duc", lambda: corpora.duc_parallel(shop.folder / "DUC"))
    if recipe == "nallapati_gigaword":
        words = shlex.split(load_recipe(recipe)["rows"][row]["about"].partition("prepared with ")[2])
        options = [SIZES.get(word, word) for word in words]
    else:
        options = documented(recipe, "gigaword")
        options = options[options.index("--") :]
    out = f"data/{recipe}-{hashlib.sha1(repr(options).encode()).hexdigest()[:8]}"
    corpus, more = options[: options.index("--")], options[options.index("--") :]
    shop.run(["etads-corpus", "gigaword", "--data", raw, *corpus, "--out", f"{out}/text", "--jobs", "1"])
    for name in {"pos", "ner"}.intersection(more):  # files next to the text have a tag for each word
        for source in (shop.folder / out / "text").glob("*.source"):
            lines = source.read_text(encoding="utf-8").splitlines()
            tags = [[word if word == "<q>" else name + str(len(word) % 3) for word in line.split()] for line in lines]
            corpora.write(source.with_name(f"{source.name}.{name}"), "".join(" ".join(line) + "\n" for line in tags))
    shop.run(["etads-corpus", "gigaword", "--data", raw, *corpus, "--prepare", out, "--jobs", "1", *more])
    if "--factors" not in more:  # DUC has no factors
        like = ["--like", f"{out}/prepared", "--prepare", f"{out}-duc", "--jobs", "1"]
        shop.run(["etads-corpus", "duc", "--data", duc, *like])
    return shop.folder / out


def scitldr(shop, recipe, row):
    """SciTLDR as text; its documents have up to three references. An extractor needs 100 documents."""
    options = documented(recipe, "scitldr")
    corpora.scitldr(shop.folder / options[options.index("--data") + 1], (104, 3, 3))
    shop.run(["etads-corpus", "scitldr", *options, "--jobs", "1"])
    return shop.folder / options[options.index("--out") + 1]


def debian(shop, recipe, row):
    """Debian synopses as text, without prepared data; most names are too rare to be known."""
    names = [topic + end for end in ("", "ix", "ado") for topic in corpora.TOPICS]
    index, out = corpora.debian(shop.folder / "Translation-en", names), shop.folder / "data/debian"
    shop.run(["etads-debian", "--translation", str(index), "--valid-size", "2", "--test-size", "3", "--out", str(out)])
    return out


class Run:
    """Results of a row: the folders of the run and of its data."""

    def __init__(self, folder, prepared):
        self.folder, self.out, self.prepared = folder, folder.parent, prepared
        self.log = (folder / "train.log").read_text(encoding="utf-8")

    def figures(self, name):
        """A figure of training at every step, or in every epoch if no step was logged."""
        for kind in ("train_inner", "| train |"):
            lines = [line for line in self.log.splitlines() if kind in line]
            found = re.findall(rf"\b{name}[= ](-?[\d.]+)", "\n".join(lines))
            if found:
                return [*map(float, found)]
        raise AssertionError(f"{self.folder}/train.log has no {name}")

    def lines(self, path, below=None):
        return ((below or self.folder) / path).read_text(encoding="utf-8").splitlines()

    def data(self, path, below=None):
        return json.loads(((below or self.folder) / path).read_text(encoding="utf-8"))

    def decoding(self, name, file="summaries.txt"):
        """Value of an option in the call that wrote the summaries."""
        words = self.data(f"{file}.made.json")["command"]
        return words[words.index(f"--{name}") + 1]


def uses_tuned_weights(run):
    tuned = run.data("tuning-1/mert.json", run.out)
    assert tuned["metric"] == "rouge1-recall75" and run.decoding("extractive-weights") == tuned["extractive_weights"]
    assert run.decoding("exact-length", "duc.txt") == "14"


def grows_in_stages(run):
    """A stage goes on from the one before, with longer texts."""
    whole, first = (run.out / f"pointer_generator-1/{part}" for part in ("", "stages/1"))
    commands = [(folder / "finished.txt").read_text(encoding="utf-8") for folder in (whole, first)]
    assert "--truncate-source 60 --" in commands[0] and "--truncate-source 50 --" in commands[1]
    log = (whole / "train.log").read_text(encoding="utf-8")
    assert "checkpoint_last.pt (epoch" in log and "@ 5 updates" in log, "it did not go on from the stage"


def reads_what_is_extracted(run):
    """The abstractor summarises sentences with a probability above 0.5, at least 5."""
    rows = run.lines("extractor-1/probabilities.sentences.test", run.out)[1:]
    for row, read in zip(rows, run.lines("prepared/tokens/test.source")):
        values = [float(value) for value in row.split("\t")[1].split()]
        assert read.count("<q>") + 1 == min(max(sum(value > 0.5 for value in values), 5), 30, len(values))


def trains_both_together(run):
    assert min(run.figures("extraction_loss")) > 0 and min(run.figures("inconsistency_loss")) > 0


def obeys_control_words(run):
    """Documents in the test begin with the words that score best in validation."""
    reports = {path.parent.name: run.data(path) for path in run.folder.glob("settings/*/rouge.json")}
    scores = {setting: report["scores"]["rougeL"]["f1"] for setting, report in reports.items()}
    setting = "-".join(run.data("setting.json").values())
    assert set(scores) == {"1-cnn", "2-cnn"} and scores[setting] == max(scores.values())
    lines = run.lines("chosen/prepared/tokens/test.source")
    assert all(line.startswith(f"lengthbin{setting[0]} origincnn ") for line in lines)
    assert run.decoding("prepared").endswith("chosen/prepared"), "it decoded other documents"


def is_rewarded_for_entailment(run):
    """The model goes on with rewards alone; DUC has four references."""
    assert all(0 < reward <= 1 for reward in run.figures("raml_reward"))
    assert "refs:4" in run.data("duc.json")["signature"] and "bytes:75" in run.data("duc.json")["signature"]


def alternates_rewards(run):
    """A model of likelihood goes on with two rewards; entailment was learned from the summaries."""
    assert min(run.figures("reward_rougesal")) >= 0 and min(run.figures("reward_entail")) >= 0
    training = run.data("nli/model/config.json", run.out)["training"]
    assert training["options"]["train"][0].endswith("nli/pairs/train.tsv")
    assert set(run.data("rouge.json")["also"]["scores"]) == {"ROUGESal", "entailment"}


def picks_sentences(run):
    """A content model chose sentences; all references count."""
    assert "|refs:3,best|" in run.data("rouge.json")["signature"]
    assert run.decoding("content").endswith("shortened/extractor")


ROWS = {
    ("etads_cnndm", "etads"): (cnndm, None, f"--steps {STEPS} --cpu -- {TRANSFORMER}"),
    ("bart_cnndm", "etads-pointer"): (
        cnndm,
        None,
        f"--steps {STEPS} --cpu --bart bart.large -- {TRANSFORMER} --encoder-layers 2 --decoder-layers 2"
        " --encoder-ffn-embed-dim 24",
    ),
    ("bottomup_cnndm", "bottom-up"): (
        cnndm,
        None,
        f"--steps {STEPS} --cpu --tagger-epochs 2 -- {RECURRENT} {LIMITED}",
    ),
    ("abs_gigaword", "abs-plus"): (
        gigaword,
        uses_tuned_weights,
        "--cpu --duc DUC --tune DUC --tune-beam 4 -- --encoder-embed-dim 8 --decoder-embed-dim 8"
        f" --decoder-context-dim 8 --decoder-hidden-size 8 --batch-size 3 {LIMITED}",
    ),
    ("nallapati_gigaword", "feats-lvt2k-2sent-ptr"): (gigaword, None, f"--cpu -- {RECURRENT} {LIMITED}"),
    ("see2017_cnndm", "pointer_generator_coverage"): (
        cnndm,
        grows_in_stages,
        f"--cpu --stages '50/8 60/30' {STAGES} -- {RECURRENT}",
    ),
    ("inconsistency_cnndm", "two-stage"): (
        cnndm,
        reads_what_is_extracted,
        f"--cpu --extractor-steps 3 --joint-steps {STEPS} --stages 60/30 {STAGES} -- {RECURRENT}",
    ),
    ("inconsistency_cnndm", "end-to-end"): (
        cnndm,
        trains_both_together,
        f"--cpu --extractor-steps 3 --joint-steps {STEPS} --stages 60/30 {STAGES} -- {RECURRENT}",
    ),
    ("rewrite_cnndm", "rerank"): (cnndm, None, f"--steps {STEPS} --cpu -- {WIDTHS} --patience -1"),
    ("convs2s_cnndm", "controlled"): (
        cnndm,
        obeys_control_words,
        "--cpu --size 250 --bins 2 --lengths '1 2' --origins cnn -- --encoder-embed-dim 8 --decoder-embed-dim 8"
        " --decoder-out-embed-dim 8 --encoder-layers '[(8, 3)] * 2' --decoder-layers '[(8, 3)] * 2' --batch-size 3"
        f" --stop-min-lr -1 {LIMITED}",
    ),
    ("entail_gigaword", "entail"): (
        gigaword,
        is_rewarded_for_entailment,
        f"--cpu --every 5:2 --duc DUC -- {RECURRENT} --readout-dim 8 --lr 0.01 {LIMITED}",
    ),
    ("debian_recurrent_rewards", "rougesal-entail"): (
        debian,
        alternates_rewards,
        f"--steps {STEPS} --seeds 1 --size 12 --rl-steps 4",
    ),
    ("scitldr", "long"): (scitldr, picks_sentences, f"--steps {STEPS} --cpu -- {TRANSFORMER}"),
}
"""Recipe and row -> its data, a check of its run, and options that make it small, after -- those of fairseq-train."""
PLACES = {debian: "--text", scitldr: "--text"}
"""Options that take the data, if not --data."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("recipes"))


def make_run(shop, recipe, row):
    """Run a row, once; returns its command, too."""
    make_data, _, options = ROWS[recipe, row]
    data = shop.once((recipe, make_data), lambda: make_data(shop, recipe, row))
    place = PLACES.get(make_data, "--data")
    option = "--row" if recipe == "nallapati_gigaword" else "--rows"
    words = [f"{data}-duc" if word == "DUC" else word for word in shlex.split(options)]
    if "--" in words:
        words += ["--num-workers", "0", "--log-interval", "1"]
    out = f"runs/{recipe}"
    command = ["etads-reproduce", recipe, place, str(data), "--out", out, option, row, *words]

    def make():
        shop.run(command)
        folder = shop.folder / out / f"{row}-1"
        places = [data / "prepared", shop.folder / out / "prepared", folder / "prepared"]
        return Run(folder, next(place for place in places if place.is_dir()))

    return shop.once((recipe, row), make), command


@pytest.mark.parametrize("recipe,row", ROWS)
def test_a_row_runs_and_its_commands_use_one_another_s_results(recipe, row, shop):
    run, _ = make_run(shop, recipe, row)
    losses = run.figures("loss")
    assert losses and all(map(math.isfinite, losses)), losses
    documents = run.lines("tokens/test.source", run.prepared)
    assert len(run.lines("summaries.txt")) == len(documents) > 0
    scores = run.data("rouge.json")["scores"] if (run.folder / "rouge.json").exists() else {}
    assert scores or recipe == "nallapati_gigaword"  # whose table has the figures of etads-analyse
    assert all(math.isfinite(score["f1"]) for score in scores.values())
    check = ROWS[recipe, row][1]
    if check is not None:
        check(run)


def test_a_row_is_not_trained_twice_and_a_table_has_all_rows(shop):
    for row in ("two-stage", "end-to-end"):
        _, command = make_run(shop, "inconsistency_cnndm", row)
    command.insert(command.index("end-to-end"), "two-stage")
    printed = shop.run(command).stdout
    assert not re.search("^== training (?!will )", printed, re.MULTILINE) and "already trained" in printed
    assert all(re.search(rf"^\| `?{row}", printed, re.MULTILINE) for row in ("two-stage", "end-to-end"))
