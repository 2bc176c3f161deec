"""The recurrent family in search: copied words, prefixes, references, copies for inference."""

import pytest
import torch
from decoding import options
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch
from recurrent import inputs, log_probs, recurrent, recurrent_task


@pytest.mark.parametrize("arch", ["words_lvt2k", "pg_coverage"])
def test_a_prefix_may_hold_words_that_are_on_no_list(arch):
    task = recurrent_task()
    model = recurrent(arch, task, large_vocabulary_trick=25)
    documents, prefix = [[5, 6, 7], [40, 8], [9]], torch.tensor([[6, 40], [40, 3], [PAD, PAD]])
    assert [40 in model.decoder.choose_candidates(make_batch([document])).words for document in documents] == [
        False,
        True,
        False,
    ]
    sample = {"id": torch.arange(3), "net_input": inputs(model, make_batch(documents))}
    generator = task.build_generator([model], options())
    found = task.inference_step(generator, [model], sample, prefix_tokens=prefix)
    for row in (0, 1):
        assert found[row][0]["tokens"][:2].tolist() == prefix[row].tolist() and found[row][0]["score"].isfinite()
    before = torch.tensor([[EOS, 6]])
    unknown = log_probs(model, make_batch(documents[:1]), before)[0][0, 1, task.target_dictionary.unk()]
    torch.testing.assert_close(found[0][0]["positional_scores"][1], unknown, rtol=1e-4, atol=1e-4)
    free = task.inference_step(task.build_generator([model], options()), [model], sample)
    assert torch.equal(free[2][0]["tokens"], found[2][0]["tokens"])


def test_constraints_beside_the_trick_are_words_of_the_documents_list(caplog):
    task = recurrent_task()
    model = recurrent("words_lvt2k", task)
    generator = task.build_generator([model], options(constraints="ordered"))
    documents = [[5, 6, 40], [9, 8]]
    listed = [model.decoder.choose_candidates(make_batch([document])).words.tolist() for document in documents]
    assert [40 in words for words in listed] == [True, False]
    sample = {"id": torch.arange(2), "net_input": inputs(model, make_batch(documents))}
    constraints = pack_constraints([[torch.tensor([40])], [torch.tensor([8, 9])]])
    found = task.inference_step(generator, [model], sample, constraints=constraints)
    assert 40 in found[0][0]["tokens"] and "8, 9" in str(found[1][0]["tokens"].tolist())
    task.inference_step(generator, [model], sample, constraints=constraints[:1].expand(2, -1))
    assert '--constraints: the summary of document 2 of the batch cannot contain "w36"' in caplog.text
