"""Count the known words in prepared data, and the unknown words in its summaries."""

from pathlib import Path
from typing import Any, Dict, Iterator, Sequence

from fairseq_etads.text.files import read_lines
from fairseq_etads.text.json_files import SIDES

FEWEST = 0.9
"""Minimum ratio of the number of known words to the requested number. A lower ratio causes a warning."""


def make_vocabulary_report(out: Path, splits: Sequence[str], wanted: Dict[str, int]) -> Dict[str, Any]:
    """Return statistics about the vocabulary for report.json. The plugin must be loaded.

    Args:
        out: path of a folder of prepared data, which contains the subfolders tokens/ and bin/.
        wanted: requested vocabulary sizes, with the keys "source" and "target".

    Returns:
        A dictionary with three entries. "known" contains the source and target vocabulary sizes in words (or subwords),
        without special symbols. "asked" contains the requested vocabulary sizes. "summaries" contains three counts for
        each split: the "words" in the summaries, the "unknown" words among them, and the "copyable" words, which are
        unknown but occur in the untruncated document.
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


def summarise_vocabulary(report: Dict[str, Any]) -> Iterator[str]:
    """Summarise the report in a few lines of text, and warn if a vocabulary is far smaller than requested."""
    known, asked = report["known"], report["asked"]
    yield f"known words: {known['source']:,} of documents, {known['target']:,} of summaries"
    for side, what in (("source", "documents"), ("target", "summaries")):
        if known[side] < FEWEST * asked.get(side, 0):
            yield f"WARNING: {asked[side]:,} words of {what} were asked for, and the training text has {known[side]:,}"
    for split, count in report["summaries"].items():
        unknown, copyable = count["unknown"] / max(1, count["words"]), count["copyable"] / max(1, count["unknown"])
        yield f"{split}.target: {unknown:.2%} of the words are unknown, {copyable:.1%} of these are in their document"
