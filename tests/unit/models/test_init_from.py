"""--init-from: loaded weights of another model's checkpoint, listed ones, and refused ones."""

import logging

import pytest
import torch
from helpers import RECURRENT, SMALL, make_model, model_config
from steps import steps_task
from test_external import external_model

from fairseq_etads.fairseq_fixes.checkpoints import UnsafeCheckpointError
from fairseq_etads.models.init_from import is_training_from_start, load_initial_weights


def save(model, path, task=None, **changes):
    """Save a checkpoint like fairseq-train."""
    state = {
        "args": None,
        "cfg": {},
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "criterion": {},
        "optimizer_history": [{"num_updates": 3, "optimizer_name": "", "lr_scheduler_state": {}, "criterion_name": ""}],
        "task_state": (task or steps_task()).state_dict(),
        "extra_state": {"train_iterator": {"epoch": 1}},
        **changes,
    }
    torch.save(state, path)
    return str(path)


def changed(model):
    """The model, with weights that differ from any new model's."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def load(model, path, caplog, task=None):
    caplog.set_level(logging.INFO)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    load_initial_weights(model, path, task or steps_task())
    state = model.state_dict()
    (record,) = (r for r in caplog.records if r.name.endswith(".init_from") and ": loaded " in r.message)
    return {name for name in state if not torch.equal(state[name], before[name])}, record


@pytest.mark.parametrize("fairseqs", [False, True])
def test_a_plain_transformer_begins_an_etads_model(fairseqs, tmp_path, caplog):
    """Also from fairseq's translation task, with rows for all words and without a fingerprint."""
    if fairseqs:
        learned = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos", "share_all_embeddings"), True)
        lengths = {"max_source_positions": 401, "max_target_positions": 50}
        plain = changed(make_model("transformer", steps_task(), **learned, **lengths))
    else:
        plain = changed(make_model("etads_basic", steps_task()))
    path = save(plain, tmp_path / "plain.pt", **({"task_state": {}} if fairseqs else {}))
    model = make_model("etads", steps_task(), pointer="soft")
    loaded, record = load(model, path, caplog)
    new = {name for name in model.state_dict() if not name.endswith("version")} - loaded
    assert new and all("focal" in name or "gate_" in name or "decoder.pointer" in name for name in new)
    for name in loaded:
        if "embed" not in name and "output_projection" not in name:
            assert torch.equal(model.state_dict()[name], plain.state_dict()[name]), name
    table = plain.encoder.embed_tokens.weight
    assert len(table) == (53 if fairseqs else 44) and torch.equal(model.encoder.embed_tokens.weight, table[:44])
    assert record.levelno == logging.INFO and "encoder.layers.*.self_attn.focal.center_weight (2)" in record.message
    if fairseqs:
        assert "decoder.embed_positions.weight: 50 of 101 positions" in record.message
        rows = model.decoder.embed_positions.weight
        assert torch.equal(rows[:52], plain.decoder.embed_positions.weight) and not torch.equal(rows[52], rows[51])
        assert any("does not record its dictionary" in r.message for r in caplog.records)


def test_what_has_another_shape_or_no_place_is_listed_in_a_warning(tmp_path, caplog):
    other = changed(make_model("etads", steps_task(), encoder_ffn_embed_dim=64))
    model = make_model("etads_basic", steps_task())
    loaded, record = load(model, save(other, tmp_path / "wide.pt"), caplog)
    assert record.levelno == logging.WARNING
    assert "encoder.layers.0.fc1.weight (64, 32), here (48, 32)" in record.message
    assert "in the checkpoint, but not in this model: " in record.message and "gate_q_proj.weight (2)" in record.message
    assert "encoder.layers.0.fc1.weight" not in loaded


def test_shared_weights_are_loaded_from_models_that_share_them(tmp_path, caplog):
    plain = make_model("es_transformer", steps_task())
    model = make_model("gated_es_transformer", steps_task(), aggregation="add")
    _, record = load(model, save(changed(plain), tmp_path / "es.pt"), caplog)
    assert torch.equal(model.decoder.layers[0].fc1.weight, plain.encoder.layers[0].fc1.weight)
    assert "decoder.layers" not in record.message and "encoder.gate.state_proj.weight" in record.message

    unshared = changed(make_model("es_transformer", steps_task(), share_encoder_decoder_layers=False))
    with pytest.raises(ValueError, match=r"different weights in encoder.layers.0.* and decoder.layers.0.*--share-"):
        load_initial_weights(model, save(unshared, tmp_path / "unshared.pt"), steps_task())
    apart = changed(make_model("etads_basic", steps_task(), share_all_embeddings=False))
    with pytest.raises(ValueError, match=r"encoder.embed_tokens.weight and decoder.embed_tokens.weight, which this"):
        load_initial_weights(make_model("etads", steps_task()), save(apart, tmp_path / "apart.pt"), steps_task())


def test_what_does_not_fit_is_refused(tmp_path):
    task, other = steps_task(), steps_task()
    for dictionary in (other.src_dict, other.tgt_dict):
        dictionary.symbols = [*dictionary.symbols[:-12], "another", *dictionary.symbols[-11:]]
    model, larger = make_model("etads", task), external_model("transformer_tiny", steps_task())
    larger.encoder.embed_tokens.weight = torch.nn.Parameter(torch.zeros(50, 16))
    save(model, tmp_path / "words.pt", other)
    save(larger, tmp_path / "rows.pt", task_state={})
    save(make_model("gru_seq2seq", steps_task(), **RECURRENT), tmp_path / "gru.pt")
    torch.save({"weights": 1}, tmp_path / "x.pt")
    torch.save({"model": {}, "trap": print}, tmp_path / "trap.pt")
    for name, message in (
        ("words", r"--init-from .*the source dictionary in DATA .* is not the one .*--like"),
        ("rows", r"encoder.embed_tokens.weight has 50 words, but the source dictionary .* 44"),
        ("gru", r"no weight that fits this model; .*decoder.cell.weight_ih"),
        ("x", r"x.pt: not a checkpoint of fairseq-train"),
        ("trap", "refused"),
        ("nowhere", r"--init-from .*nowhere.pt.: no such file"),
    ):
        with pytest.raises((ValueError, FileNotFoundError, UnsafeCheckpointError), match=message):
            load_initial_weights(model, str(tmp_path / f"{name}.pt"), task)


def init_task(tmp_path, **options):
    given = {"save_dir": str(tmp_path / "run [1]"), "restore_file": "checkpoint_last.pt", "checkpoint_suffix": ""}
    given.update(dict.fromkeys(("finetune_from_model", "continue_once")), **options)
    return steps_task(init_from=str(tmp_path / "plain.pt"), **given)


def test_the_task_loads_once_and_not_when_training_resumes_or_a_checkpoint_is_loaded(tmp_path):
    plain = changed(make_model("etads_basic", steps_task()))
    save(plain, tmp_path / "plain.pt")

    def begins_with_it(task):
        model = task.build_model(model_config("etads", **SMALL))
        return torch.equal(model.decoder.layers[0].fc1.weight, plain.decoder.layers[0].fc1.weight)

    loading = init_task(tmp_path)
    loading.load_state_dict(loading.state_dict())
    assert not begins_with_it(loading)
    (tmp_path / "run [1]").mkdir()
    for name, option, begins in (
        ("checkpoint_last_old.pt", {}, True),  # renamed by a user
        ("checkpoint_last-shard1.pt", {}, False),
        ("checkpoint_last_a.pt", {"checkpoint_suffix": "_a"}, False),
        ("checkpoint_last.pt", {}, False),
    ):
        file = tmp_path / "run [1]" / name
        file.touch()
        assert begins_with_it(init_task(tmp_path, **option)) == begins, name
        if name != "checkpoint_last.pt":
            file.unlink()
    (tmp_path / "plain.pt").unlink()
    assert not begins_with_it(init_task(tmp_path)), "the file may be gone by then"
    for option in ("restore_file", "finetune_from_model", "continue_once"):
        with pytest.raises(ValueError, match="cannot be combined"):
            is_training_from_start(init_task(tmp_path, **{option: "x.pt"}).cfg)
