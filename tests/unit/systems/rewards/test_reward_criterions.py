"""summarization_rl and summarization_raml: gradients, drawing and weights against exact ones; what rewards see."""

import itertools
import math
from collections import Counter
from types import SimpleNamespace

import pytest
import reference
import torch
from helpers import EOS, PAD, RECURRENT, make_model, make_task
from recurrent import MARK, recurrent_task
from seeds import shifted
from test_criterions import criterion, make_sample
from test_selector import build as build_selector
from test_selector import units

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.platform.command_options import check_options
from fairseq_etads.search.strategies import GREEDY_SCORE, SamplingWithGreedyHypothesis
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig
from fairseq_etads.systems.rewards.augmented import (
    EditedReferences,
    SummarizationRAML,
    SummarizationRAMLConfig,
    compute_edit_count_distribution,
    compute_sample_weights,
    make_augmented_batch,
)
from fairseq_etads.systems.rewards.self_critical import (
    FrequencySaliency,
    RewardFunctions,
    SampledSummaries,
    SummarizationRL,
    TaggerSaliency,
)
from fairseq_etads.text.subsequences import rouge_n

UNK = 3
RL = {"rewards": "rougeL", "rl_weight": 1.0, "rl_max_len": 6, "rl_samples": 1, "rl_baseline": "greedy"}
RL |= {"rougesal_saliency": "idf", "entail_model": None, "entail_length_cap": "1"}
RAML = {"raml_reward": "none", "raml_temperature": 0.85, "raml_samples": 5, "raml_entailment_model": None}


def build(pointer="soft", task=None, model="etads", sizes=(), **options):
    task = task or make_task(tail=30)
    return make_model(model, task, pointer=pointer, **dict(sizes)), SummarizationRL(task, **{**RL, **options})


def gradients(model, loss):
    return torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad], materialize_grads=True)


def drawable(p, pointer):
    """Probabilities (T, columns) of what can be drawn: never padding and, with a pointer, never the unknown word."""
    p = p.clone()
    p[:, [PAD, UNK] if pointer == "soft" else [PAD]] = 0
    return p / p.sum(dim=1, keepdim=True)


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_the_mean_gradient_is_the_exact_one(pointer):
    """Over all summaries of at most two tokens, weighted by their probability, it is the gradient of -E[r]."""
    model, ours = build(pointer, rl_max_len=2, rl_baseline="none")
    words = [EOS, 5, 6, 50 if pointer == "soft" else 7]  # with a pointer, the last word is copied
    # A summary of three tokens is cut at two. There the end symbol comes from the limit, not from the model.
    pairs = itertools.product(words[1:], words)
    drawn = [torch.tensor(row) for row in ([EOS], *([a, EOS] if b == EOS else [a, b, EOS] for a, b in pairs))]
    advantages = torch.linspace(-1, 2, len(drawn))
    sample = make_sample([[8, 50, 5]] * len(drawn), [[5]] * len(drawn))
    samples = SampledSummaries(drawn, 2, ours.dictionary)
    assert samples.unfinished == 9 and samples.words.tolist() == [1] + [2] * 12

    one = {key: value[:1] for key, value in sample["net_input"].items()}
    log_p = []
    for row in drawn:
        previous = torch.cat([torch.tensor([EOS]), row[:-1]])[None]
        output = model(**{**one, "prev_output_tokens": previous})
        columns = model.get_targets({"target": row[None]}, output)[0]
        p = drawable(model.get_normalized_probs(output, log_probs=False)[0], pointer)
        log_p.append(sum(p[t, column].log() for t, column in enumerate(columns[:2].tolist())))
    log_p = torch.stack(log_p)
    expected = gradients(model, -(log_p.exp() * advantages).sum())
    weighted, encoded = advantages * log_p.exp().detach(), ours.encode(model, sample)
    loss = ours.compute_policy_loss(model, encoded, samples, weighted, torch.arange(len(drawn)))
    torch.testing.assert_close(gradients(model, loss), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weight, training", [(0.0, True), (1.0, False)])
def test_without_weight_and_in_validation_it_is_the_likelihood_normalised_by_length(weight, training):
    model, ours = build(rl_weight=weight, label_smoothing=0.1)
    plain, sample = criterion(ours.task, label_smoothing=0.1, length_normalised=True), make_sample()
    loss, size, logs = ours(model.train(training), sample)
    torch.testing.assert_close(loss, plain(model, sample)[0], rtol=0, atol=0)
    assert size == len(sample["target"]) and "sampled_words" not in logs


class Length:
    """A reward of one for each word of the summary, which records its inputs."""

    def __init__(self):
        self.calls = []

    def __call__(self, *given):
        self.calls.append(given)
        return [float(sum(map(len, text))) for text in given[0]]


def test_rewards_see_copied_words_and_sentences():
    """Words that the model does not know, but the document has, have their spelling; ``<q>`` ends a sentence."""
    _, ours = build(task=make_task(tail=30, mark=True), rewards=f"{__name__}:Length", rl_max_len=4)
    mark = ours.dictionary.index("<q>")
    sample = make_sample([[50, 5, 61]], [[61, mark, 7]])
    sampled, greedy = torch.tensor([5, mark, 50, EOS]), torch.tensor([EOS])
    advantages, figures = ours.compute_advantages(sample, [sampled], [greedy], 0)
    (hypotheses, references, documents), (of_greedy, _, _) = ours.rewards._rewards[0].calls
    assert hypotheses == [[["w1"], ["rare6"]]] and references == [[["rare17"], ["w3"]]] and of_greedy == [[]]
    assert documents == [[["rare6", "w1", "rare17"]]]
    assert advantages.tolist() == [2.0]
    assert figures[f"reward_{__name__}:Length"] == 2


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
def test_drawing_is_without_dropout_and_leaves_the_model_in_training(arch):
    """Greedy searches agree although dropout is on, and so do two passes over the samples."""
    model, ours = build(model=arch, sizes={**RECURRENT, "dropout": 0.5, "attention_dropout": 0.3})
    model.train()
    model.encoder.eval()  # a frozen encoder stays in evaluation mode
    sample = make_sample()
    modes = [module.training for module in model.modules()]
    encoded_before = ours.encode(model, sample)
    first, *others = (ours.sample_summaries(model, sample, given)[1] for given in (None, None, encoded_before))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other))
    ours(model, sample)
    assert [module.training for module in model.modules()] == modes


def test_a_summary_as_long_as_the_model_allows_is_unfinished():
    """Its end symbol is forced by the model's limit, which may be below --rl-max-len, and must not be scored."""
    task = make_task(truncate_target=3, tail=30)
    logs = []
    for longest in (3, 50):
        model, ours = build(task=task, rl_max_len=longest, rl_samples=4)
        assert model.max_decoder_positions() == 4
        torch.manual_seed(1)
        logs.append(ours(model.train(), make_sample())[2])
    assert logs[0]["unfinished"] == logs[1]["unfinished"] > 0
    assert logs[0]["sampled_words"] == logs[1]["sampled_words"]
    torch.testing.assert_close(logs[0]["loss"], logs[1]["loss"])


def test_a_reward_that_is_no_number_is_refused():
    model, ours = build()
    ours.rewards._rewards = [lambda summaries, *_: [math.nan] * len(summaries)]
    with pytest.raises(ValueError, match="a finite number for each summary"):
        ours(model.train(), make_sample())


def test_only_the_greedy_hypothesis_is_not_drawn():
    """Its score tells it: here it is second, as when another hypothesis has ended, and sums of log P round above 0."""
    p = torch.tensor([0.5, 0.3, 0.2])
    rows = 4000
    lprobs = p.log().expand(rows, 3, 3).contiguous()
    scores = torch.tensor([1e-6, GREEDY_SCORE, -2.0])[None, :, None].repeat(rows, 1, 1)
    torch.manual_seed(shifted(5))
    sums, words, parents = SamplingWithGreedyHypothesis(make_task().target_dictionary).step(1, lprobs, scores)
    assert (words[:, 1] == 0).all() and (sums[:, 1] == GREEDY_SCORE).all()
    assert parents.tolist() == [[0, 1, 2]] * rows
    for column in (0, 2):
        found = words[:, column].bincount(minlength=3) / rows
        assert ((found - p).abs() < 5 * (p * (1 - p) / rows).sqrt()).all()
        torch.testing.assert_close(sums[:, column], scores[:, column, 0] + p.log()[words[:, column]])


@pytest.mark.parametrize("samples", [1, 2])
def test_greedy_summaries_are_those_of_a_search_of_their_own(samples):
    """They are the same, regardless of when they or the samples of their documents end."""
    model, ours = build("soft", rl_samples=samples, rl_max_len=6)
    with torch.no_grad():
        model.decoder.output_projection.weight[EOS] *= 3
    sample = make_sample([[number, 50 + number, 5, 61] for number in range(5, 25)], [[5]] * 20)
    alone = SummaryGenerator([model.eval()], ours.dictionary, 1, max_len_b=6, min_len=0)
    expected = [hypotheses[0]["tokens"].tolist() for hypotheses in alone.generate(None, sample)]
    torch.manual_seed(shifted(6))
    sampled, greedy = ours.sample_summaries(model.train(), sample)
    assert [row.tolist() for row in greedy] == expected
    assert len(sampled) == 20 * samples and all(row[-1] == EOS for row in sampled)
    assert len(set(map(len, expected))) > 1 and len(set(map(len, sampled))) > 1, "all end at the same step"
    assert any(a.tolist() != b for a, b in zip(sampled[::samples], expected)), "nothing is drawn"


def test_samples_of_a_document_are_drawn_independently():
    """3,000 pairs of whole summaries, of at most two tokens: each pair as often as the product of its probabilities."""
    model, ours = build("none", task=make_task(), rl_max_len=2, rl_samples=2, rl_baseline="others")
    with torch.no_grad():  # only three words and the end symbol are probable
        model.decoder.output_projection.weight[[EOS, 5, 6, 7]] *= 4
    rows = 500
    sample = make_sample([[5, 6]] * rows, [[5]] * rows)
    torch.manual_seed(shifted(4))
    pairs = torch.zeros(len(ours.dictionary), len(ours.dictionary))
    for _ in range(6):
        drawn = ours.sample_summaries(model, sample)[0]
        for one, other in zip(drawn[::2], drawn[1::2]):
            pairs[one[0], other[0]] += 1
    pairs = (pairs + pairs.T) / 2  # the search returns the more probable one first, but the order of drawing is random
    count = pairs.sum()
    assert count == 6 * rows
    one = {key: value[:1] for key, value in sample["net_input"].items()}
    output = model.eval()(**{**one, "prev_output_tokens": torch.tensor([[EOS]])})
    model_p = drawable(model.get_normalized_probs(output, log_probs=False)[0].detach(), "none")[0]
    joint = model_p[:, None] * model_p
    assert ((pairs / count - joint).abs() <= 5 * (joint * (1 - joint) / count).sqrt() + 5e-4).all()
    assert joint.diagonal().max() > 0.05, "pairs of the same word are too rare for the test to mean anything"


def test_samples_are_compared_with_the_documents_others():
    _, ours = build(rewards=f"{__name__}:Length", rl_samples=3, rl_baseline="others")
    rows = [[5], [5, 6, 7], [], [6], [6], [6]]
    sample = make_sample([[8, 9], [9]], [[5], [7]])
    advantages, figures = ours.compute_advantages(sample, [torch.tensor([*row, EOS]) for row in rows], [], 0)
    assert advantages.tolist() == [1 - 3 / 2, 3 - 1 / 2, 0 - 4 / 2, 0, 0, 0]
    assert ours.rewards._rewards[0].calls[0][1] == [[["w1"]]] * 3 + [[["w3"]]] * 3
    assert figures == pytest.approx({f"reward_{__name__}:Length": 4 / 3 + 1, f"reward_{__name__}:Length_count": 2})


def test_several_samples_have_the_mean_of_their_losses(monkeypatch):
    """For a document with given samples, the loss is the mean of the losses with each sample alone."""
    drawn = [torch.tensor([*row, EOS]) for row in ([5], [5, 6, 7], [50], [], [9, 9], [8])]
    advantages = torch.tensor([0.5, -1.0, 0.25, 1.0, 0.0, -0.5])
    model, ours = build(rl_samples=2, rl_baseline="others")
    sample = make_sample([[8, 50, 5], [5], [9, 9]], [[5], [7, 8], [9]])

    def loss(criterion, rows):
        monkeypatch.setattr(criterion, "sample_summaries", lambda *_: ([drawn[row] for row in rows], []))
        monkeypatch.setattr(criterion, "compute_advantages", lambda *_: (advantages[rows], {}))
        return criterion(model.train(), sample)[0].item()

    _, alone = build()
    of_each_alone = loss(alone, [0, 2, 4]), loss(alone, [1, 3, 5])
    assert loss(ours, [0, 1, 2, 3, 4, 5]) == pytest.approx(sum(of_each_alone) / 2, rel=1e-4)


@pytest.fixture
def asked(monkeypatch):
    """Pairs given to an entailment model, which returns the share of each hypothesis's words in the premise."""
    pairs = []

    def score(premises, hypotheses):
        pairs.extend(zip(premises, hypotheses))
        return torch.tensor([sum(w in p for w in h) / max(1, len(h)) for p, h in zip(premises, hypotheses)])

    judge = SimpleNamespace(config=NliConfig(), to=lambda device: None, score=score)
    monkeypatch.setattr(EntailmentScorer, "load", lambda path: judge)
    return pairs


def give_documents(task, documents):
    """Let a task have a training split with documents, given as ids."""
    src = [torch.tensor([*document, 2]) for document in documents]
    task.dataset = {"train": SimpleNamespace(src=src)}.__getitem__


def test_saliency_is_the_inverse_frequency_in_training_documents():
    task = make_task(tail=3)
    give_documents(task, [[5, 5, 6], [5, 44], [5]])
    weights = FrequencySaliency(task)([["w1", "w2"], ["rare0", "unheard-of"], []])
    seen_once = (math.log(4 / 2) + 1) / (math.log(4) + 1)
    expected = [[1 / (math.log(4) + 1), seen_once], [seen_once, 1.0], []]
    assert [pytest.approx(row) for row in expected] == weights


def test_rewards_of_all_kinds_take_turns(asked):
    model, ours = build(rewards="rougesal,entail", entail_model="somewhere")
    give_documents(ours.task, [[5, 6], [5]])
    seen = []
    for update in range(4):
        ours.set_num_updates(update)
        logs = ours(model.train(), make_sample())[2]
        seen += [key for key in logs if key.startswith("reward_") and not key.endswith("_count")]
        assert 0 <= logs[seen[-1]] <= logs[f"{seen[-1]}_count"]
    assert seen == ["reward_rougesal", "reward_entail"] * 2
    assert not ours.state_dict(), "checkpoints would hold the entailment model, or the summariser twice"


def test_entailment_is_judged_of_whole_words(asked, caplog):
    """Words cut by other rules than those of the model are warned of."""
    task, cut = make_task(), make_task()
    cut.target_dictionary.symbols[4:24] = [f"w{number}@@" for number in range(20)]  # as BPE gives them
    whole, joined = (RewardFunctions("entail", "idf", "somewhere", "1", each) for each in (task, cut))
    assert whole(0, [[["w1", "w2"]]], [[["w1", "w3"]]], [[]], "cpu") == [0.5]
    assert joined(0, [[["w@@", "1", "w2"]]], [[["w1", "w@@", "3"]]], [[]], "cpu") == [0.5]
    assert asked == [(["w1", "w3"], ["w1", "w2"])] * 2
    assert "--words ptb, but the data seems to be tokenised with --words moses" in caplog.text


def test_a_tagger_gives_each_word_its_probability_in_its_sentence(tmp_path, monkeypatch):
    """Neighbouring sentences do not matter; a checkpoint of fairseq-train is read in tests/e2e."""
    task, model = build_selector("word_tagger")
    path = tmp_path / "tagger.pt"
    path.touch()
    monkeypatch.setattr("fairseq.checkpoint_utils.load_model_ensemble_and_task", lambda *_: ([model], None, task))
    tagger, words = TaggerSaliency(str(path), task), task.source_dictionary
    sentences = [[words[5], words[45], words[9]], [], [words[7]], [words[7], "unheard-of"]]
    found = tagger(sentences)
    assert list(map(len, found)) == [3, 0, 1, 2] and tagger([]) == []
    for sentence, row in zip(sentences, found):
        ids = [words.index(word) for word in sentence]
        assert row == pytest.approx(units(model, [ids])[0] if ids else [], abs=1e-6)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    _, model = build_selector("sentence_extractor")
    with pytest.raises(ValueError, match="its model is not a word tagger"):
        TaggerSaliency(str(path), task)


def test_rewards_without_their_models_are_refused_except_in_validation():
    saliency = {"rewards": "rougesal", "rougesal_saliency": "x.pt"}
    for options, words in (({"rewards": "entail"}, "--entail-model is missing"), (saliency, "x.pt: no such file")):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            build(**options)
    task = make_task()
    task._trained = {}  # fairseq-validate builds the criterion of a checkpoint after its training
    build(task=task, rewards="entail", entail_model="gone")


def raml(task=None, **options):
    return SummarizationRAML(task or make_task(tail=30), **{**RAML, **options})


def test_the_number_of_edits_is_that_of_all_texts_gone_through():
    for temperature in (0.5, 0.85, 2.0):
        want = torch.tensor(reference.edit_distances(3, 4, temperature), dtype=torch.float64)
        torch.testing.assert_close(compute_edit_count_distribution(3, 4, temperature), want)
    found = compute_edit_count_distribution(8, 500_000, 0.85)
    assert [round(float(share), 3) for share in found[:3]] == [0.787, 0.192, 0.020]


def test_weights_are_those_of_the_loop():
    rewards, distances = [1.0, 0.25, 0.5], [0, 2, 1]
    found = compute_sample_weights(torch.tensor([rewards]), torch.tensor([distances]), 0.85)
    torch.testing.assert_close(found[0], torch.tensor(reference.raml_weights(rewards, distances, 0.85)))


def test_what_is_drawn_is_another_word_at_e_places():
    """In 4,000 samples, the number of edits follows q, and places and other known words are equally frequent."""
    ours = raml(make_task(tail=30, mark=True), raml_temperature=3.0, raml_samples=4000)
    target = torch.tensor([[PAD, 5, 43, 60, 7, EOS], [PAD, PAD, PAD, PAD, 3, EOS], [PAD, PAD, PAD, PAD, PAD, EOS]])
    torch.manual_seed(shifted(1))
    distances, changed, edited = ours.sample_edited_references(target)
    assert torch.equal(changed.sum(2), distances) and torch.equal(edited != target[:, None], changed)
    assert set(ours.words.tolist()) == set(range(4, 43)), "43 is the sentence mark, from 44 on words are only copied"
    assert torch.isin(edited[changed], ours.words).all()
    of_first = compute_edit_count_distribution(3, 39, 3.0)
    counts = torch.bincount(distances[0], minlength=4) / 4000
    assert ((counts - of_first).abs() < 5 * (of_first * (1 - of_first) / 4000).sqrt() + 1e-9).all()
    assert not changed[0, :, [0, 2, 5]].any() and not distances[2].any()
    places = changed[0].float().mean(0)[[1, 3, 4]]
    share = float((of_first * torch.arange(4)).sum() / 3)
    assert (places - share).abs().max() < 5 * (share * (1 - share) / 4000) ** 0.5
    drawn = Counter(edited[0, :, 1][changed[0, :, 1]].tolist())
    assert set(drawn) == set(ours.words.tolist()) - {5}
    total = sum(drawn.values())
    assert max(abs(count / total - 1 / 38) for count in drawn.values()) < 5 * (1 / 38 / total) ** 0.5


def edits_of(rows, target):
    """Edits by hand: for each pair a list of samples, each a dictionary from places in the summary to words."""
    edited = target[:, None].repeat(1, len(rows[0]), 1)
    first = (target != PAD).int().argmax(1).tolist()
    for pair, samples in enumerate(rows):
        for number, sample in enumerate(samples):
            for place, word in sample.items():
                edited[pair, number, first[pair] + place] = word
    changed = edited != target[:, None]
    return EditedReferences(changed.sum(2), changed, edited)


EDITS = [[{}, {0: 9}, {}], [{0: 5, 1: 50}, {1: 6}, {1: 4}], [{}, {}, {}], [{1: 8}, {0: 8}, {}]]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("pointer", ["none", "soft", "switch"])
def test_the_loss_is_the_weighted_sum_of_the_samples_likelihoods(pointer, left, monkeypatch):
    """Each sample is scored by itself, with the words before it. The logged value is the same sum."""
    task = make_task(tail=30)
    model, plain = make_model("etads", task, pointer=pointer).train(), criterion(task, coverage_loss=0.5)
    ours = raml(task, raml_temperature=0.6, coverage_loss=0.5)
    sample = make_sample(left=left)
    edits = edits_of(EDITS, sample["target"])
    rewards = torch.tensor([[1.0, 0.3, 1.0], [0.9, 0.2, 0.4], [1.0, 1.0, 1.0], [0.0, 0.7, 1.0]])
    monkeypatch.setattr(ours, "sample_edited_references", lambda _: edits)
    monkeypatch.setattr(ours, "compute_rewards", lambda *_: rewards)
    expected = 0.0
    for pair in range(4):
        weights = reference.raml_weights(rewards[pair].tolist(), edits.distances[pair].tolist(), 0.6)
        for number, weight in enumerate(weights):
            texts = sample["net_input"]["src_tokens"][pair], edits.target[pair, number]
            document, summary = ([word for word in text.tolist() if word not in (PAD, EOS)] for text in texts)
            loss, _, one = plain(model, make_sample([document], [summary]))
            expected += weight * torch.stack([loss.detach(), one["nll_loss"]])
    total, size, logs = ours(model, sample)
    torch.testing.assert_close(torch.stack([total.detach(), logs["nll_loss"]]), expected, rtol=1e-5, atol=1e-5)
    assert size == sample["ntokens"] and logs["nsentences"] == 4 and logs["raml_edits"] == 7
    batch = make_augmented_batch(sample, edits, torch.full((4, 3), 1 / 3))
    assert batch["id"].tolist() == [7, 9, 10, 7, 8, 8, 8, 10, 10], "references drawn as they are are one row"
    assert torch.equal(sample["target"], make_sample(left=left)["target"]), "the batch itself has changed"
    assert raml(task, sentence_avg=True)(model, sample)[1] == 4
    assert torch.equal(ours(model.eval(), sample)[0], plain(model, sample)[0]), "the likelihood, in validation"


def test_rouge_is_that_of_the_edited_reference():
    ours = raml(raml_reward="rouge2")
    sample = make_sample(summaries=[[5, 6, 7, 8], [9, 9], [4], [50, 5, 6]], documents=[[5], [6], [7], [8]])
    edits = edits_of([[{0: 9}, {1: 9}], [{}, {0: 4}], [{}, {0: 8}], [{2: 50}, {}]], sample["target"])
    found = ours.compute_rewards(sample, edits)
    assert found[1, 0] == found[2, 0] == found[3, 1] == 1
    assert found[0].tolist() == pytest.approx([2 / 3, 1 / 3]) and found[2, 1] == 0
    assert found[3, 0] == pytest.approx(rouge_n([["rare6", "w1", "rare6"]], [["rare6", "w1", "w2"]], 2)) == 0.5


def test_entailment_counts_no_more_than_that_of_the_reference(asked):
    """Words keep their spelling, including copied ones, and sentence marks are not words."""
    task = recurrent_task()
    ours = raml(task, raml_reward="entail", raml_entailment_model="somewhere")
    sample = make_sample([[5, MARK, 50, 6, 8], [9], [7]], [[5, MARK, 50, 7], [9, 4], [7]])
    edits = edits_of([[{3: 6}, {0: 9}], [{1: 9}, {0: 4}], [{}, {}]], sample["target"])
    found = ours.compute_rewards(sample, edits)
    torch.testing.assert_close(found, torch.tensor([[2 / 3, 1 / 3], [0.5, 0.0], [1, 1]]))
    premises, hypotheses = zip(*asked)
    assert ["w1", "rare6", "w2", "w4"] in premises and ["w1", "rare6", "w2"] in hypotheses
    assert ["w3"] not in hypotheses, "the reference that is drawn as it is"


def test_impossible_options_are_refused():
    with pytest.raises(ValueError, match="--raml-entailment-model"):
        check_options(SummarizationRAMLConfig(raml_reward="entail"), SummarizationRAMLConfig)
    with pytest.raises(ValueError, match="--large-vocabulary-trick"):
        SummarizationRAML.check_options(SummarizationRAMLConfig(), frozenset({"--large-vocabulary-trick"}))
