"""Models that read distributions and attention from tables, by the words so far and by the document."""

import torch
from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqIncrementalDecoder,
    FairseqLanguageModel,
)


class TableEncoder(FairseqEncoder):
    def forward(self, src_tokens, src_lengths=None, **kwargs):
        return {"encoder_out": [src_tokens]}

    def reorder_encoder_out(self, encoder_out, new_order):
        return {"encoder_out": [encoder_out["encoder_out"][0].index_select(0, new_order)]}


class TableDecoder(FairseqIncrementalDecoder):
    """Rows of a table, selected by the last words and the document's first word; attention falls on real tokens."""

    def __init__(self, dictionary, table, attention, clock, memory=2):
        super().__init__(dictionary)
        self.table, self.attention, self.memory, self.clock = table, attention, memory, clock

    def forward(self, prev_output_tokens, encoder_out=None, incremental_state=None):
        source = encoder_out["encoder_out"][0]
        assert len(source) == len(prev_output_tokens)
        key = source[:, 0] * 31 + prev_output_tokens.size(1) * self.clock
        for back in range(1, self.memory + 1):
            if prev_output_tokens.size(1) >= back:
                key = key + prev_output_tokens[:, -back] * (13 * back)
        logits = self.table[key % len(self.table)].unsqueeze(1)
        weights = self.attention[key % len(self.attention)][:, : source.size(1)]
        weights = weights.masked_fill(source.eq(self.dictionary.pad()), 0.0)
        return logits, {"attn": [(weights / weights.sum(1, keepdim=True)).unsqueeze(1)]}

    def max_positions(self):
        return 60


def scripted_model(dictionary, seed=0, spread=2.0, end=0.0, states=97, clock=7):
    """Make a model; ``end`` is added to the logits of the end symbol. With ``clock`` 0, the same words always have the
    same successors.
    """
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(states, len(dictionary), generator=generator) * spread
    table[:, dictionary.eos()] += end
    attention = torch.rand(states, 40, generator=generator) ** 4 + 1e-3
    model = FairseqEncoderDecoderModel(TableEncoder(dictionary), TableDecoder(dictionary, table, attention, clock))
    return model.eval()


class TableLanguage(FairseqDecoder):
    """Rows of a table, selected by the last two words."""

    def __init__(self, dictionary, table):
        super().__init__(dictionary)
        self.table = table

    def forward(self, prev_output_tokens, **kwargs):
        assert prev_output_tokens.max() < self.table.size(1), "a word that the language model does not have"
        before = torch.nn.functional.pad(prev_output_tokens, (1, 0))[:, :-1]
        return self.table[(prev_output_tokens * 13 + before * 5) % len(self.table)], {}

    def max_positions(self):
        return 60


def scripted_language_model(dictionary, seed=0, spread=2.0, states=53):
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(states, len(dictionary), generator=generator) * spread
    return FairseqLanguageModel(TableLanguage(dictionary, table)).eval()
