"""Post-process finished summaries: replace unknown words, and add alignments or source positions of copied words.

The public functions change the hypotheses in place. The attention of a hypothesis has the shape (S, T), for S source
tokens and T summary tokens.
"""

from typing import Any, Dict, Optional

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
    """Replace each unknown word in "tokens" with the most attended known word of the source (B, S).

    For each token, "alignment" (T,) is set to the position of its most attended known word, not counting padding on the
    left. Without a source dictionary, unknown words are aligned but not replaced. Replacements that the target
    dictionary lacks are added to it.
    """
    for source, hypotheses in zip(src_tokens, results):
        left_padding = int((source == special.pad).cumprod(0).sum())
        is_known = (source != special.pad) & (source != special.eos) & (source != special.unk)
        for hypothesis in hypotheses:
            position = hypothesis["attention"].masked_fill(~is_known[:, None], -1).argmax(dim=0)
            if source_dictionary is not None:
                replaced = (hypothesis["tokens"] == special.unk) & is_known[position]
                words = source[position[replaced]]
                if source_dictionary is not target_dictionary:
                    spelt = [source_dictionary[word] for word in words.tolist()]
                    words = words.new_tensor([target_dictionary.add_symbol(word, n=0) for word in spelt])
                hypothesis["tokens"] = hypothesis["tokens"].masked_scatter(replaced, words)
            hypothesis["alignment"] = (position - left_padding).clamp(min=0)


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

    The decoder of the model, which has a pointer, is run once more on the finished summaries. ``selection`` and
    ``candidates`` are the words that it may copy and generate, or None to allow all words. Summaries start with
    ``bos_token``, or with the end symbol if it is None.
    """
    hypotheses = [(row, hypothesis) for row, found in enumerate(results) for hypothesis in found]
    documents = torch.tensor([row for row, _ in hypotheses], device=net_input["src_tokens"].device)
    tokens = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], special.pad, special.eos)  # (n, T)
    before = tokens.roll(1, dims=1)
    before[:, 0] = special.eos if bos_token is None else bos_token
    # Each document is encoded once, not once for each of its hypotheses, which would take most of the time of a search.
    encoder_out = model.encoder.reorder_encoder_out(model.encoder.forward_torchscript(net_input), documents)
    if candidates is not None:
        restricted = restrict_softmax(model, net_input["src_tokens"][documents], candidates.select(documents))
        encoder_out = {**encoder_out, **restricted}
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
