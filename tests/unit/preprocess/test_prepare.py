"""etads-prepare: pairs stay aligned, tokens equal fairseq-interactive's, and damage and interruptions do no harm."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import corpora
import hypothesis.strategies as st
import pytest
from etads_preprocess import encode
from etads_preprocess.encode import map_in_order
from etads_preprocess.prepare import build_parser, main, make_settings
from etads_preprocess.prepare import prepare_data as prepare_with
from fairseq import options as fairseq_options
from fairseq.data import Dictionary, encoders
from fairseq.data.indexed_dataset import make_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hypothesis import HealthCheck, given, settings
from preparation import lines, make_text, prepare, refusal  # noqa: F401  # a fixture among them
from programs import as_program

from fairseq_etads.data.preparation import PreparationSettings, format_command_line
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.shards import Shard
from fairseq_etads.platform.errors import InputError
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, compute_fingerprint, count_known_words

main = as_program(main)


@pytest.mark.parametrize("tokens,size", [("bpe", 10), ("sentencepiece", 60), ("word", 30)])
def test_each_kind_of_token_keeps_the_pairing_and_is_that_of_fairseq_interactive(text, tmp_path, tokens, size):
    out = tmp_path / "out"
    flags = format_command_line(prepare(text, out, tokens, size))
    assert (out / "bin" / "dict.source.txt").read_bytes() == (out / "bin" / "dict.target.txt").read_bytes()
    dictionary = Dictionary.load(str(out / "bin" / "dict.source.txt"))
    for split, count in (("train", 60), ("valid", 8), ("test", 5)):
        source, target = (lines(out / "tokens" / f"{split}.{side}") for side in ("source", "target"))
        assert len(source) == len(target) == count
        assert all(word in dictionary for word in " ".join(source).split()), "a word that could not be copied"
    first = lines(out / "tokens" / "test.source")[0]
    if tokens == "sentencepiece":
        assert first.replace(" ", "").replace("▁", " ").strip() == "the audio library no. 0 doesn't play audio-files."
    else:
        assert first.replace("@@ ", "") == "the audio library no . 0 doesn 't play audio @-@ files ."
        assert ("@@ " in first) == (tokens == "bpe")
    if tokens == "word":
        assert count_known_words(dictionary) < size + 4 + 8, "with special symbols and padding to 8"

    parser = fairseq_options.get_interactive_generation_parser()
    args = fairseq_options.parse_args_and_arch(parser, ["data", "--task", "summarization", "--path", "x", *flags])
    cfg = convert_namespace_to_omegaconf(args)
    line = encoders.build_tokenizer(cfg.tokenizer).encode(lines(text / "test.source")[3])
    pieces = encoders.build_bpe(cfg.bpe)
    assert (pieces.encode(line) if pieces else line) == lines(out / "tokens" / "test.source")[3]


@pytest.mark.parametrize("tokens,size,file", [("bpe", 40, "codes.bpe"), ("sentencepiece", 60, "sentencepiece.model")])
def test_a_subword_model_of_ones_own(text, tmp_path, tokens, size, file):
    prepare(text, tmp_path / "learnt", tokens, size)
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
    assert ("other given" if tokens == "bpe" else "not a SentencePiece model") in refusal(main, *arguments)
    for content in ("\n", "a b c\n"):
        model.write_text(content)
        assert f"--model {model}" in refusal(main, *arguments)


def test_pieces_that_cannot_be_joined_or_lack_marks_that_are_kept_are_refused(text, tmp_path):
    import sentencepiece

    def own(**options):
        """Arguments that name a SentencePiece model that was trained with the options."""
        given = {"vocab_size": 330, "hard_vocab_limit": False, "minloglevel": 2, **options}
        (tmp_path / "lines").write_text("\n".join(lines(text / "train.source")).replace("<q>", ""))
        model = str(tmp_path / "mine")
        sentencepiece.SentencePieceTrainer.train(input=str(tmp_path / "lines"), model_prefix=model, **given)
        return ["--tokens", "sentencepiece", "--model", f"{model}.model"]

    for option in ("byte_fallback", "treat_whitespace_as_suffix"):
        said = refusal(main, text, tmp_path / "out", *own(**{option: True, "user_defined_symbols": "<q>"}))
        assert f"train it without --{option}" in said
    marks = ["--no-target-sentence-marks", "--source-sentence-marks"]
    first, *others = lines(text / "train.target")
    (text / "train.target").write_text("\n".join([f"{first} <q> {first}", *others]) + "\n")
    for more in ([], marks):
        assert "train it with --user_defined_symbols='<q>'" in refusal(main, text, tmp_path / "out", *own(), *more)
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


@pytest.mark.parametrize("tokens,size,model", [("bpe", 40, "codes.bpe"), ("sentencepiece", 60, "sentencepiece.model")])
def test_a_second_run_does_only_what_is_missing_and_lists_what_was_not_listed(text, tmp_path, tokens, size, model):
    out = tmp_path / "out"
    prepare(text, out, tokens, size)
    sums = out / "SHA256SUMS"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*") if path.is_file() and path != sums}
    missing, listed = out / "tokens" / "valid.source", sums.read_bytes()
    content = missing.read_bytes()
    missing.unlink()
    Checksums(out).forget(model, "prepare.json", "report.json")
    prepare(text, out, tokens, size)
    assert missing.read_bytes() == content and sums.read_bytes() == listed
    for path, time in before.items():
        assert path == missing or path.stat().st_mtime_ns == time, f"{path} was made again"


def test_an_interruption_leaves_no_half_file_and_binarisation_is_done_again(text, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(encode, "build_encoder", lambda *_: mock.Mock(side_effect=[*"abc", KeyboardInterrupt]))
    with pytest.raises(KeyboardInterrupt):
        prepare(text, out, "word", 30)
    assert not (out / "tokens" / "train.source").exists()
    monkeypatch.undo()
    prepare(text, out, "word", 30)
    assert len(lines(out / "tokens" / "train.source")) == 60
    (out / "bin" / "complete").unlink()
    (out / "bin" / "test.source-target.source.bin").write_bytes(b"half")
    prepare(text, out, "word", 30)
    assert (out / "bin" / "complete").exists()
    assert (out / "bin" / "test.source-target.source.bin").stat().st_size > 4


def test_sentencepiece_learns_from_long_documents_and_a_test_split_is_not_needed(text, tmp_path):
    """By default, SentencePiece leaves out lines of more than 4,192 bytes."""
    for path in text.glob("test.*"):
        path.unlink()
    documents = [" ".join([line, "zebra"] * 100) for line in lines(text / "train.source")]
    (text / "train.source").write_text("".join(d + "\n" for d in documents), encoding="utf-8")
    prepare(text, tmp_path / "out", "sentencepiece", 50)
    vocabulary = (tmp_path / "out" / "sentencepiece.vocab").read_text(encoding="utf-8")
    assert "z" in vocabulary, "a letter that only the documents have was not learnt"
    assert {path.name for path in (tmp_path / "out" / "tokens").glob("*.source")} == {"train.source", "valid.source"}


def test_other_options_or_another_text_are_not_mixed_in_but_another_size_after_one_that_is_refused(text, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match="--size 99999"):
        prepare(text, out, "sentencepiece", 99999)
    with pytest.raises(InputError, match="prepared with other settings"):
        prepare(text, out, "sentencepiece", 50, lowercase=False)
    prepare(text, out, "sentencepiece", 50)
    prepare(text, tmp_path / "fresh", "sentencepiece", 50)
    for name in ("prepare.json", "tokens/train.source"):
        assert (out / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()
    with pytest.raises(InputError, match="prepared with other settings"):
        prepare(text, out, "sentencepiece", 51)
    (text / "test.source").write_text("".join(f"other {i}\n" for i in range(5)), encoding="utf-8")
    with pytest.raises(InputError, match="prepared with other text"):
        prepare(text, out, "sentencepiece", 50)


@pytest.mark.parametrize(
    "contents,words",
    [
        ({"train.target": b"one\n"}, ["train.source has 60", "train.target has 1"]),
        ({"valid.source": b"", "valid.target": b""}, ["line counts"]),
        ({"test.source": b"a\nb\n\xff\xfe\nd\ne\n"}, ["test.source, line 3"]),
        ({"test.target": None}, ["test.target"]),
    ],
)
def test_bad_text_is_refused(text, tmp_path, contents, words):
    for name, content in contents.items():
        (text / name).unlink()
        if content is not None:
            (text / name).write_bytes(content)
    error = refusal(main, text, tmp_path / "out", "--tokens", "word", "--jobs", "1")
    assert all(word in error for word in words) and not (tmp_path / "out" / "bin" / "complete").exists()


def test_options_that_do_not_fit_together_are_named(text, tmp_path):
    """The last option is the one that is named."""
    for options in (
        "--words raw",
        "--source-size 5",
        "--size 30 --target-size 30",
        "--factors tf --tf-bins 1",
        "--spacy-model en",
        f"--tokens bpe --model {__file__} --size 5",
        f"--model {__file__}",
    ):
        named = " ".join(options.split()[-2:])
        assert named in refusal(main, text, tmp_path / "out", "--tokens", "word", *options.split())
    assert "--factors tf tf" in refusal(main, text, tmp_path / "out", "--tokens", "word", "--factors", "tf", "tf")
    assert "leave out --tokens" in refusal(main, text, tmp_path / "out", "--like", "none", "--tokens", "word")
    assert not (tmp_path / "out" / "bin").exists()


def test_folders_that_cannot_be_used_are_named(text, tmp_path):
    words = ["--tokens", "word", "--jobs", "1"]
    assert "file" in refusal(main, text, corpora.write(tmp_path / "file", "x"), *words)
    assert "OUT has a line break in its path" in refusal(main, text, tmp_path / "a\nb", *words)
    assert "a:b: contains a colon" in refusal(main, text, tmp_path / "a:b", *words) and not (tmp_path / "a:b").exists()
    assert "not a completed output folder" in refusal(main, text, tmp_path / "out", "--like", tmp_path / "none")
    prepare(text, tmp_path / "out", "word", 8000)
    for name in ("report.json", "prepare.json"):
        (tmp_path / "out" / name).write_text('{"settings')
        assert f"{name} is damaged" in refusal(main, text, tmp_path / "out", *words)


@pytest.mark.parametrize(
    "tokens,words,size",
    [("bpe", "moses", 30), ("sentencepiece", "", 60), ("sentencepiece-bpe", "", 60), ("word", "ptb", 30)],
)
def test_sentence_marks_are_one_token_on_the_side_that_keeps_them(text, tmp_path, tokens, words, size):
    prepare(text, tmp_path / "plain", tokens, size, words=words)
    for path in text.iterdir():
        marked = [line.replace(" ", " <q> ", 1) for line in lines(path)]
        path.write_text("".join(line + "\n" for line in marked), encoding="utf-8")
    for source in (False, True):
        out = tmp_path / str(source)
        options = prepare(text, out, tokens, size, words=words, source_marks=source, target_marks=not source)
        assert options.get("text-sentence-marks") == ("insert" if source else None)
        for side, keeps in (("source", source), ("target", not source)):
            for line in lines(out / "tokens" / f"train.{side}"):
                assert line.split().count("<q>") == keeps, line
        dictionary = SummarizationDictionary.load(str(out / "bin" / "dict.source.txt"))
        assert dictionary.index("<q>") < dictionary.known_words and dictionary.index("<q>") != dictionary.unk()
    for name in ("codes.bpe", "tokens/train.source") if tokens == "bpe" else ():
        assert (tmp_path / "plain" / name).read_text() == (tmp_path / "False" / name).read_text(), "a mark changed it"


def dictionaries(out):
    """Dictionaries of documents and of summaries."""
    return [SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt")) for side in ("source", "target")]


def test_separate_dictionaries(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "word", 30, separate=True, source_size=20, target_size=9)
    source, target = dictionaries(out)
    assert 24 == source.known_words < len(source), "documents keep words to put for <unk>"
    assert target.known_words == len(target) == 16
    assert "the" in source and "the" not in target
    assert all(word in source for word in " ".join(lines(out / "tokens" / "test.source")).split())


@pytest.mark.parametrize(
    "tokens,size,more,new_token",
    [("bpe", 40, {"factors": ["idf", "tf"]}, "ü@@"), ("word", 30, {"target_size": 9}, "übung")],
)
def test_a_test_set_like_that_of_a_trained_model(text, tmp_path, tokens, size, more, new_token):
    model, new, out = (tmp_path / name for name in ("model", "new", "out"))
    prepare(text, model, tokens, size, **more)
    corpora.write(new / "test.source", "The audio library plays übung.\n")
    corpora.write(new / "test.target", "audio\n")
    main([str(new), str(out), "--like", str(model), "--jobs", "1"])
    trained, longer = dictionaries(model), dictionaries(out)
    assert longer[0].symbols == longer[1].symbols
    for before, after in zip(trained, longer):
        assert after.symbols[: len(before)] == before.symbols and after.known_words == before.known_words
        assert compute_fingerprint(after) == compute_fingerprint(before), "a checkpoint would refuse it"
    assert all(token in longer[0] for token in lines(out / "tokens" / "test.source")[0].split())
    assert new_token in longer[0] and new_token not in trained[0]
    reused = [*(f"bin/dict.factor-{name}.txt" for name in more.get("factors", ())), *["codes.bpe"] * (tokens == "bpe")]
    for name in reused:
        assert (out / name).read_bytes() == (model / name).read_bytes()
    assert all((out / "bin" / f"test.factor-{name}.idx").exists() for name in more.get("factors", ()))
    assert not (out / "bin" / "train.source-target.source.idx").exists()


def test_another_directory_to_be_like_is_not_mixed_in(text, tmp_path):
    models = [tmp_path / name for name in ("one", "two")]
    for size, model in zip((30, 20), models):
        prepare(text, model, "word", size)
    (models[1] / "prepare.json").write_bytes((models[0] / "prepare.json").read_bytes())
    arguments = [str(text), str(tmp_path / "out"), "--jobs", "1", "--like"]
    main([*arguments, str(models[0])])
    main([*arguments, str(models[0].rename(tmp_path / "moved"))])
    for like in (models[1], None):
        with pytest.raises(InputError, match="was prepared with other like"):
            prepare_with(PreparationSettings("word", 30, True), text, tmp_path / "out", 1, like)


def test_the_settings_of_a_corpus_replace_only_defaults():
    for options, *expected in (
        ("", "word", "spaces", 50_000),
        ("--tokens bpe --size 30", "bpe", "spaces", 30),
        ("--tokens bpe --model codes", "bpe", "spaces", PreparationSettings("bpe").size),
        ("--tokens sentencepiece-bpe --words ptb", "sentencepiece-bpe", "ptb", 50_000),
    ):
        found = make_settings(build_parser().parse_args(["text", "out", "--corpus", "gigaword", *options.split()]))
        assert [found.tokens, found.words, found.size] == expected


def test_summaries_may_know_fewer_words_of_the_one_dictionary_as_the_report_says(text, tmp_path):
    """The unknown word itself cannot be copied."""
    out = tmp_path / "out"
    for name, more in (("source", " <unk>"), ("target", " unheard <unk>")):
        path = text / f"test.{name}"
        path.write_text(path.read_text().replace("\n", f"{more}\n"))
    prepare(text, out, "word", 30, target_size=9, words="spaces")
    source, target = dictionaries(out)
    assert source.symbols == target.symbols and (source.known_words, target.known_words) == (40, 16)
    targets = make_dataset(str(out / "bin" / "test.source-target.target"), "mmap")
    for ids, line in zip(targets, lines(out / "tokens" / "test.target")):
        assert [source[number] for number in ids[:-1].tolist()] == [w if w in source else "<unk>" for w in line.split()]

    report = json.loads((out / "report.json").read_text())["vocabulary"]
    assert report["known"] == {"source": 30, "target": 9} and report["asked"] == {"source": 30, "target": 9}
    known = set(target.symbols[4:13])
    for split in ("train", "valid", "test"):
        words = unknown = copyable = 0
        for document, summary in zip(*(lines(out / "tokens" / f"{split}.{side}") for side in ("source", "target"))):
            for word in summary.split():
                words += 1
                unknown += word not in known
                copyable += word not in known and word in document.split() and word != "<unk>"
        assert report["summaries"][split] == {"words": words, "unknown": unknown, "copyable": copyable}
    assert 0 < copyable < unknown < words


def test_a_damaged_subword_model_is_named(text, tmp_path, capsys):
    for tokens, name, content in (
        ("bpe", "codes.bpe", "#version: 0.2\na b c\n"),
        ("sentencepiece", "sentencepiece.model", "garbage"),
    ):
        for file in (name, "sentencepiece.vocab"):
            corpora.write(tmp_path / tokens / file, content)
        with pytest.raises(InputError, match=f"{name} is damaged"):
            prepare(text, tmp_path / tokens, tokens, 40)
    assert capsys.readouterr().err == ""


def test_every_file_is_compared_until_its_list_is_deleted(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "bpe", 40, factors=["tf", "idf"])
    listed = [folder / name for folder in (out, out / "bin") for name in Checksums(folder).listed]
    made = {path for path in out.rglob("*") if path.is_file() and path.stat().st_size}
    logs = {out / "preprocess.txt", out / "bin/preprocess.log", out / "SHA256SUMS", out / "bin/SHA256SUMS"}
    assert made - logs == set(listed)
    for path in listed:
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b"#\n")
        with pytest.raises(InputError, match=rf"{path.name} is damaged or was changed: .* (delete|Delete) {out}"):
            prepare(text, out, "bpe", 40, factors=["tf", "idf"])
        path.write_bytes(content)
    dictionary = out / "bin" / "dict.source.txt"
    edited = dictionary.read_text().replace("audio ", "adio ")
    dictionary.write_text(edited)
    (out / "bin" / "SHA256SUMS").unlink()
    prepare(text, out, "bpe", 40, factors=["tf", "idf"])
    assert dictionary.read_text() == edited


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
        prepare(text, tmp_path / "out", "word", 30)
    monkeypatch.undo()
    path.write_bytes(content)
    prepare(text, tmp_path / "out", "word", 30)
    assert "radio" not in (tmp_path / "out/tokens/valid.source").read_text()
    Checksums(text).add("valid.source")
    path.write_bytes(content.replace(b"audio", b"radio"))
    with pytest.raises(InputError, match=r"valid\.source is damaged .*delete .*text/SHA256SUMS"):
        prepare(text, tmp_path / "other", "word", 30)


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


def test_a_share_names_the_place_of_bad_bytes_and_impossible_shares_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"good\n" * 4 + b"not \xff good\n")
    with pytest.raises(InputError, match="file, byte 24: not UTF-8"):
        list(Shard(2, 2).iterate_lines(tmp_path / "file"))
    for value in ("0/2", "3/2", "2", "1/0", "a/b"):
        with pytest.raises(InputError, match=f"--shard {value}"):
            Shard.parse(value)


def files(folder):
    """Collect all files of a preparation, except shares and messages."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    left = ("shards", "preprocess.txt", "bin/preprocess.log")
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith(left)}


def share(text, out, value, size=20):
    prepare_with(PreparationSettings("word", size), text, out, 1, shard=Shard.parse(value))


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
    share(text, out, "2/2", 21)
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
