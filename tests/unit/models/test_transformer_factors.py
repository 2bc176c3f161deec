"""Source factors of Transformers: added vectors, off means plain, padding, gradient, cached decoding, checkpoints."""

import pytest
import torch
from decoding import sharpen
from helpers import EOS, PAD, SMALL, make_batch, make_dictionary, make_model, make_task, model_config

from fairseq_etads.search.generator import SummaryGenerator

DOCUMENTS = [[5, 6, 7, 45, 9, 10], [30], [4, 47, 5, 8, 8], [21, 22, 50, 23]]
NAMES = ("pos", "salience")
OPTIONS = {"source_factors": "salience,pos:3", "share_all_embeddings": False, "pointer": "soft"}


def task_with_factors():
    task = make_task(tail=9)
    task.factor_dictionaries = {name: make_dictionary(words=6) for name in reversed(NAMES)}
    return task


def build(arch="etads", task=None, **options):
    task = task or task_with_factors()
    return task, make_model(arch, task, **{**OPTIONS, **options})


def inputs(documents, seed=0, **options):
    """A batch; the values of a token depend on its document and place alone."""
    tokens = make_batch(documents, **options)
    factors = torch.full((*tokens.shape, 2), PAD)
    for row, document in enumerate(documents):
        values = [[4 + (seed + 3 * len(document) + 2 * k + c) % 6 for c in range(2)] for k in range(len(document))]
        factors[row, tokens[row] != PAD] = torch.tensor([*values, [EOS, EOS]])
    return {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1), "factors": factors}


def encode(model, **options):
    with torch.no_grad():
        return model.encoder(**inputs(**options))["encoder_out"][0].transpose(0, 1)


def test_vectors_are_added_and_projected_where_they_are_narrower():
    _, model = build()
    encoder, batch = model.encoder, inputs(DOCUMENTS)
    assert list(encoder.factors) == ["pos", "salience"] and list(encoder.factor_maps) == ["pos"]
    words, values = encoder.embed_tokens(batch["src_tokens"]), batch["factors"]
    expected = (
        words
        + encoder.factors["pos"].weight[values[:, :, 0]] @ encoder.factor_maps["pos"].weight.T
        + encoder.factors["salience"].weight[values[:, :, 1]]
    )
    torch.testing.assert_close(encoder._embed(batch["src_tokens"], values), expected)
    with_them = model(**batch, prev_output_tokens=torch.full((4, 1), EOS))[0]
    by_hand = encoder(batch["src_tokens"], token_embeddings=expected)
    torch.testing.assert_close(by_hand["encoder_out"][0], encoder(**batch)["encoder_out"][0])
    assert with_them.isfinite().all()


@pytest.mark.parametrize("arch", ["etads", "etads_basic", "aggregation_transformer"])
def test_padding_and_the_other_documents_change_nothing(arch):
    _, model = build(arch)
    alone = [encode(model, documents=[document])[0] for document in DOCUMENTS]
    for options in ({}, {"left": True}, {"width": 20}, {"left": True, "width": 20}):
        tokens = make_batch(DOCUMENTS, **options)
        for row, ids, one in zip(encode(model, documents=DOCUMENTS, **options), tokens, alone):
            torch.testing.assert_close(row[ids.ne(PAD)], one, rtol=0, atol=5e-6)


def test_they_change_the_output_and_get_gradient():
    _, model = build()
    assert not torch.allclose(encode(model, documents=DOCUMENTS), encode(model, documents=DOCUMENTS, seed=1), atol=1e-3)
    model.train()
    previous = torch.tensor([[EOS, 5, 6]]).expand(4, -1)
    model.get_normalized_probs(model(**inputs(DOCUMENTS), prev_output_tokens=previous), True)[:, :, 5].sum().backward()
    parts = [*model.encoder.factors.values(), *model.encoder.factor_maps.values()]
    assert len(parts) == 3 and all(part.weight.grad.abs().sum() > 0 for part in parts)
    assert not model.encoder.factors["pos"].weight.grad[PAD].any(), "padding has no vector"


def test_off_it_is_the_plain_model_and_zero_vectors_are_too():
    task, model = build()
    _, plain = build(task=task, source_factors="none")
    names = {name for name in model.state_dict() if "factor" in name}
    assert set(model.state_dict()) - names == set(plain.state_dict()) and len(names) == 3
    plain.load_state_dict({name: value for name, value in model.state_dict().items() if name not in names})
    with torch.no_grad():
        for table in model.encoder.factors.values():
            table.weight.zero_()
    batch = inputs(DOCUMENTS)
    expected = plain.encoder(batch["src_tokens"], src_lengths=batch["src_lengths"])["encoder_out"][0]
    torch.testing.assert_close(model.encoder(**batch)["encoder_out"][0], expected, rtol=0, atol=0)


def test_the_search_reads_them_and_caches_as_it_computes():
    task, model = build()
    sharpen(model)
    batch = inputs(DOCUMENTS)
    generator = SummaryGenerator([model], task.target_dictionary, beam_size=3, max_len_b=6)
    found = generator.generate([model], {"net_input": batch, "id": torch.arange(4)})
    for row, document in enumerate(found):
        tokens = document[0]["tokens"]
        previous = torch.tensor([[EOS, *tokens[:-1].tolist()]])
        one = {name: value[row : row + 1] for name, value in batch.items()}
        log_probs = model.get_normalized_probs(model(**one, prev_output_tokens=previous), log_probs=True)[0]
        # ids after the known words are the columns of the document's own words
        known = tokens < log_probs.shape[1] - 9
        expected = log_probs.gather(1, tokens[:, None].clamp(max=log_probs.shape[1] - 1))[:, 0]
        torch.testing.assert_close(document[0]["positional_scores"][known], expected[known], rtol=1e-4, atol=1e-4)
    other = generator.generate([model], {"net_input": inputs(DOCUMENTS, seed=1), "id": torch.arange(4)})
    scores = [[float(document[0]["score"]) for document in result] for result in (found, other)]
    assert scores[0] != scores[1]


def test_a_batch_without_them_and_a_checkpoint_with_others_are_refused():
    task, model = build()
    tokens = inputs(DOCUMENTS)["src_tokens"]
    with pytest.raises(ValueError, match=r"reads 2 source factors \(pos, salience\) but the batch has 0"):
        model.encoder(tokens)
    _, fewer = build(task=task, source_factors="pos:3")
    with pytest.raises(ValueError, match=r"source factors pos \(10 values\) but DATA has pos \(10 values\), salience"):
        model.load_state_dict(fewer.state_dict())
    with pytest.raises(ValueError, match='there is no factor "ner"; DATA has salience, pos'):
        build(task=task, source_factors="ner")
    assert model.factors == ("pos", "salience")


def test_the_task_gives_batches_the_factors_of_its_model():
    task = task_with_factors()
    task.build_model(model_config("etads", **{**SMALL, **OPTIONS}))
    assert task.factors.names == ("pos", "salience")
    plain = task_with_factors()
    plain.build_model(model_config("etads", **{**SMALL, **OPTIONS, "source_factors": "none"}))
    assert plain.factors.names == ()
