"""--init-from: weights of another model's checkpoint, and of BART's, which has presets of its own; refused ones."""

import copy
import logging

import pytest
import torch
from bart import SIZES, bart_args, bart_dictionary, make_bart, save_bart
from fairseq.data import Dictionary
from fairseq.models.bart import BARTModel
from fairseq.models.bart import model as bart_module
from helpers import EOS, PAD, RECURRENT, SMALL, make_batch, make_model, make_task, model_config
from steps import steps_task
from test_external import external_model

from fairseq_etads.fairseq_fixes.checkpoints import UnsafeCheckpointError
from fairseq_etads.models.init_from import is_training_from_start, load_initial_weights
from fairseq_etads.models.transformer import SummarizationTransformer
from fairseq_etads.pipeline.architectures import make_numbered_dictionary
from fairseq_etads.vocabulary.dictionary import limit_known_words


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


OFF = {"focus_layers": "none", "saliency_layers": "none"}
DOCUMENTS = make_batch([[5, 9, 20, 33, 7, 264], [100, 4], [41, 41, 6, 8]])
PREVIOUS = torch.tensor([[EOS, 5, 9, 77], [EOS, 100, 44, 44], [EOS, 0, 200, 6]])


@pytest.fixture(scope="module")
def bart():
    """A BART with the mask, as after pretraining."""
    return make_bart(bart_dictionary())


@pytest.fixture
def checkpoint(bart, tmp_path):
    return save_bart(bart, bart_dictionary(), tmp_path / "bart.base")


def task_of(dictionary, target=None):
    """A task in which all words of a dictionary are known, as with etads-prepare --dictionary."""
    task = make_task()
    dictionary.count = [max(count, 1) for count in dictionary.count]
    task.src_dict, task.tgt_dict = dictionary, target or dictionary
    return task


def build(task, **options):
    torch.manual_seed(1)
    return SummarizationTransformer.build_model(model_config("etads_bart_base", **SIZES, **options), task).eval()


def begin(checkpoint, task=None, **options):
    """Make a model that starts from the checkpoint's weights."""
    task = task or task_of(bart_dictionary(mask=False))
    model = build(task, **options)
    load_initial_weights(model, str(checkpoint), task)
    return model


def run(model, documents=DOCUMENTS, previous=PREVIOUS):
    """Compute the encoder's output (S, B, d) at real tokens, and the logits."""
    with torch.no_grad():
        lengths = documents.ne(PAD).sum(1)
        states = model.encoder(documents, lengths)["encoder_out"][0]
        return states.transpose(0, 1)[documents.ne(PAD)], model(documents, lengths, previous)[0]


def shapes(model):
    """Names and shapes of all weights, without buffers that only describe a model."""
    return {n: tuple(w.shape) for n, w in model.state_dict().items() if not n.endswith((".version", "_float_tensor"))}


@pytest.mark.parametrize("size", ["base", "large"])
def test_the_presets_have_fairseqs_options_names_and_shapes(size, monkeypatch):
    """The model has its full size: 50,264 words and the mask."""
    monkeypatch.setattr(bart_module, "init_bert_params", lambda module: None)  # it would need values
    task = task_of(make_numbered_dictionary(50265))
    with torch.device("meta"):
        args, ours = bart_args(f"bart_{size}"), model_config(f"etads_bart_{size}")
        fairseqs = shapes(BARTModel.build_model(args, task))
        plain = shapes(SummarizationTransformer.build_model(model_config(f"etads_bart_{size}", **OFF), task))
        whole = shapes(SummarizationTransformer.build_model(ours, task))
    assert plain == fairseqs
    shared = sorted(set(vars(args)) & set(ours))
    assert len(shared) > 25 and {name: getattr(args, name) for name in shared} == {name: ours[name] for name in shared}
    new = whole.keys() - plain.keys()
    assert new and all(".self_attn.focal." in name or ".encoder_attn.gate_" in name for name in new)


def test_with_the_mechanisms_at_their_start_the_outputs_are_those_of_bart_until_they_learn(bart, checkpoint):
    """After some training, each mechanism changes the outputs."""
    model = begin(checkpoint)
    for found, expected in zip(run(model), run(bart)):
        torch.testing.assert_close(found, expected[..., : found.shape[-1]], rtol=0, atol=2e-5)
    states, logits = run(model)
    for layer, changes in (("decoder.layers.0.encoder_attn.gate_", False), ("encoder.layers.0.self_attn.focal.", True)):
        with torch.no_grad():
            for weight in (weight for name, weight in model.named_parameters() if name.startswith(layer)):
                weight.normal_()
        after = run(model)
        assert torch.equal(after[0], states) != changes and (after[1] - logits).abs().max() > 1e-2


def test_rows_are_found_by_their_words(bart, checkpoint):
    """Each word of a dictionary in another order gets its vector from BART, wherever it is in the data's dictionary.
    The dictionary has fewer words, the mask, a padding word and a copy tail.
    """
    task, bart_words = make_task(), bart_dictionary()
    task.src_dict = task.tgt_dict = dictionary = Dictionary()
    words = bart_words.symbols[4:]
    for word in [*words[200:90:-3], "<mask>", *words[:30], "madeupword0007"]:
        dictionary.add_symbol(word, n=1)
    dictionary.add_symbol("rare", n=0)
    model = build(task, **OFF)
    before = model.encoder.embed_tokens.weight.detach().clone()
    load_initial_weights(model, str(checkpoint), task)
    table, theirs = model.encoder.embed_tokens.weight, bart.encoder.embed_tokens.weight
    assert len(table) == len(dictionary) - 1
    for number, word in enumerate(dictionary.symbols[:-1]):
        expected = before[number] if word == "madeupword0007" else theirs[bart_words.index(word)]
        assert torch.equal(table[number], expected), word


def test_a_bound_for_summaries_has_the_first_rows(bart, checkpoint):
    """Summaries know fewer words of a shared dictionary, with a shared table or separate ones."""
    dictionary, previous = bart_dictionary(mask=False), PREVIOUS.clamp(max=99)
    for shared in (True, False):
        task = task_of(dictionary, limit_known_words(dictionary, 100))
        tables = {"share_all_embeddings": shared, "share_decoder_input_output_embed": shared}
        model = begin(checkpoint, task, **OFF, **tables)
        expected = run(bart, previous=previous)[1][..., :100]
        torch.testing.assert_close(run(model, previous=previous)[1], expected, rtol=0, atol=2e-5)


def test_fine_tuned_barts_have_a_dictionary_for_each_side_and_no_mask(bart, tmp_path, caplog):
    """fairseq publishes bart.large.cnn with dict.source.txt and dict.target.txt."""
    words = bart_dictionary(mask=False)
    fine_tuned = make_bart(words)  # for --task translation
    fine_tuned.args.task = "translation"
    fine_tuned.load_state_dict({name: value.clone() for name, value in bart.state_dict().items()})
    path = save_bart(fine_tuned, words, tmp_path / "bart.cnn")
    (path.parent / "dict.txt").rename(path.parent / "dict.target.txt")
    (path.parent / "dict.source.txt").write_bytes((path.parent / "dict.target.txt").read_bytes())
    task = task_of(words)
    task.cfg.source_lang, task.cfg.target_lang = "article", "summary"  # the data's own names
    torch.testing.assert_close(run(begin(path, task, **OFF))[1], run(fine_tuned)[1], rtol=0, atol=2e-5)
    assert "does not record its dictionary" not in caplog.text


def old_names(weights):
    """One weight for queries, keys and values, no output layer (as in old fairseq), and a classification head."""
    attentions = {name[: -len("q_proj.weight")] for name in weights if name.endswith("q_proj.weight")}
    for attention in attentions:
        for kind in ("weight", "bias"):
            parts = [weights.pop(f"{attention}{part}_proj.{kind}") for part in "qkv"]
            weights[f"{attention}in_proj_{kind}"] = torch.cat(parts)
    del weights["decoder.output_projection.weight"]
    weights["classification_heads.mnli.dense.weight"] = torch.zeros(2, 2)
    weights["encoder.version"] = weights["decoder.version"] = torch.tensor([3.0])
    return weights


def test_weights_of_old_versions_of_fairseq_and_in_half_precision_are_read(bart, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    half = copy.deepcopy(bart).half().float()
    path = save_bart(
        half, bart_dictionary(), tmp_path / "old", lambda w: old_names({n: x.half() for n, x in w.items()})
    )
    model = begin(path, **OFF)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    torch.testing.assert_close(run(model)[1], run(half)[1][..., :-1], rtol=0, atol=2e-5)
    (record,) = (r for r in caplog.records if ": loaded " in r.message)
    assert "in the checkpoint, but not in this model: classification_heads.mnli.dense.weight" in record.message
    assert "embed_tokens.weight: the rows of the 272 known words of 273" in record.message
    assert "(100.0%)" in record.message and "new, because" not in record.message and ".version" not in record.message


def test_a_dictionary_that_is_not_the_checkpoints_is_refused(checkpoint):
    with pytest.raises(ValueError, match=r"40 of the 44 known words of DATA are not in .*dict.txt, .*'w0'"):
        begin(checkpoint, make_task(), **OFF)
    lines = (checkpoint.parent / "dict.txt").read_text().splitlines(keepends=True)
    for text, message in (
        ("".join(lines[:-3]), r"embed_tokens.weight has 273 rows, but .*dict.txt has 269 words"),
        ("".join([*lines[:-1], "<mask> 1\n"]), r"has 273 rows, but .*dict.txt has 272 words"),  # one word too few
        ("no count\n", r"dict.txt, line 1: not a dictionary"),
    ):
        (checkpoint.parent / "dict.txt").write_text(text)
        with pytest.raises(ValueError, match=message):
            begin(checkpoint, **OFF)
