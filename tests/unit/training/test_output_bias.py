"""``--output-bias``: the b_o of ETADS's equation 4, in training, in cached decoding and packed for inference."""

import pytest
import reference
import torch
from decoding import TASK, generate, make_sample
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from helpers import PAD, SMALL, make_batch, make_model, make_task, model_config

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

SUMMARIES = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14], [15]]


def biased(task=None, spread=3.0, **options):
    """A model with a strong bias: the logits of a small random model differ by about 1."""
    model = make_model("etads", task, output_bias=True, **options)
    torch.manual_seed(2)
    with torch.no_grad():
        model.decoder.output_projection.bias.normal_(std=spread)
    return model


def without_bias(model, task=None, **options):
    """The same model built without the option."""
    plain = make_model("etads", task, **options)
    state = model.state_dict()
    assert state.pop("decoder.output_projection.bias").shape == (44,)
    plain.load_state_dict(state, strict=True)
    return plain


def run(model, documents, **kwargs):
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    return model(tokens, tokens.ne(PAD).sum(1), previous, **kwargs)


@pytest.mark.parametrize("shared", [True, False])
def test_the_distribution_is_that_of_the_equation(shared, documents):
    model = biased(share_all_embeddings=shared)
    layer = model.decoder.output_projection
    assert (layer.weight is model.encoder.embed_tokens.weight) is shared
    with torch.no_grad():
        output = run(model, documents)
        states = run(model, documents, features_only=True)[0]
    probabilities = model.get_normalized_probs(output, log_probs=False)
    for row, step in ((0, 2), (2, 0), (4, 1)):
        expected = reference.output_distribution(states[row, step], layer.weight, layer.bias)
        torch.testing.assert_close(probabilities[row, step], torch.tensor(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_zero_is_the_model_without_and_anything_else_is_not(shared, documents):
    model = biased(share_all_embeddings=shared)
    plain = without_bias(model, share_all_embeddings=shared)
    with torch.no_grad():
        want = run(plain, documents)[0]
        assert (run(model, documents)[0] - want).abs().max() > 1
        model.decoder.output_projection.bias.zero_()
        torch.testing.assert_close(run(model, documents)[0], want, rtol=0, atol=0)


def test_it_begins_at_zero_and_is_absent_unless_asked_for():
    build = ARCH_MODEL_REGISTRY["etads"].build_model
    configs = (model_config("etads", **SMALL, **options) for options in ({"output_bias": True}, {}))
    with_it, plain = (build(config, TASK).state_dict() for config in configs)
    assert set(with_it) - set(plain) == {"decoder.output_projection.bias"}
    assert with_it["decoder.output_projection.bias"].eq(0).all()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("infer_dtype,error", [(None, 1e-4), ("fp32", 1e-4), ("bf16", 0.15), ("int8", 0.15)])
def test_it_is_packed_for_inference(infer_dtype, error, shared, documents, monkeypatch):
    """In several blocks of words; with the same prefix, so that a narrow decision does not separate the dtypes."""
    monkeypatch.setattr("fairseq_etads.kernels.packed_weights.OUTPUT_BLOCK", 16)
    model = biased(TASK, share_all_embeddings=shared)
    prefix = torch.randint(4, 40, (5, 6), generator=torch.Generator().manual_seed(0))

    def scores(cls, model, **options):
        rows = generate(cls, [model], make_sample(documents), options, prefix_tokens=prefix)
        return torch.stack([row[0]["positional_scores"][:6] for row in rows])

    want = scores(SequenceGenerator, model, beam_size=2, max_len_b=6)
    got = scores(SummaryGenerator, model, beam_size=2, exact_length=6, infer_dtype=infer_dtype)
    torch.testing.assert_close(got, want, rtol=error, atol=error)
    plain = without_bias(model, TASK, share_all_embeddings=shared)
    others = scores(SummaryGenerator, plain, beam_size=2, exact_length=6, infer_dtype=infer_dtype)
    assert (others - want).abs().mean() > 1, "the comparison would not notice a lost bias"


@pytest.mark.parametrize("infer_dtype,error", [(None, 1e-5), ("bf16", 0.05), ("int8", 0.05)])
def test_it_goes_with_a_table_that_has_more_words_than_can_be_generated(infer_dtype, error):
    """One table for both sides, and fewer words known of summaries (--target-size)."""
    model = biased(make_task(target_words=20))
    layer, states = model.decoder.output_projection, torch.randn(3, 1, 32)
    assert len(layer.weight) == 44 and layer.bias.shape == (20,)
    with torch.no_grad():
        want = states @ layer.weight[:20].t() + layer.bias
        torch.testing.assert_close(layer(states), want)
        packed = InferenceModel(model, infer_dtype).get_current_copy().decoder.output_projection
        torch.testing.assert_close(packed(states).float(), want, rtol=error, atol=error)


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
