"""Compute logits and the pointer from decoder states, for all families of decoders except the recurrent one."""

from typing import Any, Dict, Optional

import torch
from torch import Tensor, nn

from ..kernels.lookup import expect_dense_gradient
from ..kernels.word_log_probs import word_log_probs
from ..layers.decoder_output import DecoderOutput, NetOutput, WordRequest
from ..layers.embedding import SharedTableOutput
from ..layers.pointer import Pointer, PointerOutput, WordLogProbs
from ..vocabulary.output import OutputVocabulary


def multiply_by_documents(queries: Tensor, documents: Tensor) -> Tensor:
    """Multiply queries (N, T, D) by their documents (B, D, S). Returns (N, T, S).

    N is a multiple of B; rows of the same document are adjacent.
    """
    rows, length, width = queries.shape
    if rows == len(documents):
        return torch.bmm(queries, documents)
    return torch.bmm(queries.reshape(len(documents), -1, width), documents).view(rows, length, -1)


class PointingDecoder:
    """A mixin for a decoder, inherited before one of fairseq's decoder classes.

    Attributes:
        pointer: the pointer head, or None.
        dictionary: the dictionary of known words.
        output_projection: a linear layer over the known words.
        output_layer: function that computes the logits of states (N, T, d).
    """

    shares_documents = True
    """Accepts a BeamState: documents stay single rows while prev_output_tokens has one row per beam."""
    takes_requests = True
    """Accepts the argument ``request``, a :class:`WordRequest`, in its and its model's forward pass."""
    pointer: Optional[Pointer]
    dictionary: Any
    output_projection: Any
    output_layer: Any

    def output_vocabulary(self, src_tokens: Tensor, bounded: bool = False) -> OutputVocabulary:
        """Make the vocabulary of the distributions for documents (B, S); ``bounded``: see :class:`BatchVocab`."""
        return OutputVocabulary.of(src_tokens, self.dictionary, pointer=self.pointer is not None, bounded=bounded)

    def score_words(
        self,
        output: DecoderOutput,
        memory: Tensor,
        tokens: Tensor,
        encoder_out: Dict[str, Any],
        request: Optional[WordRequest] = None,
    ) -> DecoderOutput:
        """Replace the output's states by logits, and add the batch's vocabulary and a pointer's decisions.

        Args:
            output: the decoder's output, with states (N, T, d), the output layer's input, in place of logits.
            memory: encoder states (S, B, E) for the pointer.
            tokens: ids of the previous words (N, T or more) in the dictionary.
            encoder_out: the encoder's output.
            request: the request of a loss. The output then has ``words``, and states in place of logits.
        """
        states = output.logits
        if "vocabulary" not in encoder_out:
            bounded = request is not None and not request.whole
            encoder_out["vocabulary"] = self.output_vocabulary(encoder_out["src_tokens"][0], bounded)
        vocabulary: OutputVocabulary = encoder_out["vocabulary"]
        output.vocabulary = vocabulary
        if self.pointer is not None:
            assert vocabulary.slots is not None
            source, steps = encoder_out["src_tokens"][0], states.shape[1]
            history = self.pointer.history(tokens, source, steps, self.dictionary.unk())
            output.pointer = self.pointer(states, memory, vocabulary.slots, history)
        if "candidate_output" in encoder_out:  # in a search with a shortlist
            logits = encoder_out["candidate_output"](states)  # (N, T, C)
            assert vocabulary.candidates is not None
            output.logits = vocabulary.candidates.restrict(logits)
            return output
        is_linear = isinstance(self.output_projection, (nn.Linear, SharedTableOutput))
        if request is None or not is_linear:
            output.logits = self.output_layer(states)
        elif request.whole:
            output.logits = self.output_layer(states)
            expect_dense_gradient(output.logits, self.output_projection.weight)
        else:
            output.words = self._requested(request, states, vocabulary, output.pointer)
            expect_dense_gradient(output.words.target, self.output_projection.weight)
        return output

    def _requested(
        self, request: WordRequest, states: Tensor, vocabulary: OutputVocabulary, pointer: Optional[PointerOutput]
    ) -> WordLogProbs:
        """Compute the log-probabilities that a loss requests, from states (N, T, d) and a layer over known words."""
        layer = self.output_projection
        size = int(layer.known_words if isinstance(layer, SharedTableOutput) else layer.out_features)
        columns = vocabulary.target_columns(request.target)[:, :, None].clamp(max=size - 1)
        if pointer is not None and request.without is not None and pointer.kind == "soft":
            columns = torch.cat([columns, pointer.document_columns().clamp(max=size - 1)], dim=2)
        picked, total = word_log_probs(states, layer.weight, layer.bias, columns, size, request.without)
        return WordLogProbs(size, picked[:, :, 0], picked[:, :, 1:], total)

    def get_normalized_probs(
        self, net_output: NetOutput, log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """Compute (log-)probabilities (N, T, V), or with a pointer (N, T, V + K) by extended id.

        In a search with a shortlist they are (N, T, C) or (N, T, C + K), by column.
        """
        output = DecoderOutput.of(net_output)
        if output.pointer is None:
            parent: Any = super()
            probs: Tensor = parent.get_normalized_probs(net_output, log_probs, sample)
            return probs
        scores = output.pointer.log_probs(output.logits)
        return scores if log_probs else scores.exp()
