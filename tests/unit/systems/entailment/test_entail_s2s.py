"""Entail-s2s (Li, Zhu, Zhang and Zong 2018): the model against loops; its encoder's training on pairs of texts."""

from argparse import Namespace

import pytest
import reference
import torch
from fairseq.logging import metrics
from fairseq.optim.adam import FairseqAdam
from fairseq.optim.fp16_optimizer import FP16Optimizer
from helpers import EOS, PAD, RECURRENT, make_batch, make_model, make_task, model_config
from recurrent import DOCUMENTS, encode, inputs, log_probs, recurrent
from seeds import shifted
from test_criterions import criterion, make_sample
from test_optimisers import OPTIONS

from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.entailment.auxiliary import PairClassifier, TextPairBatches
from fairseq_etads.training.extra_updates import UpdateSchedule

SIZES = {**RECURRENT, "readout_dim": 9}
AUXILIARY = {"auxiliary_task": "entailment", "auxiliary_every": "3:2", "auxiliary_batch_size": 4}
AUXILIARY.update(auxiliary_words="spaces", seed=shifted(1), clip_norm=5.0)
PAIRS = "w1 w2 w3\tw2\tentailment\nw4 w5\tw6 unheard\tneutral\nw1\tw1 w1\tcontradiction\nw7 w7\tw8\tneutral\n"


def weights_of(model):
    """A model's weights by the names of the equations, see tests/reference."""
    encoder, decoder, names = model.encoder, model.decoder, ("weight_ih", "weight_hh", "bias_ih")
    return {
        **{"E_x": encoder.embed_tokens.weight, "E_y": decoder.embed_tokens.weight},
        **{"forward": [getattr(encoder.lstm.rnn, f"{name}_l0") for name in names]},
        **{"backward": [getattr(encoder.lstm.rnn, f"{name}_l0_reverse") for name in names]},
        **{"decoder": [getattr(decoder.cell, name) for name in names]},
        **{"W_g": encoder.gate.state_proj.weight, "U_g": encoder.gate.document_proj.weight},
        **{"b_g": encoder.gate.document_proj.bias, "W": encoder.keys.weight},
        **{"B_s": encoder.first_state.weight, "b_s": encoder.first_state.bias},
        **{"B_c": encoder.first_cell.weight, "b_c": encoder.first_cell.bias},
        **{"W_a": decoder.readout.weight, "W_o": decoder.output_projection.weight},
    }


@pytest.mark.parametrize("document", [[5, 6, 7, 30, 9, 10, 5], [8]], ids=["long", "short"])
def test_it_is_the_equations(document):
    model, previous = recurrent("entail_s2s").double(), [EOS, 5, 6, 7]
    with torch.no_grad():
        model.encoder.keys.weight.mul_(150)  # clear preferences of attention and gates
        model.encoder.gate.state_proj.weight.mul_(12)
        model.encoder.gate.document_proj.weight.mul_(6)
        want, attention = reference.entail_s2s(weights_of(model), [*document, EOS], previous)
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    torch.testing.assert_close(found[0], torch.stack(want))
    torch.testing.assert_close(extra["attn"][0][0], torch.stack(attention))
    assert len(document) == 1 or extra["attn"][0].max() > 3 * extra["attn"][0].min(), "attention that hides"


def test_dropout_is_of_state_and_readout_and_both_go_on_dropped():
    model = recurrent("entail_s2s", dropout=0.5, decoder_hidden_size=400).train()
    tokens, previous = make_batch(DOCUMENTS), torch.full((len(DOCUMENTS), 1), EOS)
    with torch.no_grad():
        encoded, state = model.encoder(**inputs(model, tokens)), {}
        model.decoder(previous, encoder_out=encoded, incremental_state=state)
        saved = model.decoder.get_incremental_state(state, "state")
        torch.testing.assert_close(encoded["encoder_out"][0], encode(model.eval(), tokens)["encoder_out"][0])
    assert 0.4 < saved["hidden"].eq(0).float().mean() < 0.6
    assert saved["cell"].ne(0).all() and saved["fed"].eq(0).any()


def test_it_begins_with_uniform_weights():
    small = make_task().build_model(model_config("entail_s2s", **SIZES))
    for name, parameter in small.named_parameters():
        assert 0.05 < parameter.abs().max() <= 0.1, name
    assert not small.encoder.embed_tokens.weight[PAD].any()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.tsv").write_text(PAIRS)
    (tmp_path / "more_train.jsonl").write_text('{"sentence1": "W9", "sentence2": "w9", "gold_label": "entailment"}\n')
    (tmp_path / "valid.tsv").write_text("w1\tw1\tentailment\n")
    return tmp_path


def build(folder, task=None, **options):
    """A task with pairs, its model in training mode, and fairseq's Adam for it."""
    task = task or make_task(auxiliary_data=str(folder), **{**AUXILIARY, **options})
    torch.manual_seed(1)
    model = task.build_model(model_config("entail_s2s", **SIZES, dropout=0.0)).train()
    optimizer = FairseqAdam(Namespace(**{**vars(OPTIONS), "lr": [4e-3]}), list(model.parameters()))
    return task, model, optimizer


def test_turns_come_after_each_n_updates_and_go_on_counting():
    found = [list(UpdateSchedule.parse("3:2").list_due_updates(updates)) for updates in range(1, 10)]
    assert found == [[], [], [0, 1], [], [], [2, 3], [], [], [4, 5]]


def test_a_pass_has_all_pairs_once_in_an_order_of_its_own():
    pairs = [([number + 10, EOS], [number + 30, number + 30, EOS], number % 3) for number in range(10)]
    batches, again = TextPairBatches(pairs, 4, 5, pad=1), TextPairBatches(pairs, 4, 5, pad=1)
    passes = [[batches.make_batch(number) for number in range(first, first + 3)] for first in (0, 3)]
    orders = [[int(row[0]) for premises, _, _ in one for row in premises] for one in passes]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(10, 20)) and orders[0] != orders[1]
    for premises, hypotheses, labels in passes[0]:
        assert torch.equal(premises[:, 0] + 20, hypotheses[:, 0]) and torch.equal((premises[:, 0] - 10) % 3, labels)
    for kept, made in zip(passes[1][2], again.make_batch(5)):  # the batches before it need not be made
        assert torch.equal(kept, made)


def test_the_classifier_is_the_equation():
    classifier = PairClassifier(3, 5, 4, dropout=0.5).eval()
    u, v = torch.randn(2, 3), torch.randn(2, 3)
    x = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
    for number, layer in enumerate(classifier.layers):
        x = x @ layer.weight.T + layer.bias
        x = x.tanh() if number < 2 else x
    torch.testing.assert_close(classifier(u, v), x)


def test_pairs_are_read_as_documents(folder):
    """Pairs have words of the dictionary, lower-cased and cut like documents."""
    task, _, _ = build(folder, truncate_source=2)
    pairs, found = task.extra_updates.auxiliary_task.pairs, {}
    assert len(pairs) == 5
    for number in range(2):
        for premise, hypothesis, label in zip(*pairs.make_batch(number)):
            found[tuple(premise[premise != 1].tolist())] = hypothesis[hypothesis != 1].tolist(), int(label)
    assert found[5, 6, EOS] == ([6, EOS], 0) and found[8, 9, EOS] == ([10, 3, EOS], 1)
    assert found[5, EOS] == ([5, 5, EOS], 2) and found[13, EOS] == ([13, EOS], 0)


@pytest.mark.parametrize("cut, warned", [("spaces", True), ("ptb", False)])
def test_raw_pairs_are_cut_like_the_corpus(cut, warned, tmp_path, caplog):
    """Cut at spaces, "fell." and "snow," would be unknown words, and so would numbers where the corpus has #."""
    (tmp_path / "train.tsv").write_text("Snow, 19 inches, fell.\tIt fell.\tentailment\n", encoding="utf-8")
    more = {"auxiliary_words": cut, "auxiliary_hide_digits": not warned}
    task = make_task(auxiliary_data=str(tmp_path), **{**AUXILIARY, **more})
    words = ["snow", ",", "##", "inches", ",", "fell", "."]
    for word in words:
        task.src_dict.add_symbol(word, n=9)
    build(tmp_path, task=task)
    (premise,), _, _ = task.extra_updates.auxiliary_task.pairs.make_batch(0)
    expected = ["<unk>"] * 4 if warned else words
    assert [task.src_dict[number] for number in premise.tolist()] == [*expected, "</s>"]
    assert ("--auxiliary-words ptb" in caplog.text) == warned


def test_they_train_the_encoder_and_leave_the_decoder_alone(folder):
    """The decoder's weights do not change although they have moments, because summarisation has trained them before."""
    task, model, optimizer = build(folder)
    weights = model.state_dict()

    def moved_by(update):
        """Names of the weights that an update has changed."""
        before = {name: value.clone() for name, value in weights.items()}
        task.optimizer_step(optimizer, model, update)
        optimizer.zero_grad()
        return {name for name, value in weights.items() if not torch.equal(value, before[name])}

    task.train_step(make_sample([[5, 6, 7]], [[8, 9]]), model, criterion(task), optimizer, 0)
    moved = moved_by(0)
    assert moved and not any(name.startswith("pair_classifier") for name in moved)
    with metrics.aggregate() as figures:
        moved = moved_by(2)  # the third update, without a gradient of its own
    assert moved == {n for n in weights if n.startswith(("encoder.embed_tokens", "encoder.lstm", "pair_classifier"))}
    values = figures.get_smoothed_values()
    assert values["auxiliary_loss"] > 0 and 0 <= values["auxiliary_accuracy"] <= 1
    make_model("entail_s2s", make_task(), **SIZES).load_state_dict(weights)  # a model without the classifier
    with pytest.raises(ValueError, match="leave out --fp16"):
        task.optimizer_step(FP16Optimizer.__new__(FP16Optimizer), model, 0)


def test_gradients_of_pairs_are_their_own_and_clipped(folder, monkeypatch):
    """Gradients left by another update are not added, and each update is clipped according to --clip-norm."""
    task, model, optimizer = build(folder)
    clip, norms = optimizer.clip_grad_norm, []
    monkeypatch.setattr(optimizer, "clip_grad_norm", lambda most: norms.append((most, float(clip(most)))))
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 1e6)
    task.extra_updates._run_update(optimizer, model, 0)
    ((most, norm),) = norms
    assert most == AUXILIARY["clip_norm"] and 0 < norm < 1e3


@pytest.mark.parametrize(
    "options,message",
    [
        ({"auxiliary_every": "5:0"}, "--auxiliary-every 5:0"),
        ({"auxiliary_data": None}, "--auxiliary-data DIR"),
        ({"auxiliary_data": "nowhere"}, "--auxiliary-data nowhere"),
        ({"arch": "etads"}, "works only with recurrent models"),
        ({"arch": "ras_lstm"}, "needs --encoder rnn"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(folder, options, message):
    options = {**AUXILIARY, "auxiliary_data": str(folder), **options}
    config = model_config(options.pop("arch", "entail_s2s"), encoder_layers=1)
    with pytest.raises((ValueError, InputError), match=message):
        make_task(**options).build_model(config)
