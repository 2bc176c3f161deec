"""Language models, allowed words and required words with pointers and candidates: all use ids of the dictionary."""

import math

import pytest
import reference
import torch
from fairseq import search
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch, make_dictionary
from recurrent import MARK, V, inputs, log_probs, recurrent, recurrent_task
from scripted import scripted_language_model

from fairseq_etads.generation import SummaryGenerator

UNK, LONGEST = 3, 5
DOCUMENTS = [[5, 6, MARK, 7, 45, 9, 45], [30, 46, 8, 47], [9, 9, 48, 50, 49, 51, 49]]
TASK = recurrent_task()
DICTIONARY = TASK.target_dictionary


def copying(trick):
    """A pointer model that copies about half of its words, with or without candidates."""
    model = recurrent("gru_seq2seq", TASK, pointer="soft", large_vocabulary_trick=trick)
    with torch.no_grad():
        model.decoder.pointer.gate.bias.fill_(-1.0)
        for parameter in model.parameters():
            parameter *= 1.5  # less alike distributions
    return model


def sample_of(model, documents, ids=None):
    tokens = make_batch(documents)
    return {"id": torch.tensor(ids or range(len(documents))), "net_input": inputs(model, tokens)}


def slow_predict(model, document, language_model=None, weight=0.0, allowed=None):
    """The next word's log-probabilities, computed word by word of the dictionary."""
    tokens, own = make_batch([document]), reference.extended_ids(document, V)[1]
    extended = {word: V + slot for slot, word in enumerate(own)}

    def predict(words):
        before = torch.tensor([[EOS, *(extended.get(word, word) for word in words)]])
        scores, extra = log_probs(model, tokens, before)
        known = [UNK if word >= V else word for word in words]
        values = []
        for word in range(len(DICTIONARY)):
            value = scores[0, -1, extended.get(word, word)].item() if word < V or word in own else -math.inf
            if word == UNK or (allowed is not None and word not in allowed(words)):
                value = -math.inf
            if language_model is not None:
                logits = language_model(torch.tensor([[EOS, *known]]))[0][0, -1].double()
                value += weight * logits.log_softmax(-1)[UNK if word >= V else word].item()
            values.append(value)
        return values, extra["attn"][0][0, -1].tolist()

    return predict


@pytest.mark.parametrize("trick", [0, 25])
@pytest.mark.parametrize("tail", [0, 9])
def test_a_language_model_scores_copied_words_as_unknown_ones(trick, tail):
    """Also where the language model's dictionary has entries after the known words, like the data's own."""
    model, weight, copied, changed = copying(trick), 0.8, 0, 0
    language_model = scripted_language_model(make_dictionary(tail=tail, mark=True))
    options = {"beam_size": 3, "max_len_b": LONGEST, "early_stopping": "admissible", "nbest": 3}
    generator = SummaryGenerator([model], DICTIONARY, lm_model=language_model, lm_weight=weight, **options)
    plain = SummaryGenerator([model], DICTIONARY, **options).generate(None, sample_of(model, DOCUMENTS))
    for document, found, without in zip(DOCUMENTS, generator.generate(None, sample_of(model, DOCUMENTS)), plain):
        predict = slow_predict(model, document, language_model, weight)
        expected = reference.beam_search(predict, beam=3, longest=LONGEST, eos=EOS, pad=PAD)[:3]
        assert [h["tokens"].tolist() for h in found] == [words for words, _, _ in expected]
        assert [h["score"].item() for h in found] == pytest.approx([score for _, _, score in expected], abs=1e-4)
        copied += sum(word >= V for words, _, _ in expected for word in words)
        changed += found[0]["tokens"].tolist() != without[0]["tokens"].tolist()
    assert copied and changed, "nothing is shown"


def test_a_language_model_with_other_words_is_refused():
    model, swapped = copying(0), make_dictionary(mark=True)
    swapped.symbols[7], swapped.symbols[8] = swapped.symbols[8], swapped.symbols[7]
    others = {"nothing as entry 24": make_dictionary(words=20), '"w4" as entry 7 instead of "w3"': swapped}
    for words, other in others.items():
        with pytest.raises(ValueError, match=f"--lm-path: .* the 44 known words .* {words}"):
            SummaryGenerator([model], DICTIONARY, lm_model=scripted_language_model(other))
    nameless = scripted_language_model(make_dictionary(words=20))
    nameless.decoder.dictionary = None
    generator = SummaryGenerator([model], DICTIONARY, lm_model=nameless)
    with pytest.raises(ValueError, match=r"--lm-path: the language model has 24 words, .* 44 known ones"):
        generator.generate(None, sample_of(model, [[5, 6]]))


@pytest.mark.parametrize("trick", [0, 25])
def test_allowed_words_are_words_of_the_dictionary(trick):
    """A function that allows words only in ascending order; some documents lack some of them."""
    model, seen = copying(trick), set()
    numbers = [70, 20, 45]

    def ascending(words):
        return [word for word in (EOS, 8, 9, 45, 47, 48, 49, 50, 52) if word == EOS or word > max([0, *words])]

    def allowed(number, words):
        assert number in numbers and words[0] == EOS
        seen.update(words.tolist())
        return ascending(words.tolist()[1:])

    strategy = search.PrefixConstrainedBeamSearch(DICTIONARY, allowed)
    generator = SummaryGenerator([model], DICTIONARY, 1, max_len_b=LONGEST, search_strategy=strategy)
    assert strategy.prefix_allowed_tokens_fn is allowed, "it stays as it is"
    for document, found in zip(DOCUMENTS, generator.generate(None, sample_of(model, DOCUMENTS, numbers))):
        predict, words = slow_predict(model, document, allowed=ascending), []
        while not words or words[-1] != EOS:
            values = predict(words)[0]
            values[EOS] = values[EOS] if words else -math.inf
            words.append(max(range(len(values)), key=values.__getitem__) if len(words) < LONGEST else EOS)
        assert found[0]["tokens"].tolist() == words
    assert max(seen) >= V, "no copied word was shown to the function"


@pytest.mark.parametrize(
    "phrases,message",
    [
        ([[50]], 'cannot contain "rare6"'),
        ([[UNK]], 'cannot contain "<unk>"'),
        ([[11]], 'cannot contain "w7"'),
        ([[5, 6, 5], [6, 5, 6]], 'cannot contain "w2 w1 w2", which is left out: with the constraints before it'),
    ],
)
def test_words_that_no_summary_can_hold_are_left_out_and_the_others_used(phrases, message, caplog):
    model = copying(0)
    strategy = search.LexicallyConstrainedBeamSearch(DICTIONARY, "ordered")
    generator = SummaryGenerator(
        [model], DICTIONARY, 3, max_len_b=LONGEST, search_strategy=strategy, tokens_to_suppress=("w7",)
    )
    constraints = pack_constraints([[torch.tensor([9])], [torch.tensor(phrase) for phrase in phrases]])
    found = generator.generate(None, sample_of(model, [[5], [5, 6]]), constraints=constraints)
    assert f"--constraints: the summary of document 2 of the batch {message}" in caplog.text
    assert 9 in found[0][0]["tokens"] and found[1][0]["score"].isfinite()


def test_required_words_are_used_however_wide_the_beam_and_short_the_summary():
    model = copying(25)
    strategy = search.LexicallyConstrainedBeamSearch(DICTIONARY, "unordered")
    constraints = pack_constraints([[torch.tensor([45, 9])], [], [torch.tensor([51]), torch.tensor([9])]])
    for beam in (1, 4, 500):
        generator = SummaryGenerator([model], DICTIONARY, beam, max_len_b=2, min_len=0, search_strategy=strategy)
        found = generator.generate(None, sample_of(model, DOCUMENTS), constraints=constraints)
        assert found[0][0]["tokens"].tolist() == [45, 9, EOS]
        assert sorted(found[2][0]["tokens"].tolist()) == [EOS, 9, 51]


def test_documents_without_a_possible_summary_are_counted(caplog):
    """There is never a silent hypothesis of score -inf: the function allows no word for one of the documents."""
    model = copying(0)
    strategy = search.PrefixConstrainedBeamSearch(DICTIONARY, lambda number, _: [] if number == 7 else [EOS, 5, 6])
    generator = SummaryGenerator([model], DICTIONARY, 2, max_len_b=3, search_strategy=strategy)
    found = generator.generate(None, sample_of(model, DOCUMENTS, [1, 7, 2]))
    assert [row[0]["score"].item() == -math.inf for row in found] == [False, True, False]
    assert "1 document(s) (numbers 7): every summary allowed by the options has probability 0" in caplog.text


def test_a_prefix_does_not_end_a_summary_of_exact_length():
    model = copying(0)
    generator = SummaryGenerator([model], DICTIONARY, 2, exact_length=4)
    prefix = torch.tensor([[5, EOS, PAD], [EOS, PAD, PAD], [9, 9, 9]])
    found = generator.generate(None, sample_of(model, DOCUMENTS), prefix_tokens=prefix)
    for row, words in zip(found, ([5], [], [9] * 3)):
        tokens = row[0]["tokens"].tolist()
        assert len(tokens) == 5 and tokens[: len(words)] == words and row[0]["score"].isfinite()
