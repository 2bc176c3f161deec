"""SummaryGenerator: fairseq's results without its options, a slow search's with them, and nothing else touched."""

import copy
import itertools

import pytest
import reference
import torch
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.sequence_scorer import SequenceScorer
from helpers import EOS, PAD, make_batch, make_dictionary, make_model, make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.layers import beam_state
from fairseq_etads.models.transformer_options import PRESETS
from fairseq_etads.search import beam_search
from fairseq_etads.search.inference import InferenceModel

ARCHS = sorted(PRESETS)
TASK = make_task()
DICTIONARY = TASK.target_dictionary
SETTINGS = [
    {"beam_size": 4, "max_len_b": 14},
    {"beam_size": 1, "max_len_b": 6},
    {"beam_size": 3, "max_len_a": 0.5, "max_len_b": 4, "min_len": 3, "len_penalty": 2.0},
    {"beam_size": 5, "max_len_b": 9, "unk_penalty": 0.5, "temperature": 1.4, "normalize_scores": False},
    {"beam_size": 2, "max_len_b": 9, "tokens_to_suppress": ("w3", "w4"), "unk_penalty": -1.0},
]


def sharpened(arch="etads", seed=1, task=TASK, **options):
    """A random model that is sure of something, and now and then of the end."""
    model = make_model(arch, task, share_all_embeddings=False, **options)
    torch.manual_seed(seed)
    with torch.no_grad():
        model.decoder.output_projection.weight.normal_(std=0.5)
        model.decoder.output_projection.weight[EOS] *= 1.5
    return model


def make_sample(documents, **options):
    tokens = make_batch(documents, **options)
    return {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}, "id": torch.arange(len(tokens))}


def generate(cls, models, sample, options, seed=0, **arguments):
    torch.manual_seed(seed)  # for sampling
    options = {name: value() if name == "search_strategy" else value for name, value in options.items()}
    return cls(models, DICTIONARY, **options).generate(models, sample, **arguments)


def assert_same(got, want, rtol=1e-4, atol=1e-4):
    assert [len(row) for row in got] == [len(row) for row in want]
    for mine, other in zip(itertools.chain(*got), itertools.chain(*want)):
        assert mine["tokens"].tolist() == other["tokens"].tolist()
        for name in ("score", "positional_scores", "attention"):
            torch.testing.assert_close(mine[name], other[name], rtol=rtol, atol=atol)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("arch", ARCHS)
def test_without_options_it_returns_what_fairseq_returns(arch, settings, documents):
    model = sharpened(arch)
    for left in (False, True):
        sample = make_sample(documents, left=left)
        want = generate(SequenceGenerator, [model], sample, settings)
        assert_same(generate(SummaryGenerator, [model], sample, settings), want)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("end", [-2.0, 0.0, 3.0])
def test_scripted_distributions_give_what_fairseq_returns(settings, end, documents):
    for seed in range(3):
        model = scripted_model(DICTIONARY, seed, end=end)
        sample = make_sample(documents)
        want = generate(SequenceGenerator, [model], sample, settings)
        assert_same(generate(SummaryGenerator, [model], sample, settings), want)


STRATEGIES = {
    "sampling": lambda: search.Sampling(DICTIONARY),
    "top-k sampling": lambda: search.Sampling(DICTIONARY, sampling_topk=5),
    "top-p sampling": lambda: search.Sampling(DICTIONARY, sampling_topp=0.8),
    "diverse beams": lambda: search.DiverseBeamSearch(DICTIONARY, 2, 0.5),
    "diverse siblings": lambda: search.DiverseSiblingsSearch(DICTIONARY, 0.5),
    "allowed words": lambda: search.PrefixConstrainedBeamSearch(DICTIONARY, lambda _, sent: [EOS, 5, 6, 7, 8, 9]),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_fairseqs_search_classes_work(name, documents):
    settings = {"beam_size": 4, "max_len_b": 8, "search_strategy": STRATEGIES[name]}
    for model in (sharpened("etads"), scripted_model(DICTIONARY)):
        sample = make_sample(documents)
        want = generate(SequenceGenerator, [model], sample, settings)
        assert_same(generate(SummaryGenerator, [model], sample, settings), want)


def test_diverse_beams_with_numbers_of_documents_beyond_the_batch(documents):
    """fairseq indexes a table of the batch with the documents' numbers in the data."""
    sample = {**make_sample(documents), "id": torch.tensor([90, 14, 3, 70, 11])}
    settings = {"beam_size": 4, "max_len_b": 8, "search_strategy": STRATEGIES["diverse beams"]}
    assert len(generate(SummaryGenerator, [sharpened()], sample, settings)) == 5


def test_length_follows_the_source(documents):
    def strategy():
        return search.LengthConstrainedBeamSearch(DICTIONARY, 1, 0, 1, 0)

    settings = {"beam_size": 3, "match_source_len": True, "search_strategy": strategy, "max_len_b": 40}
    sample = make_sample(documents)
    want = generate(SequenceGenerator, [sharpened()], sample, settings)
    assert_same(generate(SummaryGenerator, [sharpened()], sample, settings), want)


def test_words_to_include(documents):
    from fairseq.token_generation_constraints import pack_constraints

    constraints = pack_constraints([[torch.tensor([6, 7])], [], [torch.tensor([9])], [torch.tensor([5])], []])
    strategy = {"search_strategy": lambda: search.LexicallyConstrainedBeamSearch(DICTIONARY, "ordered")}
    settings = {"beam_size": 4, "max_len_b": 8, **strategy}
    model = scripted_model(DICTIONARY)
    got, want = (
        generate(cls, [model], make_sample(documents), settings, constraints=constraints)
        for cls in (SummaryGenerator, SequenceGenerator)
    )
    assert_same(got, want)
    with pytest.raises(NotImplementedError, match="BeamSearch does not support constraints"):
        generate(SummaryGenerator, [model], make_sample(documents), {}, constraints=constraints)


@pytest.mark.parametrize(
    "prefix",
    [
        [[7, 8], [9, 10], [5, 5], [6, 11], [12, 13]],
        [[7, PAD], [9, 10], [PAD, PAD], [6, 11], [12, 13]],
        [[7, 8], [9, EOS], [5, EOS], [6, 11], [12, EOS]],
    ],
)
def test_prefixes(prefix, documents):
    for model in (sharpened(), scripted_model(DICTIONARY)):
        settings = {"beam_size": 3, "max_len_b": 9}
        prefix_tokens = torch.tensor(prefix)
        got, want = (
            generate(cls, [model], make_sample(documents), settings, prefix_tokens=prefix_tokens)
            for cls in (SummaryGenerator, SequenceGenerator)
        )
        assert_same(got, want)


def test_other_start_and_end_symbols(documents):
    settings = {"beam_size": 3, "max_len_b": 9, "eos": 9}
    got, want = (
        generate(cls, [sharpened()], make_sample(documents), settings, bos_token=11)
        for cls in (SummaryGenerator, SequenceGenerator)
    )
    assert_same(got, want)


def test_ensembles_of_different_architectures(documents):
    models = [sharpened("etads"), sharpened("etads_basic", seed=2), scripted_model(DICTIONARY)]
    settings = {"beam_size": 4, "max_len_b": 9}
    for members in (models, models[:2]):
        want = generate(SequenceGenerator, members, make_sample(documents), settings)
        assert_same(generate(SummaryGenerator, members, make_sample(documents), settings), want)


def test_a_narrower_member_gives_the_rest_no_probability(documents):
    narrow = scripted_model(DICTIONARY)
    narrow.decoder.table = narrow.decoder.table[:, :30]
    wide = scripted_model(DICTIONARY, seed=1)
    sample = make_sample(documents)
    both = generate(SummaryGenerator, [narrow, wide], sample, {"beam_size": 3, "max_len_b": 6})
    filled = copy.deepcopy(narrow)
    filled.decoder.table = torch.nn.functional.pad(narrow.decoder.table, (0, 14), value=-1e9)
    assert_same(both, generate(SummaryGenerator, [filled, wide], sample, {"beam_size": 3, "max_len_b": 6}))
    alone = generate(SummaryGenerator, [narrow], sample, {"beam_size": 43, "max_len_b": 3})
    assert max(max(h["tokens"].tolist()) for row in alone for h in row) < 30
    assert len(alone[0]) == 29, "the distribution is narrower than the dictionary, and with it the beam"


def test_language_model_fusion(documents):
    language_model = sharpened("etads_basic", seed=4)

    class LanguageModel(torch.nn.Module):
        def forward(self, tokens):
            source = torch.full((len(tokens), 1), EOS)
            return language_model(source, torch.ones(len(tokens)), tokens)

        def get_normalized_probs(self, out, log_probs, sample):
            return language_model.get_normalized_probs(out, log_probs, sample)

    settings = {"beam_size": 3, "max_len_b": 7, "lm_model": LanguageModel(), "lm_weight": 0.3}
    want = generate(SequenceGenerator, [sharpened()], make_sample(documents), settings)
    assert_same(generate(SummaryGenerator, [sharpened()], make_sample(documents), settings), want)


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignments(kind, documents):
    settings = {"beam_size": 2, "max_len_b": 7}
    model, sample = sharpened(), make_sample(documents)
    generator = SequenceGeneratorWithAlignment([model], DICTIONARY, print_alignment=kind, **settings)
    want = generator.generate([model], sample)
    got = SummaryGenerator([model], DICTIONARY, print_alignment=kind, **settings).generate([model], sample)
    for mine, other in zip(itertools.chain(*got), itertools.chain(*want)):
        pairs = [[[float(x) for x in pair] for pair in h["alignment"]] for h in (mine, other)]
        torch.testing.assert_close(torch.tensor(pairs[0]), torch.tensor(pairs[1]), rtol=0, atol=1e-4)


def reference_search(model, document, **options):
    """The oracle's search with the model run from the start for every hypothesis."""
    source = make_batch([document])

    def predict(words):
        with torch.no_grad():
            out, extra = model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))
        log_probs = out[0, -1].double().log_softmax(-1)
        return log_probs.tolist(), extra["attn"][0][0, -1].double().tolist()

    return reference.beam_search(predict, eos=EOS, pad=PAD, **options)


@pytest.mark.parametrize("length_kind,alpha", [("avg", 1.0), ("wu", 0.9)])
@pytest.mark.parametrize("coverage_kind", ["summary", "wu"])
@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("arch", ["etads", "scripted"])
def test_penalties_against_the_slow_search(arch, stepwise, coverage_kind, length_kind, alpha, documents):
    model = scripted_model(DICTIONARY, 3, end=1.0) if arch == "scripted" else sharpened(arch)
    beam, longest, weight = 4, 7, 0.4
    got = SummaryGenerator(
        [model], DICTIONARY, beam, max_len_b=longest, min_len=2, len_penalty=alpha,
        coverage_penalty=weight, coverage_penalty_type=coverage_kind, stepwise_coverage_penalty=stepwise,
        length_penalty_type=length_kind, no_repeat_ngram_size=2,
    ).generate(None, make_sample(documents))  # fmt: skip
    for document, row in zip(documents, got):
        want = reference_search(
            model, document, beam=beam, longest=longest, shortest=2, alpha=alpha, length_kind=length_kind,
            weight=weight, coverage_kind=coverage_kind, stepwise=stepwise, block=2,
        )  # fmt: skip
        tokens, log_prob, score = want[0]
        assert row[0]["tokens"].tolist() == tokens
        assert row[0]["score"].item() == pytest.approx(score, abs=2e-4)
        assert row[0]["positional_scores"].sum().item() == pytest.approx(log_prob, abs=2e-4)


@pytest.mark.parametrize("nbest", [1, 3, 5])
@pytest.mark.parametrize("length_kind,alpha", [("avg", 2.0), ("wu", 1.5), ("wu", 0.0), ("avg", -0.5)])
def test_stopping_early_loses_nothing(nbest, length_kind, alpha, documents):
    """A negative penalty for unknown words makes log P grow; the bound must allow for that too."""
    for seed, unk in itertools.product(range(4), (0.0, -0.7)):
        model = scripted_model(DICTIONARY, seed, end=1.5)
        options = {
            "beam_size": 5, "max_len_b": 12, "len_penalty": alpha, "length_penalty_type": length_kind,
            "coverage_penalty": 0.2, "early_stopping": "admissible", "unk_penalty": unk,
        }  # fmt: skip
        sample = make_sample(documents)
        early = SummaryGenerator([model], DICTIONARY, nbest=nbest, **options).generate(None, sample)
        late = SummaryGenerator([model], DICTIONARY, **options)
        late.scoring = copy.copy(late.scoring)
        object.__setattr__(late.scoring, "bound", lambda log_probs, *_: torch.full_like(log_probs, torch.inf))
        want = late.generate(None, sample)
        assert_same([row[:nbest] for row in early], [row[:nbest] for row in want])


def test_stopping_early_stops_early(monkeypatch, documents):
    model = scripted_model(DICTIONARY, end=6.0)
    steps = []
    forward = type(model.decoder).forward
    monkeypatch.setattr(type(model.decoder), "forward", lambda *a, **k: steps.append(1) or forward(*a, **k))
    options = {"beam_size": 3, "max_len_b": 50, "length_penalty_type": "wu"}
    counts = []
    for rule in ("admissible", "fairseq"):
        steps.clear()
        SummaryGenerator([model], DICTIONARY, early_stopping=rule, **options).generate(None, make_sample(documents))
        counts.append(len(steps))
    assert counts[1] <= counts[0] < 51


def test_the_rule_for_stopping_follows_the_score():
    def rule(**options):
        return SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, **options).early_stopping

    assert rule() == rule(len_penalty=2.0, no_repeat_ngram_size=3) == "fairseq"
    assert rule(coverage_penalty=1.0) == rule(length_penalty_type="wu") == "admissible"
    assert rule(coverage_penalty=1.0, early_stopping="fairseq") == "fairseq"
    assert rule(coverage_penalty=1.0, search_strategy=search.Sampling(DICTIONARY)) == "fairseq"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"coverage_penalty": 0.5, "length_penalty_type": "wu", "len_penalty": 0.9, "no_repeat_ngram_size": 3},
        {"coverage_penalty": 0.5, "coverage_penalty_type": "wu", "stepwise_coverage_penalty": True},
    ],
)
@pytest.mark.parametrize("arch", ARCHS)
def test_a_document_is_summarised_the_same_in_any_batch(arch, options, documents):
    model = sharpened(arch)
    generator = SummaryGenerator([model], DICTIONARY, 4, max_len_b=24, **options)
    together = generator.generate(None, make_sample(documents, width=20))
    if not options and arch == "etads":
        assert len({len(row[-1]["tokens"]) for row in together}) > 1, "they should not all leave the batch at once"
    for document, row in zip(documents, together):
        alone = generator.generate(None, make_sample([document]))[0]
        for mine, other in zip(row, alone):
            mine["attention"] = mine["attention"][: len(document) + 1]  # the rest is padding
            assert_same([[mine]], [[other]])


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("arch", ["etads", "scripted"])
def test_blocking_leaves_no_repeats(arch, size, documents):
    model = scripted_model(DICTIONARY, spread=4.0, end=-9.0, clock=0) if arch == "scripted" else make_model(arch, TASK)
    options = {"beam_size": 4, "max_len_b": 30, "min_len": 20}
    plain = generate(SummaryGenerator, [model], make_sample(documents), options)
    blocked = generate(SummaryGenerator, [model], make_sample(documents), {**options, "no_repeat_ngram_size": size})
    assert any(reference.repeats(h["tokens"].tolist(), size) for row in plain for h in row)
    assert not any(reference.repeats(h["tokens"].tolist(), size) for row in blocked for h in row)


def test_ignored_tokens_may_repeat():
    model = make_model("etads_basic", TASK)  # says its last word again and again
    sample = make_sample([[5, 6, 7]])
    options = {"beam_size": 1, "max_len_b": 12, "min_len": 12, "no_repeat_ngram_size": 2}
    word = generate(SummaryGenerator, [model], sample, {"max_len_b": 12, "min_len": 12})[0][0]["tokens"][0]
    words = [DICTIONARY[int(word)]]
    kept = generate(SummaryGenerator, [model], sample, {**options, "ngram_ignore_tokens": words})[0][0]["tokens"]
    assert kept.tolist() == [int(word)] * 12 + [EOS]
    blocked = generate(SummaryGenerator, [model], sample, options)[0][0]["tokens"]
    assert not reference.repeats(blocked.tolist(), 2)


def test_blocking_always_leaves_a_candidate():
    """Three words and no leave to end: at last everything has been said."""
    dictionary = make_dictionary(3)
    model = scripted_model(dictionary, spread=1.0)
    options = {"beam_size": 2, "max_len_b": 15, "min_len": 15, "no_repeat_ngram_size": 1}
    for row in SummaryGenerator([model], dictionary, **options).generate(None, make_sample([[4, 5], [6]])):
        assert len(row[0]["tokens"]) == 16 and torch.isfinite(row[0]["score"])
        assert not reference.repeats(row[0]["tokens"].tolist()[:3], 1)


def test_forced_words_are_not_blocked(documents):
    prefix = torch.tensor([[7, 7, 7, 7]] * 5)
    options = {"beam_size": 3, "max_len_b": 9, "no_repeat_ngram_size": 1}
    for row in generate(SummaryGenerator, [sharpened()], make_sample(documents), options, prefix_tokens=prefix):
        assert row[0]["tokens"][:4].tolist() == [7] * 4 and 7 not in row[0]["tokens"][4:].tolist()


@pytest.mark.parametrize("length", [1, 5, 30])
def test_exact_lengths(length, documents):
    for model in (sharpened(), scripted_model(DICTIONARY, end=4.0)):
        options = {"beam_size": 3, "max_len_b": 3, "exact_length": length}
        for row in generate(SummaryGenerator, [model], make_sample(documents), options):
            assert len(row) == 3
            for hypothesis in row:
                tokens = hypothesis["tokens"].tolist()
                assert len(tokens) == length + 1 and tokens.index(EOS) == length
                assert hypothesis["positional_scores"][-1] == 0


def test_training_is_not_touched(documents):
    """Two steps with a generator built and used between them, and two without: the same parameters, with dropout."""
    sample, previous = make_sample(documents), make_batch([[5, 6], [7], [8, 9], [10], [11]])

    def train(between):
        model = make_model("etads", TASK, dropout=0.3).train()
        optimiser = torch.optim.Adam(model.parameters(), 0.01)
        for step in range(2):
            torch.manual_seed(step)
            out, _ = model(**sample["net_input"], prev_output_tokens=previous)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(out.flatten(0, 1), previous.flatten()).backward()
            optimiser.step()
            between(model)
            assert all(module.training for module in model.modules())
        return [*model.parameters(), *model.buffers()]

    def use(model):
        for infer_dtype in (None, "bf16", "int8"):
            generator = SummaryGenerator([model], DICTIONARY, 3, max_len_b=5, infer_dtype=infer_dtype)
            generator.generate([model], sample)

    for got, want in zip(train(use), train(lambda model: None)):
        torch.testing.assert_close(got, want, rtol=0, atol=0)


def test_models_prepared_for_inference_generate(documents):
    """fairseq's commands replace their train(), which then returns nothing."""
    model = sharpened()
    model.make_generation_fast_()
    settings = {"beam_size": 3, "max_len_b": 8}
    got = generate(SummaryGenerator, [model], make_sample(documents), settings)
    assert_same(got, generate(SequenceGenerator, [sharpened()], make_sample(documents), settings))


def test_models_of_fairseq_keep_their_mode_too(documents):
    model = scripted_model(DICTIONARY).train()
    SummaryGenerator([model], DICTIONARY, 3, max_len_b=5).generate([model], make_sample(documents))
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("infer_dtype", [None, "bf16", "int8"])
def test_a_generator_notices_that_training_went_on(infer_dtype, documents):
    model, sample = sharpened(), make_sample(documents)
    generator = SummaryGenerator([model], DICTIONARY, 3, max_len_b=9, infer_dtype=infer_dtype)
    generator.generate(None, sample)
    with torch.no_grad():
        model.decoder.output_projection.weight.neg_()
    fresh = SummaryGenerator([model], DICTIONARY, 3, max_len_b=9, infer_dtype=infer_dtype)
    assert_same(generator.generate(None, sample), fresh.generate(None, sample), rtol=0, atol=0)
    model.load_state_dict(sharpened(seed=8).state_dict())
    assert_same(generator.generate(None, sample), fresh.generate(None, sample), rtol=0, atol=0)


@pytest.mark.parametrize("infer_dtype,error", [("fp32", 1e-4), ("bf16", 0.15), ("int8", 0.15)])
@pytest.mark.parametrize("arch", ARCHS)
def test_number_formats(arch, infer_dtype, error, documents):
    """The same prefix, so that a narrow decision between two words does not set the formats apart."""
    model = sharpened(arch)
    prefix = torch.randint(4, 40, (5, 8), generator=torch.Generator().manual_seed(0))
    options = {"beam_size": 2, "exact_length": 8}
    want = generate(SequenceGenerator, [model], make_sample(documents), {"beam_size": 2, "max_len_b": 8},
                    prefix_tokens=prefix)  # fmt: skip
    got = generate(
        SummaryGenerator, [model], make_sample(documents), {**options, "infer_dtype": infer_dtype}, prefix_tokens=prefix
    )
    for mine, other in zip(got, want):
        torch.testing.assert_close(
            mine[0]["positional_scores"][:-1], other[0]["positional_scores"][:-1], rtol=error, atol=error
        )
    assert next(model.parameters()).dtype == torch.float32


def test_half_precision_models_generate_in_theirs(documents):
    model = sharpened().to(torch.bfloat16)
    for infer_dtype in (None, "fp32"):
        results = SummaryGenerator([model], DICTIONARY, 3, max_len_b=5, infer_dtype=infer_dtype).generate(
            None, make_sample(documents)
        )
        assert all(torch.isfinite(row[0]["score"]) for row in results)
    assert InferenceModel(model).current().decoder.layers[0].fc1.weight.dtype == torch.bfloat16
    assert InferenceModel(model, "fp32").current().decoder.layers[0].fc1.weight.dtype == torch.float32


def test_without_packed_products_it_works_as_well(monkeypatch, documents):
    monkeypatch.setattr("fairseq_etads.compat.can_pack_weights", lambda dtype: False)
    settings = {"beam_size": 3, "max_len_b": 8}
    want = generate(SequenceGenerator, [sharpened()], make_sample(documents), settings)
    for infer_dtype in (None, "bf16"):
        options = {**settings, "infer_dtype": infer_dtype}
        assert_same(generate(SummaryGenerator, [sharpened()], make_sample(documents), options), want)


def test_documents_are_held_once(monkeypatch, documents):
    """What grows with the source has a row per document, and columns nobody descends from are dropped."""
    sizes, columns = set(), []
    begin = beam_state.BeamState.begin_step

    def watch(state):
        begin(state)
        sizes.update(tensor.size(0) // state.documents for saved in state.memory.values() for tensor in saved.values())
        columns.append(state.visible.size(2))

    monkeypatch.setattr(beam_state.BeamState, "begin_step", watch)
    SummaryGenerator([sharpened()], DICTIONARY, 10, min_len=60, max_len_b=60).generate(None, make_sample(documents))
    assert sizes == {1}
    assert max(columns) < 0.6 * 61 * 10


@pytest.mark.parametrize("seed", range(3))
def test_the_beams_past_is_the_ancestors_past(seed):
    """Keys come back as if they had been copied at every change of places, also when documents leave."""
    generator = torch.Generator().manual_seed(seed)
    state, module, documents = beam_state.BeamState(3, torch.device("cpu")), torch.nn.Identity(), 3
    history = torch.zeros(3, 1, 0, 2)
    for step in range(3 * beam_state.ROOM):
        state.begin_step()
        new = torch.randn(documents, 1, state.beam, 2, generator=generator)
        keys, _ = state.remember(module, new, new)
        history = torch.cat([history, new.transpose(1, 2)], dim=2)
        for document in range(documents):
            for beam in range(state.beam):
                seen = keys[document, 0, state.visible[document, beam]]
                assert sorted(seen.tolist()) == sorted(history[document, beam].tolist())
        stay = torch.tensor([0, 2]) if step == 10 else None
        documents = 2 if step >= 10 else 3
        parents = torch.randint(0, state.beam, (documents, 4), generator=generator)
        history = history if stay is None else history[stay]
        history = history.gather(1, parents[:, :, None, None].expand(-1, -1, *history.shape[2:]))
        state.reorder(parents, stay)


def test_the_best_of_a_wide_distribution():
    x = torch.randn(3, 4, 5003).round(decimals=3)
    offset = torch.randn(3, 4, 1)
    values, index = beam_search.top_values(x, 20, offset)
    want = (x + offset).flatten(1).topk(20).values
    torch.testing.assert_close(values, want, rtol=0, atol=0)
    torch.testing.assert_close((x + offset).flatten(1).gather(1, index), want, rtol=0, atol=0)
    x[0] = -torch.inf
    x[0, 2, 5001] = 1.0
    assert beam_search.top_values(x, 20, offset)[1][0, 0] == 2 * 5003 + 5001


def test_extreme_inputs():
    for model in (sharpened(), scripted_model(DICTIONARY)):
        for options in (
            {"beam_size": 1, "max_len_b": 1},
            {"beam_size": 500, "max_len_b": 2},
            {"beam_size": 3, "max_len_b": 0, "min_len": 0},
            {"beam_size": 3, "max_len_b": 1, "coverage_penalty": 1.0, "no_repeat_ngram_size": 1, "nbest": 9},
        ):
            for documents in ([[5]], [[]], [[5], list(range(4, 40))]):
                results = generate(SummaryGenerator, [model], make_sample(documents), options)
                assert len(results) == len(documents) and all(results)
                assert all(h["tokens"][-1] == EOS for row in results for h in row)


def test_a_model_without_an_answer_still_gives_one(documents):
    model = scripted_model(DICTIONARY)
    model.decoder.table[:] = float("nan")
    for options in ({"max_len_b": 4}, {"max_len_b": 4, "beam_size": 3, "coverage_penalty": 1.0}):
        results = generate(SummaryGenerator, [model], make_sample(documents), options)
        assert all(len(row) == 1 and row[0]["score"] == -torch.inf for row in results)


def test_a_few_impossible_words_do_no_harm(documents):
    model = scripted_model(DICTIONARY)
    model.decoder.table[::3, 7:20] = -torch.inf
    settings = {"beam_size": 4, "max_len_b": 8}
    want = generate(SequenceGenerator, [model], make_sample(documents), settings)
    assert_same(generate(SummaryGenerator, [model], make_sample(documents), settings), want)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"early_stopping": "soon"}, r'--early-stopping "soon": choose admissible or fairseq'),
        ({"beam_size": 0}, "--beam 0"),
        ({"temperature": 0.0}, "--temperature 0.0"),
        ({"no_repeat_ngram_size": -1}, "--no-repeat-ngram-size -1"),
        ({"no_repeat_ngram_size": 2, "ngram_ignore_tokens": ["nowhere"]}, r'--ngram-ignore-tokens "nowhere"'),
        ({"exact_length": 101}, r"--exact-length 101: choose 0 \(off\) to 100"),
        ({"infer_dtype": "fp8"}, r'--infer-dtype "fp8": choose fp32, bf16, int8'),
        ({"print_alignment": "firm"}, r'--print-alignment "firm": choose hard or soft'),
        (
            {"coverage_penalty": 1.0, "stepwise_coverage_penalty": True,
             "search_strategy": search.Sampling(DICTIONARY)},
            "--stepwise-coverage-penalty goes with beam search only, not with Sampling",
        ),
    ],
)  # fmt: skip
def test_bad_options_are_refused_in_words(options, message):
    with pytest.raises(ValueError, match=message):
        SummaryGenerator([sharpened()], DICTIONARY, **options)


def test_options_that_do_not_fit_the_batch_are_refused_in_words(documents):
    with pytest.raises(ValueError, match="--min-len 9 is more than the longest summary allowed here, 4"):
        generate(SummaryGenerator, [sharpened()], make_sample(documents), {"min_len": 9, "max_len_b": 4})
    with pytest.raises(ValueError, match="--infer-dtype bf16: only models of this project"):
        SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, infer_dtype="bf16")
    with pytest.raises(ValueError, match="--coverage-penalty: the model returns no attention"):
        model = scripted_model(DICTIONARY)
        forward = model.decoder.forward
        model.decoder.forward = lambda *a, **k: (forward(*a, **k)[0], {"attn": [None]})
        generate(SummaryGenerator, [model], make_sample(documents), {"coverage_penalty": 1.0})


class Options:
    """What fairseq's commands hand to build_generator, in part."""

    beam, nbest, score_reference, print_alignment = 3, 2, False, None


def test_the_task_builds_it():
    task = make_task(coverage_penalty=1.0, length_penalty_type="wu", ngram_ignore_tokens="w1 w2", infer_dtype="bf16")
    args = Options()
    args.no_repeat_ngram_size, args.lenpen = 3, 0.9
    generator = task.build_generator([sharpened()], args, extra_gen_cls_kwargs={"lm_model": None, "lm_weight": 1.0})
    assert isinstance(generator, SummaryGenerator)
    assert generator.scoring.describe() == "log P / ((5+|Y|)/6)^0.9 - 1 x summary coverage, at the end"
    assert generator.nbest == 2 and generator.blocker.ignore == [5, 6] and generator.beam_size == 3
    assert not generator.keep_attention
    assert isinstance(task.build_generator([sharpened()], args, seq_gen_cls=SequenceGenerator), SequenceGenerator)
    args.score_reference = True
    assert isinstance(task.build_generator([sharpened()], args), SequenceScorer)
