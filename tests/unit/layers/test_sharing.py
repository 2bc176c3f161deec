"""Layers shared by encoder and decoder: one tensor in memory, in the optimiser, in checkpoints and in their mean."""

import copy

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import EOS, PAD, make_batch, make_model
from omegaconf import OmegaConf

from fairseq_etads.commands.average import average_checkpoints, main
from fairseq_etads.layers.encoder import PROJECTIONS, SUBLAYERS, map_shared_names
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.search.options import INFER_DTYPES

SHARE = {"share_encoder_decoder_layers": True}
PER_LAYER = 2 * (len(PROJECTIONS) + len(SUBLAYERS))  # a weight and a bias each


def forward(model, documents):
    tokens = make_batch(documents)
    previous = torch.tensor([[EOS, 5, 6, 7]]).expand(len(documents), -1)
    return model(tokens, tokens.ne(PAD).sum(1), previous)[0]


def assert_shared(model):
    for encoder_layer, decoder_layer in zip(list(model.encoder.layers), list(model.decoder.layers)):
        for part in (*(f"self_attn.{name}" for name in PROJECTIONS), *SUBLAYERS):
            one, other = encoder_layer.get_submodule(part), decoder_layer.get_submodule(part)
            assert one.weight is other.weight and one.bias is other.bias, part
    assert len(map_shared_names(model)) == PER_LAYER * len(model.decoder.layers)


def test_it_is_the_unshared_model_with_equal_weights(documents):
    """Outputs are equal, and the gradient of a shared tensor is the sum of its two."""
    shared, plain = make_model("etads", **SHARE), make_model("etads")
    weights = shared.state_dict()
    plain.load_state_dict({**weights, **{name: weights[old] for name, old in map_shared_names(shared).items()}})
    outputs = [forward(model, documents) for model in (shared, plain)]
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
    rest = {"optimizer_history": history, "extra_state": extra, "last_optimizer_state": {"big": 1}}
    cfg = OmegaConf.create({"model": {"_name": "gated_es_transformer", "dropout": 0.1, **(cfg or {})}})
    torch.save({"model": model.state_dict(), "cfg": cfg, **rest, **(changes or {})}, path)
    return str(path)


def test_the_mean_of_checkpoints_stays_shared(tmp_path):
    models = [make_model("gated_es_transformer") for _ in range(3)]
    for model in models:
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter)
    paths = [save(model, tmp_path / f"{number}.pt") for number, model in enumerate(models)]
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
        ("etads", {}, {"task_state": {"source_dictionary": "ab"}}, "differ in source_dictionary"),
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


@pytest.mark.parametrize("name, value", [("truncate_source", 100), ("truncate_target", 20), ("no_end_if_cut", True)])
def test_models_of_texts_that_were_cut_differently_are_not_mixed(name, value, tmp_path):
    model, state = make_model("etads"), {"truncate_source": 400, "truncate_target": 100, "no_end_if_cut": False}
    older = {key: value for key, value in state.items() if key != "no_end_if_cut"}
    states = state, older, {**state, name: value}
    paths = [save(model, tmp_path / f"{number}.pt", {}, {"task_state": each}) for number, each in enumerate(states)]
    average_checkpoints(paths[:2])
    with pytest.raises(ValueError, match=rf"--{name.replace('_', '-')} was {value} in .*2\.pt and {state[name]} in"):
        average_checkpoints(paths)
