"""BeamState: documents are held once, and the past of each beam is the past of its ancestors."""

from decoding import DICTIONARY, make_sample, sharpened

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels import beam_state


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
