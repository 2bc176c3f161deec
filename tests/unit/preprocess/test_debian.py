"""The Debian corpus: parsing, counted drops, splits that share no text, the command, and the sample."""

import contextlib
import gzip
import hashlib
import json
import lzma
import shutil
from collections import Counter
from unittest import mock

import pytest
from etads_preprocess import debian
from etads_preprocess.debian import DebianOptions, DescriptionPair, find_split_overlaps, group_related_pairs

from fairseq_etads.files.outputs import open_binary_output

TRANSLATION = b"""\
Package: alpha
Description-md5: 0
Description-en: editor for alpha files
 Alpha edits files that are
 wrapped over lines.
 .
 It can:
  * open files, even those
    of other programs
  * save them
 Everything is undone with one key.

Package: beta
Description-en: transitional package
 This is a transitional package for gamma.

Package: nothing
Description-en: has no description

Package: nameless
Description-en:
 A description of which nobody has written the synopsis.

Package: unread
Description-md5: 1

Package: latin
Description-en: viewer for caf\xe9 menus
 Shows the menu of a caf\xe9\x07, e\xcc\x81crit in\tLatin-1.
"""


@pytest.fixture
def indexes(tmp_path):
    """Options naming indexes of 40 programs: foo-i with a library, and two versions of bar-i."""
    translation, packages = [], []
    for i in range(40):
        word = "".join("abcdefghij"[int(digit)] for digit in str(100 + i))  # digits would be masked
        shared = f"The {word} program converts {word} pictures to a {word} format, and back again if needed."
        for name, source, extra in (
            (f"foo-{word}", "", "It has a window."),
            (f"libfoo-{word}-dev", f"foo-{word} (1.0-{i})", "Headers only."),
            (f"bar-{word}-11", f"bar-{word}-11", f"Compiler of {word}, release eleven."),
            (f"bar-{word}-12", f"bar-{word}-12", f"The {word} compiler, newer."),
        ):
            first = shared + "\n .\n " if "foo" in name else ""
            translation.append(f"Package: {name}\nDescription-en: {name} synopsis\n {first}{extra} {name}\n")
            packages.append(f"Package: {name}\nVersion: 1\n" + (f"Source: {source}\n" if source else ""))
    (tmp_path / "Translation-en").write_text("\n".join(translation))
    (tmp_path / "Packages").write_text("\n".join(packages))
    inputs = ["--translation", tmp_path / "Translation-en", "--packages", tmp_path / "Packages"]
    return [*inputs, "--valid-size", "20", "--test-size", "20"]


def run(out, *arguments):
    """Run the command; returns its exit status."""
    return debian.main(["--out", str(out), *map(str, arguments)])


def read(out):
    """Split -> pairs, from the files; a document is one paragraph."""
    splits = {}
    for split in debian.SPLITS:
        sides = [(out / f"{split}.{end}").read_text(encoding="utf-8").split("\n") for end in debian.ENDS]
        assert [side.pop() for side in sides] == ["", "", ""] and len({*map(len, sides)}) == 1
        splits[split] = [DescriptionPair(*p.split("\t"), (s,), t) for s, t, p in zip(*sides)]
    return splits


def pairs_of(data):
    text = debian.decode_text(data)[0]
    found = [(s["Package"], s.get("Description-en", "")) for s in debian.parse_stanzas(text)]
    return {name: debian.split_description(value, Counter()) for name, value in found}


def test_paragraphs_and_lists_become_one_readable_line():
    first = "Alpha edits files that are wrapped over lines."
    second = "It can: open files, even those of other programs; save them. Everything is undone with one key."
    assert pairs_of(TRANSLATION)["alpha"] == ("editor for alpha files", (first, second))
    for lines, expected in (
        (" Verbatim:\n   a  =  b\n   c", ("Verbatim: a = b c",)),
        (" A sentence wrapped\n - with a dash - here.", ("A sentence wrapped - with a dash - here.",)),
        (" Has:\n - one\n - two\n words", ("Has: one; two words.",)),
        ("  * one, and\n  * two!", ("one, and two!",)),
        (" .\n text\n .\n .\n more\n .", ("text", "more")),
    ):
        assert debian.split_description(f"synopsis\n{lines}", Counter())[1] == expected


def test_bad_bytes_are_replaced_and_counted_and_control_characters_go():
    assert debian.decode_text(TRANSLATION)[1] == 2
    assert pairs_of(TRANSLATION.replace(b"\n", b"\r\n")) == pairs_of(TRANSLATION)
    synopsis, paragraphs = pairs_of(TRANSLATION)["latin"]
    assert synopsis == "viewer for caf\ufffd menus"
    assert paragraphs == ("Shows the menu of a caf\ufffd , écrit in Latin-1.",)
    assert debian.decode_text("a \ufffd of the author's own".encode())[1] == 0


def test_names_of_source_packages():
    names = debian.map_source_names("Package: liba1\nSource: a (1.2)\n\nPackage: b\n")
    assert names == {"liba1": "a", "b": "b"}
    for name in ("foo", "libfoo2-dev", "foo-doc", "python3-foo", "libfoo1.2", "foo-data-dbg"):
        assert debian.stem_package_name(name) == "foo"
    assert all(map(debian.stem_package_name, ("2048", "-dev", "lib", "r-"))), "an empty stem would join packages"


def test_report_accounts_for_every_stanza(tmp_path, indexes):
    alpha = TRANSLATION.split(b"\n\n")[0]
    other = alpha.replace(b"editor for", b"another").replace(b" Alpha", b" ALPHA")
    (tmp_path / "more").write_bytes(b"\n".join([TRANSLATION, alpha, b"", other]))
    assert run(tmp_path / "out", *indexes, "--translation", tmp_path / "more", "--train-size", "50") == 0
    report = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))
    used = sum(about["pairs"] for about in report["splits"].values())
    assert report["stanzas"] == used + sum(report["dropped"].values()) == 168
    assert report["undecodable"] == 2
    assert report["dropped"] == {
        **dict.fromkeys(("duplicate pair", "duplicate document", "empty description", "empty synopsis"), 1),
        **{"transitional or dummy package": 1, "no Package or Description-en field": 1},
        "no room in any split": 160 + 2 - used,
    }
    assert report["splits"]["train"]["pairs"] == 50
    for name, digest in report["outputs"].items():
        assert hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest() == digest


def test_texts_merge_source_packages():
    long = "This sentence is the same in both packages and longer than the limit of sixty. "
    common = "The files in this package are needed by programs that use {}."
    described = {
        "a": (long + "One.", "first"),
        "b": ("Two. " + long.upper(), "second"),
        "c": ("Short text.", "Second"),
        "d": ("Short text. Really.", "fourth"),
        "libname": (common.format("name"), "5th"),
        "title": (common.format("title"), "6ths"),
    }
    pairs = [DescriptionPair(n, n.removeprefix("lib"), (source,), target) for n, (source, target) in described.items()]
    groups = {name: [p.package for p in group] for name, group in group_related_pairs(pairs).items()}
    assert groups == {"a": ["a", "b", "c"], "d": ["d"], "name": ["libname", "title"]}


def test_the_builder_refuses_splits_that_share_text(tmp_path, indexes, monkeypatch, capsys):
    monkeypatch.setattr(debian, "group_related_pairs", lambda pairs: {p.package: [p] for p in pairs})
    assert run(tmp_path / "out", *indexes) == 2
    assert "in two splits" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_large_groups_stay_out_of_valid_and_test():
    groups = {f"small{i}": [DescriptionPair(f"s{i}", f"s{i}", (f"{i}",), "t")] for i in range(10)}
    groups["large"] = [DescriptionPair(f"l{i}", "large", (f"{i}",), "t") for i in range(6)]
    for seed in range(20):
        splits, _ = debian.assign_groups_to_splits(groups, DebianOptions(seed=seed, valid_size=8, test_size=8))
        assert not any(p.source_package == "large" for s in ("valid", "test") for p in splits[s])
    splits, dropped = debian.assign_groups_to_splits(groups, DebianOptions(max_per_group=1))
    assert dropped["above --max-per-group"] == 5


def test_a_source_package_is_in_one_split_and_the_order_of_packages_changes_nothing(tmp_path, indexes):
    stanzas = (tmp_path / "Translation-en").read_text(encoding="utf-8").split("\n\n")
    assert run(tmp_path / "one", *indexes) == 0
    splits = read(tmp_path / "one")
    assert [len(splits[s]) for s in ("valid", "test")] == [20, 20]
    home = {}
    for split, pairs in splits.items():
        for pair in pairs:
            assert home.setdefault(pair.source_package.rstrip("12"), split) == split, "versions are apart"
    assert len(home) == 80
    assert find_split_overlaps(splits) == []
    (tmp_path / "Translation-en").write_text("\n\n".join(reversed(stanzas)), encoding="utf-8")
    assert run(tmp_path / "two", *indexes) == 0
    assert run(tmp_path / "three", *indexes, "--seed", "2") == 0
    one, two, three = ([(tmp_path / d / n).read_bytes() for n in debian.OUTPUTS] for d in ("one", "two", "three"))
    assert one == two != three


def test_another_corpus_and_that_before_an_interrupted_write_are_kept(tmp_path, indexes, monkeypatch, capsys):
    out = tmp_path / "out"
    assert run(out, *indexes) == 0
    times = {p.name: p.stat().st_mtime_ns for p in out.iterdir()}
    assert set(times) == {*debian.OUTPUTS, "report.json", "SHA256SUMS"}
    assert run(out, *indexes) == 0
    assert {p.name: p.stat().st_mtime_ns for p in out.iterdir()} == times, "made again"
    assert run(out, *indexes, "--seed", "2") == 2
    (out / "test.source").write_text("edited\n", encoding="utf-8")
    assert run(out, *indexes) == 2
    assert "--force" in capsys.readouterr().err
    assert run(out, *indexes, "--force") == 0
    before = {p.name: p.read_bytes() for p in out.iterdir()}

    @contextlib.contextmanager
    def write_half(path):
        with open_binary_output(path) as file:
            file.write(b"half")
            yield mock.Mock(write=mock.Mock(side_effect=OSError(28, "No space left on device")))

    monkeypatch.setattr("etads_preprocess.debian.open_binary_output", write_half)
    assert run(out, *indexes, "--seed", "2", "--force") == 2
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--lists absent", "--lists absent"),
        ("--min-source-words 9 --max-source-words 8", "--min-source-words 9"),
        ("--sample --seed 3", "--sample"),
        ("--translation damaged.gz", "damaged.gz"),
        ("--translation other", "other"),
        ("--translation few", "--valid-size"),
    ],
)
def test_errors_are_one_line(tmp_path, capsys, monkeypatch, arguments, named):
    (tmp_path / "damaged.gz").write_bytes(gzip.compress(TRANSLATION)[:-20])
    (tmp_path / "other").write_text("something else", encoding="utf-8")
    (tmp_path / "few").write_bytes(TRANSLATION)
    monkeypatch.chdir(tmp_path)
    assert run(tmp_path / "out", *arguments.split()) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if ": warning: " not in line]
    assert named in line and not (tmp_path / "out").exists()


def test_sample_has_no_text_in_two_splits_and_its_damage_is_noticed(tmp_path, monkeypatch, capsys):
    assert run(tmp_path / "out", "--sample") == 0
    splits = read(tmp_path / "out")
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 12000, "valid": 500, "test": 500}
    assert find_split_overlaps(splits) == []
    sample = shutil.copytree(debian.SAMPLE, tmp_path / "sample")
    (sample / "test.target.xz").write_bytes(lzma.compress(b"other\n"))
    monkeypatch.setattr(debian, "SAMPLE", sample)
    assert run(tmp_path / "damaged", "--sample") == 2
    assert "test.target.xz is damaged" in capsys.readouterr().err
