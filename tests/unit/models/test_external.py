"""fairseq's own models under --task summarization: each trains and decodes, or is refused with a message."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq import models, utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from steps import RARE, make_sample, steps_task, train_and_decode

from fairseq_etads.models.external_models import check_external_model

UNK, V = 3, 44
SIZES = {"layers": 1, "attention_heads": 2, "kernel_size_list": [3]}
SIZES |= dict.fromkeys(("embed_dim", "ffn_embed_dim", "conv_dim", "hidden_size", "output_dim", "input_dim"), 16)
TINY = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in SIZES.items()}
TINY["decoder_out_embed_dim"] = 16
FCONV = {"encoder_layers": "[(16, 3)]", "decoder_layers": "[(16, 3)]"}
TRAINED = {"bart", "fconv", "fconv_self_att", "lightconv", "lstm", "roberta_enc_dec", "transformer"}
TRAINED |= {"transformer_align"}
"""The models, by their names in fairseq, that train; all other encoder-decoders are refused."""


def external_config(arch, **options):
    """The options of a tiny model as fairseq-train passes them to the task."""
    sizes = {**TINY, **(FCONV if arch.startswith("fconv") else {})}
    args = Namespace(arch=arch, criterion="summarization_nll", **{**sizes, **options})
    models.ARCH_CONFIG_REGISTRY[arch](args)
    return convert_namespace_to_omegaconf(args).model


def external_model(arch, task=None, **options):
    torch.manual_seed(1)
    return (task or steps_task()).build_model(external_config(arch, **options)).eval()


def output(model, sample):
    with torch.no_grad():
        return model.get_normalized_probs(model(**sample["net_input"])[:2], log_probs=True)


def without_rare(sample):
    """The batch with the unknown word in place of all words of the copy tail."""
    return utils.apply_to_sample(lambda tensor: tensor.masked_fill(tensor >= V, UNK), sample)


def test_each_architecture_trains_and_decodes_or_is_refused_in_words():
    architectures, trained, refused = {}, set(), {}
    for arch, kind in models.ARCH_MODEL_REGISTRY.items():
        if kind.__module__.startswith("fairseq.") and issubclass(kind, models.FairseqEncoderDecoderModel):
            architectures.setdefault(models.ARCH_MODEL_NAME_REGISTRY[arch], arch)
    for name, arch in architectures.items():
        try:
            check_external_model(Namespace(arch=arch))
            train_and_decode(steps_task(), external_config(arch))
            trained.add(name)
        except (ValueError, AssertionError) as error:
            refused[name] = str(error)
    assert trained == TRAINED
    assert len(refused) >= 20 and all("--" in message for message in refused.values())
    assert "does not write from left to right" in refused["levenshtein_transformer"]
    assert "reads or writes speech" in refused["s2t_transformer"]
    for arch in ("transformer_lm", "wav2vec2"):
        with pytest.raises(ValueError, match=f"--arch {arch} is not an encoder and a decoder"):
            steps_task().build_model(Namespace(arch=arch))


@pytest.mark.parametrize("arch", ["transformer_tiny", "lstm", "fconv"])
def test_the_copy_tail_is_read_as_the_unknown_word(arch):
    model, sample = external_model(arch), make_sample()
    tokens, log_probs = sample["net_input"]["src_tokens"].clone(), output(model, sample)
    assert log_probs.shape[2] == V == model.encoder.embed_tokens.num_embeddings
    assert torch.equal(log_probs, output(model, without_rare(sample)))
    assert torch.equal(sample["net_input"]["src_tokens"], tokens)
    sample["net_input"]["src_tokens"][tokens == RARE[1]] = 20
    assert not torch.allclose(log_probs, output(model, sample))


@pytest.mark.parametrize("arch,beam", [("fconv", 2), ("lightconv", 4), ("fconv_self_att", 2)])
def test_prepared_models_return_attention_and_search_with_any_beam(arch, beam):
    """fairseq-generate prepares models before it builds a generator; a model of fairseq's hub gets several of these."""
    task, sample = steps_task(replace_unknown=True), make_sample()  # which needs attention
    sample["net_input"] = {name: torch.cat([x, x[:1]]) for name, x in sample["net_input"].items()}  # 4 documents
    found = []
    for prepared in (False, True):
        model = external_model(arch, task)
        if prepared:
            generation = {"beam": 4, "no_beamable_mm": False, "print_alignment": None}
            model.prepare_for_inference_(OmegaConf.create({"generation": generation}))
        generator = task.build_generator([model], OmegaConf.structured(GenerationConfig(beam=beam, max_len_b=6)))
        found.append(task.inference_step(generator, [model], sample))
    for expected, row in zip(*found):
        assert [h["tokens"].tolist() for h in row] == [h["tokens"].tolist() for h in expected]
        torch.testing.assert_close(row[0]["attention"], expected[0]["attention"], rtol=1e-4, atol=1e-5)
        assert row[0]["attention"].shape[1] == len(row[0]["tokens"])


def test_coverage_loss_takes_the_attention_that_there_is():
    train_and_decode(steps_task(), external_config("transformer_tiny"), coverage_loss=1.0)
    for arch in ("lstm", "fconv"):  # these return it only in evaluation
        with pytest.raises(ValueError, match="--coverage-loss needs the decoder's attention"):
            train_and_decode(steps_task(), external_config(arch), coverage_loss=1.0)


@pytest.mark.parametrize("arch", ["transformer_tiny", "lstm"])
def test_checkpoints_with_rows_for_the_copy_tail_are_loaded(arch):
    """Version 0.1.0 gave fairseq's models the whole dictionary."""
    task, sample = steps_task(), make_sample()
    for dictionary in (task.src_dict, task.tgt_dict):  # which then knows all 53 words
        dictionary.count = [1] * len(dictionary)
    old, model = external_model(arch, task), external_model(arch)
    assert len(old.encoder.embed_tokens.weight) == V + 9
    model.load_state_dict(copy.deepcopy(old.state_dict()))
    whole, cut = output(old, without_rare(sample)), output(model, sample)
    torch.testing.assert_close(cut, whole[:, :, :V].log_softmax(2))


def test_models_that_need_positions_get_enough_of_them():
    assert external_model("fconv").max_positions() == (1024, 1024)
    assert external_model("fconv", steps_task(truncate_source=1500)).max_positions() == (1501, 1024)
    assert external_model("fconv", max_source_positions=502).max_positions()[0] == 500
