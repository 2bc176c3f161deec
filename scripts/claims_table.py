"""Create the table of all claims in the papers.

Each claim is shown with a verdict, with an answer from the records, or with the number of training runs that a verdict
requires.

scripts/results_page.py inserts the table into docs/results.md.
"""

import json
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from fairseq_etads.evaluation.power import trainings_needed

Record = Dict[str, Any]
Records = Dict[str, List[Record]]
NGRAMS = (1, 2, 3, 4)
MOST = 200
"""Maximum number of training runs per system that is shown exactly.

Larger numbers are shown as "more than" this number.
"""


class ClaimEvidence(NamedTuple):
    """The data from which the answer to a claim is derived.

    Attributes:
        systems: records of each system on a corpus.
        verdicts: mapping from "FIRST minus SECOND" to the difference and the verdict on this corpus.
        deviation: standard deviation of mean ROUGE between seeds of the same system, on this corpus.
        benchmarks: folder with the benchmark records.
    """

    systems: Records
    verdicts: Dict[str, str]
    deviation: float
    benchmarks: Path


Answer = Callable[[ClaimEvidence], Optional[str]]
"""Function that returns the text of a cell, or None if there are no records."""


class ClaimRow(NamedTuple):
    """A claim in a paper.

    Attributes:
        published: difference in mean ROUGE, if the paper reports one.
        answer: function that derives the answer from records.
        needs: description of what is missing for an answer, if there are no records.
    """

    paper: str
    claim: str
    where: str
    published: Optional[float]
    answer: Answer
    needs: str = "not trained"


def compute_system_mean(systems: Records, system: str, figure: Callable[[Record], float]) -> Optional[float]:
    """Compute the mean of ``figure`` over the training runs of a system. Returns None if there are no runs."""
    records = systems.get(system)
    return float(np.mean([figure(record) for record in records])) if records else None


def format_mean_differences(
    systems: Records, first: str, second: str, figures: Sequence[Callable[[Record], float]]
) -> Optional[str]:
    """Format the difference between two systems in the mean of each figure, first minus second.

    The result has the form "+1.2 / -0.3 (3 and 1 trainings)". It is None if a system has no training runs.
    """
    values = [
        (compute_system_mean(systems, first, figure), compute_system_mean(systems, second, figure))
        for figure in figures
    ]
    if any(value is None for pair in values for value in pair):
        return None
    shown = " / ".join(f"{one - other:+.1f}" for one, other in values if one is not None and other is not None)
    return f"{shown} ({len(systems[first])} and {len(systems[second])} trainings)"


def make_rouge_reader(part: str, metric: str) -> Callable[[Record], float]:
    """Return a function that reads the "f1", "precision" or "recall" of a metric."""
    return lambda record: float(record["rouge"]["scores"][metric][part])


def make_analysis_reader(name: str) -> Callable[[Record], float]:
    """Return a function that reads a figure reported by etads-analyse."""
    return lambda record: float(record["analysis"][name] or 0)


ROUGES = ("rouge1", "rouge2", "rougeL")


def make_verdict_lookup(first: str, second: str) -> Answer:
    """Return a function that looks up the verdict on a comparison."""
    return lambda answers: answers.verdicts.get(f"{first} minus {second}")


def make_difference_formatter(first: str, second: str, *figures: Callable[[Record], float], what: str = "") -> Answer:
    """Return a function that formats the differences between two systems in the given figures."""

    def answer(answers: ClaimEvidence) -> Optional[str]:
        found = format_mean_differences(answers.systems, first, second, figures)
        return found and f"{what}{found}"

    return answer


def format_gains_by_metric(answers: ClaimEvidence) -> Optional[str]:
    """Format the gains in ROUGE-1 and ROUGE-L from focus and saliency."""
    found = []
    for name in ("focus", "saliency"):
        gain = format_mean_differences(
            answers.systems,
            f"etads_{name}",
            "etads_basic",
            [make_rouge_reader("f1", metric) for metric in ("rouge1", "rougeL")],
        )
        if not gain:
            return None
        found.append(f"{name} {gain.partition(' (')[0]}")
    return f"ROUGE-1 / L: {'; '.join(found)}; no gain is decided, so none is largest"


def format_repeated_ngrams(answers: ClaimEvidence) -> Optional[str]:
    """Format the percentages of repeated bigrams and trigrams in summaries by etads."""
    found = [compute_system_mean(answers.systems, "etads", make_analysis_reader(f"repeated {n}-grams")) for n in (2, 3)]
    if any(value is None for value in found):
        return None
    return f"repeated bigrams {found[0]:.1f} %, trigrams {found[1]:.1f} % (the search blocks repeated n-grams)"


def make_copy_rate_formatter(first: str) -> Answer:
    """Return a function that formats the copy rate of a system."""

    def answer(answers: ClaimEvidence) -> Optional[str]:
        value = compute_system_mean(answers.systems, first, make_analysis_reader("copy rate"))
        return None if value is None else f"{first}: {value:.1f} % of the words"

    return answer


def format_training_and_search_speed(answers: ClaimEvidence) -> Optional[str]:
    """Format the hours per epoch and the summaries per second on a processor."""
    rows = json.loads((answers.benchmarks / "presets.json").read_text(encoding="utf-8"))["presets"]
    names = ("gru_seq2seq", "es_transformer", "gated_es_transformer")
    hours, rates = ([f"{rows[name][key]}" for name in names] for key in ("hours of an epoch", "summaries a second"))
    shown = f"{' / '.join(hours)} hours, {' / '.join(rates)} summaries a second (seq2seq, ES, gated)"
    return f"training is no quicker on a processor: {shown}"


def format_vocabulary_trick_time(answers: ClaimEvidence) -> Optional[str]:
    """Format the time of a step with the full softmax relative to a step with the large-vocabulary trick."""
    record = json.loads((answers.benchmarks / "recurrent.json").read_text(encoding="utf-8"))
    return f"yes: the full softmax takes {record['full softmax to words_lvt5k']} times as long (400,000 words)"


def leave_claim_unanswered(answers: ClaimEvidence) -> Optional[str]:
    """Return None, because there are no records for the claim."""
    return None


NOVEL = [make_analysis_reader(f"novel {n}-grams") for n in NGRAMS]
RECALL = [make_rouge_reader("recall", metric) for metric in ROUGES]
ROWS = (
    ClaimRow("ETADS", "focus-attention helps", "T2", 1.30, make_verdict_lookup("etads_focus", "etads_basic")),
    ClaimRow("ETADS", "saliency-selection helps", "T2", 1.23, make_verdict_lookup("etads_saliency", "etads_basic")),
    ClaimRow("ETADS", "both help", "T2", 2.17, make_verdict_lookup("etads", "etads_basic")),
    ClaimRow("ETADS", "both beat focus-attention alone", "T2", 0.87, make_verdict_lookup("etads", "etads_focus")),
    ClaimRow("ETADS", "both beat saliency-selection alone", "T2", 0.94, make_verdict_lookup("etads", "etads_saliency")),
    ClaimRow("ETADS", "focus gains most in ROUGE-L, saliency in ROUGE-1", "4.3", None, format_gains_by_metric),
    ClaimRow(
        "ETADS", "beats the pointer-generator with coverage", "T2", 2.15, make_verdict_lookup("etads", "pg_coverage")
    ),
    ClaimRow(
        *("ETADS", "beats Explicit-Selection, ROUGESal+Ent, Bottom-Up, ConvS2S", "T2", None, leave_claim_unanswered),
        needs="the four systems are not trained at this budget",
    ),
    ClaimRow(
        *("ETADS", "a basic Transformer equals the pointer-generator with coverage", "4.3", -0.02),
        make_verdict_lookup("etads_basic", "pg_coverage"),
    ),
    ClaimRow("ETADS", "two layers of the encoder are worse than four", "T4", -3.85, leave_claim_unanswered),
    ClaimRow("ETADS", "six layers of the encoder are no better than four", "T4", -0.10, leave_claim_unanswered),
    ClaimRow("ETADS", "two layers of the decoder are worse than four", "T4", -7.36, leave_claim_unanswered),
    ClaimRow("ETADS", "six layers of the decoder are no better than four", "T4", 0.14, leave_claim_unanswered),
    ClaimRow("ETADS", "saliency by layer, in precision", "T5", None, leave_claim_unanswered),
    ClaimRow(
        *("ETADS", "focus in the lower layers gains recall", "T6", None),
        make_difference_formatter(
            "layers_1-2", "layers_none", *RECALL, what="recall of ROUGE-1 / 2 / L, with saliency on: "
        ),
    ),
    ClaimRow(
        *("ETADS", "focus in the upper layers gains less recall", "T6", None),
        make_difference_formatter(
            "layers_3-4", "layers_none", *RECALL, what="recall of ROUGE-1 / 2 / L, with saliency on: "
        ),
    ),
    ClaimRow("ETADS", "summaries do not repeat", "4.4", None, format_repeated_ngrams),
    ClaimRow("Aggregation", "aggregation by attention helps", "T4", 0.86, make_verdict_lookup("attn_1", "plain")),
    ClaimRow("Aggregation", "aggregation by projection helps", "T4", 0.14, make_verdict_lookup("proj_1", "plain")),
    ClaimRow("Aggregation", "attention beats projection", "T4", 0.72, make_verdict_lookup("attn_1", "proj_1")),
    ClaimRow("Aggregation", "addition hurts", "T4", 0.30, make_verdict_lookup("plain", "add_1")),
    ClaimRow("Aggregation", "two aggregated layers: addition gets worse", "T4", -0.15, leave_claim_unanswered),
    ClaimRow("Aggregation", "two aggregated layers: attention gets worse", "T4", -0.97, leave_claim_unanswered),
    ClaimRow("Aggregation", "two aggregated layers: projection gets better", "T4", 0.09, leave_claim_unanswered),
    ClaimRow("Aggregation", "the encoder's depth matters more than the decoder's", "T3", -0.22, leave_claim_unanswered),
    ClaimRow(
        *("Aggregation", "more novel n-grams (+0.5 / 4.6 / 7.8 / 10.1)", "Fig. 5", None),
        make_difference_formatter("attn_1", "plain", *NOVEL, what="novel n-grams of 1 to 4 words: "),
    ),
    ClaimRow(
        "Aggregation",
        "beats the pointer-generator with coverage",
        "T1",
        1.31,
        make_verdict_lookup("attn_1", "pg_coverage"),
    ),
    ClaimRow("Aggregation", "beats lead-3", "T1", None, lambda answers: format_difference_from_lead(answers, "attn_1")),
    ClaimRow(
        "Aggregation",
        "Chinese: +5.3; people prefer it",
        "T5, 6",
        None,
        leave_claim_unanswered,
        "no Chinese corpus, no judges",
    ),
    ClaimRow("Gated ES", "sharing the encoder's layers helps", "T2, 3", 2.53, make_verdict_lookup("es", "plain")),
    ClaimRow("Gated ES", "the gate helps on top", "T2, 3", 0.20, make_verdict_lookup("gated_es", "es")),
    ClaimRow(
        "Gated ES",
        "sharing helps, with equal tables of word vectors",
        "",
        2.53,
        make_verdict_lookup("es_tied", "plain"),
    ),
    ClaimRow(
        "Gated ES",
        "the gate helps, with equal tables of word vectors",
        "",
        0.20,
        make_verdict_lookup("gated_es_tied", "es_tied"),
    ),
    ClaimRow(
        *(
            "Gated ES",
            "beats ABS, RAS-Elman, Feats2s, Entail; a Transformer equals seq2seq",
            "T2, 3",
            None,
            leave_claim_unanswered,
        ),
        needs="only single trainings of the sample corpus (experiments.md)",
    ),
    ClaimRow(
        "Gated ES",
        "a third of seq2seq's training time, quicker search; the gate costs speed",
        "T2",
        None,
        format_training_and_search_speed,
    ),
    ClaimRow(
        "Nallapati",
        "hierarchical attention helps",
        "T3",
        0.06,
        make_verdict_lookup("words_lvt2k_hieratt", "words_lvt2k"),
    ),
    ClaimRow(
        "Nallapati", "features help (here TF and IDF)", "T1", 0.16, make_verdict_lookup("feats_lvt2k", "words_lvt2k")
    ),
    ClaimRow(
        "Nallapati", "temporal attention helps", "T3", 2.54, make_verdict_lookup("words_lvt2k_temp_att", "words_lvt2k")
    ),
    ClaimRow(
        *("Nallapati", "temporal attention repeats less", "T3", None),
        make_difference_formatter(
            *(
                "words_lvt2k_temp_att",
                "words_lvt2k",
                make_analysis_reader("repeated 2-grams"),
                make_analysis_reader("repeated 3-grams"),
            ),
            what="repeated bigrams / trigrams, in per cent: ",
        ),
    ),
    ClaimRow("Nallapati", "the copy rate is about 78 %", "T1", None, make_copy_rate_formatter("words_lvt2k")),
    ClaimRow("Nallapati", "the switching pointer is best, not significantly", "T1", 0.34, leave_claim_unanswered),
    ClaimRow("Nallapati", "lvt5k beats lvt2k", "T1", None, leave_claim_unanswered),
    ClaimRow("Nallapati", "two sentences beat one", "T1", 0.51, leave_claim_unanswered),
    ClaimRow(
        "Nallapati", "the large-vocabulary trick is three times as fast", "4.1", None, format_vocabulary_trick_time
    ),
    ClaimRow("Nallapati", "DUC-2004", "T2", None, leave_claim_unanswered, "DUC-2004 cannot be redistributed"),
)


def compute_mean_rouge(record: Record) -> float:
    """Compute the mean of ROUGE-1, 2 and L (F1)."""
    return float(np.mean([make_rouge_reader("f1", metric)(record) for metric in ROUGES]))


def format_difference_from_lead(answers: ClaimEvidence, system: str) -> Optional[str]:
    """Format the difference in mean ROUGE between a system and the best lead baseline in the records."""
    leads = [name for name in answers.systems if name.startswith("lead-")]
    value = compute_system_mean(answers.systems, system, compute_mean_rouge)
    if value is None or not leads:
        return None
    lead = max(leads, key=lambda name: compute_mean_rouge(answers.systems[name][0]))
    return f"{value - compute_mean_rouge(answers.systems[lead][0]):+.2f} against `{lead}` (one training)"


def format_required_training_runs(row: ClaimRow, deviation: float) -> str:
    """Return a phrase with the number of training runs per system that detect the published difference with 80 % power.

    The phrase contains two numbers, without and with correction for multiple comparisons.
    """
    if not row.published or not deviation > 0:  # NaN if no system has enough training runs
        return ""
    claims = sum(other.paper == row.paper for other in ROWS)
    shown = []
    for level in (0.05, 0.05 / claims):
        number = trainings_needed(abs(row.published), deviation, level=level, most=MOST)
        shown.append(str(number) if number else f"more than {MOST}")
    return f"would need {shown[0]} seeds a side ({shown[1]} corrected)"


def format_cell(row: ClaimRow, answers: ClaimEvidence) -> str:
    """Return the answer or, if there is none, the number of training runs that a verdict requires."""
    found = row.answer(answers)
    needed = format_required_training_runs(row, answers.deviation)
    if found is None:
        return "; ".join(part for part in (row.needs, needed) if part)
    is_open = "undecided" in found or "no verdict" in found
    return f"{found}; {needed}" if is_open and needed and "excluded" not in found else found


def make_claim_rows(corpora: Dict[str, ClaimEvidence]) -> Iterator[List[str]]:
    """Return the table cells for all claims, with a column for each corpus."""
    for row in ROWS:
        published = "" if row.published is None else f"{row.published:+.2f}"
        yield [row.paper, row.claim, row.where, published, *(format_cell(row, answers) for answers in corpora.values())]


def compute_seed_deviation(systems: Records, means: Callable[[List[Record]], np.ndarray], seeds: int) -> float:
    """Compute the standard deviation of mean ROUGE between seeds, pooled over systems with enough training runs."""
    variances = [means(records).var(ddof=1) for records in systems.values() if len(records) >= seeds]
    return float(np.sqrt(np.mean(variances))) if variances else float("nan")
