"""Source factors of Transformers: added vectors, off means plain, checkpoints."""

import pytest
import torch
from helpers import EOS, PAD, SMALL, make_batch, make_dictionary, make_model, make_task, model_config

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
