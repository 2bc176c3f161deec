"""Count the words of prepared data that a model can know, and the unknown words of summaries."""

from pathlib import Path
from typing import Any, Dict, Iterator, Sequence

from fairseq_etads.text.atomic import SIDES
from fairseq_etads.text.files import read_lines

FEWEST = 0.9
"""Smallest share of the requested words without a warning."""


def vocabulary_report(out: Path, splits: Sequence[str], wanted: Dict[str, int]) -> Dict[str, Any]:
    """Make the part of report.json about words; needs the plugin.

    Args:
        out: the folder of prepared data, with tokens/ and bin/.
        wanted: the requested number of words, by side.

    Returns: "known", the number of words (or subwords) that a model knows of each side, without special symbols;
    "asked"; and "summaries", by split: "words" of the summaries; "unknown", the number of these that are not known on
    the summaries' side; "copyable", the number of unknown words that occur in their untruncated document.
    """
    from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, is_padding_word

    known = {}
    for side in SIDES:
        dictionary = SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt"))
        words = dictionary.symbols[dictionary.nspecial : dictionary.known_words]
        known[side] = {word for word in words if not is_padding_word(word)}
    specials = set(dictionary.symbols[: dictionary.nspecial])
    counts = {}
    for split in splits:
        count = {"words": 0, "unknown": 0, "copyable": 0}
        for document, summary in zip(*(read_lines(out / "tokens" / f"{split}.{side}") for side in SIDES)):
            words = summary.split()
            unknown = [word for word in words if word not in known["target"]]
            count["words"] += len(words)
            count["unknown"] += len(unknown)
            if unknown:
                in_document = set(document.split()) - specials
                count["copyable"] += sum(word in in_document for word in unknown)
        counts[split] = count
    return {"known": {side: len(words) for side, words in known.items()}, "asked": wanted, "summaries": counts}


def describe(report: Dict[str, Any]) -> Iterator[str]:
    """Describe the report in sentences, and warn of a side with far fewer words than requested."""
    known, asked = report["known"], report["asked"]
    yield f"known words: {known['source']:,} of documents, {known['target']:,} of summaries"
    for side, what in (("source", "documents"), ("target", "summaries")):
        if known[side] < FEWEST * asked.get(side, 0):
            yield f"WARNING: {asked[side]:,} words of {what} were asked for, and the training text has {known[side]:,}"
    for split, count in report["summaries"].items():
        unknown, copyable = count["unknown"] / max(1, count["words"]), count["copyable"] / max(1, count["unknown"])
        yield f"{split}.target: {unknown:.2%} of the words are unknown, {copyable:.1%} of these are in their document"
