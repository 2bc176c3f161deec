"""Summaries of raw text from a model folder: the run's own, in order, with their origins; options, threads, pickles."""

import itertools
import sys
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from folders import DECODING, make_folder, subword_text
from helpers import make_dictionary, make_task
from omegaconf import OmegaConf
from recurrent import recurrent_task

from fairseq_etads import CopiedWord, Summarizer, Summary, Truncation
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search import inference
from fairseq_etads.search.options import combine_options
from fairseq_etads.summarizer.documents import Document, make_batches
from fairseq_etads.summarizer.records import RecordSummarizer
from fairseq_etads.training.task import SummarizationTask

TEXTS = [
    "w1 w2 New w3 new other w9",
    "",
    "W5 w6 w7 Zebra yak w20 w21 w22 w23 w5 w6 w7",
    "only unknown words here",
    "w9",
    " \t\n\0 ",
    " ".join(f"w{number % 40} x{number}" for number in range(50)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0]


@pytest.fixture(scope="module")
def summarizer(folder):
    return Summarizer.load(folder, device="cpu")


def tokens(summaries):
    return [list(summary.tokens) for summary in summaries]


def by_fairseq(run, texts, **decoding):
    """Output of fairseq-interactive, one document after another: the tokens of each summary."""
    checkpoint = str(run / "checkpoints" / "checkpoint_best.pt")
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [checkpoint], {"data": str(run / "prepared" / "bin")}
    )
    args = OmegaConf.structured(FairseqConfig).generation
    for name, value in decoding.items():
        setattr(args, name, value)
    generator = task.build_generator([model], args)
    found = []
    for text in texts:
        ids = task.source_dictionary.encode_line(text.lower(), add_if_not_exist=False).long()
        dataset = task.build_dataset_for_inference([ids], [len(ids)])
        (hypotheses,) = task.inference_step(generator, [model], dataset.collater([dataset[0]]))
        found.append(task.target_dictionary.string(hypotheses[0]["tokens"]).split())
    return found


@pytest.mark.parametrize(
    "run",
    [
        {"pointer": "soft"},
        {"pointer": "switch", "target_words": 30, "pointer_continue": True},
        {"arch": "pg_coverage"},
        {"arch": "unified_summarizer", "paper_init": False, "mark": True},
        {"arch": "gru_seq2seq", "large_vocabulary_trick": 25, "pointer": "soft", "share_all_embeddings": True},
    ],
    ids=lambda run: "-".join(map(str, run.values())),
)
def test_summaries_are_those_of_the_run(run, tmp_path):
    folder, _ = make_folder(tmp_path, **run)
    summarizer = Summarizer.load(folder, "cpu")
    texts = [text.replace("\0", " ") for text in TEXTS]
    want = by_fairseq(tmp_path / "run", texts, beam=3, max_len_b=9, no_repeat_ngram_size=2)
    found = summarizer.summarize(texts)
    assert tokens(found) == want
    want = by_fairseq(tmp_path / "run", texts, beam=2, max_len_b=5, lenpen=0.5)
    assert tokens(summarizer.summarize(texts, beam=2, max_len=5, lenpen=0.5, no_repeat_ngram_size=0)) == want
    assert any(summary.copied for summary in found)


def test_a_text_gives_a_summary_and_several_a_list(summarizer):
    one = summarizer.summarize(TEXTS[0])
    assert isinstance(one, Summary) and one.score < 0 and one.problem == ""
    several = summarizer.summarize(text for text in TEXTS)
    assert several[0].tokens == one.tokens and several[6].truncation == Truncation(read=60, left_out=40)
    for text in ("", " \t\n\0 ", "\u200b", "<q>"):
        assert summarizer.summarize(text) == Summary("", 0.0, (), (), Truncation(0, 0)), "it has no words"


def test_the_order_is_that_of_the_texts_whatever_the_batches(summarizer):
    alone = [summarizer.summarize(text).tokens for text in TEXTS]
    for options in ({}, {"max_tokens": 1}, {"max_tokens": 30}):
        assert [summary.tokens for summary in summarizer.summarize(TEXTS, **options)] == alone
    for read_ahead in (1, 2, 5, 100):
        assert [summary.tokens for summary in summarizer.stream(TEXTS, read_ahead=read_ahead)] == alone


def test_batches_hold_neighbours_in_length_and_no_more_than_allowed():
    lengths = [5, 900, 1, 7, 7, 3, 60]
    documents = [Document(number, "", ("w",) * length, 0) for number, length in enumerate(lengths)]
    found = list(make_batches(documents, 20))
    assert [[len(document.tokens) for document in batch] for batch in found] == [[1, 3, 5], [7, 7], [60], [900]]
    assert sorted(document.number for batch in found for document in batch) == list(range(7))


def test_a_stream_reads_no_further_ahead_than_it_says(summarizer):
    """Therefore memory is constant, and the input may be endless."""
    taken = 0

    def endless():
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield f"w{number % 9} word{number}"

    stream = summarizer.stream(endless(), read_ahead=8, beam=1, max_len=2)
    for number, summary in zip(range(30), stream):
        assert summary.tokens and number < taken <= number + 9
    assert len(summarizer._texts.source) == 44, "the dictionary would grow by every new word"


def test_a_shorter_summary_needs_no_other_least_length():
    assert combine_options({**DECODING, "min_len": 4}, {"max_len": 2}).min_len <= 2
    with pytest.raises(InputError, match="--min-len 4"):
        combine_options(DECODING, {"min_len": 4, "max_len": 2})


def test_a_short_document_limits_its_own_summary_only(summarizer):
    """The first has fewer words than the least length, and the longest summary of the second is below it."""
    for text, other, lengths, longest in (
        ("w1", TEXTS[0], {"min_len": 5, "max_len": 9}, 1),
        ("w1 w2 w3", TEXTS[2], {"min_len": 6, "max_len": 2, "max_len_a": 0.5}, 4),
    ):
        together = summarizer.summarize([text, other], **lengths)
        assert tokens(together) == [list(summarizer.summarize(one, **lengths).tokens) for one in (text, other)]
        assert 0 < len(together[0].tokens) <= longest and len(together[1].tokens) >= lengths["min_len"]


@pytest.mark.parametrize("left", [False, True])
def test_copied_words_have_their_place_in_the_raw_text(left, tmp_path):
    folder, _ = make_folder(tmp_path, pointer="soft", task=make_task(60, 20, tail=3, left_pad_source=left))
    text = "Zebra  cafe\u0301\r\n“W5” 😀 YAK"
    summary, _ = Summarizer.load(folder, "cpu").summarize([text, TEXTS[6]], min_len=4)  # padded
    assert summary.copied
    for copied in summary.copied:
        assert summary.tokens[copied.first : copied.last + 1] == (copied.word,)
        assert unicodedata.normalize("NFC", text[copied.start : copied.end]).lower() == copied.word


def test_subwords_that_were_copied_together_are_one_word(tmp_path):
    summarizer = Summarizer.load(make_folder(tmp_path, text=subword_text(tmp_path), pointer="soft")[0])
    zebra = ["z@@", "e@@", "b@@", "r@@", "a"]
    document = summarizer._texts.tokenize_document(0, "Zebra w11 w1")
    assert document.tokens == (*zebra, "w1@@", "1", "w1")
    copied = summarizer._find_copied_words(document, [*zebra, "x", "1", "w1"], [0, 1, 2, 3, 4, -1, 6, 7])
    assert copied == (CopiedWord("zebra", 0, 4, 0, 5), CopiedWord("1", 6, 6, 8, 9), CopiedWord("w1", 7, 7, 10, 12))
    apart = summarizer._find_copied_words(document, zebra[:4], [0, 1, 6, 3])
    assert [copied.word for copied in apart] == ["ze", "b", "r"], '"b" comes from another place'
    explained = summarizer.explain("Zebra", summary="zeb w1").tokens
    assert [token.text for token in explained] == ["z@@", "e@@", "b", "w1", "</s>"]
    assert [token.shown for token in explained] == ["z", "e", "b", "w1", ""]
    assert [token.starts_word for token in explained] == [True, False, False, True, True]
    assert explained[0].copied_from == 0 and explained[2].replaces_unknown, '"b" is another token than "b@@"'


def test_unknown_words_can_be_replaced(tmp_path):
    text = TEXTS[0]
    summarizer = Summarizer.load(make_folder(tmp_path, arch="etads_basic")[0], "cpu")
    decoding = {"beam": 2, "max_len": 5, "unkpen": -30.0, "no_repeat_ngram_size": 0}
    plain = summarizer.summarize(text, **decoding)
    replaced = summarizer.summarize(text, **decoding, replace_unknown=np.bool_(True))
    assert [list(plain.tokens)] == by_fairseq(tmp_path / "run", [text], beam=2, max_len_b=5, unkpen=-30.0)
    unknown = [place for place, token in enumerate(plain.tokens) if token == "<unk>"]
    assert unknown and not plain.copied and "<unk>" not in replaced.tokens
    assert [copied.first for copied in replaced.copied] == unknown
    assert all(text[copied.start : copied.end].lower() == copied.word for copied in replaced.copied)
    explained = replaced.explain()
    assert [place for place, token in enumerate(explained.tokens) if token.replaces_unknown] == unknown
    assert plain.explain().log_probability == explained.log_probability


def test_other_things_than_texts_and_wrong_options_are_refused(summarizer):
    def texts():
        raise AssertionError("read")
        yield

    for name in ("beam", "max_tokens"):
        with pytest.raises(InputError, match=name.replace("_", "-")):
            summarizer.stream(texts(), **{name: 0})
    with pytest.raises(InputError, match="choose raise or keep"):
        summarizer.stream(texts(), errors="ignore")
    with pytest.raises(TypeError, match="for a single text"):
        summarizer.stream("w1 w2")
    with pytest.raises(TypeError, match=r"text number 1 \(from 0\) is of type"):
        summarizer.summarize(["w1", 3])


def test_a_summary_vocabulary_can_be_larger_than_that_of_documents(tmp_path):
    """Ids of summaries above the size of the other dictionary are known words, not new words of the document."""
    task = SummarizationTask(make_task(60, 20).cfg, make_dictionary(12), make_dictionary(40))
    folder, _ = make_folder(tmp_path, arch="etads_basic", task=task, share_all_embeddings=False)
    found = Summarizer.load(folder, "cpu")
    for text in ("w1 w2 w3 w4 w5", "w1 w2 " + " ".join(f"new{number}" for number in range(60))):
        summary = found.summarize(text, min_len=5)
        assert len(summary.tokens) >= 5 and all(token in task.target_dictionary.indices for token in summary.tokens)
        elsewhere, new = (found.explain(text, summary=f"w30 {word}").tokens[1] for word in ("elsewhere", "new3"))
        assert elsewhere.log_probability == new.log_probability, "both are unknown words of the summary"


def test_an_error_of_one_document_can_be_kept(summarizer, monkeypatch):
    """If an error breaks a batch, its other documents are summarised one by one."""
    plain = summarizer._texts.make_batch

    def fails(documents, selection=None):
        if any("bad" in document.text for document in documents):
            raise RuntimeError("out of\nmemory")
        return plain(documents)

    monkeypatch.setattr(summarizer._texts, "make_batch", fails)
    first, bad, other, last = summarizer.stream(["w1 w2", "w3 bad", 7, "w4 w5"], errors="keep")
    assert (first.problem, bad.problem, bad.text) == ("", "out of memory", "")
    assert "text number 2 (from 0) is of type int" in other.problem and other.text == ""
    assert tokens([first, last]) == tokens(summarizer.summarize(["w1 w2", "w4 w5"]))
    with pytest.raises(RuntimeError):
        list(summarizer.stream(["w1 w2", "w3 bad"]))


def test_weights_are_packed_once_for_all_calls(folder, monkeypatch):
    made = []
    plain = inference._make_inference_copy
    monkeypatch.setattr(inference, "_make_inference_copy", lambda *given: made.append(given[1]) or plain(*given))
    summarizer = Summarizer.load(folder)
    for options in ({}, {}, {"beam": 1}, {"infer_dtype": "int8"}, {"infer_dtype": "int8", "beam": 1}):
        summarizer.summarize(TEXTS[0], **options)
    assert made == [None, "int8"]
    for number in range(40):
        summarizer.summarize("w1", beam=1, max_len=1, lenpen=number)
    assert len(summarizer._searches) <= 16


def test_threads_share_a_summarizer(folder):
    texts = [f"w{a} New{a} w{a + 3} other w{a * 7 % 40}" for a in range(16)]

    def summarise(summarizer, n):
        return summarizer.summarize(texts[n], beam=1 + n % 3), summarizer.explain(texts[n]) if n % 4 == 0 else None

    summarizer, fresh = Summarizer.load(folder, "cpu"), Summarizer.load(folder, "cpu")
    alone = [summarise(summarizer, n) for n in range(16)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        started = threading.Barrier(8)
        with ThreadPoolExecutor(8, initializer=started.wait) as pool:
            assert list(pool.map(lambda n: summarise(fresh, n), range(16))) == alone
    finally:
        sys.setswitchinterval(interval)


def test_models_with_source_factors_are_refused(tmp_path):
    task = recurrent_task(truncate_source=60, truncate_target=20)
    task.factor_dictionaries = {"tf": make_dictionary(words=6)}
    data = tmp_path / "run" / "prepared" / "bin"
    data.mkdir(parents=True)
    (data / "factors.json").write_text('{"factors": ["tf"]}')
    task.factor_dictionaries["tf"].save(str(data / "dict.factor-tf.txt"))
    folder, _ = make_folder(tmp_path, arch="gru_seq2seq", task=task, source_factors="tf:3")
    with pytest.raises(InputError, match=r"reads source factors \(tf\)"):
        Summarizer.load(folder)


def test_records_keep_their_fields_and_get_what_the_summarizer_says(folder, summarizer):
    """Engines pass batches of records to a worker; a record without a text does not stop the others."""
    batch = {"id": np.array([7, 8, 9]), "article": np.array([TEXTS[0], None, TEXTS[2]], dtype=object)}
    found = RecordSummarizer(str(folder), "article", "cpu", beam=2, max_len=5)(batch)
    first, last = summarizer.summarize([TEXTS[0], TEXTS[2]], beam=2, max_len=5)
    assert list(found) == ["id", "article", "summary", "score", "problem"]
    assert found["id"] is batch["id"] and found["article"] is batch["article"]
    assert list(found["summary"]) == [first.text, "", last.text] and first.text
    assert list(found["score"]) == pytest.approx([first.score, 0.0, last.score])
    assert list(found["problem"]) == ["", "text number 1 (from 0) is of type NoneType, not str", ""]
    with pytest.raises(InputError, match="beam"):
        RecordSummarizer(str(folder), beam=0)
