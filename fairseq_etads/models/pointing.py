"""What the decoders of all families but the recurrent one share: from their states to logits and pointer."""

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor

from ..layers.pointer import Pointer, PointerOutput
from ..layers.word_likelihood import requested_log_probs
from ..vocabulary.output import OutputVocabulary


def multiply_by_documents(queries: Tensor, documents: Tensor) -> Tensor:
    """Batched product (N, T, D) x (B, D, S) -> (N, T, S), N a multiple of B; rows of a document follow one another."""
    rows, length, width = queries.shape
    if rows == len(documents):
        return torch.bmm(queries, documents)
    return torch.bmm(queries.reshape(len(documents), -1, width), documents).view(rows, length, -1)


class PointingDecoder:
    """A mixin for a decoder, inherited before one of fairseq's decoder classes.

    Attributes:
        pointer: the pointer head, or None. dictionary: the known words.
        output_projection: a linear layer over the known words. output_layer: logits of states (N, T, d).
    """

    shares_documents = True
    """Takes a BeamState: documents stay single rows while prev_output_tokens has a row for each of their beams."""
    pointer: Optional[Pointer]
    dictionary: Any
    output_projection: Any
    output_layer: Any

    def output_vocabulary(self, src_tokens: Tensor) -> OutputVocabulary:
        """The words that the distributions for documents (B, S) range over."""
        return OutputVocabulary.of(src_tokens, self.dictionary, pointer=self.pointer is not None)

    def logits_of(
        self, states: Tensor, memory: Tensor, tokens: Tensor, encoder_out: Dict[str, Any], extra: Dict[str, Any]
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """What the forward pass returns for states (N, T, d).

        Args:
            memory: what the pointer looks at (S, B, E). tokens: the words before (N, T or more), ids of the dictionary.
            encoder_out: of the encoder. extra: what is returned beside logits, to which "vocabulary", the batch's
                :class:`OutputVocabulary`, is added and with a pointer "pointer", its :class:`PointerOutput`.

        Returns:
            logits (N, T, V), with a shortlist (N, T, C), and the extras. Asked for the likelihood of given words
            (``layers/word_likelihood.py``), the states instead of logits, and "word_log_probs".
        """
        if "vocabulary" not in encoder_out:
            encoder_out["vocabulary"] = self.output_vocabulary(encoder_out["src_tokens"][0])
        extra["vocabulary"] = encoder_out["vocabulary"]
        if self.pointer is not None:
            source, steps = encoder_out["src_tokens"][0], states.shape[1]
            history = self.pointer.history(tokens, source, steps, self.dictionary.unk())
            extra["pointer"] = self.pointer(states, memory, extra["vocabulary"].slots, history)
        if "candidate_output" in encoder_out:  # of a search with a shortlist
            logits = encoder_out["candidate_output"](states)  # (N, T, C)
            return extra["vocabulary"].candidates.restrict(logits), extra
        words = requested_log_probs(states, self.output_projection, extra["vocabulary"], extra.get("pointer"))
        if words is None:
            return self.output_layer(states), extra
        extra["word_log_probs"] = words
        return states, extra

    def get_normalized_probs(
        self, net_output: Tuple[Tensor, Any], log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """(Log-)probabilities: (N, T, V), or (N, T, V + K) over extended ids with a pointer.

        In a search with a shortlist by column: (N, T, C) or (N, T, C + K).
        """
        logits, extra = net_output
        pointer: Optional[PointerOutput] = extra.get("pointer") if extra else None
        if pointer is None:
            parent: Any = super()
            probs: Tensor = parent.get_normalized_probs(net_output, log_probs, sample)
            return probs
        scores = pointer.log_probs(logits)
        return scores if log_probs else scores.exp()
