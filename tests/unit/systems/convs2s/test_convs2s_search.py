"""The convolutional family in search: fairseq's results, copied words, copies for inference, model folders."""

import pytest
import torch
from convolutional import DOCUMENTS, SIZES, conv, conv_task
from decoding import make_sample, options
from fairseq.modules import BeamableMM, LinearizedConvolution
from omegaconf import OmegaConf

from fairseq_etads.kernels.linear import BlockedOutputProjection
from fairseq_etads.kernels.operators import can_pack_weights
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.summarizer.folder.loading import check_model_options


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_prepared_model_searches_with_any_beam(beam):
    """fairseq's own model would multiply as if every document had the beam size for which it was prepared."""
    task, sample = conv_task(), make_sample([document for document in DOCUMENTS if document])
    plain, prepared = conv("soft", task), conv("soft", task)
    generation = {"beam": 4, "no_beamable_mm": False, "print_alignment": None}
    prepared.prepare_for_inference_(OmegaConf.create({"generation": generation}))
    assert not any(isinstance(module, BeamableMM) for module in prepared.modules())
    found = [task.inference_step(task.build_generator([m], options(beam=beam)), [m], sample) for m in (plain, prepared)]
    for row, expected in zip(*found):
        assert [h["tokens"].tolist() for h in row] == [h["tokens"].tolist() for h in expected]
    assert all(row[0]["attention"].isfinite().all() for row in found[1])


def test_copies_have_no_normalised_weights_left_to_compute():
    model = conv("soft")
    copied = InferenceModel(model).get_current_copy()
    assert not any(name.endswith(("weight_g", "weight_v")) for name, _ in copied.named_parameters())
    assert isinstance(copied.decoder.output_projection, BlockedOutputProjection) == can_pack_weights(torch.float32)
    layers = [module for module in copied.modules() if isinstance(module, LinearizedConvolution)]
    assert len(layers) == 3 and all(layer._linearized_weight is not None for layer in layers)
    assert all(layer._linearized_weight is None for layer in model.decoder.convolutions)


@pytest.mark.parametrize(
    "option,value",
    [
        *(("encoder_layers", "[(99999, 3)]"), ("encoder_layers", "[(8, 3)] * 100000"), ("encoder_layers", 2)),
        *(("decoder_layers", "__import__('os')"), ("decoder_attention", "[1, 0]")),
    ],
)
def test_hostile_layers_in_a_folder_are_refused(option, value):
    given = {**SIZES, "decoder_attention": "[True, False, True]"}
    check_model_options("convs2s", given, 64)
    with pytest.raises(InputError, match=f"the option {option} of convs2s cannot be"):
        check_model_options("convs2s", {**given, option: value}, 64)
