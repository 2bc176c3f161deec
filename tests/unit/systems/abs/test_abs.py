"""ABS (Rush et al. 2015): equations, extractive features and their search against loops; norms of rows."""

import itertools
import math

import pytest
import reference
import torch
from decoding import make_sample, sharpen
from fairseq import search
from helpers import EOS, make_batch, make_dictionary, make_model, make_task
from language_models import SIZES, V, abs_model, abs_task, log_probs
from shortlists import make_shortlist
from test_pairs import make_dataset

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.systems.abs import NO_WORD, ExtractiveFeatures, count_extractive_features, parse_extractive_weights

BOS, UNK = 0, 3
TASK = make_task(tail=30)
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [8, 45, 33, 62, 20, 30, 31, 8, 45], [70, UNK, 71, 70, 12], [52]]
WEIGHTS = (0.9, 1.5, 1.0, -2.0, 0.7)
RELEASED = "release:0.9,1.5,1.0,-2.0,0.7"


def model_of(pointer="soft", seed=1):
    model = sharpen(make_model("etads", TASK, share_all_embeddings=False, pointer=pointer), seed)
    if pointer != "none":
        torch.nn.init.zeros_(model.decoder.pointer.gate.bias)
    return model


def summaries(models, **options):
    options = {"beam_size": 4, "max_len_b": 8, "min_len": 2, **options}
    return SummaryGenerator(models, TASK.target_dictionary, **options).generate(None, make_sample(DOCUMENTS))


def none_for_no_word(words):
    return [None if word in (NO_WORD, EOS, UNK) else word for word in words]


@pytest.mark.parametrize(
    "by_loops, released", [(reference.extractive_features, False), (reference.released_features, True)]
)
def test_the_features_of_each_word_are_those_of_a_loop(by_loops, released):
    """Documents have words at the end, repeated words and non-words. Sums over a summary are also the same."""
    generator = torch.Generator().manual_seed(3)
    documents = torch.randint(0 if released else NO_WORD, 6, (40, 9), generator=generator)
    if not released:  # the release has no unknown words
        documents[::3, 6:] = NO_WORD  # padding
        documents[1] = NO_WORD
    read = [[None if word == NO_WORD else word for word in document] for document in documents.tolist()]
    tokens = torch.randint(0, 8, (40, 2, 6), generator=generator)
    seen = torch.zeros(4)
    for step in range(1, 7):
        lprobs = torch.randn(40, 2, 8, generator=generator)
        lprobs[:, :, 4] = -math.inf
        got = lprobs.clone()
        features = ExtractiveFeatures(documents, parse_extractive_weights(RELEASED) if released else WEIGHTS)
        features.add_to(got, tokens[:, :, :step])
        some = torch.tensor([7, 1, 30])
        part = lprobs[some].clone()
        features.select(some).add_to(part, tokens[some, :, :step])
        assert torch.equal(part, got[some])
        for row, document in enumerate(read):
            for beam, before in enumerate(tokens[row, :, :step].tolist()):
                for word in range(8):
                    counts = by_loops(document, before, word)
                    seen += torch.tensor(counts)
                    values = [lprobs[row, beam, word].item(), *counts]
                    expected = sum(weight * value for weight, value in zip(WEIGHTS, values))
                    assert got[row, beam, word].item() == pytest.approx(expected, abs=1e-5)
    assert (seen > 20).all()
    for document, ids, (summary, _) in zip(read, documents.tolist(), tokens.tolist()):
        steps = [by_loops(document, summary[:end], word) for end, word in enumerate(summary)]
        assert count_extractive_features(ids, summary, of_release=released) == [sum(column) for column in zip(*steps)]


@pytest.mark.parametrize("shortlist", [False, True])
@pytest.mark.parametrize("pointers", [["soft"], ["soft", "none"]], ids=str)
def test_scores_are_the_weighted_features_of_the_finished_summary(pointers, shortlist):
    """Features are those of the loop, also of copied words; only the first one, log P, is the models' own."""
    models = [model_of(pointer, seed) for seed, pointer in enumerate(pointers, 1)]
    words = make_shortlist(TASK, frequent=V) if shortlist else None
    plain, copied = summaries(models, shortlist=words, extractive_weights=(1, 0, 0, 0, 0)), 0
    for document, row, found in zip(DOCUMENTS, plain, summaries(models, extractive_weights=WEIGHTS, shortlist=words)):
        torch.testing.assert_close(row[0]["features"][0], row[0]["positional_scores"].sum())
        for hypothesis in found[:2]:
            tokens = hypothesis["tokens"].tolist()
            read, written = none_for_no_word(document), none_for_no_word(tokens)
            steps = [reference.extractive_features(read, written[:end], word) for end, word in enumerate(written)]
            features = hypothesis["features"]
            assert features[1:].tolist() == [sum(column) for column in zip(*steps)]
            total = sum(weight * value for weight, value in zip(WEIGHTS, features.tolist()))
            assert hypothesis["positional_scores"].sum().item() == pytest.approx(total, rel=1e-4)
            copied += sum(word >= V for word in tokens)
    assert copied > 0


def test_what_does_not_go_together_is_refused():
    for given in ("1,2,3", "1,2,3,4,x", "0,1,1,1,1", "1,2,3,4,inf", (1, 2)):
        with pytest.raises(ValueError, match="--extractive-weights"):
            summaries([model_of()], extractive_weights=given)
    with pytest.raises(ValueError, match="--recombine 2"):
        summaries([model_of()], recombine=2, search_strategy=search.Sampling(TASK.target_dictionary))
    task, given = make_task(), {"extractive_weights": "1,1,0,0,0"}
    task.src_dict = make_dictionary(30, mark=True)
    with pytest.raises(ValueError, match="--extractive-weights needs one dictionary"):
        SummaryGenerator([make_model("etads", task, share_all_embeddings=False)], task.target_dictionary, **given)
    task = make_task(tail=30, target_words=20)  # fewer words are known in summaries, but the ids are the same
    SummaryGenerator([make_model("etads", task, pointer="soft")], task.target_dictionary, **given)


def test_with_the_released_features_the_end_counts_at_an_exact_length():
    """In the release, it is a part of the final score. The score used to be 0 for all summaries."""
    for weights in (RELEASED, WEIGHTS):
        found = summaries([model_of("none")], extractive_weights=weights, exact_length=4, no_repeat_ngram_size=1)
        for hypothesis in itertools.chain(*found):
            end = hypothesis["positional_scores"][-1]
            assert len(hypothesis["tokens"]) == 5 and (end < -0.01 if weights == RELEASED else end == 0)


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
    model, document, previous = abs_model().double(), [5, 6, 7, 45, 9, 10, 46, 5, 45], [EOS, 5, 6, 4, 7, 8, 9, 45]
    found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    known, written = ([word if word < V else UNK for word in words] for words in (document, previous))
    with torch.no_grad():
        for step in range(len(previous)):
            last = ([BOS] * 4 + written[: step + 1])[-5:]
            marked = [BOS] * 3 + known + [EOS] * 3
            expected, weights = reference.next_word(papers_weights(model), marked, last)
            torch.testing.assert_close(found[0, step], torch.tensor(expected).double(), rtol=1e-5, atol=1e-5)
            of_words = weights[3 : 3 + len(document) + 1]
            torch.testing.assert_close(extra["attn"][0][0, step], torch.tensor(of_words).double())


def test_long_rows_are_scaled_before_each_epoch_and_short_ones_are_not():
    task = abs_task()
    model = abs_model(task=task)
    tables = [model.encoder.embed_tokens, model.decoder.embed_tokens, model.decoder.embed_context]
    before = [table.weight.detach().clone() for table in tables]
    task.begin_epoch(1, model)
    for table, weight in zip(tables, before):
        lengths = weight.norm(dim=1, keepdim=True)
        assert (lengths > 1).sum() > 20 and (lengths < 1).any()
        torch.testing.assert_close(table.weight.detach(), torch.where(lengths > 1, weight / lengths, weight))
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
