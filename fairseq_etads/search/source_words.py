"""Post-process finished summaries: replace unknown words, and add alignments or source positions of copied words.

The public functions change the hypotheses in place. The attention of a hypothesis has the shape (S, T), for S source
tokens and T summary tokens.
"""

from typing import Any, Dict, Optional, Tuple

import torch
from fairseq import utils
from fairseq.data import data_utils
from torch import Tensor, nn

from ..layers.decoder_output import DecoderOutput
from ..layers.pointer import Selection
from ..vocabulary.candidates import CandidateWords
from .hypotheses import Results
from .search_rules import SpecialTokens
from .shortlisting import restrict_softmax


def replace_unknown_words(
    results: Results, src_tokens: Tensor, special: SpecialTokens, source_dictionary: Any, target_dictionary: Any
) -> None:
    """Replace each unknown word in "tokens" with the most attended known word of the source.

    For each token, "alignment" (T,) is set to the position of its most attended known word, not counting padding on the
    left.

    Args:
        results: the hypotheses of each document.
        src_tokens: the source documents (B, S).
        special: the ids of the special tokens.
        source_dictionary: the dictionary of the source documents. If None, unknown words are aligned but not replaced.
        target_dictionary: the dictionary of the summaries. Replacements that it lacks are added.
    """
    for source, hypotheses in zip(src_tokens, results):
        left_padding = int((source == special.pad).cumprod(0).sum())
        for hypothesis in hypotheses:
            position, is_known = _find_most_attended_words(hypothesis["attention"], source, special)
            if source_dictionary is not None:
                replaced = (hypothesis["tokens"] == special.unk) & is_known
                words = _convert_to_target_ids(source[position[replaced]], source_dictionary, target_dictionary)
                hypothesis["tokens"] = hypothesis["tokens"].masked_scatter(replaced, words)
            hypothesis["alignment"] = (position - left_padding).clamp(min=0)


def _find_most_attended_words(attention: Tensor, source: Tensor, special: SpecialTokens) -> Tuple[Tensor, Tensor]:
    """Find the most attended known word for each token in a summary.

    Returns the source position (T,) of this word and a mask (T,) that is True if a known word was found. If the source
    (S,) contains no known words, the position is 0.
    """
    is_known = (source != special.pad) & (source != special.eos) & (source != special.unk)
    position = attention.masked_fill(~is_known[:, None], -1).argmax(dim=0)
    return position, is_known[position]


def _convert_to_target_ids(words: Tensor, source_dictionary: Any, target_dictionary: Any) -> Tensor:
    """Convert source-dictionary ids (n,) to target-dictionary ids. Missing words are added to the target dictionary."""
    if source_dictionary is target_dictionary:
        return words
    spelt = [source_dictionary[word] for word in words.tolist()]
    return words.new_tensor([target_dictionary.add_symbol(word, n=0) for word in spelt])


def add_copied_positions(
    results: Results,
    model: Any,
    net_input: Dict[str, Tensor],
    special: SpecialTokens,
    selection: Optional[Selection] = None,
    candidates: Optional[CandidateWords] = None,
    bos_token: Optional[int] = None,
) -> None:
    """Set "copied_from" (T,) to the source position from which each token was copied, or -1 if it was generated.

    Args:
        results: the hypotheses of each document.
        model: a model with a pointer, which is run once more on the finished summaries.
        net_input: the model inputs of the batch.
        special: the ids of the special tokens.
        selection: the words that the model may copy, or None to allow all words.
        candidates: the words that the model may generate, or None to allow all words.
        bos_token: the id of the symbol with which the summaries start, or None for the end symbol.
    """
    hypotheses = [(row, hypothesis) for row, found in enumerate(results) for hypothesis in found]
    documents = torch.tensor([row for row, _ in hypotheses], device=net_input["src_tokens"].device)
    tokens = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], special.pad, special.eos)  # (n, T)
    before = tokens.roll(1, dims=1)
    before[:, 0] = special.eos if bos_token is None else bos_token
    inputs = {name: value[documents] for name, value in net_input.items() if isinstance(value, Tensor)}
    if candidates is None:
        output = DecoderOutput.from_fairseq_output(model(**{**inputs, "prev_output_tokens": before}))
    else:
        found = restrict_softmax(model, inputs["src_tokens"], candidates.select(documents))
        encoder_out = {**model.encoder.forward_torchscript(inputs), **found}
        output = DecoderOutput.from_fairseq_output(model.decoder(before, encoder_out=encoder_out))
    pointer = output.pointer
    assert pointer is not None and output.vocabulary is not None, "a model with a pointer"
    if selection is not None:
        pointer = pointer.restrict_to_selection(selection._replace(probabilities=selection.probabilities[documents]))
    positions = pointer.find_copied_positions(
        output.logits, output.vocabulary.convert_to_target_columns(tokens)
    )  # (n, T)
    for (_, hypothesis), copied_from in zip(hypotheses, positions):
        hypothesis["copied_from"] = copied_from[: len(hypothesis["tokens"])]


def add_alignments(results: Results, src_tokens: Tensor, special: SpecialTokens, kind: str) -> None:
    """Set "alignment" in fairseq's format: pairs of positions for "hard", or rows of attention weights for "soft"."""
    extract = utils.extract_hard_alignment if kind == "hard" else utils.extract_soft_alignment
    hypotheses = [(source, hypothesis) for source, row in zip(src_tokens, results) for hypothesis in row]
    texts = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], special.pad, special.eos)
    for (source, hypothesis), text in zip(hypotheses, texts):
        attention = hypothesis["attention"].transpose(0, 1)  # (T, S)
        attention = nn.functional.pad(attention, (0, 0, 0, len(text) - len(attention)))
        hypothesis["alignment"] = extract(attention.cpu(), source.cpu(), text.cpu(), special.pad, special.eos)
