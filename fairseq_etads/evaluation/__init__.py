"""Evaluation with ROUGE and other metrics, comparison of systems, analysis of summaries, and human evaluation."""

from .resampling import bootstrap_intervals, compare_pairs
from .rouge import RougeReport, RougeSettings, Score, rouge, score_pairs
from .summaries import SENTENCE_MARK, read_lines, split_summary_into_sentences

__all__ = [
    "SENTENCE_MARK",
    "RougeReport",
    "RougeSettings",
    "Score",
    "bootstrap_intervals",
    "compare_pairs",
    "read_lines",
    "rouge",
    "score_pairs",
    "split_summary_into_sentences",
]
