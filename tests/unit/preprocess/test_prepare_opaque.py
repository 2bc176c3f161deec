"""etads-prepare --tokens gpt2 and huggingface: raw text to pieces that only their tokeniser joins, and back."""

import json
import pickle
import sys
from argparse import Namespace

import pytest
from bart import bart_dictionary, gpt2_files, save_dictionary
from etads_preprocess.encode import check_gpt2_files
from etads_preprocess.prepare import main
from preparation import lines, make_text, refusal  # noqa: F401  # a fixture among them
from programs import as_program

pytest.importorskip("tokenizers", reason="needs the extra huggingface")

from fairseq.data import encoders
from folders import make_folder
from own_tokenizers import KINDS, train_tokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from fairseq_etads import Summarizer
from fairseq_etads.commands.content import StemmedSplit
from fairseq_etads.commands.shared_options import make_detokenizer, open_split
from fairseq_etads.data.preparation import read_inference_preprocessing_options
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.rewards.self_critical import TokenEntailmentModel
from fairseq_etads.text.subwords import HuggingFaceSubwordEncoder
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.training.validation import ValidationSummarizer
from fairseq_etads.vocabulary import dictionary as dictionaries

main = as_program(main)

LINES = {
    "gpt2": "The  “naïve” Cat &\tDOG didn't do it — twice,\u00a0😀 100%; <unk> i.e. (sic) …",
    "huggingface": "The  audio library\tno. 7 doesn't play naïve-files.",
}
SUMMARY = "The audio library. <q> It doesn't play."
GPT2 = {"encoder.json": "--gpt2-encoder-json", "vocab.bpe": "--gpt2-vocab-bpe", "dict.txt": "--dictionary"}


def given_with(text, folder, kind):
    """Options of a text with special characters, and of the files of GPT-2 or a tokeniser trained on the text."""
    tokens = "gpt2" if kind == "gpt2" else "huggingface"
    for split in ("train", "test"):
        for side, line in (("source", LINES[tokens]), ("target", SUMMARY)):
            path = text / f"{split}.{side}"
            path.write_text("".join(f"{old}\n" for old in [line, *lines(path)[1:]]), encoding="utf-8")
    if kind == "gpt2":
        gpt2_files(folder)
        save_dictionary(bart_dictionary(), folder / "dict.txt")
        files = [word for name, option in GPT2.items() for word in (option, str(folder / name))]
    else:
        model = train_tokenizer(folder / "mine.json", kind, lines(text / "train.source") + lines(text / "train.target"))
        files = ["--model", str(model)]
    return [str(text), str(folder / "out"), "--tokens", tokens, *files, "--jobs", "1"]


def without(arguments, option):
    place = arguments.index(option)
    return [*arguments[:place], *arguments[place + 2 :]]


def known_words(out):
    return dictionaries.SummarizationDictionary.load(str(out / "bin" / "dict.source.txt"))


@pytest.mark.parametrize("kind", ["gpt2", *KINDS])
def test_text_becomes_pieces_and_the_same_text_again(text, tmp_path, kind):
    main(given_with(text, tmp_path, kind))
    for path in (*tmp_path.glob("*.json"), *tmp_path.glob("vocab.bpe")):
        path.unlink()  # the folder of prepared data has all files that new text needs
    out = (tmp_path / "out").rename(tmp_path / "moved")
    options = {name.replace("-", "_"): value for name, value in read_inference_preprocessing_options(out).items()}
    options = Namespace(**options, text_sentence_marks="drop")
    tokenizer, pieces, known = encoders.build_tokenizer(options), encoders.build_bpe(options), known_words(out)
    if kind == "gpt2":
        numbers = json.loads((out / "encoder.json").read_text())
        assert lines(out / "tokens/test.target")[0].split()[:2] == [str(numbers[piece]) for piece in ("T", "he")]
    else:
        theirs = Tokenizer.from_file(str(out / "tokenizer.json"))
        theirs.no_truncation()
        theirs.no_padding()
    texts = {"source": " ".join(LINES[options.bpe].split()), "target": SUMMARY.replace(" <q>", "")}
    for side, line in texts.items():
        tokens = lines(out / "tokens" / f"test.{side}")[0].split()
        assert pieces.encode(tokenizer.encode(lines(text / f"test.{side}")[0])).split() == tokens and len(tokens) > 3
        assert kind == "gpt2" or tokens == theirs.encode(line, add_special_tokens=False).tokens
        assert all(known.index(piece) != known.unk() for piece in tokens)
        if kind == "wordpiece":  # BERT's normaliser and its decoder lose capital letters, accents and spaces
            line = line.lower().replace("ï", "i").replace("-", " - ").replace("'", " ' ")
        assert tokenizer.decode(pieces.decode(" ".join(tokens))) == line


def test_the_dictionary_is_barts_in_its_order_and_all_of_it_is_known(text, tmp_path):
    """Words that did not occur in BART's own text are known, too; pieces that its dictionary lacks can be copied."""
    gpt2 = given_with(text, tmp_path, "gpt2")
    theirs = (tmp_path / "dict.txt").read_text().splitlines()
    assert theirs[-8].endswith(" 0") and not theirs[-8].startswith("madeup")
    removed = str(json.loads((tmp_path / "encoder.json").read_text())["C"])
    (tmp_path / "dict.txt").write_text("".join(f"{line}\n" for line in theirs if line.split()[0] != removed))
    main(gpt2)
    dictionary = known_words(tmp_path / "out")
    known = dictionary.symbols[: dictionary.known_words]
    assert known == [word for word in bart_dictionary(mask=False).symbols if word != removed]
    assert dictionary.symbols[len(known) :] == [removed]
    source, target = (tmp_path / "out" / "bin" / f"dict.{side}.txt" for side in ("source", "target"))
    assert source.read_bytes() == target.read_bytes()
    (tmp_path / "dict.txt").write_text("a 3\nb\n")
    assert "dict.txt, line 2: not a dictionary" in refusal(main, gpt2[0], tmp_path / "damaged", *gpt2[2:])
    main([gpt2[0], str(tmp_path / "own"), *without(gpt2[2:], "--dictionary")])
    dictionary = known_words(tmp_path / "own")
    assert 20 < dictionary.known_words < 200 and all(word.isdigit() for word in dictionary.symbols[4:20])


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_folder_reads_and_writes_text(text, tmp_path, kind):
    main(given_with(text, tmp_path, kind))
    out, line = tmp_path / "out", LINES["huggingface"]
    task = SummarizationTask.of_folder(out / "bin")
    folder, _ = make_folder(tmp_path, text=read_inference_preprocessing_options(out), task=task, pointer="soft")
    summarizer = Summarizer.load(folder, "cpu")
    texts = summarizer._texts
    document = texts.tokenize_document(0, line)
    assert list(document.tokens) == lines(out / "tokens" / "test.source")[0].split()
    copied = pickle.loads(pickle.dumps(summarizer))._texts
    assert copied.tokenize_document(0, f"{line} </s>") == texts.tokenize_document(0, f"{line} </s>")
    found = "".join(line[slice(*span)] for span in texts.find_token_spans(document) if span)
    lost = "naïve" if kind == "wordpiece" else ""  # a word without its accent is not found in the text
    assert found.replace(" ", "") == "".join(line.split()).replace(lost, "")
    words = [[document.tokens[0]]]
    for token, following in zip(document.tokens, document.tokens[1:]):
        if not texts.is_same_word(token, following):
            words.append([])
        words[-1].append(following)
    assert not texts.is_same_word(document.tokens[-1], "</s>")
    assert texts.join_word_tokens(words[1]) == "audio" and texts.join_word_tokens(words[2]) == "library"
    summary = summarizer.summarize(line)
    assert summary.text == texts.join(summary.tokens) and summary.text
    assert not set("▁Ġ") & set(summary.text) and "##" not in summary.text
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Summarizer.load(folder, "cpu")


def test_validation_scores_text_and_commands_that_need_words_refuse_pieces(text, tmp_path, monkeypatch):
    main(given_with(text, tmp_path, "bytes"))
    data = tmp_path / "out" / "bin"
    task = SummarizationTask.of_folder(data)
    assert dictionaries.detect_subword_type(task.tgt_dict, str(data)) == "huggingface"
    assert (
        dictionaries.detect_word_type(task.tgt_dict, "huggingface") == "raw"
        and dictionaries.detect_subword_type(task.tgt_dict) == "none"
    )
    task.cfg.eval_rouge = True
    tokens = task.tgt_dict.encode_line(lines(tmp_path / "out/tokens/test.target")[0], add_if_not_exist=False)
    assert ValidationSummarizer(task, task.cfg).decode(tokens, "reference") == SUMMARY.replace(" <q>", "")
    scorer = Namespace(load=lambda path: Namespace(config=None))
    monkeypatch.setattr("fairseq_etads.systems.entailment.model.EntailmentScorer", scorer)
    for refuse in (
        lambda: make_detokenizer(open_split(data, "test"), data),
        lambda: StemmedSplit(tmp_path, data, 100),
        lambda: TokenEntailmentModel("judge", task, "--entail-model"),
    ):
        with pytest.raises(ValueError, match="consists of pieces of a Hugging Face tokeniser"):
            refuse()
    (tmp_path / "out" / "tokenizer.json").unlink()
    task.cfg.eval_rouge_post_process = "huggingface"
    with pytest.raises(ValueError, match=r"tokenizer\.json are not in DATA's folder"):
        ValidationSummarizer(task, task.cfg)


@pytest.mark.parametrize("kind,names", [("bytes", ["tokenizer.json"]), ("gpt2", ["encoder.json", "vocab.bpe"])])
def test_another_test_set_has_the_same_files(text, tmp_path, kind, names):
    given = given_with(text, tmp_path, kind)
    main(given)
    like = ["--like", tmp_path / "out", "--jobs", "1"]
    main([str(text), str(tmp_path / "again"), *map(str, like)])
    for name in (*names, "tokens/test.source"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    first, second = (dictionaries.compute_fingerprint(known_words(tmp_path / out)) for out in ("out", "again"))
    assert first == second
    changed = tmp_path / ("dict.txt" if kind == "gpt2" else "mine.json")
    changed.write_text("0 1\n" if kind == "gpt2" else changed.read_text().replace("\n", "\n "))
    assert "was prepared with other given" in refusal(main, *given)
    (tmp_path / "out" / names[-1]).write_text("#version: 0.2\n")
    with pytest.raises(InputError, match=names[-1]):
        read_inference_preprocessing_options(tmp_path / "out")
    assert names[-1] in refusal(main, text, tmp_path / "third", *like)


def test_options_that_do_not_fit_are_refused(text, tmp_path):
    arguments = given_with(text, tmp_path, "gpt2")
    for option in ("--source-sentence-marks", "--size 500", "--factors tf", "--target-size 9"):
        named = "--tokens gpt2 has no piece for <q>" if option == "--source-sentence-marks" else option
        assert named in refusal(main, *arguments, *option.split())
    assert "--gpt2-encoder-json" in refusal(main, *arguments, "--tokens", "word")
    assert "--gpt2-vocab-bpe is missing" in refusal(main, *without(arguments, "--gpt2-vocab-bpe"))
    assert not (tmp_path / "out").exists()


def change_model(path, **values):
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model"].update(values)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_damaged_tokeniser_is_refused_and_a_missing_library_named(tmp_path, monkeypatch):
    path = tmp_path / "mine.json"
    for kind, setting, value in (("bytes", "vocab", {"a": 0}), ("unigram", "unk_id", None)):
        content = train_tokenizer(path, kind, ["a cat sat on the mat"] * 9).read_bytes()
        change_model(path, **{setting: value})
        for damaged in (path.read_bytes(), content[:-9], b"\xff\xfe"):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"mine\.json"):
                HuggingFaceSubwordEncoder(path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(InputError, match=r"mine\.json: tokenizers is missing"):
        HuggingFaceSubwordEncoder(path)


@pytest.mark.parametrize(
    "name,old,new,words",
    [
        ("encoder.json", "}", "", "not JSON"),
        ("encoder.json", ": 7,", ": 8,", "the same id"),
        ("encoder.json", '"A"', '"AAA"', "'A'"),
        ("vocab.bpe", "a n", "a n\nq u", "'qu'"),
    ],
)
def test_damaged_files_of_gpt2_are_refused(tmp_path, name, old, new, words):
    files, path = gpt2_files(tmp_path), tmp_path / name
    check_gpt2_files(*files)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        check_gpt2_files(*files)


def test_words_that_are_no_pieces_do_not_stop_decoding(tmp_path):
    """fairseq's decode fails on "<<unk>>" in references, and on the words with which BART's dictionary is padded."""
    encoder, merges = gpt2_files(tmp_path)
    pieces = encoders.build_bpe(Namespace(bpe="gpt2", gpt2_encoder_json=str(encoder), gpt2_vocab_bpe=str(merges)))
    tokens = pieces.encode("a cat").split()
    assert pieces.decode(" ".join([tokens[0], "<<unk>>", "madeupword0001", *tokens[1:]])) == "a<unk> cat"


def test_characters_that_disappear_are_reported_and_white_space_is_refused(text, tmp_path, capsys):
    given, path = given_with(text, tmp_path, "bytes"), tmp_path / "mine.json"
    letters = {letter: number for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = Tokenizer.from_file(str(path)).pre_tokenizer
    main(given)
    assert "has no piece for unknown characters" not in capsys.readouterr().err
    tokenizer.save(str(path))
    assert HuggingFaceSubwordEncoder(path).lost == "5%é漢𓀀"
    main([given[0], str(tmp_path / "other"), *given[2:]])
    assert "disappear from the text without being counted as unknown words" in capsys.readouterr().err
    tokenizer = Tokenizer(models.BPE(vocab={**letters, "▁": 26}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.save(str(path))
    assert HuggingFaceSubwordEncoder(path).lost == "5%é漢𓀀", "only a space is left of them"
    Tokenizer(models.BPE(vocab={"a": 0, " ": 1, "b": 2}, merges=[])).save(str(path))
    assert "mine.json: its pieces contain white space, such as ' '" in refusal(main, *given)


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


def test_dropout_is_switched_off_and_pieces_without_a_decoder_are_joined_with_spaces(tmp_path):
    path = train_tokenizer(tmp_path / "mine.json", "bytes", ["a cat sat on the mat"] * 9)
    expected = HuggingFaceSubwordEncoder(path).encode("a cat sat on the mat")
    change_model(path, dropout=0.9)
    pieces = HuggingFaceSubwordEncoder(path)
    assert {pieces.encode("a cat sat on the mat") for _ in range(9)} == {expected}
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "cat": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(path))
    pieces = HuggingFaceSubwordEncoder(path)
    assert pieces.encode("a cat sat") == "a cat <unk>" and pieces.decode("a cat <unk>") == "a cat <unk>"
