"""--auxiliary-task entailment: its batches and their schedule, the trained parts, refusals, and that it learns."""

from argparse import Namespace

import pytest
import torch
from fairseq.logging import metrics
from fairseq.optim.adam import FairseqAdam
from helpers import EOS, RECURRENT, make_model, make_task, model_config
from seeds import shifted
from test_criterions import criterion, make_sample
from test_optim import OPTIONS

from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.entailment.auxiliary import PairClassifier, TextPairBatches
from fairseq_etads.training.extra_updates import UpdateSchedule

AUXILIARY = {"auxiliary_task": "entailment", "auxiliary_every": "3:2", "auxiliary_batch_size": 4}
AUXILIARY.update(auxiliary_words="spaces", seed=shifted(1), clip_norm=5.0)
PAIRS = "w1 w2 w3\tw2\tentailment\nw4 w5\tw6 unheard\tneutral\nw1\tw1 w1\tcontradiction\nw7 w7\tw8\tneutral\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.tsv").write_text(PAIRS)
    (tmp_path / "more_train.jsonl").write_text(
        '{"sentence1": "W9", "sentence2": "w9", "gold_label": "entailment"}\n'
        '{"sentence1": "w9", "sentence2": "w1", "gold_label": "-"}\n'
    )
    (tmp_path / "valid.tsv").write_text("w1\tw1\tentailment\n")
    return tmp_path


def build(folder, arch="entail_s2s", task=None, cfg=None, **options):
    """A task with pairs, its model in training mode, and fairseq's Adam for it."""
    task = task or make_task(auxiliary_data=str(folder), **{**AUXILIARY, **options})
    torch.manual_seed(1)
    model = task.build_model(model_config(arch, **{**RECURRENT, "readout_dim": 9, **(cfg or {})})).train()
    optimizer = FairseqAdam(Namespace(**{**vars(OPTIONS), "lr": [4e-3]}), list(model.parameters()))
    return task, model, optimizer


def test_turns_come_after_each_n_updates_and_go_on_counting():
    found = [list(UpdateSchedule.parse("3:2").list_due_updates(updates)) for updates in range(1, 10)]
    assert found == [[], [], [0, 1], [], [], [2, 3], [], [], [4, 5]]
    assert list(UpdateSchedule.parse("100:10").list_due_updates(1200)) == list(range(110, 120))


def test_a_pass_has_all_pairs_once_in_an_order_of_its_own():
    pairs = [([number + 10, EOS], [number + 30, number + 30, EOS], number % 3) for number in range(10)]
    batches, again = (TextPairBatches(pairs, 4, seed, pad=1) for seed in (5, 5))
    passes = [[batches.make_batch(number) for number in range(first, first + 3)] for first in (0, 3)]
    orders = [[int(row[0]) for premises, _, _ in one for row in premises] for one in passes]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(10, 20)) and orders[0] != orders[1]
    for premises, hypotheses, labels in passes[0]:
        assert torch.equal(premises[:, 0] + 20, hypotheses[:, 0]) and torch.equal((premises[:, 0] - 10) % 3, labels)
    for kept, made in zip(passes[1][2], again.make_batch(5)):  # the batches before it need not be made
        assert torch.equal(kept, made)
    texts = TextPairBatches([([4, EOS], [5, EOS], 0), ([6, 7, 8, EOS], [EOS], 2)], 2, 1, pad=1).make_batch(0)
    assert sorted(texts[0].tolist()) == [[4, EOS, 1, 1], [6, 7, 8, EOS]]


def test_the_classifier_is_the_equation():
    classifier = PairClassifier(3, 5, 4, dropout=0.5).eval()
    u, v = torch.randn(2, 3), torch.randn(2, 3)
    for row in range(2):
        x = [*u[row], *v[row], *(abs(a - b) for a, b in zip(u[row], v[row])), *(a * b for a, b in zip(u[row], v[row]))]
        for number, layer in enumerate(classifier.layers):
            sums = [sum(w * value for w, value in zip(weights, x)) for weights in layer.weight]
            x = [s + b for s, b in zip(sums, layer.bias)]
            x = [torch.tanh(value) for value in x] if number < 2 else x
        torch.testing.assert_close(classifier(u, v)[row], torch.stack(x))


def test_pairs_are_read_as_documents(folder):
    """Pairs have words of the dictionary, lower-cased and cut like documents. Pairs without a label are left out."""
    task, _, _ = build(folder, truncate_source=2)
    assert len(task.extra_updates.auxiliary_task.pairs) == 5
    found = {}
    for number in range(2):
        for premise, hypothesis, label in zip(*task.extra_updates.auxiliary_task.pairs.make_batch(number)):
            found[tuple(premise[premise != 1].tolist())] = hypothesis[hypothesis != 1].tolist(), int(label)
    assert found[5, 6, EOS] == ([6, EOS], 0) and found[8, 9, EOS] == ([10, 3, EOS], 1)
    assert found[5, EOS] == ([5, 5, EOS], 2) and found[13, EOS] == ([13, EOS], 0)


def test_raw_pairs_are_cut_like_the_corpus(tmp_path, caplog):
    """If text were cut at spaces, "fell." and "snow," would be unknown words, and so would each number where the corpus
    has ``#``.
    """
    (tmp_path / "train.tsv").write_text("Snow, 19 inches, fell.\tIt fell.\tentailment\n", encoding="utf-8")

    def read(**options):
        task = make_task(auxiliary_data=str(tmp_path), **{**AUXILIARY, **options})
        for word in ("snow", "inches", "fell", "##", ",", "."):
            task.src_dict.add_symbol(word, n=9)
        caplog.clear()
        with caplog.at_level("WARNING"):
            build(tmp_path, task=task)
        (premise,), _, _ = task.extra_updates.auxiliary_task.pairs.make_batch(0)
        return [task.src_dict[number] for number in premise.tolist()], caplog.text

    words, warning = read(auxiliary_words="spaces")
    assert words == ["<unk>", "<unk>", "<unk>", "<unk>", "</s>"]
    assert "66.7% of the words end in punctuation" in warning and "--auxiliary-words ptb" in warning
    words, warning = read(auxiliary_words="ptb", auxiliary_hide_digits=True)
    assert words == ["snow", ",", "##", "inches", ",", "fell", ".", "</s>"] and "punctuation" not in warning


def test_they_train_the_encoder_and_leave_the_decoder_alone(folder):
    """The decoder's weights do not change although they have moments, because summarisation has trained them before."""
    task, model, optimizer = build(folder, cfg={"dropout": 0.0})
    nll, sample = criterion(task), make_sample([[5, 6, 7]], [[8, 9]])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer.zero_grad()
    task.train_step(sample, model, nll, optimizer, 0)
    task.optimizer_step(optimizer, model, 0)
    middle = {name: value.clone() for name, value in model.state_dict().items()}
    moved = {name for name, value in middle.items() if not torch.equal(value, before[name])}
    assert moved and not any(name.startswith("pair_classifier") for name in moved)
    optimizer.zero_grad()
    with metrics.aggregate() as figures:
        task.optimizer_step(optimizer, model, 2)  # the third update, without a gradient of its own
    after = model.state_dict()
    moved = {name for name in after if not torch.equal(after[name], middle[name])}
    read = {name for name in after if name.startswith(("encoder.embed_tokens", "encoder.lstm", "pair_classifier"))}
    assert moved == read
    values = figures.get_smoothed_values()
    assert values["auxiliary_loss"] > 0 and 0 <= values["auxiliary_accuracy"] <= 1
    assert all(parameter.grad is None for parameter in model.parameters())


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


def test_what_is_written_knows_nothing_of_it(folder):
    """A model without the classifier loads the weights of a model with it, and searches."""
    _, model, _ = build(folder)
    state = model.state_dict()
    assert any(name.startswith("pair_classifier") for name in state)
    plain = make_model("entail_s2s", make_task(), **RECURRENT, readout_dim=9)
    plain.load_state_dict(state)
    assert torch.equal(plain.encoder.embed_tokens.weight, model.encoder.embed_tokens.weight)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"auxiliary_every": "100"}, "--auxiliary-every 100: choose N:M, two numbers above 0"),
        ({"auxiliary_every": "5:0"}, "--auxiliary-every 5:0"),
        ({"auxiliary_every": "²:1"}, "--auxiliary-every ²:1: choose N:M"),
        ({"auxiliary_batch_size": 0}, "--auxiliary-batch-size 0: choose 1 or more"),
        ({"auxiliary_data": None}, "--auxiliary-task entailment needs pairs of texts: --auxiliary-data DIR"),
        ({"auxiliary_data": "nowhere"}, "--auxiliary-data nowhere: no such folder, or no file"),
        ({"arch": "etads"}, "--auxiliary-task entailment works only with recurrent models"),
        ({"arch": "ras_lstm"}, "--auxiliary-task needs --encoder rnn without --source-factors"),
    ],
)
def test_what_does_not_go_together_is_refused_in_words(folder, options, message):
    options = dict(options)
    arch = options.pop("arch", "entail_s2s")
    cfg = {"encoder_layers": 1} if arch == "etads" else RECURRENT
    with pytest.raises((ValueError, InputError)) as error:
        task = make_task(**{**AUXILIARY, "auxiliary_data": str(folder), **options})
        task.build_model(model_config(arch, **cfg))
    assert message in str(error.value)


def test_narrow_numbers_are_refused(folder):
    from fairseq.optim.fp16_optimizer import FP16Optimizer

    task, model, _ = build(folder)
    with pytest.raises(ValueError, match="--auxiliary-task entailment trains in float32: leave out --fp16"):
        task.optimizer_step(FP16Optimizer.__new__(FP16Optimizer), model, 0)
