"""The recurrent family in search: copied words, prefixes, references, copies for inference."""

from argparse import Namespace

import pytest
import torch
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch
from recurrent import DOCUMENTS, inputs, log_probs, recurrent, recurrent_task

from fairseq_etads.kernels.packed_weights import BlockedOutputProjection
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.training.losses import SummarizationNLL


def options(**changes):
    values = {"beam": 3, "max_len_b": 6, "max_len_a": 0, "replace_unk": None, "print_alignment": None}
    return Namespace(**{**values, "constraints": None, **changes})


SELECTING = ["unified_summarizer", "explicit_selection"]


@pytest.mark.parametrize("arch", ["feats_lvt2k_ptr", "pg_coverage", "pointer_generator_coverage", *SELECTING])
def test_words_are_copied_and_their_places_known(arch):
    task = recurrent_task()
    model = recurrent(arch, task)
    with torch.no_grad():
        model.decoder.pointer.gate.weight.zero_()
        model.decoder.pointer.gate.bias.fill_(-1e4)
    generator = task.build_generator([model], options(), extra_gen_cls_kwargs={"copied_positions": True})
    tokens = make_batch([[5, 45, 6], [46, 47]])
    sample = {"id": torch.arange(2), "net_input": inputs(model, tokens)}
    for row, hypotheses in enumerate(task.inference_step(generator, [model], sample)):
        words = [(word, place) for word, place in zip(*(hypotheses[0][k].tolist() for k in ("tokens", "copied_from")))]
        assert len(words) > 1
        assert all((place == -1) if word == EOS else tokens[row, place] == word for word, place in words)


@pytest.mark.parametrize("arch", ["words_lvt2k", "pg_coverage"])
def test_a_prefix_may_hold_words_that_are_on_no_list(arch):
    task = recurrent_task()
    model = recurrent(arch, task, large_vocabulary_trick=25)
    documents, prefix = [[5, 6, 7], [40, 8], [9]], torch.tensor([[6, 40], [40, 3], [PAD, PAD]])
    assert [40 in model.decoder.choose_candidates(make_batch([document])).words for document in documents] == [
        False,
        True,
        False,
    ]
    sample = {"id": torch.arange(3), "net_input": inputs(model, make_batch(documents))}
    generator = task.build_generator([model], options())
    found = task.inference_step(generator, [model], sample, prefix_tokens=prefix)
    for row in (0, 1):
        assert found[row][0]["tokens"][:2].tolist() == prefix[row].tolist() and found[row][0]["score"].isfinite()
    before = torch.tensor([[EOS, 6]])
    unknown = log_probs(model, make_batch(documents[:1]), before)[0][0, 1, task.target_dictionary.unk()]
    torch.testing.assert_close(found[0][0]["positional_scores"][1], unknown, rtol=1e-4, atol=1e-4)
    free = task.inference_step(task.build_generator([model], options()), [model], sample)
    assert torch.equal(free[2][0]["tokens"], found[2][0]["tokens"])


def test_constraints_beside_the_trick_are_words_of_the_documents_list(caplog):
    task = recurrent_task()
    model = recurrent("words_lvt2k", task)
    generator = task.build_generator([model], options(constraints="ordered"))
    documents = [[5, 6, 40], [9, 8]]
    listed = [model.decoder.choose_candidates(make_batch([document])).words.tolist() for document in documents]
    assert [40 in words for words in listed] == [True, False]
    sample = {"id": torch.arange(2), "net_input": inputs(model, make_batch(documents))}
    constraints = pack_constraints([[torch.tensor([40])], [torch.tensor([8, 9])]])
    found = task.inference_step(generator, [model], sample, constraints=constraints)
    assert 40 in found[0][0]["tokens"] and "8, 9" in str(found[1][0]["tokens"].tolist())
    task.inference_step(generator, [model], sample, constraints=constraints[:1].expand(2, -1))
    assert '--constraints: the summary of document 2 of the batch cannot contain "w36"' in caplog.text


@pytest.mark.parametrize("arch", ["words_lvt2k", "feats_lvt2k_ptr"])
def test_references_are_scored_as_in_validation(arch):
    task = recurrent_task()
    model = recurrent(arch, task)
    target = make_batch([[6, 40], [8, 45]])
    previous = target.roll(1, 1)
    previous[:, 0] = EOS
    net_input = {**inputs(model, make_batch([[5, 6, 45], [45, 8]])), "prev_output_tokens": previous}
    sample = {"id": torch.arange(2), "net_input": net_input, "target": target, "ntokens": target.numel()}
    scored = task.inference_step(task.build_generator([model], options(score_reference=True)), [model], sample)
    assert all(found[0]["positional_scores"].isfinite().all() for found in scored)
    assert all(torch.equal(found[0]["tokens"], row) for found, row in zip(scored, target))
    if arch == "words_lvt2k":  # the criterion scores a switch's decisions, too
        loss = SummarizationNLL(task, False, 0.0, 0.0, 0, 0, 1.0)(model, sample)[0]
        total = sum(found[0]["positional_scores"].sum() for found in scored)
        torch.testing.assert_close(-total, loss.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype,error", [("fp32", 1e-4), ("bf16", 0.1), ("int8", 0.1)])
def test_copies_for_inference_score_the_same_words_alike(dtype, error):
    """With the same prefix, so that a narrow decision between two words does not separate the dtypes."""
    task, prefix = recurrent_task(), torch.tensor([[5, 6, 9, 10], [30, 4, 5, 30]])
    model = recurrent("words_lvt2k_hieratt", task)
    sample = {"id": torch.arange(2), "net_input": inputs(model, make_batch(DOCUMENTS[:2]))}
    scores = []
    for task.cfg.infer_dtype in (None, dtype):
        generator = task.build_generator([model], options())
        found = task.inference_step(generator, [model], sample, prefix_tokens=prefix)
        assert [row[0]["tokens"][:4].tolist() for row in found] == prefix.tolist()
        scores.append(torch.stack([row[0]["positional_scores"][:4] for row in found]))
    torch.testing.assert_close(scores[1], scores[0], rtol=error, atol=error)


@pytest.mark.parametrize("infer_dtype,error", [("fp32", 1e-5), ("bf16", 0.05), ("int8", 0.05)])
@pytest.mark.parametrize("arch", ["gru_seq2seq", "pg_coverage", "words_lvt2k"])
def test_the_product_with_all_words_is_packed(arch, infer_dtype, error):
    """Weights are not packed if the softmax runs over candidates, because each batch looks up their rows."""
    model = recurrent(arch, recurrent_task())
    layer = model.decoder.output_projection
    with torch.no_grad():
        layer.bias.normal_()
        x = torch.randn(5, 1, layer.weight.shape[1])
        want = layer(x)
        copied = InferenceModel(model, infer_dtype).get_current_copy().decoder.output_projection
        torch.testing.assert_close(copied(x), want, rtol=error, atol=error)
    assert isinstance(copied, BlockedOutputProjection) == (arch != "words_lvt2k")
