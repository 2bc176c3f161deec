"""The models of an ensemble as the search sees them: encode once, then a step at a time for all beams."""

import math
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..layers.beam_state import BeamState
from ..layers.capabilities import decoder_capabilities, pointer_of


class Member:
    """One model. Rows are in the order document, beam.

    Args:
        model: in evaluation mode.
        net_input: the batch, as a dataset makes it.
        documents: B.
        beam: beams of each document from the second step on.
    """

    first_beam: int
    """Beams of each document in the first step, in which all are the same."""

    def __init__(self, model: Any, net_input: Dict[str, Tensor], documents: int):
        self.model: Any = model
        self.plain = _is_plain_softmax(model)
        self.encoder_out: Any = None
        if hasattr(self.model, "encoder"):
            self.encoder_out = self.model.encoder.forward_torchscript(net_input)

    def decode(self, tokens: Tensor) -> Tuple[Any, ...]:
        """Tokens (rows, t) -> what the decoder returns for at least the last one."""
        raise NotImplementedError

    def reorder(self, parents: Tensor, rows: Tensor, documents: Optional[Tensor]) -> None:
        """Let hypotheses take others' places.

        Args:
            parents: (B', beam'), the old beam of the same document that each new one continues.
            rows: (B' * beam',), the same as old rows.
            documents: (B',), which documents stay; None: all.
        """
        raise NotImplementedError

    def step(self, tokens: Tensor, temperature: float) -> Tuple[Tensor, Optional[Tensor]]:
        """Tokens (rows, t) -> log-probabilities (rows, V) in float32 or better, attention (rows, S) or None."""
        out = self.decode(tokens)
        extra = out[1] if len(out) > 1 else None
        attention = extra.get("attn") if isinstance(extra, dict) else extra
        if isinstance(attention, (list, tuple)):
            attention = attention[0] if attention else None
        logits = out[0][:, -1:]
        copies = pointer_of(self.model) is not None
        if temperature != 1.0 and not copies:
            logits = logits / temperature
        if self.plain and logits.dtype == torch.float32 and logits.device.type == "cpu":
            logits = logits[:, -1]
            lprobs = torch.log_softmax(logits, dim=-1, out=logits)  # in place: see inference.WideLinear
        else:
            lprobs = self.model.get_normalized_probs((logits, *out[1:]), log_probs=True, sample=None)[:, -1].float()
            if temperature != 1.0 and copies:  # of copying, too
                lprobs = torch.log_softmax(lprobs / temperature, dim=-1)
        return lprobs, None if attention is None else attention[:, -1].float()


class SharingMember(Member):
    """A model of this project: documents stay single rows (see :mod:`fairseq_etads.layers.beam_state`)."""

    first_beam = 1

    def __init__(self, model: Any, net_input: Dict[str, Tensor], documents: int):
        super().__init__(model, net_input, documents)
        dtype = getattr(model, "memory_dtype", None)
        self.state = BeamState(documents, net_input["src_tokens"].device, dtype)

    def decode(self, tokens: Tensor) -> Tuple[Any, ...]:
        self.state.begin_step()
        return self.model.decoder(tokens, encoder_out=self.encoder_out, incremental_state=self.state)

    def reorder(self, parents: Tensor, rows: Tensor, documents: Optional[Tensor]) -> None:
        self.state.reorder(parents, documents)
        self.model.decoder.reorder_incremental_state_scripting(self.state, rows)
        if documents is not None:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, documents)


class RepeatingMember(Member):
    """Any fairseq model: the encoder's output is repeated for each beam, as fairseq does."""

    def __init__(self, model: Any, net_input: Dict[str, Tensor], documents: int, beam: int):
        super().__init__(model, net_input, documents)
        self.first_beam, self.rows = beam, documents * beam
        self.incremental = isinstance(getattr(model, "decoder", None), FairseqIncrementalDecoder)
        self.state: Dict[str, Any] = {}
        device = next(tensor.device for tensor in net_input.values() if isinstance(tensor, Tensor))
        self._reorder_encoder_out(torch.arange(documents, device=device).repeat_interleave(beam))

    def _reorder_encoder_out(self, rows: Tensor) -> None:
        if self.encoder_out is not None:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, rows)

    def decode(self, tokens: Tensor) -> Tuple[Any, ...]:
        if not hasattr(self.model, "decoder"):
            return self.model(tokens)
        if not self.incremental:
            return self.model.decoder(tokens, encoder_out=self.encoder_out)
        return self.model.decoder(tokens, encoder_out=self.encoder_out, incremental_state=self.state)

    def reorder(self, parents: Tensor, rows: Tensor, documents: Optional[Tensor]) -> None:
        if self.incremental:
            self.model.decoder.reorder_incremental_state_scripting(self.state, rows)
        if documents is not None or len(rows) != self.rows:  # within a document the rows are all the same
            self._reorder_encoder_out(rows)
        self.rows = len(rows)


def _is_plain_softmax(model: Any) -> bool:
    """Whether the distribution is the softmax of the decoder's output and nothing else."""
    decoder = getattr(model, "decoder", None)
    capabilities = decoder_capabilities(model)
    return (
        capabilities.shares_documents
        and getattr(decoder, "adaptive_softmax", None) is None
        and capabilities.pointer is None
        and not capabilities.large_vocabulary_trick
        and _is_known(model)
        and _is_known(decoder)
    )


def _is_known(part: Any) -> bool:
    """Whether ``get_normalized_probs`` is fairseq's or this project's, and not some subclass's."""
    return type(part).get_normalized_probs.__module__.split(".")[0] in ("fairseq", __name__.split(".")[0])


class Ensemble:
    """The members together: their probabilities are averaged.

    Args:
        models: in evaluation mode.
        net_input: the batch. documents: B. beam: beams of each document.
        temperature: divides the logits.
    """

    def __init__(
        self, models: List[nn.Module], net_input: Dict[str, Tensor], documents: int, beam: int, temperature: float
    ):
        self.temperature = temperature
        self.documents = documents
        self.members: List[Member] = [
            SharingMember(model, net_input, documents)
            if decoder_capabilities(model).shares_documents
            else RepeatingMember(model, net_input, documents, beam)
            for model in models
        ]

    def step(self, tokens: Tensor, first: bool) -> Tuple[Tensor, Optional[Tensor]]:
        """Next words' log-probabilities and the mean attention.

        Args:
            tokens: (B, beam, t), start symbol included.
            first: the first step, in which all beams are the same and only one is returned.

        Returns:
            (B, beam, V), V of the widest member: a narrower one gives the rest probability 0; attention (B, beam, S) of
            the members that return one, or None.
        """
        documents, _, length = tokens.shape
        parts, attentions = [], []
        for member in self.members:
            rows = tokens[:, : member.first_beam] if first else tokens
            lprobs, attention = member.step(rows.reshape(-1, length), self.temperature)
            parts.append(lprobs.view(documents, rows.size(1), -1))
            if attention is not None:
                attentions.append(attention.view(documents, rows.size(1), -1))
        if first:
            parts, attentions = [x[:, :1] for x in parts], [x[:, :1] for x in attentions]
        return _mean_probs(parts), _mean(attentions)

    def reorder(self, parents: Tensor, documents: Optional[Tensor], old_beam: int, first: bool) -> None:
        """See :meth:`Member.reorder`; ``old_beam`` is the number of beams of the step before."""
        kept = torch.arange(self.documents, device=parents.device) if documents is None else documents
        for member in self.members:
            beam = member.first_beam if first else old_beam
            # in the first step all beams continue the same one
            origin = parents if beam > 1 or not first else torch.zeros_like(parents)
            member.reorder(origin, (kept.unsqueeze(1) * beam + origin).view(-1), documents)
        self.documents = len(kept)


def _mean_probs(parts: List[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    width = max(part.size(-1) for part in parts)
    padded = [nn.functional.pad(part, (0, width - part.size(-1)), value=-math.inf) for part in parts]
    return torch.logsumexp(torch.stack(padded), dim=0) - math.log(len(parts))


def _mean(attentions: List[Tensor]) -> Optional[Tensor]:
    if not attentions:
        return None
    return attentions[0] if len(attentions) == 1 else torch.stack(attentions).mean(0)
