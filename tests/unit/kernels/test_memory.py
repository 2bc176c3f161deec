"""Chunked, recomputed and in-place computations equal the plain ones, and keep less memory; so do searches."""

import pytest
import torch
import torch.nn.functional as F
from decoding import DICTIONARY, sharpened
from decoding import make_sample as make_documents
from helpers import make_model, make_task
from steps import make_sample

from fairseq_etads import attention
from fairseq_etads.attention import saliency_attention
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels import beam_state, focus_columns, linear
from fairseq_etads.kernels import operators as kernels
from fairseq_etads.layers import decoder_output
from fairseq_etads.layers import encoder as dropouts
from fairseq_etads.layers.decoder_output import PointingDecoder
from fairseq_etads.layers.embedding import VocabularyEmbedding, expect_dense_gradient
from fairseq_etads.training.losses import SummarizationNLL


def use(monkeypatch, plain):
    """Compute everything in the plain way, or everything in the smallest possible chunks."""
    monkeypatch.setattr(attention, "RECOMPUTED_WEIGHTS", 10**9 if plain else 0)
    monkeypatch.setattr(attention, "GROUPED_WEIGHTS", 1)
    monkeypatch.setattr(focus_columns, "GROUP_ELEMENTS", 1)
    monkeypatch.setattr(decoder_output, "CHUNK_ELEMENTS", 1)
    monkeypatch.setattr(decoder_output, "NARROWEST_CHUNK", 7)
    for module in (linear, kernels):
        monkeypatch.setattr(
            module, "has_faster_onednn_linear", lambda: not plain and kernels.can_pack_weights(torch.float32)
        )
    if plain:
        monkeypatch.setattr(focus_columns, "has_flash_attention", lambda dtype: False)
        monkeypatch.setattr(PointingDecoder, "takes_requests", False)
        monkeypatch.setattr("fairseq_etads.layers.embedding.get_backward_pass_id", lambda: None)
        monkeypatch.setattr("fairseq_etads.models.transformer._use_relu_in_place", lambda *_: None)


def trained(monkeypatch, plain, pointer="none", smoothing=0.0, coverage=0.0, **options):
    """Logs and the first gradients of two updates without dropout."""
    with monkeypatch.context() as patch:
        use(patch, plain)
        torch.manual_seed(3)
        task = make_task(tail=30)
        model = make_model("etads", task, pointer=pointer, dropout=0.0, **options).train()
        loss_of = SummarizationNLL(task, label_smoothing=smoothing, coverage_loss=coverage)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)
        losses, gradients = [], {}
        for update in range(2):
            optimizer.zero_grad()
            loss, _, logs = loss_of(model, make_sample(left=bool(update % 2)))
            loss.backward()
            losses.append({name: float(value) for name, value in logs.items()})
            if not update:
                gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
            optimizer.step()
        return losses, gradients


@pytest.mark.parametrize(
    "options",
    [
        {"smoothing": 0.1},
        {"pointer": "soft", "smoothing": 0.1, "pointer_continue": True},
        {"pointer": "switch", "smoothing": 0.1},
        {"coverage": 1.0, "saliency_gate": "open"},
        {"saliency_gate": "normalised", "output_bias": True, "smoothing": 0.1},
        {"share_all_embeddings": False, "share_decoder_input_output_embed": False},
        {"focus_center": "relative", "focus_strength": "learned"},
    ],
    ids=str,
)
def test_losses_logs_and_gradients_are_those_of_the_plain_way(monkeypatch, options):
    (expected, gradients), (found, others) = (trained(monkeypatch, plain, **options) for plain in (True, False))
    for before, after in zip(expected, found):
        assert after == pytest.approx(before, rel=1e-4, abs=1e-4)
    assert gradients.keys() == others.keys()
    for name, gradient in gradients.items():
        assert not others[name].is_sparse
        torch.testing.assert_close(others[name], gradient, rtol=1e-3, atol=2e-5 * max(1, gradient.abs().max().item()))


@pytest.mark.parametrize("elements", [1, 60, 10**6], ids=["narrow", "some", "one"])
def test_word_log_probs_are_entries_of_the_log_softmax(monkeypatch, elements):
    monkeypatch.setattr(decoder_output, "CHUNK_ELEMENTS", elements)
    monkeypatch.setattr(decoder_output, "NARROWEST_CHUNK", 4)
    states, table, bias = (torch.randn(s, dtype=torch.float64).requires_grad_() for s in ((2, 3, 8), (31, 8), (29,)))
    columns = torch.randint(0, 29, (2, 3, 4))
    columns[:, :, 3] = columns[:, :, 0]  # the target stands in the document, too
    log_probs = F.log_softmax(states @ table[:29].t() + bias, dim=-1)
    expected = log_probs.gather(2, columns), log_probs.sum(2) - log_probs[:, :, [0, 5]].sum(2)
    found = decoder_output.compute_word_log_probs(states, table, bias, columns, 29, [0, 5])
    weights = [torch.randn(x.shape, dtype=x.dtype) for x in expected]
    gradients = [
        torch.autograd.grad(
            sum((w * x).sum() for w, x in zip(weights, values)), (states, table, bias), retain_graph=True
        )
        for values in (expected, found)
    ]
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients[1], gradients[0])
    with pytest.raises(RuntimeError, match="one backward pass"):
        found[0].sum().backward()


@pytest.mark.parametrize("dtype, error", [(torch.bfloat16, 5e-3), (torch.float16, 6e-4)])
def test_gradients_of_states_are_summed_over_chunks_in_float32(monkeypatch, dtype, error):
    """A sum in half precision over 48 chunks is several times less exact: 1.7e-2 in bfloat16, 1.0e-3 in float16."""
    monkeypatch.setattr(decoder_output, "CHUNK_ELEMENTS", 1)
    states, table = (torch.randn(n, 64).to(dtype) / 8 for n in (40, 48 * 1024))
    columns = torch.randint(len(table), (1, 40, 1))

    def gradient(states, table):
        states = states[None].requires_grad_()
        found, total = decoder_output.compute_word_log_probs(states, table, None, columns, len(table), [0, 1])
        return torch.autograd.grad((-0.9 * found.sum() - 0.1 / len(table) * total.sum()), states)[0][0].double()

    exact = gradient(states.double(), table.double())
    assert ((gradient(states, table) - exact).norm(dim=1) / exact.norm(dim=1)).mean() < error


def test_a_lookup_adds_its_rows_to_the_gradient_of_the_output_layer():
    """Where no output layer is trained, its own gradient is dense."""
    embedding = VocabularyEmbedding(torch.nn.Embedding(7, 3, padding_idx=1), unk=2)
    embedding.is_output_layer = True
    ids, table = torch.tensor([[3, 1, 6, 9], [3, 5, 0, 8]]), embedding.weight
    rows = ids.masked_fill(ids >= 7, 2)
    expected = (F.embedding(rows, table, 1).tanh() @ table.t()).sin().sum()
    (expected,) = torch.autograd.grad(expected, table)
    sparse = []
    for announced in (True, False, True):  # what one backward pass has noted must not reach the next
        vectors = embedding(ids)
        vectors.grad_fn.register_hook(lambda found, _: sparse.append(found[0].is_sparse))
        logits = vectors.tanh() @ table.t()
        if announced:
            expect_dense_gradient(logits, table)
        (found,) = torch.autograd.grad(logits.sin().sum(), table)
        assert not found.is_sparse
        torch.testing.assert_close(found, expected)
    assert sparse == [True, False, True]
    embedding(ids).sin().sum().backward()  # such as a loss of the encoder alone
    (expected,) = torch.autograd.grad(F.embedding(rows, table, 1).sin().sum(), table)
    assert not table.grad.is_sparse
    torch.testing.assert_close(table.grad, expected)


def saliency_inputs():
    made = [torch.randn(3, 2, length, 4).requires_grad_() for length in (5, 7, 7, 5, 7)]
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[1, 5:] = True
    return made, mask


@pytest.mark.parametrize("group", [1, 10**6])
def test_recomputed_saliency_drops_the_same_weights_again(monkeypatch, group):
    """The output is linear in the values, so <out, g> = <v, gradient of v> if both passes have one mask."""
    monkeypatch.setattr(attention, "RECOMPUTED_WEIGHTS", 0)
    monkeypatch.setattr(attention, "GROUPED_WEIGHTS", group)
    inputs, mask = saliency_inputs()
    out = saliency_attention(*inputs, mask, dropout_p=0.5)
    assert (out != saliency_attention(*inputs, mask)).any()
    weights = torch.randn_like(out)
    (gradient,) = torch.autograd.grad((out * weights).sum(), inputs[2])
    torch.testing.assert_close((inputs[2] * gradient).sum(), (out * weights).sum())


def kept_by(compute):
    """Shapes and dtypes of tensors that a computation keeps for its backward pass."""
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        compute()
    return kept


def test_many_weights_are_recomputed_for_groups_of_documents_of_a_limited_size(monkeypatch):
    """Each of the three documents has 2 x 5 x 7 weights."""
    inputs, mask = saliency_inputs()
    calls, plain = [], attention.checkpoint
    monkeypatch.setattr(attention, "checkpoint", lambda f, q, *a, **k: calls.append(len(q)) or plain(f, q, *a, **k))

    def sizes(recomputed, grouped):
        monkeypatch.setattr(attention, "RECOMPUTED_WEIGHTS", recomputed)
        monkeypatch.setattr(attention, "GROUPED_WEIGHTS", grouped)
        calls.clear()
        kept = kept_by(lambda: saliency_attention(*inputs, mask, dropout_p=0.1))
        has_weights = any(x.dtype.is_floating_point and x.shape[-2:] == (5, 7) for x in kept)
        assert has_weights == (not calls and torch.is_grad_enabled())
        return [*calls]

    assert sizes(211, 140) == [] and sizes(210, 140) == [2, 1]
    assert sizes(0, 139) == sizes(0, 1) == [1, 1, 1] and sizes(0, 210) == [3]
    with torch.no_grad():
        assert sizes(0, 1) == []


def test_focus_attention_keeps_no_widened_copies():
    q, k, v = (torch.randn(2, 3, 11, 8, requires_grad=True) for _ in range(3))
    center, scope = (torch.rand(2, 3, 11, requires_grad=True) for _ in range(2))
    kept = kept_by(lambda: attention.focus_attention(q, k, v, center * 5, scope * 3))
    wide = [x for x in kept if x.dim() == 4 and x.shape[-1] >= 8]
    assert [x.shape for x in wide] == [q.shape] * 4  # q, k, v and the output


@pytest.mark.parametrize("p", [0.2, 0.5])
def test_dropout_keeps_bytes_and_its_gradient_has_the_mask_of_the_output(p):
    x = torch.ones(300, 401, requires_grad=True)
    kept = kept_by(lambda: dropouts.dropout(x, p).sum())
    assert [(y.shape, y.dtype) for y in kept] == [(x.shape, torch.uint8)]
    torch.manual_seed(5)
    out = dropouts.dropout(x, p)
    torch.manual_seed(5)
    assert out.equal(dropouts.dropout(x, p))
    (gradient,) = torch.autograd.grad(out.sum(), x)
    assert gradient.equal(out.detach())
    assert out.detach().unique().tolist() == pytest.approx([0.0, 1 / (1 - p)])
    assert abs((out == 0).double().mean() - p) < 5 * (p * (1 - p) / x.numel()) ** 0.5
    rows, columns = (out == 0).double().mean(1), (out == 0).double().mean(0)
    assert rows.std() < 2 * (p * (1 - p) / 401) ** 0.5 and columns.std() < 2 * (p * (1 - p) / 300) ** 0.5


@pytest.mark.skipif(not kernels.can_pack_weights(torch.float32), reason="torch has no such product here")
@pytest.mark.parametrize("bias", [True, False])
def test_training_linear_is_linear_and_relu_overwrites_what_it_returns(bias):
    """After an in-place operation on a view, autograd would copy the gradient three times."""
    plain, x = torch.nn.Linear(24, 17, bias=bias), torch.randn(5, 3, 24, requires_grad=True)
    expected = plain(x)
    gradients = torch.autograd.grad(expected.relu().sin().sum(), (x, *plain.parameters()))
    plain.__class__ = linear.OneDNNTrainingLinear
    torch.testing.assert_close(plain(x.transpose(0, 1)).transpose(0, 1), expected)
    out = plain(x)
    assert not out._is_view()
    found = torch.relu_(out)
    assert found is out and found.grad_fn.next_functions[0][0].name() == "_LinearFunctionBackward"
    torch.testing.assert_close(torch.autograd.grad(found.sin().sum(), (x, *plain.parameters())), gradients)
    with torch.no_grad():
        torch.testing.assert_close(plain(x), expected)
    assert plain.bfloat16()(x.bfloat16()).dtype == torch.bfloat16


def test_a_search_holds_documents_once(monkeypatch, documents):
    """Tensors that grow with the source have one row per document, and columns without descendants are dropped."""
    sizes, columns = set(), []
    begin = beam_state.BeamState.begin_step

    def watch(state):
        begin(state)
        sizes.update(tensor.size(0) // state.documents for saved in state.memory.values() for tensor in saved.values())
        columns.append(state.visible.size(2))

    monkeypatch.setattr(beam_state.BeamState, "begin_step", watch)
    SummaryGenerator([sharpened()], DICTIONARY, 10, min_len=60, max_len_b=60).generate(None, make_documents(documents))
    assert sizes == {1}
    assert max(columns) < 0.6 * 61 * 10
