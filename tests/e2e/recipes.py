"""Shared parts of the tests of scripts/reproduce/: data made by documented commands, and the results of a row's run."""

import hashlib
import json
import math
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Set, Tuple

import bart
import corpora
import torch
from documented import ROOT
from helpers import run_command

import fairseq_etads  # noqa: F401  # so that checkpoints load
from fairseq_etads.data.preparation import read_preparation_settings
from fairseq_etads.pipeline.recipes import load_recipe
from fairseq_etads.text.tokenizer import TextTokenizer, TextTokenizerConfig
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

RECIPES = ROOT / "scripts" / "reproduce"
STEPS = 12
SIZES = {"90000": "12", "68883": "4", "119505": "12", "68885": "4", "400000": "20", "200000": "12", "150000": "36"}
SIZES |= {"60000": "20", "49996": "36", "29996": "12", "30000": "250"}
"""Documented sizes of dictionaries -> sizes for the tiny corpora, small enough to leave words for a copy tail. With the
four special symbols they are multiples of 8, to which fairseq pads dictionaries.
"""
TRANSFORMER = ["--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16", "--encoder-attention-heads", "2"]
TRANSFORMER += ["--decoder-attention-heads", "2", "--num-workers", "0", "--log-interval", "1"]
RECURRENT = ["--encoder-embed-dim", "8", "--encoder-hidden-size", "8", "--attention-dim", "8", "--num-workers", "0"]
CONVOLUTIONAL = ["--encoder-embed-dim", "8", "--decoder-embed-dim", "8", "--decoder-out-embed-dim", "8"]
CONVOLUTIONAL += ["--encoder-layers", "[(8, 3)] * 2", "--decoder-layers", "[(8, 3)] * 2", "--num-workers", "0"]
CONVOLUTIONAL += ["--log-interval", "1", "--max-update", str(STEPS), "--batch-size", "3", "--stop-min-lr", "-1"]
RECURRENT += ["--log-interval", "1", "--max-update", str(STEPS)]
LANGUAGE_MODEL = ["--encoder-embed-dim", "8", "--decoder-embed-dim", "8", "--decoder-context-dim", "8"]
LANGUAGE_MODEL += ["--decoder-hidden-size", "8", "--batch-size", "3", "--num-workers", "0", "--log-interval", "1"]
LANGUAGE_MODEL += ["--max-update", str(STEPS)]


def documented(recipe: str, corpus: str) -> List[List[str]]:
    """Options of a command by which a recipe's help makes its data, as those of a script; sizes are made small."""
    lines = [option.get("prepare", "") for option in load_recipe(recipe)["options"].values()]
    words = [shlex.split(line)[3:] for line in lines if line.startswith(f"etads corpus {corpus} ")]
    return [small(["--out" if word == "--prepare" else word for word in line]) for line in words]


def small(words: List[str]) -> List[str]:
    return [SIZES.get(word, word) for word in words]


class Workshop:
    """A folder with raw corpora, data from the documented commands, and the runs of recipes."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._made: Dict[Any, Any] = {}

    def run(self, command: List[str], check: bool = True) -> subprocess.CompletedProcess:
        """Run a command of the repository or of PATH in the folder."""
        script = ROOT / command[0]
        words = [str(script) if script.is_file() else command[0], *map(str, command[1:])]
        return run_command(words, cwd=self.folder, check=check)

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """Result of the first call of ``make`` for this key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def cnndm(shop: Workshop, recipe: str, row: str) -> Path:
    """CNN/Daily Mail as the recipe's help says, from its raw form; the first data in each folder."""
    # An extractor, which one of the rows of etads_cnndm trains, needs 100 documents.
    raw, stories = ("many/", 105) if recipe == "etads_cnndm" else ("", 14)

    def make() -> Path:
        shop.once(("raw cnndm", raw), lambda: corpora.cnndm(shop.folder / raw, (stories, 3, 3), names=True))
        found = []
        for options in documented(recipe, "cnndm"):
            more = options[options.index("--") + 1 :] if "--" in options else ["--size", "36"]
            options = options[: options.index("--")] if "--" in options else options
            found.append(f"{recipe}/{options[options.index('--out') + 1]}")
            options[options.index("--out") + 1] = found[-1]
            options = [raw + word if (shop.folder / raw / word).exists() else word for word in options]
            expected = f"{stories - 1},3,3"
            shop.run(["scripts/prepare_cnndm.sh", *options, "--expect", expected, "--jobs", "1", "--", *more])
        return shop.folder / found[0]

    return shop.once((recipe, "data"), make)


def cnndm_for_bart(shop: Workshop, recipe: str, row: str) -> Path:
    """CNN/Daily Mail in GPT-2's pieces; their files and a small, random BART are placed as in the help."""

    def make() -> None:
        (shop.folder / "gpt2_bpe").mkdir()
        bart.gpt2_files(shop.folder / "gpt2_bpe")
        words = bart.bart_dictionary()
        bart.save_bart(bart.make_bart(words), words, shop.folder / "bart.large")

    shop.once("bart", make)
    return cnndm(shop, recipe, row)


def sumpubmed(shop: Workshop, recipe: str, row: str) -> Path:
    """SumPubMed as the recipe's help says, but with fewer words; shared by all recipes with the same command."""
    (options,) = documented(recipe, "sumpubmed")
    marks = [word for word in options if word == "--source-sentence-marks"]
    options = options[: options.index("--")] if "--" in options else options
    if marks:
        options[options.index("--out") + 1] += "-marks"

    def make() -> Path:
        shop.once("raw sumpubmed", lambda: corpora.sumpubmed(shop.folder / "DIR", 25))
        shop.run(["scripts/prepare_sumpubmed.sh", *options, "--jobs", "1", "--", "--size", "20", *marks])
        return shop.folder / options[options.index("--out") + 1]

    return shop.once(("sumpubmed", *options), make)


def scitldr(shop: Workshop, recipe: str, row: str) -> Path:
    """SciTLDR as the recipe's help says; its documents have up to three references."""
    (options,) = documented(recipe, "scitldr")

    def make() -> Path:
        corpora.scitldr(shop.folder / options[options.index("--data") + 1], (104, 3, 3))
        shop.run(["etads-corpus", "scitldr", *options, "--jobs", "1"])
        return shop.folder / options[options.index("--out") + 1]

    return shop.once((recipe, "data"), make)


def _raw_gigaword(shop: Workshop) -> Tuple[Path, Path]:
    """Gigaword and DUC-2004 in their raw forms."""

    def make() -> Tuple[Path, Path]:
        raw = corpora.gigaword(shop.folder / "RAW", sentences=2)
        return raw, corpora.duc_parallel(shop.folder / "DUC")

    return shop.once("raw gigaword", make)


def _prepare_gigaword(shop: Workshop, out: str, options: List[str]) -> Path:
    """Gigaword with options of prepare_gigaword.sh, and DUC-2004 for it in OUT-duc."""
    raw, duc = map(str, _raw_gigaword(shop))
    corpus, more = options[: options.index("--")], options[options.index("--") :]
    shop.run(["etads-corpus", "gigaword", "--data", raw, *corpus, "--out", f"{out}/text", "--jobs", "1"])
    # The files next to the text have a tag for each word.
    for name in {"pos", "ner"}.intersection(more):
        for source in (shop.folder / out / "text").glob("*.source"):
            lines = source.read_text(encoding="utf-8").splitlines()
            tags = [[word if word == "<q>" else name + str(len(word) % 3) for word in line.split()] for line in lines]
            corpora.write(source.with_name(f"{source.name}.{name}"), "".join(" ".join(line) + "\n" for line in tags))
    shop.run(["scripts/prepare_gigaword.sh", "--data", raw, *corpus, "--out", out, "--jobs", "1", *more])
    if "--factors" not in more:  # DUC has no factors
        like = ["--like", f"{out}/prepared", "--out", f"{out}-duc", "--jobs", "1"]
        shop.run(["scripts/prepare_duc.sh", "--data", duc, *like])
    return shop.folder / out


def gigaword(shop: Workshop, recipe: str, row: str) -> Path:
    """Gigaword by the command in the recipe's help."""
    (options,) = documented(recipe, "gigaword")
    options = options[options.index("--") :]
    return shop.once((recipe, "data"), lambda: _prepare_gigaword(shop, f"data/{recipe}", options))


def gigaword_of_row(shop: Workshop, recipe: str, row: str) -> Path:
    """Gigaword by the options that the recipe gives for a row."""
    options = shlex.split(load_recipe(recipe)["rows"][row]["about"].partition("prepared with ")[2])
    out = f"data/{recipe}-{hashlib.sha1(repr(options).encode()).hexdigest()[:8]}"
    return shop.once((recipe, *options), lambda: _prepare_gigaword(shop, out, small(options)))


def xsum(shop: Workshop, recipe: str, row: str) -> Path:
    """Documents and summaries of one sentence as JSON lines, prepared by the command in the recipe's help."""
    (options,) = documented(recipe, "table")

    def make() -> Path:
        for split, count in (("train", 14), ("valid", 3), ("test", 3)):
            pairs = [
                {
                    "document": f"{corpora.article(n)} Zeno{split}{n} met Zeno{split}{n}.",
                    "summary": f"Zeno{split}{n} met.",
                }
                for n in range(count)
            ]
            corpora.write(shop.folder / f"{split}.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs))
        place = options.index("--")
        shop.run(["scripts/prepare_custom.sh", *options[:place], "--jobs", "1", *options[place:]])
        return shop.folder / options[options.index("--out") + 1]

    return shop.once((recipe, "data"), make)


def debian(shop: Workshop, recipe: str, row: str) -> Path:
    """Debian synopses as text, without prepared data."""

    def make() -> Path:
        # Most names are too rare to be known.
        names = [topic + end for end in ("", "ix", "ado") for topic in corpora.TOPICS]
        index, out = corpora.debian(shop.folder / "Translation-en", names), shop.folder / "data/debian"
        sizes = ["--valid-size", "2", "--test-size", "3"]
        shop.run(["etads-debian", "--translation", str(index), *sizes, "--out", str(out)])
        return out

    return shop.once("debian", make)


@dataclass
class Run:
    """Results of a row.

    Attributes:
        folder: folder of the run.
        prepared: folder of the run's data.
        summaries: name of the file of summaries.
        printed: output of the recipe.
    """

    folder: Path
    prepared: Path
    summaries: str
    printed: str

    @cached_property
    def _checkpoint(self) -> Dict[str, Any]:
        return torch.load(self.folder / "checkpoints/checkpoint_last.pt", weights_only=True)

    @property
    def parameters(self) -> Dict[str, torch.Tensor]:
        return self._checkpoint["model"]

    def option(self, name: str, part: str = "model") -> Any:
        """Value of an option of the model ("model"), the task ("task") or the training."""
        return self._checkpoint["cfg"][part][name]

    def sums_of_squares(self) -> List[torch.Tensor]:
        """Adagrad's accumulators, one for each parameter."""
        return [state["sum"] for state in self._checkpoint["last_optimizer_state"]["state"].values()]

    def layers(self, name: str) -> Set[int]:
        """Layers, counted from 1, with a parameter that has this part in its name."""
        found = (re.search(r"\.layers\.(\d+)\.", key) for key in self.parameters if name in key)
        return {int(match[1]) + 1 for match in found if match}

    def figures(self, name: str) -> List[float]:
        """A figure of training at every step, or in every epoch if no step was logged."""
        lines = (self.folder / "train.log").read_text(encoding="utf-8").splitlines()
        for kind in ("train_inner", "| train |"):
            values = (re.search(rf"\b{name}[= ](-?[\d.]+)", line) for line in lines if kind in line)
            found = [float(match[1]) for match in values if match]
            if found:
                return found
        raise AssertionError(f"{self.folder}/train.log has no {name}")

    def tokens(self, file: str = "") -> List[List[str]]:
        """Words of the summaries, split like the text on which the model was trained."""
        settings = read_preparation_settings(self.prepared, "")
        words = TextTokenizerConfig(
            text_words=settings.word_kind, text_keep_case=not settings.lowercase, text_sentence_marks="keep"
        )
        lines = (self.folder / (file or self.summaries)).read_text(encoding="utf-8").splitlines()
        return [TextTokenizer(words).encode(line).split() for line in lines]

    def decoding(self, *names: str, file: str = "") -> Tuple[str, ...]:
        """Values of options in the call that wrote the summaries: "on" without a value, "" if they were not given."""
        path = self.folder / f"{file or self.summaries}.made.json"
        words = json.loads(path.read_text(encoding="utf-8"))["command"]
        given = dict(zip(words, [*words[1:], "--"]))
        found = (given.get(f"--{name}") for name in names)
        return tuple("" if value is None else "on" if value.startswith("--") else value for value in found)

    def dictionary(self, side: str) -> SummarizationDictionary:
        return SummarizationDictionary.load(str(self.prepared / f"bin/dict.{side}.txt"))

    def copied_unknown_words(self) -> int:
        """Number of words in the copy tail that the summaries contain, which must have been copied."""
        dictionary = self.dictionary("target")
        text = (self.folder / self.summaries).read_text(encoding="utf-8").lower()
        tail = dictionary.symbols[dictionary.known_words :]
        return sum(bool(re.search(rf"\b{re.escape(word.lower())}\b", text)) for word in tail)


@dataclass
class Recipe:
    """A script of scripts/reproduce/, with settings for small runs of its rows.

    Attributes:
        name: name of the script.
        data: function that makes the data of a row.
        rows: name -> check of the mechanism's effect.
        option: the option that names rows; --row takes only one.
        place: the option that takes the data.
        given: further options before "--".
        more: options of fairseq-train after "--".
        more_of: further options of fairseq-train for some rows.
        duc: whether a row is scored on DUC-2004, too.
        summaries, scores: paths of a run's summaries and scores; scores may begin with ".." (next to the runs).
        steps: number of steps of rows that do not train for the requested number; 0 for untrained rows.
    """

    name: str
    data: Callable[[Workshop, str, str], Path]
    rows: Dict[str, Callable[["Run"], None]]
    option: str = "--rows"
    place: str = "--data"
    given: Tuple[str, ...] = ()
    more: Tuple[str, ...] = ()
    more_of: Dict[str, Sequence[str]] = field(default_factory=dict)
    duc: Callable[[str], bool] = lambda row: False
    summaries: str = "summaries.txt"
    scores: Tuple[str, ...] = ("rouge.json",)
    steps: Dict[str, int] = field(default_factory=dict)

    @property
    def out(self) -> str:
        return f"runs/{self.name}"

    def command(self, shop: Workshop, row: str) -> List[str]:
        """Command line for a row; "" for all that are run here."""
        chosen = [self.option, row] if row else [self.option, *self.rows]
        row = row if row in self.rows else next(iter(self.rows))  # this row provides the data
        data = self.data(shop, self.name, row)
        duc = ["--duc", f"{data}-duc"] if self.duc(row) else []
        more = [*self.more, *self.more_of.get(row, ())]
        start = [f"scripts/reproduce/{self.name}.sh", self.place, str(data), "--out", self.out, *self.given]
        return [*start, *duc, *chosen, *(["--", *more] if more else [])]

    def run(self, shop: Workshop, row: str) -> Run:
        """Run a row, once."""

        def make() -> Run:
            printed = shop.run(self.command(shop, row)).stdout
            prepared = shop.folder / self.out / "prepared"
            if self.place == "--data":
                prepared = self.data(shop, self.name, row) / "prepared"
            return Run(shop.folder / self.out / f"{row}-1", prepared, self.summaries, printed)

        return shop.once((self.name, row), make)


def check_any_row(run: Run, scores: Tuple[str, ...], steps: int) -> None:
    """Checks of every row: it trained for the right number of steps, and every document has a summary and a score."""
    if steps:
        losses = run.figures("loss")
        assert losses and all(map(math.isfinite, losses)), losses
        assert run._checkpoint["optimizer_history"][-1]["num_updates"] == steps
    prepared = (
        run.prepared if run.prepared.is_dir() else run.folder / "prepared"
    )  # rows with long documents have their own
    documents = (prepared / "tokens/test.source").read_text(encoding="utf-8").splitlines()
    assert len((run.folder / run.summaries).read_text(encoding="utf-8").splitlines()) == len(documents) > 0
    for name in scores:
        report = json.loads((run.folder / name).read_text(encoding="utf-8"))
        numbers = re.findall(r"-?\d+\.\d+|NaN|Infinity", json.dumps(report))
        assert len(numbers) >= 6 and not {"NaN", "Infinity"}.intersection(numbers), name
