"""The contract of every architecture and of each mechanism, in small models with random weights.

Padding and the other documents of a batch change neither outputs nor losses and gradients; decoding step by step is
decoding at once; every parameter is trained; what is saved is loaded; half precision is near, also in training;
dropout acts in training alone; a search finds what the model says.
"""

import copy
import io
import math
import pickle
from argparse import Namespace
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from convolutional import KINDS as CONVOLUTIONS
from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, PAD, model_config
from language_models import KINDS as LANGUAGE_MODELS
from recurrent import ALL as RECURRENT
from recurrent import SEE, SELECTED
from small_models import DOCUMENTS, FAMILIES, MARK, Order, batch, build, options_of_criterion

from fairseq_etads.kernels.beam_state import BeamState
from fairseq_etads.layers.decoder_output import get_pointer

ALL = tuple(range(len(DOCUMENTS)))
BEAM, LONGEST, UNK = 3, 6, 3
CLOSE, NEAR = ({"rtol": bound, "atol": bound} for bound in (1e-9, 1e-6))
"""Bounds of float64, and with fairseq's computed positions, which are float32."""
PADDINGS = [((False, False), (3, 2)), ((True, False), (2, 0)), ((True, True), (1, 2))]
"""Sides of documents and summaries (True: left), and columns of padding added to each."""
APART = {"share_all_embeddings": False}
CONV = {"encoder": "conv", "bridge": "zero"}
OF_SENTENCES = {"hierarchical_attention": True}
MECHANISMS = {
    "etads": {
        "continue": {"pointer": "soft", "pointer_continue": True},
        "switch": {"pointer": "switch", "pointer_initial_generate": 0.9},
        "forms": {
            **{"focus_center": "relative", "focus_initial_scope": "1,3,half", "focus_strength": "learned"},
            **{"saliency_gate": "normalised", "pointer": "soft", "aggregation": "add"},
        },
        "norms": {"saliency_gate": "open", "encoder_normalize_before": True, "decoder_normalize_before": True},
        "proj": {"encoder_layers": 3, "aggregation": "proj", "aggregation_layers": 2, "encoder_gate": True},
        "attn": {"encoder_layers": 3, "aggregation": "attn", "aggregation_layers": 2, "pointer": "soft"},
        "neighbours": {"encoder_neighbours": 2, "decoder_neighbours": 2, "pointer": "soft"},
        "computed positions": {"encoder_learned_pos": False, "decoder_learned_pos": False, "encoder_neighbours": 1},
        "factors": {"source_factors": "pos:3,tf", "pointer": "soft", **APART},
        "shared layers": {"share_encoder_decoder_layers": True, "output_bias": True},
        "clusters": {"adaptive_softmax_cutoff": [10, 20]},
        "other widths": {"decoder_embed_dim": 16, "decoder_output_dim": 24, **APART, "pointer": "soft"},
    },
    "gru_seq2seq": {
        "all": RECURRENT,
        "all of see": {**RECURRENT, **SEE},
        "all selected": {**RECURRENT, **SEE, **SELECTED},
        "bounded": {**RECURRENT, "large_vocabulary_trick": 0, "pointer": "switch", **APART, "target_words": 24},
        "bounded and shared": {**RECURRENT, "large_vocabulary_trick": 12, "target_words": 24},
        "dot": {"attention_score": "dot", "bridge": "zero", "readout": "none", "temporal_attention": True},
        "convolution": {**CONV, "attention_score": "dot", "pointer": "soft", "source_factors": "pos:3"},
        "selective": {"encoder_gate": "selective", "source_factors": "pos:3", **OF_SENTENCES},
        "fed readout": {"input_feed": "readout", "attention_query": "after", "pointer": "switch", "merge_input": True},
        "closed book": {"rnn_cell": "lstm", "closed_book_decoder": True, "pointer": "soft"},
        "projection": {"encoder_projection": 7, "attention_score": "dot", "rnn_cell": "lstm", "learnt_start": True},
    },
    "convs2s": {kind: options for kind, options in CONVOLUTIONS.items() if options}
    | {"bounded": {**CONVOLUTIONS["bounded"], "target_words": 24}},
    "abs": {kind: options for kind, options in LANGUAGE_MODELS.items() if options},
}
"""Rows of the contract beside the presets: names of combinations of options, and the options."""
SAME_WHEN_SMALL = {"convs2s_gigaword", "convs2s_cnndm", "etads_bart_large", "words_lvt5k"}
"""Presets that differ from another one in sizes alone."""
ROWS = {arch: (arch, {}) for presets in FAMILIES.values() for arch in presets if arch not in SAME_WHEN_SMALL}
ROWS.update((f"{arch}, {name}", (arch, options)) for arch, rows in MECHANISMS.items() for name, options in rows.items())
SELECTORS = [*FAMILIES["selectors"]]


@dataclass
class Case:
    """A small model in float64 and evaluation mode, and its task."""

    arch: str
    options: Any
    task: Any
    model: Any

    def batch(self, numbers=ALL, left=(False, False), more=(0, 0)):
        return batch(self.task, self.model, numbers, left, more)


def make_case(name, seed=1, **more):
    arch, options = ROWS[name]
    options = {**options, **more}
    task, model = build(arch, options, seed=seed, target_words=options.pop("target_words", None))
    return Case(arch, options, task, model.eval())


@pytest.fixture(scope="module", autouse=True)
def in_float64():
    """fairseq computes log-probabilities, and scores of padded documents, in float32 even in a float64 model."""
    single = torch.Tensor.float
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: x.log_softmax(dim))
        patch.setattr(torch.Tensor, "float", lambda x: x if x.dtype == torch.float64 else single(x))
        yield


@pytest.fixture(scope="module", params=ROWS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def case(name):
    return make_case(name)


@pytest.fixture
def writer(case):
    if case.arch in SELECTORS:
        pytest.skip("it writes no summaries")
    return case


def log_probs(model, net_input):
    """Log-probabilities (B, T, words) and attention (B, T, S) of a summary."""
    with torch.no_grad():
        output = model(**net_input)
        return model.get_normalized_probs(output, log_probs=True), output[1]["attn"][0]


def scores(case, sample, model=None):
    """By a document's number: probabilities of words and attention without padding, or what a selector selects."""
    net_input, model, numbers = sample["net_input"], model or case.model, sample["id"].tolist()
    tokens, previous = net_input["src_tokens"], net_input["prev_output_tokens"]
    if case.arch in SELECTORS:
        with torch.no_grad():
            logits, real = model(tokens, chosen=Order().collate(tokens, numbers, PAD))
        if case.arch == "pointer_extractor":  # real: values of states, if it learns to stop
            return {n: (row[: len(Order.steps[n])][:, row[0].isfinite()],) for n, row in zip(numbers, logits)}
        return {number: (row[there],) for number, row, there in zip(numbers, logits, real)}
    return {
        number: (row[real][:, row[real].isfinite().any(0)], weights[real][:, ids.ne(PAD)])
        for number, row, weights, ids, real in zip(numbers, *log_probs(model, net_input), tokens, previous.ne(PAD))
    }


def test_padding_and_the_other_documents_change_nothing(case):
    alone = {number: scores(case, case.batch([number]))[number] for number in ALL}
    for left, more in [((False, False), (0, 0)), *PADDINGS]:
        if left[1] and case.arch.startswith("convs2s"):
            left = (False, False)  # left-padded summaries are refused
        torch.testing.assert_close(scores(case, case.batch(ALL, left, more)), alone, **CLOSE)


@pytest.mark.parametrize("shared", [False, True])
def test_beams_step_by_step_are_whole_summaries(writer, shared):
    """Beams change places, documents leave; rows of the encoder belong to a beam, or to the document (as in search)."""
    model, generator = writer.model, torch.Generator().manual_seed(5)
    net_input = writer.batch(left=(True, False))["net_input"]
    given = {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
    documents = torch.arange(len(ALL))
    rows = documents.repeat_interleave(BEAM)
    words, state = torch.full((len(rows), 1), EOS), BeamState(len(ALL), rows.device) if shared else {}
    with torch.no_grad():
        encoded = model.encoder(**given)
        if shared:
            state.reorder(torch.zeros(len(ALL), BEAM, dtype=torch.long))
        else:
            encoded = model.encoder.reorder_encoder_out(encoded, rows)
        for step in range(6):
            if shared:
                state.begin_step()
            output = model.decoder(words, encoder_out=encoded, incremental_state=state)
            found = model.get_normalized_probs(output, log_probs=True)[:, -1]
            rows = documents.repeat_interleave(BEAM)
            want, attention = log_probs(
                model, {**{name: value[rows] for name, value in given.items()}, "prev_output_tokens": words}
            )
            width = want.shape[2]
            torch.testing.assert_close(found[:, :width], want[:, -1], **NEAR)
            assert found[:, width:].isneginf().all()
            torch.testing.assert_close(output[1]["attn"][0][:, -1], attention[:, -1], **NEAR)

            kept = torch.tensor([0, 2, 4] if step == 3 else range(len(documents)))
            parents = torch.randint(BEAM, (len(kept), BEAM), generator=generator)
            rows = (kept[:, None] * BEAM + parents).view(-1)
            if shared:
                state.reorder(parents, kept)
            model.decoder.reorder_incremental_state_scripting(state, rows)
            encoded = model.encoder.reorder_encoder_out(encoded, kept if shared else rows)
            next_words = torch.randint(4, MARK + 3, (len(rows), 1), generator=generator)
            next_words[::4] = MARK
            words, documents = torch.cat([words[rows], next_words], dim=1), documents[kept]


def criterion_of(case):
    if case.arch in SELECTORS:
        return options_of_criterion("extractor_nll" if case.arch == "pointer_extractor" else "selection_nll")
    if "adaptive_softmax_cutoff" in case.options:
        return options_of_criterion("adaptive_loss")
    if "closed_book_decoder" in case.options:
        return options_of_criterion("summarization_nll", closed_book_weight=0.25)
    return options_of_criterion("summarization_nll", label_smoothing=0.1, coverage_loss=0.5)


def learn(case, samples):
    """The sum of the losses of batches, and its gradients; a missing one is 0."""
    criterion = case.task.build_criterion(criterion_of(case))
    case.model.zero_grad()
    loss = sum(criterion(case.model, sample)[0] for sample in samples)
    loss.backward()
    parameters = case.model.named_parameters()
    return loss.detach(), {name: torch.zeros_like(p) if p.grad is None else p.grad.clone() for name, p in parameters}


def test_every_parameter_is_trained_and_each_pair_by_itself(name):
    """The loss of a batch is the sum over its pairs, and more padding changes neither it nor its gradients."""
    case = make_case(name)
    case.model.train()
    loss, gradients = whole = learn(case, [case.batch()])
    assert loss.isfinite()
    for part, gradient in gradients.items():
        assert gradient.abs().sum() > 0, f"{part} receives no gradient"
    for left, more in PADDINGS:
        if left[1] and case.arch.startswith("convs2s"):
            continue  # refused in training
        torch.testing.assert_close(learn(case, [case.batch(ALL, left, more)]), whole, **CLOSE)
    if getattr(getattr(case.model, "decoder", None), "large_vocabulary_trick", 0):
        case.model.eval()  # documents share a list of words in training
        whole = learn(case, [case.batch()])
    torch.testing.assert_close(learn(case, [case.batch([number]) for number in ALL]), whole, **CLOSE)


@pytest.mark.parametrize("how", ["autocast", "model"])
def test_training_in_half_precision_is_near(name, how):
    """Losses are float32, and gradients are finite."""
    case = make_case(name)
    model = case.model.to(torch.float32).train()
    expected, _ = learn(case, [case.batch()])
    if how == "model":
        model.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        loss, gradients = learn(case, [case.batch()])
    assert loss.dtype == torch.float32 or "adaptive_softmax_cutoff" in case.options  # whose criterion is fairseq's
    torch.testing.assert_close(loss, expected, rtol=0.05, atol=0.05, check_dtype=False)
    assert all(gradient.isfinite().all() for gradient in gradients.values())


def test_dropout_acts_in_training_alone(name, case):
    if "dropout" not in model_config(case.arch):
        pytest.skip("it has no dropout")
    sample, model = case.batch(), make_case(name, dropout=0.3).model
    model.load_state_dict(case.model.state_dict())
    torch.testing.assert_close(scores(case, sample, model), scores(case, sample), rtol=0, atol=0)
    one, other = (scores(case, sample, model.train())[0][0] for _ in range(2))
    assert not torch.allclose(one, other, rtol=0, atol=1e-3)


def test_what_is_saved_is_loaded_and_copies_are_separate(name, case):
    sample, file = case.batch(), io.BytesIO()
    expected = scores(case, sample)
    torch.save({part: value.clone() for part, value in case.model.state_dict().items()}, file)
    loaded = make_case(name, seed=2).model
    loaded.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    sent, copied = pickle.loads(pickle.dumps(case.model)), copy.deepcopy(case.model)
    of_a_copy = copy.deepcopy(copied)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.zero_()
    for model in (loaded, sent, case.model, of_a_copy):
        torch.testing.assert_close(scores(case, sample, model), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype,error", [(torch.float16, 0.1), (torch.bfloat16, 0.8)])
def test_half_precision_is_near(case, dtype, error):
    sample = case.batch()
    found, expected = scores(case, sample, copy.deepcopy(case.model).to(dtype)), scores(case, sample)
    torch.testing.assert_close(found, expected, rtol=0, atol=error, check_dtype=False)


@pytest.mark.parametrize("beam", [1, BEAM])
def test_a_search_finds_what_the_model_says(writer, beam):
    """A score is the likelihood of its summary; a beam of 1 is greedy; other documents of a batch change nothing."""
    task, model = writer.task, copy.deepcopy(writer.model).to(torch.float32)  # in which models decode
    args = Namespace(beam=beam, max_len_a=0, max_len_b=LONGEST, replace_unk=None, print_alignment=None)
    never = [PAD, EOS, UNK] if get_pointer(model) else [PAD, EOS]

    def search(numbers):
        sample = writer.batch(numbers)
        del sample["net_input"]["prev_output_tokens"]
        return dict(zip(sample["id"].tolist(), task.inference_step(generator, [model], sample)))

    generator = task.build_generator([model], args)
    together = search(ALL)
    for number in filter(DOCUMENTS.__getitem__, ALL):  # summaries of empty documents are empty
        if beam > 1:
            alone = search([number])[number]
            assert [h["tokens"].tolist() for h in together[number]] == [h["tokens"].tolist() for h in alone]
        target, found = together[number][0]["tokens"], together[number][0]["positional_scores"].double()
        previous = target.roll(1)[None]
        previous[:, 0] = EOS
        net_input = {**writer.batch([number])["net_input"], "prev_output_tokens": previous}
        with torch.no_grad():
            output = writer.model(**net_input)
            said = writer.model.get_normalized_probs(output, log_probs=True)[0]
        columns = writer.model.get_targets({"target": target[None]}, output)[0]
        expected = said.gather(1, columns[:, None])[:, 0]
        # then the end is forced, even against the decision of a switch
        steps = slice(min(LONGEST, len(DOCUMENTS[number])))
        torch.testing.assert_close(found[steps], expected[steps], rtol=1e-4, atol=1e-4)
        if beam == 1:
            words = target[steps] != EOS  # a summary may go on where it could also end
            said[:, never] = -math.inf
            torch.testing.assert_close(found[steps][words], said.amax(1)[steps][words], rtol=1e-4, atol=1e-4)


def test_the_presets_are_every_architecture_of_the_project():
    ours = {name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_etads")}
    assert {arch for arch in ours if "." not in arch} == {arch for presets in FAMILIES.values() for arch in presets}
