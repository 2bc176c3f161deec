"""Summaries in validation: references, sums of ROUGE, samples in the log, a generator that ends with its model."""

import re
from argparse import Namespace

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.data import encoders
from fairseq.logging import metrics
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from helpers import make_model, make_task
from selection_data import dictionary_of

from fairseq_etads.data.pairs import SummarizationDataset
from fairseq_etads.evaluation.rouge import METRICS
from fairseq_etads.training.validation import ValidationSummarizer
from fairseq_etads.vocabulary.dictionary import detect_subword_type, detect_word_type


def rouge_task(**options):
    return make_task(eval_rouge=True, truncate_target=6, **options)


def make_data(task, target=None, **options):
    """Documents of 3 to 7 words and summaries of 5 to 9, which are also returned; or with the given summaries."""
    source, summaries = (
        [torch.tensor([*torch.randint(4, 40, (length,)), 2]) for length in range(least, least + 5)] for least in (3, 5)
    )
    target = target or summaries
    sides = [(texts, list(map(len, texts)), task.src_dict) for texts in (source, target)]
    return SummarizationDataset(*sides[0], *sides[1], truncate_source=9, truncate_target=6, **options), target


@pytest.mark.parametrize(
    "words, subwords, kind",
    [
        (["a", "n't", "b@@"], "subword_nmt", "ptb"),
        (["中", "n't"], "none", "characters"),
        (["▁中", "a"], "sentencepiece", "raw"),
        (["中", *"abcdef@"], "none", "moses"),
    ],
)
def test_the_words_of_a_dictionary_say_how_they_were_cut_and_become_text(words, subwords, kind):
    dictionary = dictionary_of(words)
    assert (detect_subword_type(dictionary), detect_word_type(dictionary, subwords)) == (subwords, kind)


def test_unknown_words_of_summary_and_reference_never_match():
    task = rouge_task()
    unknown = torch.tensor([task.tgt_dict.unk(), task.tgt_dict.eos(), task.tgt_dict.pad()])
    assert task._summaries.decode(unknown, "hypothesis") != task._summaries.decode(unknown, "reference")


def test_batches_carry_whole_references_of_the_first_documents_only():
    task = rouge_task(eval_rouge_samples=2)
    data, target = make_data(task, references=2)
    batch = data.collater([data[number] for number in (4, 1, 0)])
    found = dict(zip(batch["id"].tolist(), batch["references"]))
    assert found[4] is None
    assert torch.equal(found[1], target[1]) and torch.equal(found[0], target[0])
    assert len(target[0]) == 6 and len(target[1]) == 7  # 5 and 6 words: longer than targets would be without the end
    assert data.collater([]) == {}


def scored(task, model, data, batches):
    return [task._summaries.score(data.collater([data[number] for number in batch]), model) for batch in batches]


def mean_of(*outputs):
    """What is logged after some steps of one or more workers."""
    with metrics.aggregate(new_root=True) as aggregator:
        for output in outputs:
            ValidationSummarizer.reduce_metrics(output)
    return aggregator.get_smoothed_values()


def test_sums_do_not_depend_on_batches_and_count_the_first_documents():
    task = rouge_task(eval_rouge_samples=4, eval_rouge_args='{"beam": 2}')
    model = make_model(task=task)
    data, _ = make_data(task, references=4)
    written = task._summaries._generate_summaries(data.collater([data[number] for number in range(5)]), model, range(5))
    data, _ = make_data(task, references=4, target=[tokens[number % 3 :] for number, tokens in enumerate(written)])
    (whole,) = scored(task, model, data, [[0, 1, 2, 3, 4]])
    parts = scored(task, model, data, [[4], [3, 0], [2, 4, 1]])
    assert [part["_rouge_documents"] for part in parts] == [0, 2, 2]
    assert whole["_rouge_documents"] == 4 and whole["_rouge1"] > 0
    for name, value in whole.items():
        assert sum(part[name] for part in parts) == pytest.approx(value)
    means = mean_of([whole])
    assert means == mean_of(parts[:2], parts[2:]) == mean_of(*([part] for part in parts))
    assert set(means) == set(METRICS), "names with an underscore are not shown"
    assert means["rouge1"] == pytest.approx(whole["_rouge1"] / 4, abs=1e-4)
    assert mean_of([dict.fromkeys(whole, 0.0)]) == dict.fromkeys(METRICS, 0), "a validation without documents"


def test_after_a_training_step_the_summaries_are_those_of_the_trained_model():
    """With int8, a cached generator would not notice the change: its copy of the model has its own numbers, and
    fairseq's Adam does not raise version counters.
    """
    options = {"eval_rouge_args": '{"beam": 1}', "infer_dtype": "int8"}
    task = rouge_task(**options)
    model, criterion = make_model(task=task), CrossEntropyCriterion(task, sentence_avg=False)
    adam = FairseqAdamConfig(adam_betas="(0.9, 0.98)", lr=[0.05], use_old_adam=True, tpu=False)
    optimizer = FairseqAdam(adam, list(model.parameters()))
    data, _ = make_data(task, references=5)
    batch = data.collater([data[number] for number in range(5)])

    def written(task):
        return [tokens.tolist() for tokens in task._summaries._generate_summaries(batch, model, range(5))]

    task.valid_step(batch, model, criterion)
    assert task._summaries._generator is not None
    before = written(task)
    task.train_step(batch, model, criterion, optimizer, update_num=1)
    assert task._summaries._generator is None  # its copies would take memory all through training
    optimizer.step()
    task.valid_step(batch, model, criterion)
    assert written(task) == written(rouge_task(**options)) != before


def test_sampling_leaves_the_random_stream_as_it_was():
    task = rouge_task(eval_rouge_args='{"sampling": true, "beam": 1}')
    model = make_model(task=task)
    data, _ = make_data(task, references=5)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    scored(task, model, data, [[0, 1, 2, 3]])
    assert torch.equal(torch.rand(3), expected)


def logged(caplog):
    """The samples in the log: number of the document -> "document", "summary" or "reference" -> its text."""
    found = {}
    for number, side, text in re.findall(r"validation sample (\d+) (\w+): *(.*)", "\n".join(caplog.messages)):
        found.setdefault(int(number), {})[side] = text
    caplog.clear()
    return found


def test_samples_are_the_summaries_of_the_same_search(caplog):
    task = rouge_task(validation_samples=2, eval_rouge_samples=4, eval_rouge_args='{"beam": 2, "min_len": 3}')
    data, target = make_data(task, references=task._summaries.documents)
    model = make_model(task=task)
    whole = scored(task, model, data, [[4, 1, 0, 2]])[0]
    found = logged(caplog)
    assert sorted(found) == [0, 1] and whole["_rouge_documents"] == 3
    for number, texts in found.items():
        sample = data.collater([data[number]])
        (summary,) = task._summaries._generate_summaries(sample, model, [0])
        ids = {"document": data[number]["source"], "summary": summary, "reference": target[number]}
        assert texts == {name: task.tgt_dict.string(tokens) for name, tokens in ids.items()}


def test_samples_are_text(caplog):
    """Subwords are joined, punctuation is put back, and the unknown word is shown as it is."""
    task = make_task(tail=3)
    for word in ("it@@", "self", "ca", "n't", "(", ")", "-lrb-", "-rrb-", ",", ".", "<q>"):
        task.tgt_dict.add_symbol(word)
    for kind, brackets in (("ptb", "-lrb- {} -rrb-"), ("moses", "( {} )")):
        words = f"w1 , it@@ self ca n't <unk> {brackets.format('rare1')} . <q> w2"
        task.cfg.validation_samples, task.cfg.eval_rouge_post_process = 1, "subword_nmt"
        summaries = ValidationSummarizer(task, task.cfg)
        summaries._sample_detokenizer = encoders.build_tokenizer(Namespace(tokenizer="etads", text_words=kind))
        tokens = torch.tensor([task.tgt_dict.index(word) for word in words.split()] + [task.tgt_dict.eos()])
        summaries._log_sample(0, tokens.repeat(40), tokens, tokens)
        found = logged(caplog)[0]
        apart = "can't" if kind == "ptb" else "ca n't"
        assert found["summary"] == found["reference"] == f"w1, itself {apart} <unk> (rare1). <q> w2"
        assert len(found["document"]) == 201 and found["document"].endswith("…")
