"""The rewards rougesal and entail as options of summarization_rl: their weights and probabilities."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from helpers import make_task
from test_criterions import make_sample
from test_selector import build as build_selector
from test_selector import units
from test_self_critical import build

from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.entailment.model import NliConfig, write_config, write_model
from fairseq_etads.systems.rewards.self_critical import FrequencySaliency, RewardFunctions, TaggerSaliency


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    """A small entailment model that knows some of the words of the tasks below; lower-cased, as they are."""
    folder, config = tmp_path_factory.mktemp("nli"), NliConfig(embed_dim=4, width=5)
    dictionary = Dictionary()
    for number in range(12):
        dictionary.add_symbol(f"w{number}")
    torch.manual_seed(1)
    write_config(folder, config, dictionary, {})
    write_model(folder, config.make_model(dictionary).state_dict())
    return str(folder)


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


def test_rewards_of_all_kinds_take_turns(nli):
    model, ours = build(rewards="rougesal,entail", entail_model=nli)
    give_documents(ours.task, [[5, 6], [5]])
    seen = []
    for update in range(4):
        ours.set_num_updates(update)
        logs = ours(model.train(), make_sample())[2]
        seen += [key for key in logs if key.startswith("reward_") and not key.endswith("_count")]
        assert 0 <= logs[seen[-1]] <= logs[f"{seen[-1]}_count"]
    assert seen == ["reward_rougesal", "reward_entail"] * 2
    assert not ours.state_dict(), "checkpoints would hold the entailment model, or the summariser twice"


def test_entailment_is_judged_of_whole_words(nli, caplog):
    """The scorer knows w1, w2 and w3, and none of the pieces. Words cut by other rules are warned of."""
    task, cut = make_task(), make_task()
    cut.target_dictionary.symbols[4:24] = [f"w{number}@@" for number in range(20)]  # as BPE gives them
    whole, joined = (RewardFunctions("entail", "idf", nli, "1", each) for each in (task, cut))
    expected = whole(0, [[["w1", "w2"]]], [[["w1", "w3"]]], [[]], "cpu")
    assert joined(0, [[["w@@", "1", "w2"]]], [[["w1", "w@@", "3"]]], [[]], "cpu") == expected != [0.0]
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


def test_validation_needs_no_entailment_model():
    """fairseq-validate builds the criterion of a checkpoint after its training."""
    task = make_task()
    task._trained = {}
    build(task=task, rewards="entail", entail_model="gone")


@pytest.mark.parametrize(
    "options, words",
    [
        ({"rewards": "entail"}, "--rewards entail: --entail-model is missing"),
        ({"entail_model": "somewhere"}, "--entail-model somewhere has no effect"),
        ({"rewards": "entail", "entail_length_cap": "0"}, "--entail-length-cap 0"),
        ({"rewards": "entail", "entail_model": "nowhere"}, "nowhere: not an entailment model"),
        ({"rewards": "rougesal", "rougesal_saliency": "x.pt"}, "--rougesal-saliency x.pt: no such file"),
        ({"rewards": "rouge"}, "choose from rouge1"),
    ],
)
def test_impossible_options_are_refused(options, words):
    with pytest.raises((ValueError, InputError, FileNotFoundError)) as error:
        build(**options)
    assert words in str(error.value)
