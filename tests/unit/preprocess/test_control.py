"""etads-control: bins of lengths against an exhaustive search, control words through tokenisers, refusals."""

import random
from collections import Counter
from unittest import mock

import corpora
import pytest
from etads_preprocess import control
from etads_preprocess.control import ControlWords, LengthBins, count_summary_words, main
from etads_preprocess.readers.cnndm import _find_newspaper
from preparation import refusal
from programs import as_program
from seeds import shifted
from test_readers import lines, refused, run, stories

from fairseq_etads.files import outputs
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.tokenizer import TextTokenizer, TextTokenizerConfig

main = as_program(main)

SIZES = {"train": 40, "valid": 6, "test": 5}


def write_text(folder, lengths=range(1, 21)):
    """Splits of documents with summaries of the lengths in turn; two origins."""
    r = random.Random(shifted(0))
    for split, size in SIZES.items():
        counts = [lengths[number % len(lengths)] for number in range(size)]
        for side, words in (("source", [12] * size), ("target", counts)):
            made = (" ".join(f"w{r.randint(1, 9)}" for _ in range(count)) for count in words)
            corpora.write(folder / f"{split}.{side}", "".join(f"{line} <q> w1\n" for line in made))
        origins = ("CNN" if number % 3 else "dailymail" for number in range(size))
        corpora.write(folder / f"{split}.source.origin", "".join(f"{name}\n" for name in origins))
    return folder


@pytest.mark.parametrize("seed", range(20))
def test_bins_hold_as_equally_many_as_can_be(seed):
    """Each edge is the nearest one to the edge of equal bins, found by trying all."""
    r = random.Random(shifted(seed))
    wanted = r.randint(2, 6)
    lengths = [r.choice([r.randint(0, 8), r.randint(0, 60)]) for _ in range(r.randint(1, 80))]
    bins = LengthBins.from_lengths(lengths, wanted)
    assert bins.longest == sorted(set(bins.longest)) and bins.longest[-1] == max(lengths)
    numbers = [bins.find_bin_number(length) for length in sorted(lengths)]
    assert numbers == sorted(numbers) and [*Counter(numbers).items()] == [*enumerate(bins.counts, 1)]
    up_to = {length: sum(other <= length for other in lengths) for length in set(lengths)}
    for number in range(1, wanted):
        share = number * len(lengths) / wanted
        nearest = min(abs(count - share) for count in up_to.values())
        assert any(abs(up_to[length] - share) == nearest for length in bins.longest)
    assert bins.find_bin_number(5000) == len(bins.longest), "longer than any of the training"


def test_documents_get_the_words_of_their_references_unless_these_must_not_be_known(tmp_path, capsys):
    text = write_text(tmp_path / "text")
    (text / "test.target.1").write_text("another\n" * SIZES["test"])
    main([str(text), str(tmp_path / "out"), "--length-bins", "4", "--by-origin"])
    assert "so not for scores" in capsys.readouterr().out
    control = ControlWords.read(tmp_path / "out")
    assert control.bins.counts == [10] * 4
    for split in SIZES:
        assert lines(tmp_path / "out" / f"{split}.target") == lines(text / f"{split}.target")
        documents, summaries = (lines(text / f"{split}.{side}") for side in ("source", "target"))
        for number, line in enumerate(lines(tmp_path / "out" / f"{split}.source")):
            length = f"lengthbin{control.bins.find_bin_number(count_summary_words(summaries[number]))}"
            origin = "origincnn" if number % 3 else "origindailymail"
            assert line == f"{length} {origin} {documents[number]}"

    (text / "test.source.origin").unlink()  # no option needs this file
    like = ["--like", str(tmp_path / "out"), "--subset", "test", "--length", "3", "--origin", "CNN"]
    main([str(text), str(tmp_path / "fixed"), *like])
    assert "so not for scores" not in capsys.readouterr().out
    got = lines(tmp_path / "fixed" / "test.source")
    assert got == [f"lengthbin3 origincnn {line}" for line in lines(text / "test.source")]
    names = {path.name for path in (tmp_path / "fixed").iterdir()}
    assert names == {"test.source", "test.target", "test.target.1", "control.json", "SHA256SUMS"}
    assert ControlWords.read(tmp_path / "fixed") == control


def test_references_of_an_earlier_text_are_deleted(tmp_path, monkeypatch):
    text, out = write_text(tmp_path / "text"), tmp_path / "out"
    for number in (1, 2):
        (text / f"test.target.{number}").write_text("another\n" * SIZES["test"])
    main([str(text), str(out)])
    (text / "test.target.2").unlink()
    (out / "test.target.mine3").write_text("not written by the command\n")
    monkeypatch.setattr(control, "write_split_with_control_words", mock.Mock(side_effect=InputError("interrupted")))
    with pytest.raises(SystemExit):
        main([str(text), str(out)])
    monkeypatch.undo()
    main([str(text), str(out)])
    names = {path.name for path in out.glob("test.target*")}
    assert names == {"test.target", "test.target.1", "test.target.mine3"}


def test_impossible_options_are_refused(tmp_path):
    """The last option is the one that is named."""
    text = write_text(tmp_path / "text")
    of_lengths = ("--length-bins 1", "--length-bins 0", "--length 11", "--by-origin --length-bins 0 --length 2")
    for options in (*of_lengths, "--by-origin --origin bbc", "--origin cnn", "--like nowhere"):
        words = options.split()
        assert " ".join(words[-2:]) in refusal(main, text, tmp_path / "out", *words)


def test_an_output_has_the_control_words_of_one_setting(tmp_path, monkeypatch):
    text, out = write_text(tmp_path / "text"), tmp_path / "out"
    main([str(text), str(out), "--length-bins", "4"])
    listed = (out / "SHA256SUMS").read_text()
    for other in (["--length-bins", "3"], ["--by-origin", "--length-bins", "4"]):
        assert "was made with other control words" in refusal(main, text, out, "--subset", "test", *other)
        assert (out / "SHA256SUMS").read_text() == listed
    main([str(text), str(out), "--length-bins", "4", "--subset", "test", "--length", "2"])
    changed = set((out / "SHA256SUMS").read_text().split("\n")[1:]) ^ set(listed.split("\n")[1:])
    assert {line.split()[1] for line in changed} == {"test.source"}
    main([str(text), str(out), "--length-bins", "3"])
    assert "lengthbin4" not in (out / "train.source").read_text()
    with outputs.lock_output(out, "OUT", folder=True):
        monkeypatch.setattr(outputs, "_held", set())  # as in another process
        assert f"OUT {out}: is being written" in refusal(main, text, out, "--length-bins", "3")


def test_text_that_does_not_fit_is_refused(tmp_path):
    text, out = write_text(tmp_path / "text"), tmp_path / "out"
    assert "is the same folder as TEXT" in refusal(main, text, text)
    main([str(text), str(out)])
    assert "line 1: begins with a control word, lengthbin1, already" in refusal(main, out, tmp_path / "twice")
    (out / "control.json").write_text("{}")
    assert "is damaged or was changed" in refusal(main, text, tmp_path / "x", "--like", out)
    (out / "SHA256SUMS").unlink()
    assert "control.json is damaged" in refusal(main, text, tmp_path / "x", "--like", out)
    for origins, words in (
        (["cnn"], "valid.source.origin has 1 lines, fewer than"),
        (["new york"] * SIZES["valid"], '"new york" is not one word'),
        (["bbc"] * SIZES["valid"], 'the origin "bbc"'),
    ):
        (text / "valid.source.origin").write_text("\n".join(origins) + "\n")
        assert words in refusal(main, text, tmp_path / "x", "--by-origin")
    same = write_text(tmp_path / "same", lengths=[4])
    assert "cannot be divided into two bins" in refusal(main, same, tmp_path / "x")


@pytest.mark.parametrize("words", ["moses", "ptb", "spaces", "characters", "raw"])
def test_tokenisers_leave_control_words_whole(words):
    tokenizer = TextTokenizer(TextTokenizerConfig(text_words=words))
    for given in ("lengthbin10", "origindailymail", "origincnn"):
        assert tokenizer.encode(f"{given} The end.").split()[0] == given


def test_cnndm_says_which_newspaper_a_story_is_from(tmp_path):
    raw, out, more = corpora.cnndm(tmp_path / "raw"), tmp_path / "out", ["--expect", "any", "--keep-origin"]
    text, report = run(tmp_path, *stories(raw, "cnn", "dailymail"), *more)
    found = [lines(text / f"{split}.source.origin") for split in SIZES]
    assert found == [["dailymail", "cnn"] * 2 + ["dailymail"], *[["dailymail", "cnn"]] * 2], "the last has no text"
    assert "train.source.origin" in report["splits"]["train"]["files"]
    main([str(text), str(out), "--length-bins", "0", "--by-origin"])
    assert lines(out / "test.source")[0].startswith("origindailymail ")
    (raw / "cnn").rename(raw / "other")
    refused(tmp_path / "renamed", *stories(raw, "other", "dailymail"), *more)
    for url, name in (("http://www.cnn.com/x", "cnn"), ("http://www.dailymail.co.uk/cnn", "dailymail")):
        assert {_find_newspaper(url, tmp_path / folder / "stories") for folder in ("cnn", "dailymail")} == {name}
