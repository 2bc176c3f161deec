"""BeamState: documents are held once, and the past of each beam is the past of its ancestors."""

import torch
from decoding import DICTIONARY, make_sample, sharpened

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels import beam_state
from fairseq_etads.layers.encoder_attention import make_contiguous


def test_documents_are_held_once(monkeypatch, documents):
    """Tensors that grow with the source have one row per document, and columns without descendants are dropped."""
    sizes, columns = set(), []
    begin = beam_state.BeamState.begin_step

    def watch(state):
        begin(state)
        sizes.update(tensor.size(0) // state.documents for saved in state.memory.values() for tensor in saved.values())
        columns.append(state.visible.size(2))

    monkeypatch.setattr(beam_state.BeamState, "begin_step", watch)
    SummaryGenerator([sharpened()], DICTIONARY, 10, min_len=60, max_len_b=60).generate(None, make_sample(documents))
    assert sizes == {1}
    assert max(columns) < 0.6 * 61 * 10


def test_keys_keep_their_layout_when_documents_leave():
    """Each matrix of keys is stored column by column, which the products of a step read faster."""
    state = beam_state.BeamState(3, torch.device("cpu"))
    x = torch.randn(3, 2, 5, 4)
    state.memory[torch.nn.Identity()] = tensors = {"key": make_contiguous(x, True), "value": make_contiguous(x, False)}
    stay = torch.tensor([0, 2])
    state.reorder(torch.zeros(2, 4, dtype=torch.long), stay)
    assert [tensor.stride()[-2:] for tensor in tensors.values()] == [(1, 5), (4, 1)]
    for tensor in tensors.values():
        torch.testing.assert_close(tensor, x[stay], rtol=0, atol=0)
