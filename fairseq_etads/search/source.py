"""What a search must know of a batch of documents, whatever they are made of."""

from typing import Dict, NamedTuple, Optional

import torch
from torch import Tensor


class Source(NamedTuple):
    """What the search must know of the documents."""

    padding: Optional[Tensor]  # (B, S), True at padding; None if the source is not tokens
    lengths: Tensor  # (B,), as fairseq counts them
    width: int  # S

    @classmethod
    def of(cls, net_input: Dict[str, Tensor], eos: int, pad: int) -> "Source":
        """Read padding and lengths from a batch, which may also be speech, as with fairseq."""
        if "src_tokens" in net_input:
            tokens = net_input["src_tokens"]
            padding = tokens.eq(pad) if tokens.dim() == 2 else None
            lengths = net_input.get("src_lengths")
            if lengths is None:
                lengths = (tokens.ne(eos) & tokens.ne(pad)).long().sum(dim=1)
            return cls(padding, lengths, tokens.size(1))
        for name in ("source", "features"):
            if name in net_input:
                frames, padding = net_input[name], net_input["padding_mask"]
                count = frames.new_full((len(frames),), frames.size(-1), dtype=torch.long)
                return cls(None, count if padding is None else padding.size(-1) - padding.sum(-1), frames.size(1))
        raise ValueError(f"expected src_tokens, source or features in net_input, which has {', '.join(net_input)}")

    def select(self, documents: Tensor) -> "Source":
        """That of some of the documents (n,)."""
        padding = None if self.padding is None else self.padding[documents]
        return self._replace(padding=padding, lengths=self.lengths[documents])
