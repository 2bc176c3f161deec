"""ABS (Rush et al. 2015): equations against loops, dependencies of a word, row norms, model folders."""

import pytest
import reference
import torch
from helpers import EOS, make_batch
from language_models import DOCUMENTS, SIZES, V, abs_model, abs_task, log_probs
from test_pairs import make_dataset

BOS, UNK = 0, 3
PREVIOUS = [EOS, 5, 6, 4, 7, 8, 9, 45]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def papers_weights(model):
    """The weights under the paper's names."""
    decoder, output, h = model.decoder, model.decoder.output_projection, SIZES["decoder_hidden_size"]
    return {
        **{"F": model.encoder.embed_tokens.weight, "E": decoder.embed_tokens.weight},
        **{"G": decoder.embed_context.weight, "U": decoder.hidden.weight, "b_U": decoder.hidden.bias},
        **{"P": decoder.query.weight, "b_P": decoder.query.bias},
        **{"V": output.weight[:, :h], "W": output.weight[:, h:], "b": output.bias},
    }


def test_it_is_the_papers_equations():
    """All unknown words are read as one. Each side of the document has three marks, and zeros beyond them."""
    model, document = abs_model().double(), DOCUMENTS[0]
    found, extra = log_probs(model, make_batch([document]), torch.tensor([PREVIOUS]))
    known, written = ([word if word < V else UNK for word in words] for words in (document, PREVIOUS))
    with torch.no_grad():
        for step in range(len(PREVIOUS)):
            last = ([BOS] * 4 + written[: step + 1])[-5:]
            marked = [BOS] * 3 + known + [EOS] * 3
            expected, weights = reference.next_word(papers_weights(model), marked, last)
            torch.testing.assert_close(found[0, step], torch.tensor(expected).double(), **CLOSE)
            of_words = weights[3 : 3 + len(document) + 1]
            torch.testing.assert_close(extra["attn"][0][0, step], torch.tensor(of_words).double())


def test_long_rows_are_scaled_before_each_epoch_and_short_ones_are_not():
    task = abs_task()
    model = abs_model(task=task)
    tables = [model.encoder.embed_tokens, model.decoder.embed_tokens, model.decoder.embed_context]
    before = [table.weight.detach().clone() for table in tables]
    task.begin_epoch(1, model)
    for table, weight in zip(tables, before):
        lengths, scaled = weight.norm(dim=1), table.weight.norm(dim=1)
        assert (lengths > 1).sum() > 20 and (lengths < 1).sum() >= 1 and scaled.max() <= 1 + 1e-6
        expected = [row if length <= 1 else row / length for row, length in zip(weight, lengths.tolist())]
        torch.testing.assert_close(table.weight.detach(), torch.stack(expected))
    plain = abs_model(task=task, max_row_norm=0.0)
    task.begin_epoch(1, plain)
    assert torch.equal(plain.encoder.embed_tokens.weight, before[0])
    with pytest.raises(ValueError, match="--max-row-norm 1"):
        task.begin_epoch(1, abs_model(task=task).half())


def test_rows_are_not_scaled_in_the_middle_of_an_epoch_where_training_goes_on():
    task = abs_task()
    task.datasets["train"] = dataset = make_dataset([[5, 6]] * 6, [[7]] * 6)
    for done, is_scaled in ((0, True), (2, False)):
        model = abs_model(task=task)
        before = model.encoder.embed_tokens.weight.clone()
        as_in_training = {"update_epoch_batch_itr": False}  # an argument of fairseq's training loop only
        iterator = task.get_batch_iterator(dataset, max_sentences=2, seed=1, epoch=2, **as_in_training)
        iterator.load_state_dict({"epoch": 2, "iterations_in_epoch": done})
        iterator.next_epoch_itr()
        task.begin_epoch(2, model)
        assert torch.equal(model.encoder.embed_tokens.weight, before) != is_scaled
