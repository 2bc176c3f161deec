"""Chen and Bansal 2018: equations of extractor and abstractor, selections, labels, rewards, losses, etads-rewrite."""

from argparse import Namespace

import pytest
import torch
from fairseq.logging import metrics
from folders import make_run, save_checkpoint
from helpers import EOS, PAD, make_batch, make_task, model_config
from omegaconf import OmegaConf
from recurrent import MARK, V, log_probs, recurrent
from reference import extended_ids, lstm_both_ways, pointer_scores, sentence_rewriter, sentence_vector
from selection_data import write_data, write_subset
from steps import make_sample

from fairseq_etads.commands import rewrite as rewriting
from fairseq_etads.commands.labels import main as make_labels
from fairseq_etads.commands.rewrite import RewriteCandidate, choose_least_repetitive_candidates, main
from fairseq_etads.data.labels import compute_source_hash, write_label_rows
from fairseq_etads.data.pairs import SentenceOrderDataset
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.rewriting import training
from fairseq_etads.systems.rewriting.model import PointerExtractor
from fairseq_etads.systems.rewriting.training import (
    Abstractor,
    ExtractorRL,
    compute_discounted_returns,
    compute_step_rewards,
    standardise_returns,
)

SIZES = {"encoder_embed_dim": 6, "sentence_filters": 3, "encoder_hidden_size": 4, "decoder_hidden_size": 5}
DOCUMENTS = [[5, 6, MARK, 7, 45, 9, 10, 11, 12, MARK, 46, 5, MARK, 12], [30]]
DOCUMENTS += [[MARK, MARK, 4, 47, MARK, 8], [], [9] * 3]


def build(seed=1, **options):
    task = make_task(tail=9, mark=True)
    torch.manual_seed(seed)
    return task, task.build_model(model_config("pointer_extractor", **{**SIZES, **options}))


def names_of_network(network):
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

        expected = pointer_scores(candidates, names_of_network(model.pointer_network), taken)
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

        pointer_scores(states, names_of_network(model.critic.network), read)
        torch.testing.assert_close(values[0], torch.stack([model.critic.value(mean)[0] for mean in means]))


def test_the_first_states_can_be_learnt():
    _, model = build(learnt_start=True)
    logits, _ = model(make_batch(DOCUMENTS[:2]), chosen=torch.tensor([[2, 0], [0, -1]]))
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


def test_the_loss_is_the_mean_over_sentences_that_are_read():
    """A batch without labels has a loss of 0. It used to end training with a ZeroDivisionError."""
    task, model = build(max_sentences=3)
    criterion, tokens = task.build_criterion(OmegaConf.create({"_name": "extractor_nll"})), make_batch(DOCUMENTS[:2])

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


def test_another_criterion_is_refused():
    for stops, wrong, right in ((False, "extractor_rl", "extractor_nll"), (True, "extractor_nll", "extractor_rl")):
        with pytest.raises(ValueError, match=f"--learn-to-stop: choose --criterion {right}"):
            build(learn_to_stop=stops)[0].build_criterion(OmegaConf.create({"_name": wrong}))


def names_of_rewriter(model):
    encoder, decoder = model.encoder, model.decoder
    names = ("weight_ih", "weight_hh", "bias_ih")
    rnn, start = encoder.lstm.rnn, encoder.lstm.start
    return {
        "E": encoder.embed_tokens.weight,
        "forward": [getattr(rnn, f"{name}_l0") for name in names],
        "backward": [getattr(rnn, f"{name}_l0_reverse") for name in names],
        "decoder": [getattr(decoder.cell, name) for name in names],
        **{"first_forward": tuple(start[:, 0]), "first_backward": tuple(start[:, 1])},
        **{"W_m": encoder.projection.weight, "W_q": encoder.keys.weight},
        **{"B_s": encoder.first_state.weight, "b_s": encoder.first_state.bias},
        **{"B_c": encoder.first_cell.weight, "b_c": encoder.first_cell.bias},
        **{"W_1": decoder.readout[0].weight, "b": decoder.readout[0].bias, "W_2": decoder.readout[2].weight},
        **{"v": decoder.pointer.gate.weight[0], "b_v": decoder.pointer.gate.bias[0]},
    }


@pytest.mark.parametrize("document", DOCUMENTS[:2], ids=["long", "short"])
def test_the_abstractor_is_the_equations(document):
    model = recurrent("sentence_rewriter").double()
    with torch.no_grad():
        model.encoder.keys.weight.mul_(400)  # larger weights make attention's preferences visible
        model.encoder.lstm.start.mul_(50)
        previous = [EOS, 5, 47, 6, 7]
        extended, _ = extended_ids([*document, EOS], V)
        want = sentence_rewriter(names_of_rewriter(model), [*document, EOS], extended, previous, unk=3)
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    torch.testing.assert_close(found[0].exp(), torch.tensor(want, dtype=torch.float64))
    assert len(document) == 1 or extra["attn"][0].max() > 3 * extra["attn"][0].min(), "attention that hides"


def test_rewards_and_returns_by_hand():
    rewritten, reference = [["a", "b"], ["c", "x", "d"], ["e"]], [["a", "c"], ["c", "d"]]
    rewards = compute_step_rewards(rewritten, reference)
    # one of two and two words; two of three and two; no third sentence; a, c and d of six and four words
    assert rewards == pytest.approx([2 * 1 / 4, 2 * 2 / 5, 0.0, 2 * 3 / 10])
    assert compute_step_rewards([], reference) == [0.0]
    assert compute_discounted_returns([1.0, 0.0, 2.0], 0.5) == [1.5, 1.0, 2.0]
    found = standardise_returns([[1.0, 2.0], [6.0]])
    deviation = ((4 + 1 + 9) / 2) ** 0.5
    assert [value for row in found for value in row] == pytest.approx([-2 / deviation, -1 / deviation, 3 / deviation])
    assert standardise_returns([[0.5]]) == [[0.0]]


class Copying:
    """An abstractor that changes nothing."""

    def __init__(self, *_, device=None, **__):
        self.device = device

    def rewrite(self, sentences):
        return [[{"tokens": sentence}] for sentence in sentences]

    def get_word_ids(self, hypothesis):
        return tuple(hypothesis["tokens"].tolist())


def make_criterion(task, **options):
    task.cfg.data = "data"
    return ExtractorRL(task, **{"abstractor": "model.pt", "rl_discount": 0.5, "rl_max_len": 30, **options})


@pytest.fixture
def case(monkeypatch):
    """A model, its criterion with an abstractor that changes nothing, and a batch."""
    monkeypatch.setattr(training, "Abstractor", Copying)
    task, model = build(3, learn_to_stop=True)
    documents = [[5, 10, MARK, 6, 11, MARK, 7, 12, MARK, 8, 13], [9, MARK, 5, 15, 9, MARK, 6, MARK, 7]] * 8
    return model, make_criterion(task), make_sample(None, documents, [[5, 10, MARK, 6, 12], [6, 7]] * 8)


def test_the_loss_is_that_of_the_paper(case):
    model, ours, sample = case
    chosen = torch.tensor([[2, 4, -1], [0, 1, 4]] * 8)  # candidate 4 is the stop
    rewards = [[0.5, 0.25], [1.0, 0.0, 0.75]] * 8
    policy, critic = ours.compute_losses(model, sample, chosen, rewards)
    returns = standardise_returns([compute_discounted_returns(row, 0.5) for row in rewards])
    logits, values = model(**sample["net_input"], chosen=chosen)
    expected_policy = expected_critic = 0.0
    for row, episode in enumerate(returns):
        for t, value in enumerate(episode):
            free = [j for j in range(5) if j not in chosen[row, :t].tolist()]
            log_p = logits[row, t, chosen[row, t]] - logits[row, t, free].logsumexp(0)
            expected_policy -= log_p * (value - values[row, t].detach())
            expected_critic += (values[row, t] - value) ** 2
    torch.testing.assert_close(policy, expected_policy)
    torch.testing.assert_close(critic, expected_critic)


def test_the_loss_is_divided_by_steps_and_in_validation_sentences_are_taken_greedily(case, monkeypatch):
    model, ours, sample = case
    extract, asked = model.extract, []
    monkeypatch.setattr(model, "extract", lambda *args, sample: asked.append(sample) or extract(*args, sample=sample))
    loss, size, logs = ours(model.train(), sample)
    assert size == logs["sample_size"] == logs["steps"] > 16 == ours(model.eval(), sample)[1]
    torch.testing.assert_close(loss.detach(), logs["policy_loss"] + logs["critic_loss"])
    assert asked == [True, False]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The folder of prepared data, an untrained abstractor, and an extractor that has learned to stop."""
    folder = tmp_path_factory.mktemp("rewrite") / "run"
    make_run(folder, "pg_coverage", mark=True, tail=9)
    write_subset(folder / "prepared" / "bin", "test", DOCUMENTS, [[5]] * len(DOCUMENTS))
    for name, stops in (("rl", True), ("ml", False)):
        task = make_task(60, 20, mark=True, tail=9)
        torch.manual_seed(5)
        cfg = model_config("pointer_extractor", **SIZES, learn_to_stop=stops)
        model = task.build_model(cfg)
        sharpen(model)
        save_checkpoint(folder / f"{name}.pt", model, cfg, task)
    return folder


def load_abstractor(work, *options, **more):
    checkpoint = str(work / "checkpoints" / "checkpoint_best.pt")
    return Abstractor(checkpoint, str(work / "prepared" / "bin"), "", torch.device("cpu"), *options, **more)


def test_each_sentence_is_rewritten_once(work, monkeypatch):
    """A sentence is truncated as in training. In a beam, hypotheses differ. (etads-rewrite rewrites them alone.)"""
    greedy = load_abstractor(work, longest=6)
    sentences = [torch.tensor(words) for words in ([5, 6, 45, 7], [8], [5, 6, 45, 7], [9] * 70, [9] * 60)]
    calls = []
    search = greedy._rewrite_batch
    monkeypatch.setattr(greedy, "_rewrite_batch", lambda texts: calls.append(len(texts)) or search(texts))
    found = greedy.rewrite(sentences)
    assert sum(calls) == 3 and found[0] is found[2] and found[3] is found[4]
    for (best,) in found:
        assert len(greedy.get_word_ids(best)) <= 6 and MARK not in greedy.get_word_ids(best)
    beams = [load_abstractor(work, 4, diversity, 6).rewrite(sentences[:1])[0] for diversity in (0.0, 50.0)]
    plain, diverse = ([greedy.get_word_ids(hypothesis) for hypothesis in beam] for beam in beams)
    assert len(plain) == len(diverse) == 4 and plain != diverse


def test_a_rewritten_sentence_is_one_sentence_and_repeats_no_trigram(work):
    """The model would write the sentence mark or, where it cannot, the same two words repeatedly."""
    found = {}
    for beam in (1, 3):
        abstractor = load_abstractor(work, beam, longest=9)
        with torch.no_grad():
            abstractor.model.decoder.pointer.gate.bias.fill_(50)  # with this bias, nothing is copied
            bias = abstractor.model.decoder.output_projection.bias
            bias[MARK], bias[5], bias[6] = 90.0, 60.0, 60.0
        (hypotheses,) = abstractor.rewrite([torch.tensor([7, 8])])
        found[beam] = [abstractor.get_word_ids(hypothesis) for hypothesis in hypotheses]
    assert all(MARK not in words for beam in found.values() for words in beam)
    assert len({*found[1][0]}) <= 2 and len(found[1][0]) == 9, "greedily it repeats"
    for words in found[3]:
        trigrams = [*zip(words, words[1:], words[2:])]
        assert len(trigrams) > 1 and len({*trigrams}) == len(trigrams), words


def test_without_an_abstractor_it_does_not_start():
    for path, message in ((None, "--abstractor is missing"), ("nowhere.pt", "--abstractor nowhere.pt: ")):
        with pytest.raises((ValueError, InputError), match=message):
            make_criterion(make_task(tail=9, mark=True), abstractor=path)


def rewrite(work, *options, extractor="rl.pt", status=0):
    files = ["--extractor", str(work / extractor), "--abstractor", str(work), "--device", "cpu", "--max-len", "6"]
    assert main([str(work / "prepared"), str(work / "out.txt"), *files, *options]) == status
    return (work / "out.txt").read_text().splitlines() if status == 0 else []


def expected(work, extractor, beam, diversity=1.0, rerank=None, most=None):
    """Expected output of the command, document by document."""
    args = Namespace(extractor=work / extractor, truncate_source=None, sentences=None)
    model, task = rewriting.load_extractor(args, work / "prepared" / "bin")
    abstractor = load_abstractor(work, beam, diversity, 6)
    lines = []
    for document in DOCUMENTS:
        tokens = make_batch([document])
        (sentences,) = model.get_selected_sentences(tokens, model.extract(tokens, most))
        sentences = sentences or [words for words in model.split_document(tokens[0]) if len(words)]
        candidates = [
            [RewriteCandidate(abstractor.get_word_ids(h), float(h["positional_scores"].sum())) for h in beam]
            for words in sentences
            for beam in abstractor.rewrite([words])
        ]
        places = choose_least_repetitive_candidates(candidates, rerank) if rerank else [0] * len(candidates)
        texts = [beam[place].words for beam, place in zip(candidates, places)]
        lines.append(" <q> ".join(" ".join(task.tgt_dict[word] for word in words) for words in texts))
    return lines


def test_summaries_are_taken_and_rewritten_sentences(work, capsys):
    plain = rewrite(work)
    assert plain == expected(work, "rl.pt", 5) and plain[3] == ""
    assert "5 summaries of" in capsys.readouterr().out and not list(work.glob("out.txt.*"))
    by_words = ["--rerank", "--rerank-length", "words"]
    assert rewrite(work, "--rerank", "--diversity", "2") == expected(work, "rl.pt", 5, 2.0, "tokens") != plain
    assert rewrite(work, *by_words, "--diversity", "2") == expected(work, "rl.pt", 5, 2.0, "words")
    assert rewrite(work, "--beam", "1", "--batch-size", "2") == expected(work, "rl.pt", 1)
    assert rewrite(work, "--beam", "1", extractor="ml.pt") == expected(work, "ml.pt", 1, most=5)
    found = rewrite(work, "--beam", "1", "--sentences", "1", extractor="ml.pt")
    assert found == expected(work, "ml.pt", 1, most=1) and not any("<q>" in line for line in found)


def test_where_nothing_is_taken_the_first_sentences_are_rewritten(work, monkeypatch):
    def stop_at_once(self, tokens, most=None):
        return torch.full((len(tokens), 1), self.encode_sentences(tokens).states.shape[1])

    monkeypatch.setattr(PointerExtractor, "extract", stop_at_once)
    found = rewrite(work, "--beam", "1")
    assert found == expected(work, "rl.pt", 1) and [line.count("<q>") for line in found] == [3, 0, 1, 0, 0]


def test_an_interrupted_command_goes_on(work, monkeypatch):
    whole = rewrite(work, "--beam", "1")
    (work / "out.txt").unlink()
    plain, calls = rewriting.summarise_by_rewriting, []

    def interrupted(documents, *arguments):
        calls.append(len(documents))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return plain(documents, *arguments)

    monkeypatch.setattr(rewriting, "summarise_by_rewriting", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rewrite(work, "--beam", "1", "--batch-size", "2")
    assert not (work / "out.txt").exists()
    with open(work / "out.txt.partial", "a") as file:
        file.write("half a li")
    assert rewrite(work, "--beam", "1", "--batch-size", "2") == whole and calls == [2, 2, 2, 1]
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        rewrite(work, "--beam", "1", "--batch-size", "4")
    rewrite(work, "--beam", "2", "--batch-size", "4")
    assert calls[2:] == [4, 1], "what was made with other options is made again"


def test_models_of_another_kind_are_refused_in_a_line(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    rewrite(work, extractor="checkpoints/checkpoint_best.pt", status=2)
    assert capsys.readouterr().err.endswith("not a model of --arch pointer_extractor\n")
    rewrite(work, "--abstractor", "rl.pt", status=2)
    assert "--abstractor rl.pt: not a summarisation model of this project\n" in capsys.readouterr().err


def test_pairs_are_the_sentences_that_match(tmp_path, capsys):
    """Pairs are the same with two processes; subwords are joined, and unknown words of summaries are kept."""
    texts = [
        ("the c@@ at sat <q> a dog ran , <q> it rain@@ ed", "it rain@@ ed <q> the <unk> sat <q> dog"),
        ("<q> one two", "two <q> three"),
    ]
    write_data(tmp_path / "bin", {"train": texts * 40})
    for jobs in "12":
        assert make_labels([str(tmp_path), "--pairs", str(tmp_path / jobs), "--jobs", jobs]) == 0
        sources, targets = ((tmp_path / jobs / f"train.{side}").read_text() for side in ("source", "target"))
        assert sources.splitlines() == ["it rained", "the cat sat", "a dog ran,", "one two"] * 40
        assert targets.splitlines() == ["it rained", "the <unk> sat", "dog", "two"] * 40
    assert "160 pairs of sentences of 80 documents" in capsys.readouterr().out
