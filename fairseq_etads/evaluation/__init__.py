"""Evaluation with ROUGE and other metrics, comparison of systems, analysis of summaries, and human evaluation."""

from .resampling import bootstrap_intervals, compare_pairs
from .rouge import RougeReport, Score, Settings, pair_scores, rouge
from .summaries import SENTENCE_MARK, read_lines, split_summary

__all__ = [
    "SENTENCE_MARK",
    "RougeReport",
    "Score",
    "Settings",
    "bootstrap_intervals",
    "compare_pairs",
    "pair_scores",
    "read_lines",
    "rouge",
    "split_summary",
]
