"""The composable Transformer: equal to fairseq's without its mechanisms; and the parts of its layers and its encoder:
factors, neighbours, aggregation, gate, layers shared with the decoder, attention in blocks.
"""

import copy
from collections import Counter

import pytest
import reference
import torch
from fairseq import checkpoint_utils
from helpers import EOS, PAD, SMALL, make_batch, make_dictionary, make_model, make_task, model_config
from omegaconf import OmegaConf
from recurrent import SUMMARIES

from fairseq_etads.commands.average import average_checkpoints, main
from fairseq_etads.layers import encoder
from fairseq_etads.layers.encoder import EncoderGate, FocusAttention, LayerAggregation, map_shared_names
from fairseq_etads.models.transformer import BridgeAttention, NeighbourProjections
from fairseq_etads.models.transformer_options import parse_layer_numbers
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.search.options import INFER_DTYPES

WIDTH, HEADS, LENGTH = 8, 2, 7
SHARE = {"share_encoder_decoder_layers": True}
READ = {"truncate_source": 400, "truncate_target": 100, "no_end_if_cut": False}
PER_LAYER = 2 * (len(encoder.PROJECTIONS) + len(encoder.SUBLAYERS))  # a weight and a bias each


def decode(model, tokens, previous):
    with torch.no_grad():
        return model(tokens, tokens.ne(PAD).sum(1), previous)[0]


@pytest.mark.parametrize("training", [False, True])
def test_with_both_mechanisms_off_it_is_fairseqs_transformer(training, documents):
    """Also in training, when no weights are requested and the bridge uses fused attention."""
    learned = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos", "share_all_embeddings"), True)
    lengths = {"max_source_positions": 401, "max_target_positions": 101}
    ours, fairseqs = make_model("etads_basic"), make_model("transformer", **learned, **lengths)
    fairseqs.load_state_dict(ours.state_dict(), strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    got, want = (model.train(training)(tokens, tokens.ne(PAD).sum(1), previous) for model in (ours, fairseqs))
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=2e-6)
    if not training:
        torch.testing.assert_close(got[1]["attn"][0], want[1]["attn"][0], rtol=0, atol=2e-6)
    for out in (got[0], want[0]):
        out[previous.ne(PAD)].logsumexp(-1).sum().backward()
    other = dict(fairseqs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, other[name].grad, rtol=1e-4, atol=1e-5)


def test_layer_drop_skips_layers_in_training_and_keeps_their_mechanisms(documents):
    """In evaluation, no layer is dropped; in training, each layer takes part in half of all passes."""
    sizes = {"encoder_layers": 3, "decoder_layers": 3}
    whole, model = (make_model("etads", **sizes, encoder_layerdrop=p, decoder_layerdrop=p) for p in (0.0, 0.5))
    model.load_state_dict(whole.state_dict(), strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    assert torch.equal(decode(model, tokens, previous), decode(whole, tokens, previous))
    counts = Counter()
    for name, module in model.named_modules():
        if isinstance(module, (FocusAttention, BridgeAttention)):
            module.register_forward_hook(lambda *_, name=name: counts.update([name]))
    model.train()
    torch.manual_seed(0)
    for _ in range(100):
        decode(model, tokens[:1], previous[:1])
    assert len(counts) == 6 and all(25 <= count <= 75 for count in counts.values()), counts
    assert all(layer.encoder_attn.gate_q_proj is not None for layer in model.decoder.layers.eval())


def test_vectors_of_source_factors_are_added_and_projected_where_they_are_narrower():
    task = make_task(tail=9)
    task.factor_dictionaries = {name: make_dictionary(words=6) for name in ("salience", "pos")}
    chosen = {**SMALL, "source_factors": "salience,pos:3", "share_all_embeddings": False, "pointer": "soft"}
    encoder = task.build_model(model_config("etads", **chosen)).eval().encoder
    assert task.factors.names == ("pos", "salience"), "batches have the factors of the model"
    tokens = make_batch([[5, 6, 7, 45, 9, 10], [30], [21, 22, 50, 23]])
    values = torch.stack([tokens % 6 + 4, tokens % 5 + 4], dim=2).masked_fill(tokens.eq(PAD)[:, :, None], PAD)
    lengths = tokens.ne(PAD).sum(1)
    expected = encoder.embed_tokens(tokens) + encoder.factors["salience"].weight[values[:, :, 1]]
    expected += encoder.factors["pos"].weight[values[:, :, 0]] @ encoder.factor_maps["pos"].weight.T
    by_hand, found = encoder(tokens, token_embeddings=expected), encoder(tokens, lengths, factors=values)
    torch.testing.assert_close(found["encoder_out"][0], by_hand["encoder_out"][0])
    with pytest.raises(ValueError, match=r"reads 2 source factors \(pos, salience\) but the batch has 0"):
        encoder(tokens)


def test_parse_layers():
    assert parse_layer_numbers("all", 4, "--x") == {0, 1, 2, 3}
    assert parse_layer_numbers("none", 4, "--x") == frozenset()
    assert parse_layer_numbers(" 1, 3-4 ", 4, "--x") == {0, 2, 3}


@pytest.mark.parametrize("left", [False, True])
def test_positions_that_are_not_learned_are_those_of_the_equations(left, documents):
    positions = make_model("etads_basic", encoder_learned_pos=False).encoder.embed_positions
    tokens = make_batch(documents, left=left)
    found = positions(tokens).double()
    for row, ids in zip(found, tokens):
        for place, vector in enumerate(row[ids.ne(PAD)]):
            # fairseq counts from the number after the padding symbol's number
            expected = reference.sinusoidal_position(place + PAD + 1, row.shape[1])
            torch.testing.assert_close(vector, expected, rtol=0, atol=1e-5)
        assert row[ids.eq(PAD)].eq(0).all(), "padding has no position"


@pytest.mark.parametrize("offsets", [(-1, 1), (-1, 1, -2, 2, -3, 3), (-1, -2)])
def test_neighbours_and_their_gradients_are_those_of_the_loop(offsets):
    layer = NeighbourProjections(6, offsets).double()
    torch.manual_seed(0)
    for linear in layer.maps:
        torch.nn.init.normal_(linear.weight)
    for length in (1, 2, 5):
        vectors = torch.randn(length, 6, dtype=torch.double, requires_grad=True)
        got = vectors + layer(vectors[None], torch.zeros(1, length, dtype=torch.bool))[0]
        want = reference.neighbour_inputs(vectors, [linear.weight for linear in layer.maps], offsets)
        torch.testing.assert_close(got, want)
        wanted = [vectors, *layer.parameters()]
        unused = {"allow_unused": True, "materialize_grads": True}
        gradients = (torch.autograd.grad(out.pow(2).sum(), wanted, **unused) for out in (got, want))
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("learned", [True, False])
def test_with_neighbours_the_inputs_of_the_first_layers_are_those_of_the_loop(learned, documents):
    """Inside a model, the inputs of encoder and decoder have its scale and positions; without the maps, it is plain."""
    positions = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos"), learned)
    plain = make_model("etads", **positions)
    model = make_model("etads", encoder_neighbours=2, decoder_neighbours=2, **positions)
    missing = model.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert missing and all(".neighbours.maps." in name for name in missing)
    tokens, previous = make_batch(documents), torch.tensor([[EOS, 5, 6, 7]]).expand(len(documents), -1)
    assert torch.equal(decode(model, tokens, previous), decode(plain, tokens, previous))
    seen = {}
    for side in ("encoder", "decoder"):
        part = getattr(model, side)
        for linear in part.neighbours.maps:
            torch.nn.init.normal_(linear.weight, std=0.3)
        part.layers[0].register_forward_pre_hook(lambda _, inputs, side=side: seen.update({side: inputs[0]}))
    decode(model, tokens, previous)
    for side, ids, offsets in (("encoder", tokens, [-1, 1, -2, 2]), ("decoder", previous, [-1, -2])):
        part = getattr(model, side)
        for row, text in enumerate(ids):
            text = text[text.ne(PAD)]
            maps = [linear.weight for linear in part.neighbours.maps]
            expected = part.embed_scale * reference.neighbour_inputs(part.embed_tokens(text), maps, offsets)
            places = type(part.embed_positions).forward(part.embed_positions, text[None])[0]
            torch.testing.assert_close(seen[side][: len(text), row], expected + places, rtol=1e-4, atol=1e-5)


def pair(linear):
    return linear.weight, linear.bias


def randomise(module):
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module.double()


def padded(states, left, width):
    """Batch the documents' tensors (m, d) as (width, B, d), with noise at padding, and return the mask (B, width)."""
    batch, mask = torch.randn(width, len(states), WIDTH, dtype=torch.float64), torch.ones(len(states), width).bool()
    for row, document in enumerate(states):
        place = slice(width - len(document), width) if left else slice(0, len(document))
        batch[place, row], mask[row, place] = document, False
    return batch, mask


def documents_of_states(layers, lengths=(5, 1, 7)):
    return [[torch.randn(length, WIDTH, dtype=torch.float64) for _ in range(layers)] for length in lengths]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind,layers", [("add", 1), ("add", 3), ("proj", 1), ("proj", 3), ("attn", 1), ("attn", 3)])
def test_aggregation_against_the_oracle(kind, layers, left):
    module = randomise(LayerAggregation(WIDTH, HEADS, kind, layers))
    documents = documents_of_states(layers=4)
    states, masks = zip(*(padded([document[layer] for document in documents], left, 9) for layer in range(4)))
    mask = masks[0]
    got = module(states[-1 - layers : -1], states[-1], mask).transpose(0, 1)
    attentions = [[pair(getattr(a, f"{name}_proj")) for name in ("q", "k", "v", "out")] for a in module.attentions]
    projection = None if module.projection is None else pair(module.projection)
    for row, document in enumerate(documents):
        expected = reference.aggregate(kind, document, layers, attentions, HEADS, projection)
        torch.testing.assert_close(got[row][~mask[row]], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("left", [False, True])
def test_the_gate_against_the_oracle(left):
    module = randomise(EncoderGate(WIDTH))
    documents = [document[0] for document in documents_of_states(layers=1)]
    states, mask = padded(documents, left, 9)
    got = module(states, mask).transpose(0, 1)
    joined = torch.cat([module.state_proj.weight, module.document_proj.weight], dim=1)
    for row, document in enumerate(documents):
        expected = reference.encoder_gate(document, joined, module.document_proj.bias)
        torch.testing.assert_close(got[row][~mask[row]], expected, rtol=0, atol=1e-12)


def test_pre_norm_history_is_normalised_like_the_last_layer(documents):
    """Otherwise, states of very different sizes would be added."""
    model = make_model("etads_basic", encoder_layers=3, encoder_normalize_before=True, aggregation="add")
    tokens = make_batch(documents)
    with torch.no_grad():
        out = model.encoder(tokens, return_all_hiddens=True)
        before, last = (model.encoder.layer_norm(states) for states in out["encoder_states"][-2:])
    torch.testing.assert_close(out["encoder_out"][0], before + last)


@pytest.mark.parametrize("gate", [False, True])
def test_the_pointer_reads_the_states_that_are_not_aggregated(gate, documents):
    model = make_model("aggregation_transformer", make_task(tail=20), pointer="soft", encoder_gate=gate)
    tokens, read = make_batch(documents), []
    model.decoder.pointer.register_forward_pre_hook(lambda _, arguments: read.append(arguments[1]))
    with torch.no_grad():
        encoded = model.encoder(tokens, return_all_hiddens=True)
        model.decoder(torch.full((len(tokens), 1), EOS), encoder_out=encoded)
        last, mask = encoded["encoder_states"][-1], tokens.eq(PAD)
        torch.testing.assert_close(read[0], model.encoder.gate(last, mask) if gate else last)
    assert not torch.allclose(read[0], encoded["encoder_out"][0])


@pytest.mark.parametrize("layers", [1, 3])
def test_at_the_limits_the_layers_before_the_last_are_aggregated(layers, documents):
    model = make_model("etads", encoder_layers=4, aggregation="attn", aggregation_layers=layers)
    given = []
    model.encoder.aggregation.register_forward_pre_hook(lambda _, arguments: given.extend(arguments[:2]))
    with torch.no_grad():
        states = model.encoder(make_batch(documents), return_all_hiddens=True)["encoder_states"]
    history, last = given
    assert len(states) == 5 and last is states[4], "the embeddings, then four layers"
    assert [*map(id, history)] == [*map(id, states[4 - layers : 4])]


def assert_shared(model):
    for encoder_layer, decoder_layer in zip(list(model.encoder.layers), list(model.decoder.layers)):
        for part in (*(f"self_attn.{name}" for name in encoder.PROJECTIONS), *encoder.SUBLAYERS):
            one, other = encoder_layer.get_submodule(part), decoder_layer.get_submodule(part)
            assert one.weight is other.weight and one.bias is other.bias, part
    assert len(map_shared_names(model)) == PER_LAYER * len(model.decoder.layers)


def test_it_is_the_unshared_model_with_equal_weights(documents):
    """Outputs are equal, and the gradient of a shared tensor is the sum of its two."""
    shared, plain = make_model("etads", **SHARE), make_model("etads")
    weights = shared.state_dict()
    plain.load_state_dict({**weights, **{name: weights[old] for name, old in map_shared_names(shared).items()}})
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    outputs = [model(tokens, tokens.ne(PAD).sum(1), previous)[0] for model in (shared, plain)]
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-6)
    for out in outputs:
        out.log_softmax(-1)[..., 7].sum().backward()
    separate = {name: parameter.grad for name, parameter in plain.named_parameters()}
    second = {old: name for name, old in map_shared_names(shared).items()}
    for name, parameter in shared.named_parameters():
        expected = separate[name] + (separate[second[name]] if name in second else 0)
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5}], ids=str)
@pytest.mark.parametrize("arch", ["etads_basic", "gated_es_transformer"])
def test_every_layer_shares_the_same_tensors_also_of_copies_and_after_inference(arch, options):
    model = make_model(arch, **SHARE, **options)
    assert_shared(copy.deepcopy(model))
    for infer_dtype in INFER_DTYPES:
        InferenceModel(model, infer_dtype).get_current_copy()
    assert_shared(model)


def save(model, path, cfg=None, changes=None):
    history = [{"criterion_name": "x", "optimizer_name": "x", "lr_scheduler_state": {}, "num_updates": 1}]
    extra = {"train_iterator": {"epoch": 1}, "val_loss": None, "ema": {"a": 1}}
    rest = {"optimizer_history": history, "extra_state": extra, "last_optimizer_state": {"big": 1}, "task_state": READ}
    cfg = OmegaConf.create({"model": {"_name": "gated_es_transformer", "dropout": 0.1, **(cfg or {})}})
    torch.save({"model": model.state_dict(), "cfg": cfg, **{**rest, **(changes or {})}}, path)
    return str(path)


def test_the_mean_of_checkpoints_stays_shared(tmp_path):
    """One of them is from a version that did not record --no-end-if-cut, which was then off."""
    models = [make_model("gated_es_transformer") for _ in range(3)]
    for model in models:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
    paths = [save(model, tmp_path / f"{number}.pt") for number, model in enumerate(models[:2])]
    older = {name: value for name, value in READ.items() if name != "no_end_if_cut"}
    paths.append(save(models[2], tmp_path / "older.pt", changes={"task_state": older}))
    assert main([str(tmp_path / "mean.pt"), *paths]) == 0
    mean = checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "mean.pt"))
    assert "last_optimizer_state" not in mean and "ema" not in mean["extra_state"]
    model = make_model("gated_es_transformer")
    model.load_state_dict(mean["model"], strict=True)
    assert_shared(model)
    originals = [dict(m.named_parameters()) for m in models]
    for name, parameter in model.named_parameters():
        expected = sum(original[name].double() for original in originals) / 3
        torch.testing.assert_close(parameter.double(), expected, rtol=0, atol=1e-6)
    assert main([str(tmp_path / "mean.pt"), *paths]) == 2, "it exists"


@pytest.mark.parametrize(
    "arch,cfg,changes,message",
    [
        ("etads_basic", {}, {}, "a different model from .*differ in decoder"),
        ("etads", {"pointer": "switch"}, {}, "differ in pointer"),
        ("etads", {}, {"task_state": {**READ, "source_dictionary": "ab"}}, "differ in source_dictionary"),
        ("etads", {}, {"task_state": {**READ, "truncate_source": 100}}, "--truncate-source was 100 in .*b.pt"),
        ("etads", {}, {"task_state": {**READ, "no_end_if_cut": True}}, "--no-end-if-cut was True in .*b.pt"),
        ("etads", {}, {"model": {"a": 1}}, "not a checkpoint of fairseq-train"),
        ("etads", {}, {"model": {"a": torch.tensor([float("nan")])}}, "not finite"),
    ],
)
def test_what_cannot_be_averaged_is_refused_in_words(arch, cfg, changes, message, tmp_path, capsys):
    paths = [save(make_model("etads"), tmp_path / "a.pt"), save(make_model(arch), tmp_path / "b.pt", cfg, changes)]
    with pytest.raises(ValueError, match=message):
        average_checkpoints(paths)
    assert main([str(tmp_path / "mean.pt"), *paths]) == 2
    assert "b.pt" in capsys.readouterr().err and sorted(tmp_path.glob("mean*")) == []


def test_a_checkpoint_counts_once_and_other_files_are_refused_in_words(tmp_path, capsys):
    (tmp_path / "link.pt").symlink_to(save(make_model("etads"), tmp_path / "a.pt"))
    for content in (None, b"hello\n", b"", b"PK\x03\x04"):
        if content is not None:
            (tmp_path / "a.pt").write_bytes(content)
        names = ("mean.pt", "a.pt", "link.pt") if content is None else ("mean.pt", "a.pt")
        assert main([str(tmp_path / name) for name in names]) == 2
        assert "a.pt" in capsys.readouterr().err


def in_blocks(monkeypatch):
    """Compute every attention in blocks of three queries; returns the list of calls."""
    monkeypatch.setattr(encoder, "QUERIES_AT_A_TIME", 3)
    monkeypatch.setattr(encoder, "MANY_WEIGHTS", 1)
    calls, plain = [], encoder.blockwise_attention
    monkeypatch.setattr(encoder, "blockwise_attention", lambda *args: calls.append(1) or plain(*args))
    return calls


def test_the_backward_pass_has_the_same_dropout(monkeypatch):
    """The loss and all gradients equal the ones of the same blocks without recomputation."""
    monkeypatch.setattr(encoder, "QUERIES_AT_A_TIME", 3)
    q, k, v = (torch.randn(2, HEADS, length, 4, requires_grad=True) for length in (LENGTH, 5, 5))
    mask = torch.tensor([[False] * 5, [True, False, False, False, True]])

    def outcome():
        torch.manual_seed(1)
        out = encoder.blockwise_attention(q, k, v, mask, 0.5)
        torch.manual_seed(2)  # other random draws before the backward pass
        return (out, *torch.autograd.grad((out * out.detach().cos()).sum(), (q, k, v)))

    found = outcome()
    monkeypatch.setattr(encoder, "checkpoint", lambda function, *args, **_: function(*args))
    for got, want in zip(found, outcome()):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def test_no_weights_are_kept(monkeypatch):
    monkeypatch.setattr(encoder, "QUERIES_AT_A_TIME", 4)
    q, k, v = (torch.randn(1, 1, 64, 2, requires_grad=True) for _ in range(3))
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        encoder.blockwise_attention(q, k, v, None, 0.1).sum()
    assert sizes and max(sizes) <= 64 * 2, "one of a block's weights has 4 x 64 numbers"


@pytest.mark.parametrize(
    "dropout, training, gradient, many, expected",
    [
        *((0.0, True, True, 0, 0), (0.5, False, True, 0, 0), (0.5, True, False, 0, 0)),
        *((0.5, True, True, 1, 0), (0.5, True, True, 0, 1)),
    ],
)
def test_blocks_are_for_many_weights_in_training_with_dropout(dropout, training, gradient, many, expected, monkeypatch):
    calls, states = in_blocks(monkeypatch), torch.randn(LENGTH, 2, WIDTH)
    monkeypatch.setattr(encoder, "MANY_WEIGHTS", LENGTH * LENGTH * 2 * HEADS + many)
    attention = encoder.EncoderAttention(WIDTH, HEADS, dropout=dropout, self_attention=True).train(training)
    with torch.set_grad_enabled(gradient):
        attention(states, states, states, need_weights=False)
    assert len(calls) == expected


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("kind,attentions", [("proj", 1), ("attn", 1), ("none", 0)])
def test_encoders_have_it_in_their_layers_and_in_the_aggregation(kind, attentions, left, documents, monkeypatch):
    """Outputs and gradients are those of fairseq's attention."""
    model = make_model("etads_basic", aggregation=kind, attention_dropout=1e-9, dropout=0.0).train()  # drops nothing
    tokens, previous = make_batch(documents, left=left), make_batch([[5, 6, 7]] * len(documents))

    def outcome():
        out, _ = model(tokens, tokens.ne(PAD).sum(1), previous)
        return out, *torch.autograd.grad(out.log_softmax(2)[..., 7].sum(), [*model.parameters()])

    expected, calls = outcome(), in_blocks(monkeypatch)
    torch.testing.assert_close(outcome(), expected, rtol=1e-3, atol=1e-4)
    assert len(calls) == len(model.encoder.layers) + attentions
