"""etads-prepare: pairs stay aligned, tokens equal fairseq-interactive's, and damage and interruptions do no harm."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import corpora
import hypothesis.strategies as st
import pytest
from etads_preprocess import encode
from etads_preprocess.encode import map_in_order
from etads_preprocess.prepare import build_parser, main, make_settings, make_vocabulary_report
from etads_preprocess.prepare import prepare_data as prepare_with
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_dataset
from hypothesis import HealthCheck, given, settings
from preparation import lines, make_refused, make_text, prepare  # noqa: F401  # fixtures among them
from programs import as_program

from fairseq_etads.data.preparation import PreparationSettings, format_command_line
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.shards import Shard
from fairseq_etads.platform.errors import InputError
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, compute_fingerprint, count_known_words

main = as_program(main)


@pytest.mark.parametrize("tokens,size", [("bpe", 10), ("sentencepiece", 60), ("word", 30)])
def test_each_kind_of_token_keeps_the_pairing_and_binarises(text, tmp_path, tokens, size):
    out = tmp_path / "out"
    prepare(text, out, tokens, size, lowercase=True, jobs=1)
    for split, count in (("train", 60), ("valid", 8), ("test", 5)):
        for side in ("source", "target"):
            assert len(lines(out / "tokens" / f"{split}.{side}")) == count
            assert (out / "bin" / f"{split}.source-target.{side}.idx").exists()
    assert (out / "bin" / "dict.source.txt").read_bytes() == (out / "bin" / "dict.target.txt").read_bytes()
    dictionary = Dictionary.load(str(out / "bin" / "dict.source.txt"))
    for split in ("train", "valid", "test"):
        words = " ".join(lines(out / "tokens" / f"{split}.source")).split()
        assert all(word in dictionary for word in words), "a document's word that could not be copied"
    first = lines(out / "tokens" / "test.source")[0]
    if tokens == "word":
        assert first == "the audio library no . 0 doesn 't play audio @-@ files ."
        assert count_known_words(dictionary) < size + 4 + 8, "with special symbols and padding to 8"
    elif tokens == "bpe":
        joined = first.replace("@@ ", "")
        assert joined == "the audio library no . 0 doesn 't play audio @-@ files ." and "@@ " in first
    else:
        assert first.replace(" ", "").replace("▁", " ").strip() == "the audio library no. 0 doesn't play audio-files."


def test_a_text_without_a_test_split_is_prepared(text, tmp_path):
    for path in text.glob("test.*"):
        path.unlink()
    prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)
    assert {path.name for path in (tmp_path / "out" / "tokens").glob("*.source")} == {"train.source", "valid.source"}


@pytest.mark.parametrize("tokens,size", [("bpe", 40), ("sentencepiece", 60)])
def test_new_text_is_treated_as_fairseq_interactive_would_with_the_printed_flags(text, tmp_path, tokens, size):
    from fairseq import options
    from fairseq.data import encoders
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    out = tmp_path / "out"
    flags = format_command_line(prepare(text, out, tokens, size, lowercase=True, jobs=1))
    parser = options.get_interactive_generation_parser()
    args = options.parse_args_and_arch(parser, ["data", "--task", "summarization", "--path", "x", *flags])
    cfg = convert_namespace_to_omegaconf(args)
    line = encoders.build_tokenizer(cfg.tokenizer).encode(lines(text / "test.source")[3])
    assert encoders.build_bpe(cfg.bpe).encode(line) == lines(out / "tokens" / "test.source")[3]


@pytest.mark.parametrize("tokens,size,file", [("bpe", 40, "codes.bpe"), ("sentencepiece", 60, "sentencepiece.model")])
def test_a_subword_model_of_ones_own(text, tmp_path, tokens, size, file):
    prepare(text, tmp_path / "learnt", tokens, size, lowercase=True, jobs=1)
    model = Path(shutil.copy(tmp_path / "learnt" / file, tmp_path / "mine"))
    if tokens == "bpe":  # merges from elsewhere do not begin with this project's own
        version, *merges = model.read_text().splitlines()
        assert merges[:2] == ["< q", "<q ></w>"] and merges[5] == "<unk ></w>"
        model.write_text("\n".join([version, *merges[6:]]) + "\n")
    arguments = [str(text), str(tmp_path / "out"), "--tokens", tokens, "--model", str(model), "--jobs", "1"]
    main(arguments)
    for name in (file, "tokens/train.source", "bin/dict.source.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "learnt" / name).read_bytes(), name
    model.write_bytes(model.read_bytes() + b"x y\n")
    with pytest.raises(SystemExit):
        main(arguments)


@pytest.mark.parametrize(
    "tokens,content,words",
    [
        ("bpe", "#version: 0.2\na b c\n", "mine: line 2 is not a merge"),
        ("bpe", "", "mine: no merges in it"),
        ("sentencepiece", "no model", "mine: not a SentencePiece model"),
        ("word", "", "has no effect without --tokens bpe, sentencepiece or huggingface"),
    ],
)
def test_what_is_no_subword_model_is_refused(text, refused, tmp_path, tokens, content, words):
    (tmp_path / "mine").write_text(content)
    out = tmp_path / "out"
    assert words in refused(text, out, "--tokens", tokens, "--model", tmp_path / "mine") and not out.exists()


def test_pieces_that_cannot_be_joined_or_lack_marks_that_are_kept_are_refused(text, refused, tmp_path):
    import sentencepiece

    def own(**options):
        """Arguments that name a SentencePiece model that was trained with the options."""
        given = {"vocab_size": 330, "hard_vocab_limit": False, "minloglevel": 2, **options}
        (tmp_path / "lines").write_text("\n".join(lines(text / "train.source")).replace("<q>", ""))
        model = str(tmp_path / "mine")
        sentencepiece.SentencePieceTrainer.train(input=str(tmp_path / "lines"), model_prefix=model, **given)
        return ["--tokens", "sentencepiece", "--model", f"{model}.model"]

    for option in ("byte_fallback", "treat_whitespace_as_suffix"):
        said = refused(text, tmp_path / "out", *own(**{option: True, "user_defined_symbols": "<q>"}))
        assert f"train it without --{option}" in said
    marks = ["--no-target-sentence-marks", "--source-sentence-marks"]
    first, *others = lines(text / "train.target")
    (text / "train.target").write_text("\n".join([f"{first} <q> {first}", *others]) + "\n")
    for more in ([], marks):
        assert "train it with --user_defined_symbols='<q>'" in refused(text, tmp_path / "out", *own(), *more)
    main([str(text), str(tmp_path / "other"), *own(), marks[0]])


def test_merges_of_the_first_subword_nmt_keep_marks_whole(text, tmp_path):
    from subword_nmt.apply_bpe import BPE

    encode.write_merges(["t h", "th e"], tmp_path / "codes")
    with open(tmp_path / "codes", encoding="utf-8") as codes:
        assert BPE(codes).process_line("the <q> <unk> cat") == "the <q> <unk> c@@ a@@ t"


def test_a_path_may_have_commas_and_begin_with_a_dash(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["--tokens", "bpe", "--size", "20", "--jobs", "1", "--", str(text), "-a, b"])
    assert f"--bpe-codes '{tmp_path}/-a, b/codes.bpe'" in capsys.readouterr().out
    main([str(text), "more, words", "--like", "./-a, b", "--jobs", "1"])
    for file in ("test.source-target.source.bin", "dict.source.txt"):
        assert (Path("more, words") / "bin" / file).read_bytes() == (Path("-a, b") / "bin" / file).read_bytes()


def test_the_number_of_processes_changes_nothing(text, tmp_path, monkeypatch):
    monkeypatch.setattr(encode, "map_in_order", lambda *a, **k: map_in_order(*a, **k, small=1))
    for jobs in (1, 2):
        prepare(text, tmp_path / str(jobs), "bpe", 40, lowercase=True, jobs=jobs)
    for name in ("codes.bpe", "tokens/train.source", "tokens/test.target", "bin/train.source-target.source.bin"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_second_run_does_only_what_is_missing(text, tmp_path, monkeypatch):
    out = tmp_path / "out"
    prepare(text, out, "bpe", 40, lowercase=True, jobs=1)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and path != out / "SHA256SUMS"}
    missing = out / "tokens" / "valid.source"
    content = missing.read_bytes()
    missing.unlink()
    prepare(text, out, "bpe", 40, lowercase=True, jobs=1)
    assert missing.read_bytes() == content
    for path, time in before.items():
        assert path == missing or path.stat().st_mtime_ns == time, f"{path} was made again"


def test_an_interruption_leaves_no_half_file_and_binarisation_is_done_again(text, tmp_path, monkeypatch):
    out = tmp_path / "out"
    real = encode.build_encoder

    def failing(*args):
        encode = real(*args)

        def stop_at_the_fourth(line, seen=[]):  # noqa: B006  # counts its calls
            seen.append(line)
            if len(seen) == 4:
                raise KeyboardInterrupt
            return encode(line)

        return stop_at_the_fourth

    monkeypatch.setattr(encode, "build_encoder", failing)
    with pytest.raises(KeyboardInterrupt):
        prepare(text, out, "word", 30, lowercase=True, jobs=1)
    assert not list((out / "tokens").glob("train.source"))
    monkeypatch.undo()
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    assert len(lines(out / "tokens" / "train.source")) == 60
    (out / "bin" / "complete").unlink()
    (out / "bin" / "test.source-target.source.bin").write_bytes(b"half")
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    assert (out / "bin" / "complete").exists()
    assert (out / "bin" / "test.source-target.source.bin").stat().st_size > 4


def test_sentencepiece_learns_from_long_documents_too(text, tmp_path):
    """By default, SentencePiece leaves out lines of more than 4,192 bytes."""
    documents = [" ".join([line, "zebra"] * 100) for line in lines(text / "train.source")]
    (text / "train.source").write_text("".join(d + "\n" for d in documents), encoding="utf-8")
    prepare(text, tmp_path / "out", "sentencepiece", 50, lowercase=True, jobs=1)
    vocabulary = (tmp_path / "out" / "sentencepiece.vocab").read_text(encoding="utf-8")
    assert "z" in vocabulary, "a letter that only the documents have was not learnt"


def test_other_options_or_another_text_are_not_mixed_in(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    with pytest.raises(InputError, match="prepared with other settings"):
        prepare(text, out, "word", 31, lowercase=True, jobs=1)
    (text / "test.source").write_text("".join(f"other {i}\n" for i in range(5)), encoding="utf-8")
    with pytest.raises(InputError, match="prepared with other text"):
        prepare(text, out, "word", 30, lowercase=True, jobs=1)


def test_after_a_size_that_is_refused_another_can_be_chosen(text, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="--size 99999"):
        prepare(text, out, "sentencepiece", 99999, lowercase=True, jobs=1)
    with pytest.raises(InputError, match="prepared with other settings"):
        prepare(text, out, "sentencepiece", 50, lowercase=False, jobs=1)
    prepare(text, out, "sentencepiece", 50, lowercase=True, jobs=1)
    prepare(text, tmp_path / "fresh", "sentencepiece", 50, lowercase=True, jobs=1)
    for name in ("prepare.json", "tokens/train.source"):
        assert (out / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


@pytest.mark.parametrize(
    "contents,words",
    [
        ({"train.target": b"one\n"}, ["line counts", "train.source has 60", "train.target has 1"]),
        ({"valid.source": b"", "valid.target": b""}, ["line counts", "above 0"]),
        ({"test.source": b"a\nb\n\xff\xfe\nd\ne\n"}, ["test.source, line 3", "not UTF-8"]),
        ({"test.target": None}, ["has no file test.target"]),
    ],
)
def test_bad_text_is_refused(text, refused, tmp_path, contents, words):
    for name, content in contents.items():
        (text / name).unlink()
        if content is not None:
            (text / name).write_bytes(content)
    error = refused(text, tmp_path / "out", "--tokens", "word", "--jobs", "1")
    assert all(word in error for word in words) and not (tmp_path / "out" / "bin" / "complete").exists()


@pytest.mark.parametrize(
    "options,words",
    [
        (["--size", "0"], "--size 0"),
        (["--tokens", "sentencepiece", "--size", "99999"], "--size 99999: SentencePiece cannot learn this number"),
        (["--words", "raw"], "--words raw"),
        (["--source-size", "5"], "--source-size 5: needs --separate-dictionaries"),
        (["--separate-dictionaries", "--target-size", "-1"], "--target-size -1"),
        (["--size", "30", "--target-size", "30"], "--target-size 30: choose fewer"),
        (["--factors", "tf", "tf"], "--factors tf tf"),
        (["--factors", "tf", "--tf-bins", "1"], "--tf-bins 1"),
        (["--spacy-model", "en"], "--spacy-model en: needs --factors"),
        (["--tokens", "bpe", "--model", __file__, "--size", "5"], "--size 5 has no effect with --model"),
        (["--like", "none"], "leave out --tokens"),
    ],
)
def test_options_that_do_not_fit_together_are_named(text, refused, tmp_path, options, words):
    assert words in refused(text, tmp_path / "out", "--tokens", "word", *options)
    assert not (tmp_path / "out" / "bin").exists()


def test_folders_that_cannot_be_used_are_named(text, refused, tmp_path):
    words = ["--tokens", "word", "--jobs", "1"]
    assert "file" in refused(text, corpora.write(tmp_path / "file", "x"), *words)
    assert "OUT has a line break in its path" in refused(text, tmp_path / "a\nb", *words)
    assert "a:b: contains a colon" in refused(text, tmp_path / "a:b", *words) and not (tmp_path / "a:b").exists()
    assert "not a completed output folder" in refused(text, tmp_path / "out", "--like", tmp_path / "none")
    prepare(text, tmp_path / "out", "word", 8000, True, 1)
    for name in ("report.json", "prepare.json"):
        (tmp_path / "out" / name).write_text('{"settings')
        assert f"{name} is damaged" in refused(text, tmp_path / "out", *words)


def mark(text):
    """Insert the sentence mark after the first word of every line."""
    for path in text.iterdir():
        marked = [line.replace(" ", " <q> ", 1) for line in lines(path)]
        path.write_text("".join(line + "\n" for line in marked), encoding="utf-8")


@pytest.mark.parametrize(
    "tokens,words,size",
    [("bpe", "moses", 30), ("sentencepiece", "", 60), ("sentencepiece-bpe", "", 60), ("word", "ptb", 30)],
)
def test_sentence_marks_are_one_token_on_the_side_that_keeps_them(text, tmp_path, tokens, words, size):
    mark(text)
    for source in (False, True):
        out = tmp_path / str(source)
        options = prepare(text, out, tokens, size, True, 1, words=words, source_marks=source, target_marks=not source)
        assert options.get("text-sentence-marks") == ("insert" if source else None)
        for side, keeps in (("source", source), ("target", not source)):
            for line in lines(out / "tokens" / f"train.{side}"):
                assert line.split().count("<q>") == keeps, line
        dictionary = SummarizationDictionary.load(str(out / "bin" / "dict.source.txt"))
        assert dictionary.index("<q>") < dictionary.known_words and dictionary.index("<q>") != dictionary.unk()


def test_bpe_is_the_same_as_without_marks(text, tmp_path):
    prepare(text, tmp_path / "plain", "bpe", 30, True, 1)
    mark(text)
    prepare(text, tmp_path / "marked", "bpe", 30, True, 1)
    for name in ("codes.bpe", "tokens/train.source"):
        assert (tmp_path / "plain" / name).read_text() == (tmp_path / "marked" / name).read_text()


def test_separate_dictionaries(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "word", 30, True, 1, separate=True, source_size=20, target_size=9)
    source, target = (SummarizationDictionary.load(str(out / "bin" / f"dict.{s}.txt")) for s in ("source", "target"))
    assert 24 == source.known_words < len(source), "documents keep words to put for <unk>"
    assert target.known_words == len(target) == 16
    assert "the" in source and "the" not in target
    words = " ".join(lines(out / "tokens" / "test.source")).split()
    assert all(word in source for word in words)


def test_a_test_set_like_that_of_a_trained_model(text, tmp_path):
    model = tmp_path / "model"
    options = prepare(text, model, "bpe", 40, True, 1, factors=["idf", "tf"])
    new = tmp_path / "new"
    new.mkdir()
    (new / "test.source").write_text("The audio library plays übung.\n")
    (new / "test.target").write_text("audio\n")
    out = tmp_path / "out"
    main([str(new), str(out), "--like", str(model), "--jobs", "1"])
    trained, longer = (SummarizationDictionary.load(str(d / "bin" / "dict.source.txt")) for d in (model, out))
    assert longer.symbols[: len(trained)] == trained.symbols and longer.known_words == trained.known_words
    assert compute_fingerprint(longer) == compute_fingerprint(trained), "a checkpoint would refuse it"
    assert all(token in longer for token in lines(out / "tokens" / "test.source")[0].split())
    assert "ü@@" in longer and "ü@@" not in trained
    assert (out / "codes.bpe").read_bytes() == Path(options["bpe-codes"]).read_bytes()
    for name in ("idf", "tf"):
        assert (out / "bin" / f"test.factor-{name}.idx").exists()
        names = [directory / "bin" / f"dict.factor-{name}.txt" for directory in (model, out)]
        assert names[0].read_bytes() == names[1].read_bytes()
    assert not (out / "bin" / "train.source-target.source.idx").exists()


def test_another_directory_to_be_like_is_not_mixed_in(text, tmp_path):
    models = [tmp_path / name for name in ("one", "two")]
    for size, model in zip((30, 20), models):
        prepare(text, model, "word", size, True, 1)
    (models[1] / "prepare.json").write_bytes((models[0] / "prepare.json").read_bytes())
    arguments = [str(text), str(tmp_path / "out"), "--jobs", "1", "--like"]
    main([*arguments, str(models[0])])
    main([*arguments, str(models[0].rename(tmp_path / "moved"))])
    for like in (models[1], None):
        with pytest.raises(InputError, match="was prepared with other like"):
            prepare_with(PreparationSettings("word", 30, True), text, tmp_path / "out", 1, like)


@pytest.mark.parametrize(
    "given,tokens,words,size",
    [
        ([], "word", "spaces", 50_000),
        (["--tokens", "bpe", "--size", "30"], "bpe", "spaces", 30),
        (["--tokens", "bpe", "--model", "codes"], "bpe", "spaces", PreparationSettings("bpe").size),
        (["--tokens", "sentencepiece-bpe", "--words", "ptb"], "sentencepiece-bpe", "ptb", 50_000),
    ],
)
def test_the_settings_of_a_corpus_replace_only_defaults(given, tokens, words, size):
    settings = make_settings(build_parser().parse_args(["text", "out", "--corpus", "gigaword", *given]))
    assert (settings.tokens, settings.words, settings.size) == (tokens, words, size)


def bounded(text, out):
    """Prepare with a shared dictionary and fewer known words for summaries; returns the sides' dictionaries."""
    prepare_with(PreparationSettings("word", 30, True, target_size=9), text, out, 1)
    return [SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt")) for side in ("source", "target")]


def test_summaries_may_know_fewer_words_of_the_one_dictionary(text, tmp_path):
    out = tmp_path / "out"
    source, target = bounded(text, out)
    assert source.symbols == target.symbols and (source.known_words, target.known_words) == (40, 16)
    counts = Counter(word for line in lines(out / "tokens" / "train.target") for word in line.split())
    least = min(counts[word] for word in target.symbols[4:13])
    assert all(counts[word] <= least for word in target.symbols[16:]), "the most frequent of summaries"
    targets = make_dataset(str(out / "bin" / "test.source-target.target"), "mmap")
    for ids, line in zip(targets, lines(out / "tokens" / "test.target")):
        known = [word if word in source else "<unk>" for word in line.split()]
        assert [source[number] for number in ids[:-1].tolist()] == known


def test_a_test_set_like_that_of_a_bounded_dictionary_keeps_both_bounds(text, tmp_path):
    trained = bounded(text, tmp_path / "model")
    new = tmp_path / "new"
    new.mkdir()
    (new / "test.source").write_text("The audio library plays übung.\n")
    (new / "test.target").write_text("audio\n")
    out = tmp_path / "out"
    main([str(new), str(out), "--like", str(tmp_path / "model"), "--jobs", "1"])
    found = [SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt")) for side in ("source", "target")]
    assert found[0].symbols == found[1].symbols and "übung" in found[0] and "übung" not in trained[0]
    assert [d.known_words for d in found] == [d.known_words for d in trained]
    assert [*map(compute_fingerprint, found)] == [*map(compute_fingerprint, trained)], "a checkpoint would refuse it"


def test_the_report_says_how_many_words_are_unknown_and_can_be_copied(text, tmp_path):
    out, path = tmp_path / "out", text / "test.target"
    path.write_text(path.read_text().replace("\n", " unheard\n"))
    target = bounded(text, out)[1]
    report = json.loads((out / "report.json").read_text())["vocabulary"]
    assert report["known"] == {"source": 30, "target": 9} and report["asked"] == {"source": 30, "target": 9}
    known = set(target.symbols[4:13])
    for split in ("train", "valid", "test"):
        words = unknown = copyable = 0
        for document, summary in zip(*(lines(out / "tokens" / f"{split}.{side}") for side in ("source", "target"))):
            for word in summary.split():
                words += 1
                unknown += word not in known
                copyable += word not in known and word in document.split()
        assert report["summaries"][split] == {"words": words, "unknown": unknown, "copyable": copyable}
    assert 0 < copyable < unknown < words


def test_the_unknown_word_itself_cannot_be_copied(tmp_path):
    for name, content in (
        *(("tokens/test.source", "a <unk> b\n"), ("tokens/test.target", "<unk> b a\n")),
        *(("bin/dict.source.txt", "a 3\nb 2\n"), ("bin/dict.target.txt", "a 3\nb 0\n")),
    ):
        corpora.write(tmp_path / name, content)
    report = make_vocabulary_report(tmp_path, ["test"], {"source": 2})
    assert report["known"] == {"source": 2, "target": 1} and report["asked"] == {"source": 2}
    assert report["summaries"]["test"] == {"words": 3, "unknown": 2, "copyable": 1}


@pytest.mark.parametrize(
    "tokens,name,content",
    [
        ("bpe", "codes.bpe", b"#version: 0.2\na b c\n"),
        ("bpe", "codes.bpe", b"#version: 0.2\na \xff\n"),
        ("sentencepiece", "sentencepiece.model", b"garbage"),
    ],
)
def test_a_damaged_subword_model_is_named(text, tmp_path, capsys, tokens, name, content):
    out = tmp_path / "out"
    for path in (out / name, out / "sentencepiece.vocab"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged \(.+\)\. Give another OUT or delete it"):
        prepare(text, out, tokens, 40, lowercase=True, jobs=1)
    assert capsys.readouterr().err == ""


def test_every_file_is_compared_when_it_is_used_again(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "bpe", 40, lowercase=True, jobs=1, factors=["tf", "idf"])
    listed = [folder / name for folder in (out, out / "bin") for name in Checksums(folder).listed]
    made = {path for path in out.rglob("*") if path.is_file() and path.stat().st_size}
    logs = {out / "preprocess.txt", out / "bin/preprocess.log", out / "SHA256SUMS", out / "bin/SHA256SUMS"}
    assert made - logs == set(listed)
    for path in listed:
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b"#\n")
        with pytest.raises(InputError, match=rf"{path.name} is damaged or was changed: .* (delete|Delete) {out}"):
            prepare(text, out, "bpe", 40, lowercase=True, jobs=1, factors=["tf", "idf"])
        path.write_bytes(content)


def test_an_edited_dictionary_is_taken_once_the_list_is_deleted(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    dictionary = out / "bin" / "dict.source.txt"
    dictionary.write_text(dictionary.read_text().replace("the ", "teh "))
    with pytest.raises(InputError, match=rf"if you changed it on purpose, delete {out}/bin/SHA256SUMS"):
        prepare(text, out, "word", 30, lowercase=True, jobs=1)
    (out / "bin" / "SHA256SUMS").unlink()
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    assert "teh " in dictionary.read_text()


def test_text_that_changes_while_it_is_read_leaves_nothing_behind(text, tmp_path, monkeypatch):
    """If any output remained, the next run would use it for the original text."""
    whole, path = encode.encode_file, text / "valid.source"
    content = path.read_bytes()

    def encode_file(source, destination, *arguments):
        if destination.name == path.name:
            path.write_bytes(content.replace(b"audio", b"radio"))
        whole(source, destination, *arguments)

    monkeypatch.setattr(encode, "encode_file", encode_file)
    with pytest.raises(InputError, match=r"valid\.source changed while it was being read; run the command again"):
        prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)
    monkeypatch.undo()
    path.write_bytes(content)
    prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)
    assert "radio" not in (tmp_path / "out/tokens/valid.source").read_text()


def test_text_is_compared_with_its_list(text, tmp_path):
    Checksums(text).add("train.source")
    (text / "train.source").write_bytes((text / "train.source").read_bytes().replace(b"audio", b"radio"))
    with pytest.raises(InputError, match=r"train\.source is damaged .*delete .*text/SHA256SUMS"):
        prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)


@pytest.mark.parametrize(
    "tokens,size,name", [("sentencepiece", 60, "sentencepiece.model"), ("bpe", 40, "prepare.json")]
)
def test_files_that_were_not_listed_when_the_command_ended_are_listed_by_the_next(text, tmp_path, tokens, size, name):
    out = tmp_path / "out"
    prepare(text, out, tokens, size, lowercase=True, jobs=1)
    whole = (out / "SHA256SUMS").read_bytes()
    Checksums(out).forget(name, "report.json")
    prepare(text, out, tokens, size, lowercase=True, jobs=1)
    assert (out / "SHA256SUMS").read_bytes() == whole


def test_a_sentencepiece_model_that_finds_no_room_is_not_left_behind(text, tmp_path):
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)); from pathlib import Path; "
    code += "from etads_preprocess.encode import learn_sentencepiece as learn; "
    code += "learn([Path(sys.argv[1])], 50, Path(sys.argv[2]))"
    model = tmp_path / "sentencepiece.model"
    command = [sys.executable, "-c", code, str(text / "train.source"), str(model)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode and "File too large" in result.stderr and not model.exists()


WORDS = PreparationSettings("word", 20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(alphabet="aé\n\r \ufeff", max_size=40), shares=st.integers(1, 9))
def test_shares_of_a_file_are_its_lines(content, shares, tmp_path):
    """There are more shares than lines, long lines, a missing last line end, and multi-byte characters."""
    path = tmp_path / "file"
    path.write_bytes(content.encode())
    found = [line for shard in Shard(1, shares).list_all_shards() for line in shard.iterate_lines(path)]
    assert found == list(read_lines(path))


def test_a_share_names_the_place_of_bad_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"good\n" * 4 + b"not \xff good\n")
    with pytest.raises(InputError, match="file, byte 24: not UTF-8"):
        list(Shard(2, 2).iterate_lines(tmp_path / "file"))


@pytest.mark.parametrize("value", ["0/2", "3/2", "2", "1/0", "a/b"])
def test_impossible_shares_are_refused(value):
    with pytest.raises(InputError, match=f"--shard {value}: choose I/N"):
        Shard.parse(value)


def files(folder):
    """Collect all files of a preparation, except shares and messages."""
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    said = ("preprocess.txt", "preprocess.log")
    return {str(n): (folder / n).read_bytes() for n in names if n.parts[0] != "shards" and n.name not in said}


def share(text, out, value, how=WORDS):
    prepare_with(how, text, out, 1, shard=Shard.parse(value))


def test_joined_shares_are_what_one_process_makes(text, tmp_path):
    prepare_with(WORDS, text, tmp_path / "whole", 1)
    out = tmp_path / "out"
    for value in ("2/3", "3/3"):
        share(text, out, value)
        assert [path.name for path in out.iterdir()] == ["shards"], "shares keep out of one another's way"
    with pytest.raises(InputError, match="of 3 shards, 1 are not complete; run the same command with --shard 1/3"):
        prepare_with(WORDS, text, out, 1)
    share(text, out, "1/3")
    parts = [list(read_lines(path)) for path in sorted(out.glob("shards/*/tokens/train.source"))]
    assert len(parts) == 3 and sum(map(bool, parts)) > 1, "one share has all lines: the test shows little"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("tokens/*")}
    share(text, out, "2/3")
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("tokens/*")}, "a share was made again"
    prepare_with(WORDS, text, out, 1)
    assert files(out) == files(tmp_path / "whole")
    shutil.rmtree(out / "shards")
    prepare_with(WORDS, text, out, 1)  # the shards are not needed any more


def test_shares_that_do_not_fit_are_refused(text, tmp_path):
    out = tmp_path / "out"
    share(text, out, "1/2")
    share(text, out, "2/2", PreparationSettings("word", 21))
    with pytest.raises(InputError, match="2-of-2 was made with another settings: delete it and make it again"):
        prepare_with(WORDS, text, out, 1)
    with pytest.raises(InputError, match="was prepared with other settings"):
        share(text, out, "2/2")
    shutil.rmtree(out / "shards" / "2-of-2")
    share(text, out, "2/2")
    damaged = out / "shards" / "2-of-2" / "tokens" / "train.source"
    damaged.write_bytes(damaged.read_bytes().swapcase() + b"x")
    with pytest.raises(InputError, match=r"2-of-2.tokens.train.source is damaged"):
        prepare_with(WORDS, text, out, 1)
    assert not (out / "tokens" / "train.source").exists()
    shutil.rmtree(out / "shards" / "2-of-2")
    share(text, out, "1/3")
    with pytest.raises(InputError, match="has shards of 2 and of 3"):
        prepare_with(WORDS, text, out, 1)


def test_sentencepiece_learns_from_a_part_of_a_large_text(tmp_path, monkeypatch, capsys):
    """SentencePiece would keep all of it in memory, at twenty times its size."""
    texts = [tmp_path / name for name in ("a", "b")]
    for path, word in zip(texts, ("walking", "jumper")):
        path.write_text("".join(f"{word}{n % 7} ends number {n}\n" for n in range(101)))
    whole = "".join(path.read_text() for path in texts).splitlines(keepends=True)
    (tmp_path / "third").write_text("".join(whole[::3]))
    encode.learn_sentencepiece([tmp_path / "third"], 40, tmp_path / "expected.model")
    assert not capsys.readouterr().err
    monkeypatch.setattr(encode, "SENTENCEPIECE_BYTES", len("".join(whole)) // 3 + 1)
    encode.learn_sentencepiece(texts, 40, tmp_path / "found.model")
    assert "one in 3 lines" in capsys.readouterr().err
    found, expected = ((tmp_path / f"{name}.vocab").read_text() for name in ("found", "expected"))
    assert found == expected and "walking" in found
