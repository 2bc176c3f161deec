"""The encoder of RAS-Elman and RAS-LSTM (Chopra et al. 2016): a convolution tells attention where to look."""

from typing import Any, Dict, List, Optional

from torch import Tensor, nn

from .rnn_encoder import WordEncoder, input_width, key_width

SOURCE_POSITIONS = 200
"""Words from here on share the last position vector."""


class ConvolutionalEncoder(WordEncoder):
    """Word vectors, and keys z from a convolution over words and positions (Chopra et al. 2016).

    z_i = Σ_k W_k (x_(i+k) + l_(i+k)) + b over a window around word i, with zeros outside the document. Attention
    compares z with its query, and sums the word vectors x themselves.

    Args:
        cfg, dictionary, embed_tokens, factors: see :class:`WordEncoder`.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, factors: Dict[str, nn.Embedding]):
        super().__init__(cfg, dictionary, embed_tokens, factors)
        width, window = input_width(embed_tokens.embedding_dim, factors), cfg.encoder_window
        self.positions = nn.Embedding(SOURCE_POSITIONS, width)
        nn.init.normal_(self.positions.weight, std=0.1)
        self.convolution = nn.Conv1d(width, key_width(cfg), window, padding=window // 2)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, factors: Optional[Tensor] = None, **_: Any
    ) -> Dict[str, Any]:
        """Encode documents: arguments and results of :class:`RecurrentEncoder` without sentences and bridge."""
        padding = src_tokens.eq(self.padding_idx)
        words = self.dropout(self._embed(src_tokens, factors)).masked_fill(padding[:, :, None], 0.0)  # (B, S, D)
        numbers = (~padding).long().cumsum(dim=1).sub(1).clamp(min=0, max=SOURCE_POSITIONS - 1)
        placed = (words + self.positions(numbers)).masked_fill(padding[:, :, None], 0.0)
        keys = self.convolution(placed.transpose(1, 2)).transpose(1, 2)  # (B, S, A)
        out: Dict[str, List[Tensor]] = {
            "encoder_out": [words],
            "keys": [keys.contiguous()],
            "encoder_padding_mask": [padding],
            "src_tokens": [src_tokens],
        }
        return self._with_extraction(out)
