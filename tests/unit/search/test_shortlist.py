"""Search with a shortlist: over all words nothing changes; over some it equals a model without the others."""

import copy
import math

import pytest
import torch
from convolutional import conv, conv_task
from decoding import assert_same, make_sample, sharpen
from fairseq import search
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch, make_model, make_task
from recurrent import inputs, log_probs, recurrent, recurrent_task
from scripted import scripted_model
from seeds import shifted
from shortlists import make_shortlist, random_shortlist, write_only

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.inference import find_batch_candidates
from fairseq_etads.search.options import DECLARED, DecodingOptions
from fairseq_etads.search.search_rules import SpecialTokens

V, UNK = 44, 3
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [8, 45, 33, 62, 20, 30, 31], [70, 71, 70, 12], [52]]
FAMILIES = {
    "etads": {},
    "etads, soft": {"pointer": "soft", "pointer_continue": True},
    "etads, switch": {"pointer": "switch"},
    "gru_seq2seq": {},
    "pg_coverage": {},
    "gru_seq2seq, switch": {"pointer": "switch"},
    "convs2s, soft": "soft",
    "convs2s, tied": "tied",
}
SETTINGS = [
    {"beam_size": 4, "max_len_b": 12},
    {"beam_size": 3, "max_len_b": 9, "min_len": 4, "no_repeat_ngram_size": 1, "ngram_ignore_tokens": "w3 w30"},
    {"beam_size": 3, "coverage_penalty": 0.5, "length_penalty_type": "wu", "max_len_b": 9, "temperature": 1.3},
    {"beam_size": 3, "max_len_b": 9, "tokens_to_suppress": ("w1", "w5"), "allow_unk": True, "unk_penalty": -0.5},
    {"beam_size": 2, "exact_length": 6},
    {"beam_size": 3, "max_len_b": 9, "min_sentences": 2},
    {"beam_size": 30, "max_len_b": 4},
]
CASES = [*(("etads, soft", settings) for settings in SETTINGS), *((name, SETTINGS[0]) for name in FAMILIES)]
"""Each setting with a pointer, and each family with one setting."""


def made(family):
    """A model of a family and its task; the output layer has a bias."""
    arch, options = family.split(",")[0], FAMILIES[family]
    if arch == "etads":
        task = make_task(tail=30, mark=True)
        return sharpen(make_model(arch, task, share_all_embeddings=False, output_bias=True, **options)), task
    if arch == "convs2s":
        task = conv_task()
        return conv(options, task), task
    task = recurrent_task()
    model = recurrent(arch, task, **options)
    with torch.no_grad():
        model.decoder.output_projection.weight.normal_(std=2.0, generator=torch.Generator().manual_seed(shifted(1)))
    return model, task


def summaries(model, task, documents, shortlist=None, **options):
    arguments = {name: options.pop(name) for name in ("prefix_tokens", "constraints") if name in options}
    sample = make_sample(documents)
    sample["net_input"] = inputs(model, sample["net_input"]["src_tokens"])
    generator = SummaryGenerator([model], task.target_dictionary, shortlist=shortlist, **options)
    return generator.generate(None, sample, **arguments)


def possible(results):
    """Drop hypotheses of score -inf, which fill a beam when a list is used up; their order does not matter."""
    found = [[hypothesis for hypothesis in row if hypothesis["score"] > -math.inf] for row in results]
    assert all(found)
    return found


def tokens_of(results):
    return [[hypothesis["tokens"].tolist() for hypothesis in row] for row in results]


@pytest.mark.parametrize("family, settings", CASES, ids=str)
def test_the_softmax_runs_over_the_documents_list(family, settings):
    """It equals a model with an output layer that gives all other words no probability; copying is not affected. A list
    of all words changes nothing.
    """
    model, task = made(family)
    shortlist, changed = random_shortlist(task), 0
    plain = summaries(model, task, DOCUMENTS, **settings)
    exact = 1e-5 if family.startswith("convs2s") else 0  # other kernels
    assert_same(summaries(model, task, DOCUMENTS, make_shortlist(task, frequent=V), **settings), plain, exact, exact)
    given = DecodingOptions(**{name: value for name, value in settings.items() if name in DECLARED})
    special, beam = SpecialTokens.from_dictionary(task.target_dictionary, given), settings["beam_size"]
    for document, row in zip(DOCUMENTS, plain):
        source = {"src_tokens": make_batch([document])}
        words = find_batch_candidates(shortlist, source, None, None, special, EOS, beam).words
        assert len(words) < V or beam > 20
        want = summaries(write_only(copy.deepcopy(model), words.tolist()), task, [document], **settings)
        got = summaries(model, task, [document], shortlist, **settings)
        assert_same(possible(got), possible(want))
        changed += tokens_of(got) != tokens_of([row])
    assert changed or beam > 20, "the list leaves nothing out"


def test_the_lists_are_those_of_a_loop():
    task = make_task(tail=30, target_words=30)
    together = {5: [20, 21], 9: [22], 33: [23], PAD: [24], UNK: [25]}
    shortlist = make_shortlist(task, 2, together)
    extra = torch.tensor([[26, 50], [PAD, PAD]])
    found = shortlist.choose_candidates(make_batch([[5, 33, 60], [9]]), 0, extra, always=(27,))
    expected = []
    for document, more in (([5, 33, 60], [26]), ([9], [])):
        own = [word for word in document if word < 30]
        others = [other for word in document for other in together.get(word, [])]
        expected.append(sorted({0, 1, 2, 3, 4, 5, *own, *others, *more, 27}))
    assert [found.words[allowed].tolist() for allowed in found.allowed] == expected
    alone = shortlist.choose_candidates(make_batch([[9]]), 0, always=(27,))
    assert alone.words.tolist() == expected[1] and alone.allowed is None
    assert shortlist.choose_candidates(make_batch([[9]]), 12).words.tolist() == [*range(12), 22]


@pytest.mark.parametrize("family", ["etads, soft", "gru_seq2seq"])
def test_prefixes_and_constraints_are_on_the_list(family):
    model, task = made(family)
    shortlist, options = make_shortlist(task, 1), {"beam_size": 4, "max_len_b": 7}
    prefix = torch.tensor([[40, 39], [38, PAD], [PAD, PAD], [37, EOS], [36, 35]])
    found = summaries(model, task, DOCUMENTS, shortlist, prefix_tokens=prefix, **options)
    for row, words in zip(found, prefix.tolist()):
        wanted = [word for word in words if word != PAD]
        assert row[0]["tokens"][: len(wanted)].tolist() == wanted and row[0]["score"].isfinite()
    free = summaries(model, task, DOCUMENTS, shortlist, **options)
    assert tokens_of(found)[2] == tokens_of(free)[2], "the prefixes of others are not on its list"
    required = pack_constraints([[torch.tensor([41, 40])], [], [torch.tensor([39])], [], []])
    strategy = search.LexicallyConstrainedBeamSearch(task.target_dictionary, "ordered")
    options.update(constraints=required, search_strategy=strategy)
    constrained = summaries(model, task, DOCUMENTS, shortlist, **options)
    assert "41, 40" in str(constrained[0][0]["tokens"].tolist()) and 39 in constrained[2][0]["tokens"]


@pytest.mark.parametrize("arch", ["words_lvt2k", "pg_coverage"])
def test_a_prefix_may_hold_words_that_are_not_on_the_list_of_the_trick(arch):
    task = recurrent_task()
    model, documents = recurrent(arch, task, large_vocabulary_trick=25), [[5, 6, 40], [5, 6, 7], [9, 8]]
    listed = [model.decoder.choose_candidates(make_batch([document])).words for document in documents]
    assert [40 in words for words in listed] == [True, False, False]
    options, prefix = {"beam_size": 3, "max_len_b": 6}, torch.tensor([[40, 3], [6, 40], [PAD, PAD]])
    found = summaries(model, task, documents, prefix_tokens=prefix, **options)
    for row in (0, 1):
        assert found[row][0]["tokens"][:2].tolist() == prefix[row].tolist() and found[row][0]["score"].isfinite()
    said = log_probs(model, make_batch(documents[1:2]), torch.tensor([[EOS, 6]]))[0][0, 1, UNK]
    torch.testing.assert_close(found[1][0]["positional_scores"][1], said, rtol=1e-4, atol=1e-4)
    assert tokens_of(found)[2][0] == tokens_of(summaries(model, task, documents, **options))[2][0]


def test_what_cannot_have_a_shortlist_is_refused():
    task = recurrent_task()
    clusters = make_model("etads_basic", task, adaptive_softmax_cutoff=(20, 30), share_all_embeddings=False)
    allowed = search.PrefixConstrainedBeamSearch(task.target_dictionary, lambda *_: [EOS])
    for message, model, options in (
        ("--large-vocabulary-trick 25", recurrent("words_lvt2k", task), {}),
        ("--shortlist works only with models of this project", scripted_model(task.target_dictionary), {}),
        ("--adaptive-softmax-cutoff", clusters, {}),
        ("prefix_allowed_tokens_fn", make_model("etads", task), {"search_strategy": allowed}),
    ):
        with pytest.raises(ValueError, match=message):
            SummaryGenerator([model], task.target_dictionary, shortlist=make_shortlist(task), **options)
