"""pointer_extractor: its equations, its selections, and that it learns an order."""

import pytest
import torch
from fairseq.logging import metrics
from helpers import PAD, make_batch, make_task, model_config
from omegaconf import OmegaConf
from reference import lstm_both_ways, pointer_scores, sentence_vector
from selection_data import write_data

from fairseq_etads.data.labels import compute_source_hash, write_label_rows
from fairseq_etads.data.pairs import SentenceOrderDataset
from fairseq_etads.platform.errors import InputError

MARK = 43
SIZES = {"encoder_embed_dim": 6, "sentence_filters": 3, "encoder_hidden_size": 4, "decoder_hidden_size": 5}
DOCUMENTS = [[5, 6, MARK, 7, 45, 9, 10, 11, 12, MARK, 46, 5, MARK, 12], [30]]


def build(seed=1, **options):
    task = make_task(tail=9, mark=True)
    torch.manual_seed(seed)
    return task, task.build_model(model_config("pointer_extractor", **{**SIZES, **options}))


def weights_of(network):
    lstm = network.lstm
    return {
        "lstm": [lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0],
        **{"h": network.first_states[0], "c": network.first_states[1]},
        **{"W_1": network.glimpse.key.weight, "W_2": network.glimpse.query.weight, "v_1": network.glimpse.weight},
        **{"W_3": network.choice.key.weight, "W_4": network.choice.query.weight, "v_2": network.choice.weight},
    }


def sharpen(model):
    """Strengthen the preferences of the comparisons."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("glimpse.weight", "choice.weight")):
                parameter.mul_(200)


@pytest.mark.parametrize("stops", [False, True])
def test_it_is_the_papers_equations(stops):
    _, model = build(learn_to_stop=stops)
    sharpen(model)
    model = model.double()
    document, chosen = DOCUMENTS[0], [2, 0, 3, 4] if stops else [2, 0, 3]
    with torch.no_grad():
        logits, values = model(make_batch([document]), chosen=torch.tensor([chosen]))
        known = model.embed_tokens.num_embeddings
        sentences = [[5, 6], [7, 45, 9, 10, 11, 12], [46, 5], [12]]
        filters = [(c.kernel_size[0], c.weight, c.bias) for c in model.convolution.convolutions]
        embed = model.embed_tokens.weight
        vectors = [sentence_vector([embed[w if w < known else 3] for w in words], filters) for words in sentences]
        rnn, names = model.sentences.rnn, ("weight_ih", "weight_hh", "bias_ih")
        states = lstm_both_ways(vectors, [[getattr(rnn, f"{n}_l0{d}") for n in names] for d in ("", "_reverse")])
        candidates = [*states, model.stop] if stops else states
        first = model.pointer_network.first_input

        def taken(weights):
            step = len(weights)
            return None if step == len(chosen) else candidates[chosen[step - 1]] if step else first

        expected = pointer_scores(candidates, weights_of(model.pointer_network), taken)
        torch.testing.assert_close(logits[0], torch.stack(expected))
        assert logits[0].std(dim=1).min() > 0.01, "scores that do not differ"
        if not stops:
            assert values is None
            return
        means = []

        def read(weights):
            if weights:
                means.append(sum(a * state for a, state in zip(weights[-1], states)))
            return None if len(weights) == len(chosen) else means[-1] if weights else model.critic.network.first_input

        pointer_scores(states, weights_of(model.critic.network), read)
        torch.testing.assert_close(values[0], torch.stack([model.critic.value(mean)[0] for mean in means]))


def test_the_first_states_can_be_learnt():
    """They start within 0.01, as in Chen and Bansal's code, and get a gradient."""
    _, model = build(learnt_start=True)
    assert 0 < model.sentences.start.abs().max() <= 0.01
    logits, _ = model(make_batch(DOCUMENTS), chosen=torch.tensor([[2, 0], [0, -1]]))
    logits.log_softmax(dim=2)[0, 0, 2].backward()
    assert model.sentences.start.grad.abs().min() > 0


def test_sampling_follows_the_probabilities_without_those_taken():
    _, model = build(learn_to_stop=True, max_sentences=3)
    sharpen(model)
    document = [5, 6, MARK, 7, 8, MARK, 9]
    torch.manual_seed(3)
    drawn, stop = model.extract(make_batch([document] * 4000), sample=True), 3
    taken = [[number for number in row if number >= 0] for row in drawn.unique(dim=0).tolist()]
    assert all(len({*row}) == len(row) and row.index(stop) == len(row) - 1 for row in taken), "a sentence twice"
    for order in ([stop], [0, stop], [1, 0, stop], [2, 1, 0, stop]):
        padded = [*order, *[-1] * (drawn.shape[1] - len(order))]
        share = (drawn == torch.tensor(padded)).all(dim=1).float().mean().item()
        logits, p = model(make_batch([document]), chosen=torch.tensor([order]))[0][0], 1.0
        for step, number in enumerate(order):
            left = [other for other in range(4) if other not in order[:step]]
            p *= logits[step, left].softmax(0)[left.index(number)].item()
        assert share == pytest.approx(p, abs=5 * (p * (1 - p) / 4000) ** 0.5 + 1e-3), order


def make_sample(r):
    """Documents of four sentences, some of them marked w1, w2, w3; the summary has these, in this order."""
    documents, orders, summaries = [], [], []
    for _ in range(16):
        count = r.randint(1, 3)
        marks = [5, 6, 7][:count] + [8] * (4 - count)
        r.shuffle(marks)
        sentences = [[number, *(r.randint(10, 30) for _ in range(2))] for number in marks]
        order = [marks.index(number) for number in (5, 6, 7)[:count]]
        documents.append([word for sentence in sentences for word in (*sentence, MARK)][:-1])
        orders.append([*order, *[-1] * (3 - count)])
        summaries.append([word for place in order for word in (*sentences[place], MARK)][:-1])
    tokens, target = make_batch(documents), make_batch(summaries)
    return {
        "net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)},
        "labels": torch.tensor(orders),
        "target": target,
        "ntokens": int(target.ne(PAD).sum()),
    }


def test_the_loss_is_the_mean_over_sentences_that_are_read():
    """A batch without labels has a loss of 0. It used to end training with a ZeroDivisionError."""
    task, model = build(max_sentences=3)
    criterion, tokens = task.build_criterion(OmegaConf.create({"_name": "extractor_nll"})), make_batch(DOCUMENTS)

    def loss_of(labels):
        return criterion(model, {"net_input": {"src_tokens": tokens}, "labels": torch.tensor(labels), "ntokens": 1})

    loss, size, _ = loss_of([[2, 3, 0], [0, -1, -1]])
    p = model(tokens, chosen=torch.tensor([[2, 0], [0, -1]]))[0].log_softmax(2)
    torch.testing.assert_close(loss, -(p[0, 0, 2] + p[0, 1, 0] + p[1, 0, 0]))
    assert size == 3
    loss, size, logs = loss_of([[-1], [-1]])
    assert size == 0 and loss == 0
    with metrics.aggregate() as found:
        criterion.reduce_metrics([logs])
    assert found.get_smoothed_values() == {"loss": 0.0, "accuracy": 0.0}


def test_labels_are_read_in_the_order_of_the_summary(tmp_path):
    texts, path = ["a b <q> c <q> d", "a <q>", "b"], tmp_path / "labels.sentences.train"
    dictionary = write_data(tmp_path, {"train": [(text, "a") for text in texts]})
    ids = [torch.tensor([*(dictionary.index(word) for word in text.split()), 2]) for text in texts]

    def orders(kind, limit=400):
        rows = [(compute_source_hash(text.split()), row) for text, row in zip(texts, (["2", "0"], ["0"], []))]
        write_label_rows(path, {"documents": 3, "kind": kind}, rows)
        return SentenceOrderDataset(path, "sentences", ids, [len(row) for row in ids], dictionary, limit, "--labels")

    assert [row.tolist() for row in (orders("match")[n] for n in range(3))] == [[2, 0], [0], []]
    assert orders("match", 5)[0].tolist() == [0], "nothing is read of the third sentence"
    batch = torch.zeros(2, 3)
    assert orders("match").collate(batch, [2, 0], PAD).tolist() == [[-1, -1], [2, 0]]
    with pytest.raises(InputError, match="etads-labels --kind match"):
        orders("extract")


@pytest.mark.parametrize(
    "stops, criterion", [(False, "extractor_rl"), (True, "extractor_nll"), (False, "selection_nll")]
)
def test_another_criterion_is_refused(stops, criterion):
    task, _ = build(learn_to_stop=stops)
    right = "extractor_rl" if stops else "extractor_nll"
    with pytest.raises(ValueError, match=f"--learn-to-stop: choose --criterion {right}"):
        task.build_criterion(OmegaConf.create({"_name": criterion}))
