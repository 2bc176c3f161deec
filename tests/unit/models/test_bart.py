"""The presets in BART's sizes give the results of fairseq's BART, and start from its published weights."""

import copy
import logging

import pytest
import torch
from bart import SIZES, bart_args, bart_dictionary, make_bart, save_bart
from fairseq.data import Dictionary
from fairseq.models.bart import BARTModel
from fairseq.models.bart import model as bart_module
from helpers import EOS, PAD, make_batch, make_task, model_config

from fairseq_etads.models.init_from import load_initial_weights
from fairseq_etads.models.transformer import SummarizationTransformer
from fairseq_etads.pipeline.architectures import make_numbered_dictionary
from fairseq_etads.vocabulary.dictionary import limit_known_words

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
