"""``--output-bias``: the b_o of ETADS's equation 4, in training, in cached decoding and packed for inference."""

import pytest
import reference
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import PAD, make_batch, make_model, model_config

from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

SUMMARIES = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14], [15]]


@pytest.mark.parametrize("shared", [True, False])
def test_the_distribution_is_that_of_the_equation(shared, documents):
    model = make_model("etads", output_bias=True, share_all_embeddings=shared)
    layer, tokens = model.decoder.output_projection, make_batch(documents)
    assert (layer.weight is model.encoder.embed_tokens.weight) is shared
    inputs = (tokens, tokens.ne(PAD).sum(1), make_batch(SUMMARIES))
    with torch.no_grad():
        layer.bias.normal_(std=3.0)  # the logits of a small random model differ by about 1
        output, states = model(*inputs), model(*inputs, features_only=True)[0]
    probabilities = model.get_normalized_probs(output, log_probs=False)
    for row, step in ((0, 2), (2, 0), (4, 1)):
        expected = reference.output_distribution(states[row, step], layer.weight, layer.bias)
        torch.testing.assert_close(probabilities[row, step], torch.tensor(expected), rtol=1e-4, atol=1e-6)


def test_the_papers_numbers_of_parameters():
    """ETADS, Table 4, in units of 10,000: each side with the vectors, the decoder's with the bias; no positions."""
    dictionary = Dictionary()
    for number in range(50000 - len(dictionary)):
        dictionary.add_symbol(str(number))
    task = SummarizationTask(SummarizationConfig(), dictionary, dictionary)
    for layers, encoder, decoder in ((2, 3190, 3406), (4, 3821, 4246), (6, 4451, 5087)):
        config = model_config("etads_basic", output_bias=True, encoder_layers=layers, decoder_layers=layers)
        with torch.device("meta"):
            model = ARCH_MODEL_REGISTRY["etads_basic"].build_model(config, task)
        counts = [
            sum(value.numel() for name, value in side.named_parameters() if "positions" not in name)
            for side in (model.encoder, model.decoder)
        ]
        assert [abs(count / 10000 - paper) < 1 for count, paper in zip(counts, (encoder, decoder))] == [True, True]
