"""Copying through beam search: extended ids inside, words outside, also in another process."""

import copy
import multiprocessing

import pytest
import torch
from decoding import make_sample, options, sharpened
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch, make_model, make_task

TAIL = 30


def summarise(task, model, documents, prefix=None, phrases=None, **changes):
    generator = task.build_generator([model], options(**changes))
    sample = make_sample(documents)
    return task.inference_step(generator, [model], sample, prefix_tokens=prefix, constraints=phrases)


def words(hypotheses):
    return [hypothesis[0]["tokens"].tolist() for hypothesis in hypotheses]


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_prefixes_may_hold_words_that_are_copied_or_that_nobody_knows(pointer):
    task = make_task(tail=TAIL)
    prefix = torch.tensor([[50, 49], [71, 3], [3, 47]])
    model = make_model("etads", task, pointer=pointer)
    found = words(summarise(task, model, [[5, 50, 6], [70, 71], [5, 6]], prefix))
    unknown = 3
    expected = [[50, unknown], [71, unknown], [unknown, unknown]] if pointer == "soft" else [[unknown] * 2] * 3
    assert [summary[:2] for summary in found] == expected


def test_constraints_may_hold_copied_words():
    task = make_task(tail=TAIL)
    model = make_model("etads", task, pointer="soft")
    constraints = pack_constraints([[torch.tensor([71])], [torch.tensor([6, 50])]])
    documents, search = [[5, 70, 71], [5, 50, 6]], {"constraints": "ordered", "beam": 4, "max_len_b": 8}
    first, second = words(summarise(task, model, documents, phrases=constraints, **search))
    assert 71 in first and (6, 50) in zip(second, second[1:])


def test_the_dictionary_may_grow_after_the_model_was_built():
    """The dictionary grows in interactive use, and when fairseq encodes its own output, also without a copy tail."""
    for pointer in ("none", "soft"):
        task = make_task()
        model = make_model("etads", task, pointer=pointer)
        before = words(summarise(task, model, [[5, 6, 7]]))
        new = task.src_dict.add_symbol("new", n=0)
        assert words(summarise(task, model, [[5, 6, 7]])) == before
        assert max(words(summarise(task, model, [[5, new, 7, new]]))[0]) <= new


@pytest.mark.parametrize("alignment", [None, "hard"])
@pytest.mark.parametrize("order", [1, -1])
def test_references_are_scored_by_models_with_and_without_a_pointer_together(order, alignment):
    """Models without a pointer give copied words no probability, as in search."""
    task = make_task(tail=TAIL)
    models = [make_model("etads", task, pointer="soft"), make_model("etads", task)][::order]
    scorer = task.build_generator(models, options(score_reference=True, print_alignment=alignment))
    target = make_batch([[50, 5], [9, 47], []])
    previous = target.roll(1, 1)
    previous[:, 0] = EOS
    sample = make_sample([[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], []])
    net_input = {**sample["net_input"], "prev_output_tokens": previous}
    scored = task.inference_step(scorer, models, {**sample, "net_input": net_input, "target": target})
    vocabulary = models[0 if order == 1 else 1].decoder.make_output_vocabulary(net_input["src_tokens"])
    extended, total = vocabulary.convert_to_extended_ids(target), 0.0
    for model in models:
        probs = model.get_normalized_probs(model(**net_input), log_probs=False)
        total = total + torch.nn.functional.pad(probs, (0, 9)).gather(2, extended[:, :, None])[:, :, 0]
    for row, found in enumerate(scored):
        kept = target[row].ne(PAD)
        torch.testing.assert_close(found[0]["positional_scores"], (total / 2).log()[row, kept], rtol=1e-4, atol=1e-4)
        assert (found[0]["alignment"] is None) == (alignment is None)


def decode(task, generator):
    """Tokens and scores of some documents."""
    found = task.inference_step(generator, generator.models, make_sample([[5, 6, 7, 50], [], [51, 10, 52, 11, 50]]))
    return [[(h["tokens"].tolist(), h["score"].item()) for h in row] for row in found]


def test_tasks_models_generators_and_settings_go_through_a_process_that_is_spawned():
    task = make_task(tail=TAIL, coverage_penalty=0.3)
    model = sharpened(task=task, pointer="switch")
    model.make_generation_fast_()  # as in fairseq's commands
    generator = task.build_generator([model], options(nbest=2), extra_gen_cls_kwargs={"infer_dtype": "int8"})
    here = decode(task, generator)  # which packs the weights
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there, settings = pool.starmap(decode, [(task, generator)]), pool.map(copy.copy, [generator.options])
    assert there == [here] and settings == [generator.options]
