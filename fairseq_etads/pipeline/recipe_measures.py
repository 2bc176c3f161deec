"""Measures that single recipes print or choose by, as commands of these recipes.

python -m fairseq_etads.pipeline.recipe_measures bigrams OUT SUBSET SEED...   repeated bigrams (sumpubmed_temporal)
python -m fairseq_etads.pipeline.recipe_measures best SETTINGS CHOSEN         the best control words (convs2s_cnndm)
"""

import json
import sys
from pathlib import Path
from typing import Dict, List

import numpy as np

from ..evaluation.analysis import WORD_SPLITTERS, compute_repeated_ngram_share
from ..evaluation.resampling import compare_pairs
from ..evaluation.summaries import read_lines
from ..files.outputs import write_text
from ..platform.console import print_message
from ..text.words import SENTENCE_MARK


def bigrams(out: str, subset: str, *seeds: str) -> None:
    """Test whether temporal attention repeats fewer bigrams, in per cent of each summary's bigrams."""

    def rates(system: str) -> np.ndarray:
        texts = read_lines(f"{out}/{system}/{subset}.txt")
        words = (WORD_SPLITTERS["words"](text.replace(SENTENCE_MARK, " ")) for text in texts)
        return 100 * np.array([compute_repeated_ngram_share(summary, 2) or 0.0 for summary in words])

    for seed in seeds:
        if not all(Path(out, f"{name}-{seed}", f"{subset}.txt").is_file() for name in ("temporal", "plain")):
            continue
        test = compare_pairs(rates(f"temporal-{seed}"), rates(f"plain-{seed}"), 1000, 12345)
        low, high = test["interval"] or (np.nan, np.nan)  # None for a single document
        print(
            f"repeated bigrams, seed {seed}: temporal - plain {test['difference']:.2f} points [{low:.2f}, {high:.2f}], "
            f"paired randomisation p = {test['p_randomisation']:.3f}"
        )


def best(settings: str, chosen: str) -> None:
    """Write the control words LENGTH-ORIGIN with the best ROUGE-L in SETTINGS/LENGTH-ORIGIN/rouge.json to CHOSEN."""
    scores: Dict[str, float] = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))["scores"]["rougeL"]["f1"]
        for path in sorted(Path(settings).glob("*/rouge.json"))
    }
    length, origin = max(scores, key=lambda name: scores[name]).split("-")
    write_text(Path(chosen), json.dumps({"length": length, "origin": origin}) + "\n")
    print_message(f"control words: {length}-{origin}")


def main(words: List[str]) -> None:
    """Run the measure that the first word names."""
    if words[0] == "bigrams":
        bigrams(*words[1:])
    else:
        best(*words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
