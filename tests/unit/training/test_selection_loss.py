"""The selection loss (Li et al. 2018): against loops, its targets in files, its share of the total, and learning."""

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch
from recurrent import DOCUMENTS, MARK, log_probs, recurrent, recurrent_task, sharpened
from steps import make_sample
from torch.nn.functional import one_hot

from fairseq_etads.data.labels import compute_source_hash, write_label_rows
from fairseq_etads.data.pairs import SentenceTargets
from fairseq_etads.layers.sentence_selector import SentenceSelection
from fairseq_etads.platform.errors import InputError
from fairseq_etads.training.losses import SummarizationNLL


def test_the_selection_loss_is_the_loop_and_skips_what_has_no_target():
    torch.manual_seed(2)
    target = torch.tensor([[5, MARK, 6, 7, MARK, 8, EOS], [5, MARK, MARK, 6, EOS, PAD, PAD], [MARK, EOS, *[PAD] * 5]])
    starts = torch.tensor([[1, 0, 1, 0, 0, 1, 0], [1, 0, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]]).bool()
    by_sentence = torch.randn(3, 3, 4).softmax(2)
    numbers = starts.cumsum(1) - 1
    selection = SentenceSelection(by_sentence.gather(1, numbers[:, :, None].expand(-1, -1, 4)).log(), starts)
    rows = [[[0.5, 0.5, 0], [0, 0, 0], [0, 0.25, 0.75]], [[1, 0, 0], [0, 1, 0], [0, 0, 0]], [[0] * 3] * 3]
    targets = torch.tensor(rows)
    is_word = ~((target == MARK) | (target == EOS) | (target == PAD))
    found = selection.compute_divergence(targets, is_word)
    # of the second summary the second sentence has no words, and so no row
    p = [by_sentence[0].tolist(), [by_sentence[1, 0].tolist(), by_sentence[1, 2].tolist()], []]
    want = [reference.selection_loss(rows, wanted) for rows, wanted in zip(p, rows)]
    torch.testing.assert_close(found, torch.tensor(want))
    assert want[0] > 0 and want[1] > 0 and want[2] == 0
    # more rows than the summary has begun, and more columns than the model has read, which are 0
    wider = torch.nn.functional.pad(targets, (0, 3, 0, 2))
    torch.testing.assert_close(selection.compute_divergence(wider, is_word), found)


@pytest.mark.parametrize("normalised", [False, True])
def test_the_loss_has_the_selection_loss_in_training_alone(normalised):
    """It counts once per word of a summary, so that lambda means the same for any average."""
    task = recurrent_task()
    model = sharpened(recurrent("explicit_selection", task))
    targets = one_hot(torch.tensor([[0, 2], [1, 0]]), 3).float()
    sample = make_sample(None, [DOCUMENTS[0], DOCUMENTS[2]], [[5, 45, MARK, 7], [8]])
    sample["sentence_targets"] = targets
    losses, logs = [], []
    for weight, training in ((0.0, True), (0.5, True), (0.5, False)):
        criterion = SummarizationNLL(task, selection_loss=weight, length_normalised=normalised)
        with torch.no_grad():
            loss, _, log = criterion(model.train(training), sample)
        losses.append(float(loss))
        logs.append(log.get("selection_loss"))
    p = log_probs(model.eval(), sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"])[1]
    p = p["output"].selection.log_probs.exp()
    rows = [[p[0, 0].tolist(), p[0, 3].tolist()], [p[1, 0].tolist()]]
    first, second = map(reference.selection_loss, rows, targets.tolist())
    total = first + second if normalised else 5 * first + 2 * second
    assert losses == pytest.approx([losses[0], losses[0] + 0.5 * total, losses[0]], rel=1e-5)
    assert logs[0] is None and [float(log) for log in logs[1:]] == pytest.approx([first + second] * 2, rel=1e-4)
    sample["weights"] = torch.tensor([0.25, 3.0])
    found = criterion(model, sample)[2]["selection_loss"]
    assert float(found) == pytest.approx(0.25 * first + 3 * second, rel=1e-4)


def test_a_training_without_targets_is_refused_and_a_validation_is_not():
    task = recurrent_task()
    model = recurrent("explicit_selection", task)
    sample = make_sample(None, [DOCUMENTS[0]], [[5]])
    criterion = SummarizationNLL(task, selection_loss=0.2)
    assert "selection_loss" not in criterion(model.eval(), sample)[2]
    with pytest.raises(ValueError, match="--selection-loss: the batch has no labels"):
        criterion(model.train(), sample)


TEXTS = [["a", "b", "<q>", "c", "<q>", "d"], ["a"]]
ROWS = [["0:0.25,1:0.25,2:0.5", "-", "2:1"], []]


def targets_of(folder, limit, kind="distribution", made=400, rows=ROWS):
    """The targets of TEXTS as training reads them, and their ids."""
    dictionary, path = recurrent_task().src_dict, folder / "labels.sentences.train"
    ids = [torch.tensor([*(dictionary.add_symbol(word, n=0) for word in text), EOS]) for text in TEXTS]
    header = {"kind": kind, "documents": len(TEXTS), "truncate_source": made}
    write_label_rows(path, header, zip(map(compute_source_hash, TEXTS), rows))
    return SentenceTargets(path, "sentences", ids, list(map(len, ids)), dictionary, limit, "--selection-loss"), ids


def test_targets_are_shared_out_among_the_sentences_that_are_read(tmp_path):
    whole, ids = targets_of(tmp_path, 400)
    assert whole[0].tolist() == [[0.25, 0.25, 0.5], [0, 0, 0], [0, 0, 1]] and whole[1].shape == (0, 1)
    cut, _ = targets_of(tmp_path, 4)  # a b <q> c
    assert cut[0].tolist() == [[0.5, 0.5], [0, 0], [0, 0]]
    batch = whole.collate(make_batch([text[:-1].tolist() for text in ids]), [1, 0], PAD)
    assert batch.shape == (2, 3, 3) and not batch[0].any() and torch.equal(batch[1], whole[0])


def test_other_labels_are_refused_in_words(tmp_path):
    with pytest.raises(InputError, match="contains labels of the kind extract"):
        targets_of(tmp_path, 400, kind="extract")
    with pytest.raises(InputError, match="was created from the first 3 tokens"):
        targets_of(tmp_path, 5, made=3)
    with pytest.raises(InputError, match=r"labels\.sentences\.train, line 2: could not convert"):
        targets_of(tmp_path, 400, rows=[["0:x"], []])[0][0]
