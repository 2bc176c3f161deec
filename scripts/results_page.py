#!/usr/bin/env python3
"""Write docs/results.md from the records in results/, and from nothing else.

    python scripts/results_page.py [--check | --table CORPUS]

--check writes nothing, and fails if the page is not what the records say. scripts/reproduce/evidence.sh makes records.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tabulate import tabulate

from fairseq_etads.evaluation.resampling import compare_pairs, compare_trainings
from fairseq_etads.evaluation.rouge import METRICS, SEED

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results.md"
CORPORA = {"debian": "Debian synopses", "sumpubmed": "SumPubMed"}
RESAMPLES = 10_000
LEVEL = 0.05

Record = Dict[str, Any]
Records = Dict[str, List[Record]]
"""System -> its trainings, by seed."""


class Claim(NamedTuple):
    """What a paper says: one system is better than another."""

    paper: str
    text: str
    first: str
    second: str

    def can_be_tested(self, systems: Records) -> bool:
        """Whether both systems have records."""
        return self.first in systems and self.second in systems


CLAIMS = (
    Claim("ETADS", "focus-attention helps", "etads_focus", "etads_basic"),
    Claim("ETADS", "saliency-selection helps", "etads_saliency", "etads_basic"),
    Claim("ETADS", "both help", "etads", "etads_basic"),
    Claim("ETADS", "both are better than focus-attention alone", "etads", "etads_focus"),
    Claim("ETADS", "both are better than saliency-selection alone", "etads", "etads_saliency"),
    Claim("ETADS", "focus in all layers is better than in none", "layers_1-4", "layers_none"),
    Claim("ETADS", "focus in all layers is better than in the lower half", "layers_1-4", "layers_1-2"),
    Claim("ETADS", "focus in all layers is better than in the upper half", "layers_1-4", "layers_3-4"),
    Claim("Aggregation", "aggregation by attention helps", "attn_1", "plain"),
    Claim("Aggregation", "aggregation by projection helps", "proj_1", "plain"),
    Claim("Aggregation", "aggregation by addition helps", "add_1", "plain"),
    Claim("Aggregation", "aggregation by attention is better than by projection", "attn_1", "proj_1"),
    Claim("Gated ES", "sharing the encoder's layers helps", "es", "plain"),
    Claim("Gated ES", "a gate helps on top of shared layers", "gated_es", "es"),
    Claim("Nallapati", "hierarchical attention helps", "words_lvt2k_hieratt", "words_lvt2k"),
    Claim("Nallapati", "features (here TF and IDF) help", "feats_lvt2k", "words_lvt2k"),
    Claim("Nallapati", "temporal attention helps", "words_lvt2k_temp_att", "words_lvt2k"),
    Claim("this project", "the options beyond the paper help ETADS", "etads_options", "etads"),
    Claim("this project", "ETADS with a pointer is better than fairseq's transformer", "etads", "transformer_bpe"),
    Claim("this project", "ETADS is better than fairseq's pointer-generator", "etads", "transformer_pointer"),
    Claim("this project", "ETADS is better than a recurrent pointer-generator", "etads", "pg_coverage"),
)

HEAD = """\
# Results

Do the papers' mechanisms do what the papers say? The papers' corpora cannot be handed on, so the question is put to two
that anybody can have: synopses of Debian packages (56,070 training pairs, headlines as Gigaword's) and backgrounds of
SumPubMed's articles (26,284 pairs, of CNN/Daily Mail's shape), with models small enough for two cores.

`scripts/results_page.py` writes this page from the records in the repository's `results/`, one for each training, with
the command, the seed, the commit at which it was recorded, and the scores of every test document. Measurements of
single questions are in [experiments.md](experiments.md).

    scripts/reproduce/evidence.sh --corpus debian --data data/debian
    scripts/reproduce/evidence.sh --corpus sumpubmed --data data/sumpubmed
    python scripts/results_page.py

The recipe's `--help` says what each system is. All have the same data, number of steps and decoding,
and those that are compared differ in one thing.
"""

HOW = """\
## What the papers claim

Differences of two systems on the same test documents, first minus second, with 95 % intervals by paired bootstrap: in
ROUGE F1, and in the log-likelihood of the references per word, which varies less and says nothing of the search. It is
left out where two systems do not have the same words. *mean* is the mean of ROUGE-1, 2 and L.

What decides was fixed before any score was looked at: a claim *holds* if the difference of *mean* is above 0 with
p < {level}, it *does not hold* if it is below 0 with p < {level}, else it is *undecided*; *likelier* and *less likely*
say the same of the likelihood. With several seeds on both sides the test counts trainings as well as documents (p by
bootstrap); with one, luck with the seed is not counted (p by randomisation). {resamples:,} draws each. The p-values are
not corrected for their number: of the {number} comparisons here, about {by_luck} would come out as *holds* or *does not
hold* by luck alone.

The verdicts are about models of two million weights after one or two epochs of these corpora. They do not say what the
papers' sizes come to after 200,000 steps on CNN/Daily Mail.
"""


def read_records(folder: Path) -> Records:
    """The records of a corpus."""
    found: Records = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(record["system"], []).append(record)
    return {system: sorted(records, key=lambda record: record["seed"]) for system, records in found.items()}


def scores_of(records: Sequence[Record]) -> np.ndarray:
    """ROUGE-1, 2 and L and their mean (trainings, documents, 4)."""
    scores = np.array([[record["f1"][metric] for metric in METRICS] for record in records]).transpose(0, 2, 1)
    return np.concatenate([scores, scores.mean(axis=2, keepdims=True)], axis=2)


def likelihoods_of(records: Sequence[Record]) -> np.ndarray:
    """Mean log-likelihood of a word (trainings, documents, 1)."""
    return np.array([np.array(r["log_likelihood"]) / np.array(r["tokens"]) for r in records])[..., None]


def same_words(first: Record, second: Record) -> bool:
    """Whether the likelihoods of two systems are of the same words."""
    return "tokens" in first and all(first[name] == second.get(name) for name in ("tokens", "unknown"))


class Difference(NamedTuple):
    """One figure's difference."""

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"

    @property
    def shown_p(self) -> str:
        """Such as "p = 0.031"."""
        return f"p {'=' if self.p >= 0.001 else '<'} {max(self.p, 0.001):.3f}"

    def verdict(self, above: str, below: str, neither: str) -> str:
        """One of three words."""
        if self.p >= LEVEL:
            return neither
        return above if self.value > 0 else below


def differences(first: np.ndarray, second: np.ndarray) -> List[Difference]:
    """Of each column of (trainings, documents, columns)."""
    if len(first) > 1 and len(second) > 1:
        found = compare_trainings(first, second, RESAMPLES, SEED)
        p = found["p_bootstrap"]
    else:
        found = compare_pairs(first.mean(axis=0), second.mean(axis=0), RESAMPLES, SEED)
        p = found["p_randomisation"]
    return [Difference(*values) for values in zip(found["difference"], *found["interval"], p)]


def table(rows: Sequence[Sequence[Any]], heads: Sequence[str]) -> str:
    """A Markdown table."""
    return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)


def tested(records: Dict[str, Records]) -> List[Tuple[Claim, str, List[Record], List[Record]]]:
    """The claims that there are records for, with their corpus and the records of both systems."""
    found = []
    for claim in CLAIMS:
        for corpus, systems in records.items():
            if claim.can_be_tested(systems):
                found.append((claim, corpus, *same_seeds(systems[claim.first], systems[claim.second])))
    return found


def same_seeds(first: List[Record], second: List[Record]) -> Tuple[List[Record], List[Record]]:
    """The records of the seeds that both systems have; all if they have none in common."""
    common = {r["seed"] for r in first} & {r["seed"] for r in second}
    return ([r for r in rs if r["seed"] in common] or rs for rs in (first, second))  # type: ignore[return-value]


def claim_row(claim: Claim, corpus: str, first: List[Record], second: List[Record]) -> List[Any]:
    """The row of a claim on a corpus."""
    scores = differences(scores_of(first), scores_of(second))
    verdict, cell = scores[3].verdict("**holds**", "**does not hold**", "undecided"), "–"
    if same_words(first[0], second[0]):
        (likely,) = differences(likelihoods_of(first), likelihoods_of(second))
        cell = f"{likely.value:+.3f} [{likely.low:+.3f}, {likely.high:+.3f}]"
        verdict += likely.verdict(", likelier", ", less likely", "")
    about = [claim.paper, claim.text, CORPORA[corpus], f"`{claim.first}` minus `{claim.second}`"]
    mean = f"{scores[3]}, {scores[3].shown_p}"
    return [*about, min(len(first), len(second)), *scores[:3], mean, cell, verdict]


def claims_section(records: Dict[str, Records]) -> Iterator[str]:
    """Each claim, on each corpus."""
    found = tested(records)
    by_luck = max(1, round(len(found) * LEVEL))
    yield HOW.format(level=LEVEL, resamples=RESAMPLES, number=len(found), by_luck=by_luck)
    heads = ["paper", "claim", "corpus", "systems", "seeds", "ROUGE-1", "ROUGE-2", "ROUGE-L", "mean", "log-likelihood"]
    yield table([claim_row(*of_claim) for of_claim in found], [*heads, ""])
    for corpus, systems in records.items():
        missing = [claim.text for claim in CLAIMS if not claim.can_be_tested(systems)]
        if missing:
            yield f"\nNot run yet on {CORPORA[corpus]}: {'; '.join(missing)}."


ANALYSED = {"words": "words", "copied": "copy rate", "new 2": "novel 2-grams", "rep. 2": "repeated 2-grams"}
"""Head of a column -> the figure of ``etads-analyse``."""


OF_A_CORPUS = """\

## {corpus}

{steps} steps; {documents:,} test documents. *ppl* is the perplexity of the validation pairs, *log p* the mean
log-likelihood of a reference's word; *copied*, *new 2* and *rep. 2* are per cent of a summary's words that its document
has, of its bigrams that its document does not have, and of its bigrams that occurred in it before.
"""
OTHER_WORDS = (
    "\nPerplexities and likelihoods of `transformer_bpe` are of pieces of words: not to be compared with the others'.\n"
)


def systems_section(corpus: str, systems: Records) -> Iterator[str]:
    """What each training on a corpus has come to, the best system first."""
    records = sorted_records(systems)
    steps = " and ".join(f"{number:,}" for number in sorted({r["steps"] for r in records if "steps" in r}))
    yield OF_A_CORPUS.format(corpus=CORPORA[corpus], steps=steps, documents=len(records[0]["f1"]["rouge1"]))
    yield systems_table(records)
    if "transformer_bpe" in systems:
        yield OTHER_WORDS
    yield f"`{records[0]['rouge']['signature']}`"


def sorted_records(systems: Records) -> List[Record]:
    """All records of a corpus, the system with the best ROUGE first."""
    by_score = sorted(systems.values(), key=lambda records: -np.mean(scores_of(records)[..., 3]))
    return [record for records in by_score for record in records]


def systems_table(records: Sequence[Record]) -> str:
    """A row for each training."""
    heads = ["system", "seed", "weights", "ppl", "ROUGE-1", "ROUGE-2", "ROUGE-L", "log p", *ANALYSED]
    return table([system_row(record) for record in records], heads)


def system_row(record: Record) -> List[Any]:
    """The row of a training, or of a system without any."""
    of_training, likelihood = ["", "", ""], ""
    if "steps" in record:
        of_training = [record["seed"], f"{record['parameters'] / 1e6:.2f} M", f"{record['valid_perplexity']:.1f}"]
        likelihood = f"{likelihoods_of([record]).mean():.3f}" if "tokens" in record else ""
    scores = [(score["f1"], *score["f1_interval"]) for score in record["rouge"]["scores"].values()]
    rouge = [f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in scores]
    analysed = [f"{record['analysis'][name] or 0:.1f}" for name in ANALYSED.values()]
    return [f"`{record['system']}`", *of_training, *rouge, likelihood, *analysed]


LOGGED = {
    "gate": "saliency gate, mean",
    "focus_distance": "focus: distance of the centre from the query's own place, words",
    "focus_scope": "focus: scope, words",
    "p_gen": "p_gen",
}
"""Figure in a training log -> what it is."""


IN_TRAINING = """\

## What the mechanisms do in training

Means over the layers, heads and words of the batches of ten steps: the first ten, and those after each fifth of the
training; of the first seed. [Experiments](experiments.md#what-focus-and-gate-do-in-training) explains why the paper's
gate closes and its focus stops following the words; [etads.md](etads.md#other-forms) has the alternatives.
"""


def mechanisms_section(records: Dict[str, Records]) -> Iterator[str]:
    """The figures of the mechanisms in training."""
    yield IN_TRAINING
    rows = []
    for corpus, systems in records.items():
        for system, (record, *_) in systems.items():
            for name, what in LOGGED.items():
                values: Optional[List[float]] = record.get("mechanisms", {}).get(name)
                if values and (name != "p_gen" or system == "etads"):
                    rows.append([CORPORA[corpus], f"`{system}`", what, *(f"{value:.2f}" for value in values[::2])])
    yield table(rows, ["corpus", "system", "figure", "begin", "20 %", "40 %", "60 %", "80 %", "end"])
    yield from attention_section(records)


BY_LAYER = """\

The same by layer, over 200 validation pairs, before and after the training. *centre moves*: how much further to the end
mu is for the words of a document's last tenth than for those of its first; 0.9 if it followed the words, 0 if it stays.
*scope*: sigma. Both are parts of the document. *gate*: the share of the attention that is let through, the mean of the
heads (and the least to the most).
"""


def attention_of(systems: Records, system: str) -> Optional[Dict[str, Dict[str, Dict[str, Any]]]]:
    """ "before" and "after" -> module -> its figures, of the first training of a system; None without any."""
    return next((record["attention"] for record in systems.get(system, []) if "attention" in record), None)


def attention_section(records: Dict[str, Records]) -> Iterator[str]:
    """Focus and gate by layer, with pictures."""
    rows = []
    for corpus, systems in records.items():
        for system in systems:
            attention = attention_of(systems, system)
            for module in attention["after"] if attention else ():
                before, after = (attention[when][module] for when in ("before", "after"))
                rows.append(
                    [CORPORA[corpus], f"`{system}`", layer_name(module), *layer_cells(before), *layer_cells(after)]
                )
    if rows:
        yield BY_LAYER
        heads = ["centre moves", "scope", "gate"]
        yield table(rows, ["corpus", "system", "layer", *heads, *(f"{head}, after" for head in heads)])
    for corpus, systems in records.items():
        if attention_of(systems, "etads"):
            what = f"{CORPORA[corpus]}: centre and scope of each head by the place of the query, and gates, of etads"
            yield f"\n![{what}.](pictures/results/attention_{corpus}.svg)"


def layer_name(module: str) -> str:
    """Such as "encoder 1" of "encoder.layers.0.self_attn"."""
    side, _, number, *_ = module.split(".")
    return f"{side} {int(number) + 1}"


def layer_cells(figures: Dict[str, Any]) -> List[str]:
    """How far the centre moves, scope, gate; what the layer does not have is empty."""
    cells = ["", "", ""]
    if "center" in figures:
        cells[0] = f"{np.mean([head[-1] - head[0] for head in figures['center']]):+.2f}"
        cells[1] = f"{np.mean(figures['scope']):.2f}"
    if "gate" in figures:
        cells[2] = f"{np.mean(figures['gate']):.3f} ({min(figures['gate']):.3f} to {max(figures['gate']):.3f})"
    return cells


def page(results: Path) -> str:
    """The whole page."""
    records = {corpus: read_records(results / corpus) for corpus in CORPORA if (results / corpus).is_dir()}
    parts = [HEAD, *claims_section(records)]
    for corpus, systems in records.items():
        parts += systems_section(corpus, systems)
    return "\n".join([*parts, *mechanisms_section(records)]) + "\n"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the page is not what the records say")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results", help="folder of records (default: %(default)s)"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="the page (default: %(default)s)")
    parser.add_argument("--table", choices=list(CORPORA), help="print a corpus's table, and write nothing")
    args = parser.parse_args()
    if args.table:
        print(systems_table(sorted_records(read_records(args.results / args.table))))
        return 0
    text = page(args.results)
    if not args.check:
        args.page.write_text(text, encoding="utf-8")
    elif args.page.read_text(encoding="utf-8") != text:
        print(f"{args.page} is not what the records say; run: python scripts/results_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
