"""etads-prepare --tokens huggingface: raw text to the pieces of one's own tokeniser, to a model folder, and back."""

import json
import pickle
import sys
from argparse import Namespace

import pytest
from etads_preprocess.prepare import main
from preparation import lines, make_refused, make_text  # noqa: F401  # fixtures among them
from programs import as_program

pytest.importorskip("tokenizers", reason="needs the extra huggingface")

from fairseq.data import encoders
from folders import make_folder
from own_tokenizers import KINDS, train_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from fairseq_etads import Summarizer
from fairseq_etads.commands.content import StemmedSplit
from fairseq_etads.commands.run_options import make_detokenizer, open_split
from fairseq_etads.data.preparation import read_inference_preprocessing_options
from fairseq_etads.files.checksums import compute_sha256
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.rewards.trained_rewards import TokenEntailmentModel
from fairseq_etads.text.subwords import HuggingFaceSubwordEncoder
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.training.validation import ValidationSummarizer
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, compute_fingerprint
from fairseq_etads.vocabulary.token_kinds import detect_subword_type, detect_word_type

main = as_program(main)

LINE = "The  audio library\tno. 7 doesn't play naïve-files."
SUMMARY = "The audio library. <q> It doesn't play."


def given_with(text, folder, kind):
    """Options of a text with special characters and of a tokeniser trained on that text."""
    for split in ("train", "test"):
        for side, line in (("source", LINE), ("target", SUMMARY)):
            path = text / f"{split}.{side}"
            path.write_text("".join(f"{old}\n" for old in [line, *lines(path)[1:]]), encoding="utf-8")
    model = train_tokenizer(folder / "mine.json", kind, lines(text / "train.source") + lines(text / "train.target"))
    return [str(text), str(folder / "out"), "--tokens", "huggingface", "--model", str(model), "--jobs", "1"]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def given(text, tmp_path):
    return given_with(text, tmp_path, "bytes")


def test_text_becomes_pieces_and_the_same_text_again(text, tmp_path, kind):
    main(given_with(text, tmp_path, kind))
    checksum = compute_sha256(tmp_path / "mine.json")
    (tmp_path / "mine.json").unlink()  # the folder of prepared data has all files that new text needs
    out = (tmp_path / "out").rename(tmp_path / "moved")
    assert compute_sha256(out / "tokenizer.json") == checksum
    record = json.loads((out / "prepare.json").read_text())
    assert record["given"] == {"model": checksum} and record["settings"]["tokens"] == "huggingface"
    theirs = Tokenizer.from_file(str(out / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    known = SummarizationDictionary.load(str(out / "bin" / "dict.source.txt"))
    options = {name.replace("-", "_"): value for name, value in read_inference_preprocessing_options(out).items()}
    options = Namespace(**options, text_sentence_marks="drop")
    tokenizer, pieces = encoders.build_tokenizer(options), encoders.build_bpe(options)
    for side, line in (("source", " ".join(LINE.split())), ("target", SUMMARY.replace(" <q>", ""))):
        expected = theirs.encode(line, add_special_tokens=False).tokens
        assert lines(out / "tokens" / f"test.{side}")[0].split() == expected and len(expected) > 3
        assert pieces.encode(tokenizer.encode(line)).split() == expected
        assert all(known.index(piece) != known.unk() for piece in expected)
        assert tokenizer.decode(pieces.decode(" ".join(expected))) == (as_bert(line) if kind == "wordpiece" else line)


def as_bert(line):
    """Texts as BERT's normaliser and its decoder leave them: without capital letters and accents."""
    return line.lower().replace("ï", "i").replace("-", " - ").replace("'", " ' ")


def test_a_model_folder_reads_and_writes_text(text, tmp_path, kind):
    main(given_with(text, tmp_path, kind))
    out = tmp_path / "out"
    options, task = read_inference_preprocessing_options(out), SummarizationTask.of_folder(out / "bin")
    folder, _ = make_folder(tmp_path, text=options, task=task, pointer="soft")
    summarizer = Summarizer.load(folder, "cpu")
    texts = summarizer._texts
    document = texts.tokenize_document(0, LINE)
    assert list(document.tokens) == lines(out / "tokens" / "test.source")[0].split()
    copied = pickle.loads(pickle.dumps(summarizer))._texts
    assert copied.tokenize_document(0, f"{LINE} </s>") == texts.tokenize_document(0, f"{LINE} </s>")
    spans = texts.find_token_spans(document)
    found = "".join(LINE[slice(*span)] for span in spans if span)
    lost = "naïve" if kind == "wordpiece" else ""  # a word without its accent is not found in the text
    assert found.replace(" ", "") == "".join(LINE.split()).replace(lost, "")
    words = [[]]
    for token, following in zip(document.tokens, [*document.tokens[1:], None]):
        words[-1].append(token)
        if following is not None and not texts.is_same_word(token, following):
            words.append([])
    assert not texts.is_same_word(document.tokens[-1], "</s>")
    assert texts.join_word_tokens(words[1]) == "audio" and texts.join_word_tokens(words[2]) == "library"
    summary = summarizer.summarize(LINE)
    assert summary.text == texts.join(summary.tokens) and summary.text
    assert not set("▁Ġ") & set(summary.text) and "##" not in summary.text
    assert "huggingface" in (folder / "config.json").read_text()
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Summarizer.load(folder, "cpu")


def test_validation_scores_text(given, tmp_path):
    main(given)
    data = str(tmp_path / "out" / "bin")
    task = SummarizationTask.of_folder(tmp_path / "out" / "bin")
    assert detect_subword_type(task.tgt_dict, data) == "huggingface"
    assert detect_word_type(task.tgt_dict, "huggingface") == "raw"
    assert detect_subword_type(task.tgt_dict) == "none"
    task.cfg.eval_rouge = True
    tokens = task.tgt_dict.encode_line(lines(tmp_path / "out/tokens/test.target")[0], add_if_not_exist=False)
    assert ValidationSummarizer(task, task.cfg).decode(tokens, "reference") == SUMMARY.replace(" <q>", "")
    (tmp_path / "out" / "tokenizer.json").unlink()
    task.cfg.eval_rouge_post_process = "huggingface"
    with pytest.raises(ValueError, match=r"tokenizer\.json are not in DATA's folder, .* --tokens huggingface puts"):
        ValidationSummarizer(task, task.cfg)


def test_commands_that_need_words_refuse_pieces(given, tmp_path, monkeypatch):
    main(given)
    data = tmp_path / "out" / "bin"
    task = SummarizationTask.of_folder(data)
    with pytest.raises(InputError, match="consists of pieces of a Hugging Face tokeniser, which are not words"):
        make_detokenizer(open_split(data, "test"), data)
    with pytest.raises(InputError, match="RUN: its data consists of pieces of a Hugging Face tokeniser"):
        StemmedSplit(tmp_path, data, 100)
    scorer = Namespace(load=lambda path: Namespace(config=None))
    monkeypatch.setattr("fairseq_etads.systems.entailment.model.EntailmentScorer", scorer)
    with pytest.raises(ValueError, match="consists of pieces of a Hugging Face tokeniser, but entailment models"):
        TokenEntailmentModel("judge", task, "--entail-model")


def test_another_test_set_has_the_same_file(given, text, tmp_path, refused):
    main(given)
    main([str(text), str(tmp_path / "again"), "--like", str(tmp_path / "out"), "--jobs", "1"])
    for name in ("tokenizer.json", "tokens/test.source"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    first, second = (
        SummarizationDictionary.load(str(tmp_path / out / "bin/dict.source.txt")) for out in ("out", "again")
    )
    assert compute_fingerprint(first) == compute_fingerprint(second)
    train_tokenizer(tmp_path / "mine.json", "bytes", ["another text"])
    assert "was prepared with other given" in refused(*given)
    (tmp_path / "out" / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        read_inference_preprocessing_options(tmp_path / "out")
    assert "tokenizer.json" in refused(text, tmp_path / "third", "--like", tmp_path / "out", "--jobs", "1")


def test_options_that_do_not_fit_are_refused(given, tmp_path, refused):
    for arguments, words in (
        ([*given, "--size", "500"], "--size 500 has no effect with --tokens huggingface"),
        ([*given, "--source-sentence-marks"], "--tokens huggingface has no piece for <q>"),
        ([*given, "--factors", "tf"], "--factors tf: pieces of a Hugging Face tokeniser cannot be mapped"),
        ([*given, "--dictionary", "dict.txt"], "--dictionary dict.txt: has no effect without --tokens gpt2"),
        ([word for word in given if "mine" not in word and word != "--model"], "--model is missing: --tokens hugging"),
    ):
        assert words in refused(*arguments)
    assert not (tmp_path / "out").exists()


def change(path, section, **values):
    content = json.loads(path.read_text(encoding="utf-8"))
    content[section] = {**content[section], **values} if values else None
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    "kind, damage, words",
    [
        ("bytes", lambda path: path.write_text(path.read_text()[:-9]), "not a usable tokenizer.json"),
        ("bytes", lambda path: path.write_bytes(b"\xff\xfe"), "utf-8"),
        ("bytes", lambda path: change(path, "model", vocab={"a": 0}), "not a usable .*out of vocabulary"),
        ("bytes", lambda path: change(path, "model", continuing_subword_prefix="##"), "not a usable tokenizer"),
        ("wordpiece", lambda path: change(path, "model", unk_token="[NONE]"), "not a usable .*Missing"),
        ("unigram", lambda path: change(path, "model", unk_id=None), "not a usable .*unk_id"),
    ],
)
def test_a_damaged_file_is_refused(given, text, tmp_path, refused, kind, damage, words):
    path = train_tokenizer(tmp_path / "mine.json", kind, lines(text / "train.source"))
    damage(path)
    assert f"--model {path}: " in refused(*given) and not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match=words):
        HuggingFaceSubwordEncoder(path)


def test_characters_that_disappear_are_reported(given, text, tmp_path, capsys):
    path = train_tokenizer(tmp_path / "mine.json", "bytes", lines(text / "train.source"))
    main(given)
    assert "has no piece for unknown characters" not in capsys.readouterr().err
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = Tokenizer.from_file(str(path)).pre_tokenizer
    tokenizer.save(str(path))
    assert HuggingFaceSubwordEncoder(path).lost == "5%é漢𓀀"
    metaspace = Tokenizer(models.BPE(vocab={**letters, "▁": 26}, merges=[]))
    metaspace.pre_tokenizer, metaspace.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    metaspace.save(str(tmp_path / "metaspace.json"))
    assert HuggingFaceSubwordEncoder(tmp_path / "metaspace.json").lost == "5%é漢𓀀", "only a space is left of them"
    main([given[0], str(tmp_path / "other"), *given[2:]])
    assert "disappear from the text without being counted as unknown words" in capsys.readouterr().err


def test_pieces_with_white_space_are_refused(given, tmp_path, refused):
    Tokenizer(models.BPE(vocab={"a": 0, " ": 1, "b": 2}, merges=[])).save(str(tmp_path / "mine.json"))
    assert "mine.json: its pieces contain white space, such as ' '" in refused(*given)


def test_a_piece_that_cannot_be_written_is_unknown(tmp_path):
    """fairseq's symbols and white space have another meaning in a dictionary; special tokens in a text are text."""
    path = train_tokenizer(tmp_path / "mine.json", "wordpiece", ["a cat <pad> sat <s>"])
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.add_tokens([AddedToken(word, normalized=False) for word in ("<s>", "<q>", "cat sat")])
    tokenizer.add_special_tokens(["<pad>"])
    tokenizer.save(str(path))
    pieces = HuggingFaceSubwordEncoder(path)
    assert pieces.encode("a <s> cat 漢 cat sat <q> cat") == "a <unk> cat <unk> <unk> <unk> cat"
    assert "<pad>" not in pieces.encode("a <pad> cat") and pieces.encode("") == ""
    unigram = HuggingFaceSubwordEncoder(train_tokenizer(path, "unigram", ["a cat sat"])).encode("a 漢 c")
    assert unigram.split().count("<unk>") == 1 and "漢" not in unigram


def test_dropout_is_switched_off(tmp_path):
    path = train_tokenizer(tmp_path / "mine.json", "bytes", ["a cat sat on the mat"] * 9)
    expected = HuggingFaceSubwordEncoder(path).encode("a cat sat on the mat")
    change(path, "model", dropout=0.9)
    pieces = HuggingFaceSubwordEncoder(path)
    assert {pieces.encode("a cat sat on the mat") for _ in range(9)} == {expected}


def test_a_tokeniser_without_a_decoder_joins_with_spaces(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "cat": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "mine.json"))
    pieces = HuggingFaceSubwordEncoder(tmp_path / "mine.json")
    assert pieces.encode("a cat sat") == "a cat <unk>" and pieces.decode("a cat <unk>") == "a cat <unk>"


def test_a_missing_library_is_named(given, text, tmp_path, refused, monkeypatch):
    main(given)
    data = tmp_path / "out"
    options, task = read_inference_preprocessing_options(data), SummarizationTask.of_folder(data / "bin")
    folder, _ = make_folder(tmp_path, text=options, task=task)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    like = [text, tmp_path / "again", "--like", data, "--jobs", "1"]
    for arguments, path in ((given, "mine.json"), (like, "again/tokenizer.json")):
        assert f"{path}: tokenizers is missing: python -m pip install" in refused(*arguments)
    with pytest.raises(InputError, match=r"model/tokenizer\.json: tokenizers is missing: python"):
        Summarizer.load(folder, "cpu")
