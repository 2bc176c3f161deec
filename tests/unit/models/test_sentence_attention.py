"""A summariser with a sentence extractor inside: against loops, its losses, its weights from two checkpoints."""

import copy
import math

import pytest
import reference
import steps
import torch
from helpers import EOS, RECURRENT, make_batch, model_config
from recurrent import DOCUMENTS, EXTRACTOR, MARK, SUMMARIES, V, log_probs, recurrent, recurrent_task, sharpened
from seeds import shifted
from selection_data import names_of_extractor
from steps import make_criterion
from test_init_from import save
from test_recurrent import weights_of

from fairseq_etads.attention import combined_attention_log_weights, compute_log_attention_weights, inconsistency_loss
from fairseq_etads.models.init_from import load_initial_weights

ARCH = "unified_summarizer"
LIMITS = (EXTRACTOR["max_sentences"], EXTRACTOR["max_sentence_words"])
LONG = [5, 6, MARK, 7, 45, 9, 10, MARK, 46, 5, 45, MARK, 8, 12, MARK, MARK, 9]  # sentences and words that are not read


def sharp():
    """A model with strong preferences of attention and extractor."""
    model = sharpened(recurrent(ARCH).double())
    with torch.no_grad():
        for weight in (model.extractor.embed_tokens.weight, *model.extractor.scores.parameters()):
            weight.mul_(4)
    return model


def betas(model, document):
    """The oracle's beta of each token, the end symbol included."""
    with torch.no_grad():
        weights = names_of_extractor(model.extractor)
        return reference.sentence_extractor(document, MARK, weights, LIMITS, unk=3)


@pytest.mark.parametrize("document", [LONG, DOCUMENTS[1], DOCUMENTS[2], [MARK, 5, 6], []], ids=len)
def test_it_is_the_papers_equations(document):
    model, previous, read = sharp(), [EOS, 5, 47, 6, 7], [*document, EOS]
    extended, _ = reference.extended_ids(read, V)
    with torch.no_grad():
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
        selected = betas(model, document)
        if document:  # an empty one has nothing to copy
            want, attention, _ = reference.pointer_generator(weights_of(model), read, extended, previous, 3, selected)
            torch.testing.assert_close(found[0].exp(), torch.tensor(want, dtype=torch.float64))
            torch.testing.assert_close(extra["attn"][0][0], torch.tensor(attention, dtype=torch.float64))
    told = extra["output"].sentence_attention
    expected = torch.tensor(selected, dtype=torch.float64)
    torch.testing.assert_close(told.log_selected[0].exp(), expected)
    alone = told.log_word[0].exp()
    torch.testing.assert_close(alone.sum(1), torch.ones(5, dtype=torch.float64))
    loss = reference.inconsistency_loss((alone * (expected > 0)).tolist(), selected, 3)
    torch.testing.assert_close(told.compute_inconsistency_loss(3).mean().item(), loss)
    if document == LONG:
        assert (expected == 0).any() and expected[expected > 0].max() > 2 * expected[expected > 0].min()


@pytest.mark.parametrize("top", [1, 2, 3, 20])
def test_combined_attention_and_inconsistency_are_the_loops(top):
    torch.manual_seed(shifted(1))
    scores, beta = 3 * torch.randn(2, 4, 9).double(), torch.rand(2, 9).double()
    for padding in (torch.zeros(2, 9, dtype=torch.bool), torch.arange(9).expand(2, 9) >= torch.tensor([[6], [2]])):
        log_word = compute_log_attention_weights(scores, padding)
        together = combined_attention_log_weights(log_word, beta.log(), padding).exp()
        loss = inconsistency_loss(log_word, beta.log(), top)
        for row in range(2):
            real = ~padding[row]
            words, selected = log_word[row][:, real].exp().tolist(), beta[row, real].tolist()
            expected = [reference.combined_attention(step, selected) for step in words]
            torch.testing.assert_close(together[row][:, real], torch.tensor(expected, dtype=torch.float64))
            assert not together[row][:, padding[row]].any()
            wanted = reference.inconsistency_loss(words, selected, top)
            assert loss[row].mean().item() == pytest.approx(wanted)


def make_sample(documents=DOCUMENTS, summaries=SUMMARIES):
    """A batch with labels: the first and third sentence of each document are to be extracted."""
    sample = steps.make_sample(None, documents, summaries)
    sample["labels"] = labels = torch.full(sample["net_input"]["src_tokens"].shape, -1.0)
    for row, document in enumerate(documents):
        for number, places in enumerate(reference.sentences_of(document, MARK)[0]):
            labels[row, places] = float(number in (0, 2))
    return sample


def task_and_criterion(**options):
    task = recurrent_task()
    task.build_model(model_config(ARCH, **EXTRACTOR))
    return task, make_criterion(task, label_smoothing=0.0, length_normalised=True, **options)


def test_the_losses_are_those_of_loops_and_are_added():
    model = sharp()
    _, plain = task_and_criterion()
    _, both = task_and_criterion(extraction_loss=5.0, inconsistency_loss=2.0, inconsistency_top=2)
    documents, summaries = [LONG, DOCUMENTS[0], [30, 31]], [[5, 6], [8], [9, 10, 11]]
    sample = make_sample(documents, summaries)
    (total, _, logs), (alone, _, _) = both(model.train(), sample), plain(model, sample)
    told = model(**sample["net_input"])[1]["output"].sentence_attention
    expected, of_words = 0.0, {"extraction_loss": 0.0, "inconsistency_loss": 0.0}
    for row, (document, summary) in enumerate(zip(documents, summaries)):
        sentences, numbers = reference.sentences_of(document, MARK)
        selected, steps = betas(model, document), len(summary) + 1
        beta = {number: b for number, b in zip(numbers, selected) if b > 0 and sentences[number]}
        mean = sum(-math.log(b if number in (0, 2) else 1 - b) for number, b in beta.items()) / len(beta)
        attention = told.log_word[row, :steps, : len(document) + 1].exp()
        read = attention * (torch.tensor(selected) > 0)
        inconsistency = reference.inconsistency_loss(read.tolist(), selected, 2)
        expected += 5 * mean + 2 * inconsistency
        of_words["extraction_loss"] += mean * steps
        of_words["inconsistency_loss"] += inconsistency * steps
    assert (total - alone).item() == pytest.approx(expected, rel=1e-6)
    assert {name: float(logs[name]) for name in of_words} == pytest.approx(of_words, rel=1e-6)
    model.eval()
    assert torch.equal(both(model, sample)[0], plain(model, sample)[0]), "a validation loss that cannot be compared"
    assert float(both(model, sample)[2]["extraction_loss"]) == pytest.approx(of_words["extraction_loss"], rel=1e-6)


def config(arch=ARCH, **options):
    """Options of a model as small as :func:`recurrent`."""
    extractor = EXTRACTOR if arch == ARCH else {}
    return model_config(arch, **{**RECURRENT, "readout_dim": 12, "paper_init": False, **extractor, **options})


@pytest.fixture
def trained(tmp_path):
    """Checkpoints of an extractor and of an abstractor, and a task to train a model that has both."""
    places = {"restore_file": "checkpoint_last.pt", "save_dir": str(tmp_path / "run"), "checkpoint_suffix": ""}
    task = recurrent_task(**places, finetune_from_model=None, continue_once=None)
    extractor = task.build_model(model_config("sentence_extractor", encoder_embed_dim=6, encoder_hidden_size=4))
    abstractor = task.build_model(config("pointer_generator_coverage"))
    task.cfg.extractor = save(extractor, tmp_path / "extractor.pt", task)
    task.cfg.init_from = save(abstractor, tmp_path / "abstractor.pt", task)
    return task, extractor, abstractor


def same(model, state, prefix=""):
    own = model.state_dict()
    return all(torch.equal(own[prefix + name], value) for name, value in state.items())


def test_both_checkpoints_are_loaded_whole_and_given_back(trained, tmp_path):
    task, extractor, abstractor = trained
    model = task.build_model(config())
    assert same(model, extractor.state_dict(), "encoder.extractor.") and same(model, abstractor.state_dict())
    assert len(model.state_dict()) == len(extractor.state_dict()) + len(abstractor.state_dict())

    together = save(model, tmp_path / "together.pt", task)
    other = copy.deepcopy(extractor)
    for parameter in other.parameters():
        parameter.data.zero_()
    load_initial_weights(other, together, task)
    assert same(other, extractor.state_dict())
    task.cfg.init_from, given, task.cfg.extractor = together, task.cfg.extractor, None
    assert same(task.build_model(config("pointer_generator_coverage")), abstractor.state_dict())
    task.cfg.init_from, task.cfg.extractor = None, given
    (tmp_path / "run").mkdir()
    (tmp_path / "run/checkpoint_last.pt").touch()
    assert not same(task.build_model(config()), extractor.state_dict(), "encoder.extractor."), "resumed"


@pytest.mark.parametrize(
    "change, options, message",
    [
        ({"extractor": "abstractor"}, {}, "abstractor.pt: not a checkpoint of --arch sentence_extractor"),
        ({"restore_file": "x.pt"}, {}, "--extractor .* and --restore-file cannot be combined"),
        ({}, {"extractor_hidden_size": 5}, "set --extractor-embed-dim and --extractor-hidden-size"),
        ({}, {"arch": "pointer_generator"}, "--extractor .* has no effect without --sentence-attention extractor"),
    ],
)
def test_another_checkpoint_than_an_extractors_is_refused(trained, change, options, message):
    task, _, _ = trained
    task.cfg.init_from, abstractor = None, task.cfg.init_from
    for name, value in change.items():
        setattr(task.cfg, name, abstractor if value == "abstractor" else value)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        task.build_model(config(**options))


def test_what_does_not_go_together_is_refused():
    plain = recurrent_task()
    plain.build_model(config("pointer_generator"))
    with pytest.raises(ValueError, match=r"-loss 1.0 has no effect without --sentence-attention extractor"):
        make_criterion(plain, inconsistency_loss=1.0)
    task, criterion = task_and_criterion(extraction_loss=1.0)
    sample, model = make_sample(), recurrent(ARCH)
    del sample["labels"]
    assert "extraction_loss" not in criterion(model, sample)[2], "validation can do without labels"
    with pytest.raises(ValueError, match=r"^--extraction-loss: the split has no labels"):
        criterion(model.train(), sample)
    task.cfg.labels = "here"
    with pytest.raises(ValueError, match=r"--labels here has no effect without .* --extraction-loss or"):
        make_criterion(task)
