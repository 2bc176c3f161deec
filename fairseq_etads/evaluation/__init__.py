"""Scores and what stands behind them: ROUGE, comparisons of systems, analyses of summaries, judgements of people."""

from .command import main
from .resampling import bootstrap_intervals, compare_pairs
from .rouge import RougeReport, Score, Settings, pair_scores, rouge
from .text import SENTENCE_MARK, read_lines, split_summary

__all__ = [
    "SENTENCE_MARK",
    "RougeReport",
    "Score",
    "Settings",
    "bootstrap_intervals",
    "compare_pairs",
    "main",
    "pair_scores",
    "read_lines",
    "rouge",
    "split_summary",
]
