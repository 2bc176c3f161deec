"""A second decoder that reads only the encoder's last state, so that the encoder learns to remember."""

from typing import Any, Dict, Optional

from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from .recurrent import take_positions

CLOSED_BOOK = "decoder.closed_book."
"""How the names of its weights begin in a model, which has them in training alone."""


class ClosedBookDecoder(nn.Module):
    """A decoder without attention and pointer, for training alone.

    s_0 is the bridge's output, with which the other decoder begins, too; s_t = cell(E y_{t-1}, s_{t-1});
    P_cb = softmax(W s_t + b), over the known words (Jiang and Bansal 2018, section 3; E is the other decoder's table).

    Args:
        is_lstm: whether the cell is an LSTM, else it is a GRU. word: E, width of word vectors. hidden: H. words: V.
        dropout: of the states. cut: whether the encoder learns nothing from it, a control of the paper's.
    """

    def __init__(self, is_lstm: bool, word: int, hidden: int, words: int, dropout: float, cut: bool):
        super().__init__()
        self.is_lstm, self.cut = is_lstm, cut
        self.network = (nn.LSTM if is_lstm else nn.GRU)(word, hidden, batch_first=True)
        self.dropout = FairseqDropout(dropout, module_name=type(self).__name__)
        self.output_projection = nn.Linear(hidden, words)

    def forward(self, words: Tensor, real: Tensor, encoder_out: Dict[str, Any]) -> Tensor:
        """Logits (N, T, V) after the vectors of the words before (N, T, E); ``real`` (N, T) is False at padding."""
        hidden: Tensor = encoder_out["first_state"][0]
        cell: Optional[Tensor] = encoder_out["first_cell"][0] if self.is_lstm else None
        if self.cut:
            hidden, cell = hidden.detach(), None if cell is None else cell.detach()
        # summaries begin in the first column, so that padding on the left is not read
        order = (~real).int().argsort(dim=1, stable=True)  # (N, T)
        first: Any = hidden[None] if cell is None else (hidden[None], cell[None])
        states, _ = self.network(take_positions(words, order), first)
        logits: Tensor = self.output_projection(self.dropout(take_positions(states, order.argsort(dim=1))))
        return logits
