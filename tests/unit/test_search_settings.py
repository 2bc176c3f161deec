"""The options of decoding: declared once, refused in words, and given by the task."""

import pytest
from decoding import DICTIONARY, generate, make_sample, sharpened
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer
from helpers import make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator


@pytest.mark.parametrize(
    "options,message",
    [
        ({"early_stopping": "soon"}, r'--early-stopping "soon": choose admissible or fairseq'),
        ({"beam_size": 0}, "--beam 0"),
        ({"temperature": 0.0}, "--temperature 0.0"),
        ({"no_repeat_ngram_size": -1}, "--no-repeat-ngram-size -1"),
        ({"no_repeat_ngram_size": 2, "ngram_ignore_tokens": ["nowhere"]}, r'--ngram-ignore-tokens "nowhere"'),
        ({"exact_length": 101}, r"--exact-length 101: choose 0 \(off\) to 100"),
        ({"infer_dtype": "fp8"}, r'--infer-dtype "fp8": choose fp32, bf16 or int8'),
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
    settings = generator.settings
    assert settings.scoring.describe() == "log P / ((5+|Y|)/6)^0.9 - 1 x summary coverage, at the end"
    assert settings.nbest == 2 and settings.no_repeat_ngram_size == 3 and settings.beam_size == 3
    assert generator.special.may_repeat == (5, 6)
    assert not settings.keep_attention
    assert isinstance(task.build_generator([sharpened()], args, seq_gen_cls=SequenceGenerator), SequenceGenerator)
    args.score_reference = True
    assert isinstance(task.build_generator([sharpened()], args), SequenceScorer)
