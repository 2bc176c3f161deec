"""From a model to summaries: beam search over the vocabulary of each batch."""

import math
from typing import Any, Dict, List, Optional

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from .batch_vocab import BatchVocab


class SummaryGenerator(SequenceGenerator):
    """fairseq's generator, searching over extended ids and returning words, copied ones included.

    Args:
        models, tgt_dict, kwargs: as for fairseq's ``SequenceGenerator``.
        allow_unk: let pointer models produce the unknown word; by default they copy some word instead.
        replace_unk: put the source word with the most attention in the place of an unknown word.
        print_alignment: None, "hard" or "soft": how to give ``alignment`` in the hypotheses, made from the attention.
        copied_positions: also give ``copied_from`` in the hypotheses: for each token the source position (from 0, in
            ``src_tokens``) it was copied from, or -1 for generated ones. Costs one more pass over the summaries.
    """

    def __init__(
        self,
        models: List[Any],
        tgt_dict: Dictionary,
        *args: Any,
        allow_unk: bool = False,
        replace_unk: bool = False,
        print_alignment: Optional[str] = None,
        copied_positions: bool = False,
        **kwargs: Any,
    ):
        super().__init__(models, tgt_dict, *args, **kwargs)
        self.bos = tgt_dict.bos()
        self.replace_unk = replace_unk
        self.print_alignment = print_alignment
        self.copied_positions = copied_positions
        self._decoder = next((m.decoder for m in models if getattr(m.decoder, "pointer", None)), None)
        if self._decoder is not None and not allow_unk:
            self.unk_penalty = math.inf

    def _generate(
        self,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Dict[str, Any]]]:
        documents = sample["net_input"]["src_tokens"]
        vocab = None if self._decoder is None else self._decoder.batch_vocab(documents)
        self.vocab_size = len(self.model.models[0].decoder.dictionary) if vocab is None else vocab.size
        if vocab is not None and prefix_tokens is not None:
            prefix_tokens = vocab.encode(prefix_tokens)
        found: List[List[Dict[str, Any]]] = super()._generate(sample, prefix_tokens, constraints, bos_token)
        if vocab is not None and self.copied_positions:
            self._find_copied(sample["net_input"], found)
        for row, hypotheses in enumerate(found):
            for hypothesis in hypotheses:
                self._finish(hypothesis, documents[row], vocab, row)
        return found

    def _finish(self, hypothesis: Dict[str, Any], document: Tensor, vocab: Optional[BatchVocab], row: int) -> None:
        """Turn extended ids into words, and attention into what the options ask for."""
        tokens, attention = hypothesis["tokens"], hypothesis["attention"]  # (T,), (S, T)
        if vocab is not None:
            tokens = vocab.decode(tokens[None], row)[0]
        if self.replace_unk:
            words = (document != self.pad) & (document != self.eos) & (document != self.bos) & (document != self.unk)
            if words.any():
                source = attention.masked_fill(~words[:, None], -1).argmax(dim=0)
                tokens = torch.where(tokens == self.unk, document[source].to(tokens), tokens)
                hypothesis["alignment"] = source
        if self.print_alignment:
            extract = utils.extract_soft_alignment if self.print_alignment == "soft" else utils.extract_hard_alignment
            hypothesis["alignment"] = extract(attention.T, document, tokens, self.pad, self.eos)
        hypothesis["tokens"] = tokens

    @torch.no_grad()
    def _find_copied(self, net_input: Dict[str, Any], found: List[List[Dict[str, Any]]]) -> None:
        """Read the finished summaries once more and ask the pointer where each word came from."""
        rows = [row for row, hypotheses in enumerate(found) for _ in hypotheses]
        flat = [hypothesis for hypotheses in found for hypothesis in hypotheses]
        texts = [hypothesis["tokens"] for hypothesis in flat]
        target = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=self.pad)
        before = target.roll(1, dims=1)
        before[:, 0] = self.eos
        model = next(m for m in self.model.models if m.decoder is self._decoder)
        order = torch.tensor(rows, device=target.device)
        logits, extra = model(net_input["src_tokens"][order], net_input["src_lengths"][order], before)
        positions = extra["pointer"].copied_from(logits, target)
        for hypothesis, position in zip(flat, positions):
            hypothesis["copied_from"] = position[: len(hypothesis["tokens"])]
