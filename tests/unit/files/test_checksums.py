"""SHA256SUMS notices damage anywhere; stored files say of which kind and version they are."""

import contextlib
import shutil
import subprocess
from argparse import Namespace

import pytest
import torch
from helpers import make_task

from fairseq_etads.data.labels import SelectionFile, SentencePickingSettings, write_label_rows
from fairseq_etads.files.checksums import NAME, Checksums
from fairseq_etads.files.inputs import check_format, name_format
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search import content_model
from fairseq_etads.summarizer.folder.config import BUNDLED


@pytest.fixture
def folder(tmp_path):
    """A folder with three files, two of them listed."""
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "sub/b.bin", "own.txt"):
        (tmp_path / name).write_bytes(b"content of " + name.encode())
    Checksums(tmp_path).add("a.txt", "sub/b.bin")
    return tmp_path


def test_changed_and_missing_files_are_named_with_two_ways_out(folder):
    (folder / "own.txt").write_bytes(b"changed")
    Checksums(folder).verify(["a.txt", "sub/b.bin", "own.txt"])
    (folder / "sub/b.bin").write_bytes(b"content of sub/b.bim")
    said = r"sub/b\.bin is damaged or was changed.*Create it again or.*delete .*SHA256SUMS"
    with pytest.raises(InputError, match=said):
        Checksums(folder).verify(["sub/b.bin"])
    (folder / "a.txt").unlink()
    with pytest.raises(InputError, match=r"a\.txt is missing"):
        Checksums(folder).verify(["a.txt"])
    Checksums(folder).verify(["a.txt"], may_be_missing=True)
    (folder / NAME).unlink()
    Checksums(folder).verify(["sub/b.bin"])


def test_the_list_itself_is_protected(folder):
    """Every changed byte and every truncation of the list is noticed."""
    content = (folder / NAME).read_bytes()
    for place in range(len(content)):
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]):
            (folder / NAME).write_bytes(damaged)
            with pytest.raises(InputError, match=r"SHA256SUMS is damaged: .*delete"):
                Checksums(folder)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="GNU coreutils are not installed")
def test_the_format_is_that_of_sha256sum(folder):
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", NAME], cwd=folder, check=True)
    made = subprocess.run(["sha256sum", "own.txt"], cwd=folder, check=True, capture_output=True).stdout
    (folder / NAME).write_bytes(made)
    assert list(Checksums(folder).listed) == ["own.txt"]
    Checksums(folder).verify(["own.txt"])


def test_what_was_made_from_a_file_that_changed_is_deleted(folder):
    made = Checksums(folder)
    made.watch(folder / "own.txt")
    with made.record_new_files("new.txt"):
        (folder / "new.txt").write_text("from own.txt")
    assert "new.txt" in Checksums(folder).listed
    with pytest.raises(InputError, match=r"own\.txt changed while it was being read"), made.record_new_files("new.txt"):
        (folder / "new.txt").write_text("from own.txt")
        (folder / "own.txt").write_text("changed in the meantime")
    assert not (folder / "new.txt").exists() and "new.txt" not in Checksums(folder).listed


def test_a_list_that_was_killed_in_between_is_not_wrong(folder):
    """Files that are being replaced are not listed until they are complete."""
    made = Checksums(folder)
    with pytest.raises(KeyboardInterrupt), made.record_new_files("a.txt"):
        (folder / "a.txt").write_text("new")
        raise KeyboardInterrupt
    Checksums(folder).verify(["a.txt", "sub/b.bin"])
    Checksums(folder).add("a.txt", "sub/b.bin")  # what was not listed is listed later
    (folder / "a.txt").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"a\.txt is damaged"):
        Checksums(folder).verify(["a.txt"])


def test_the_task_compares_a_split_with_all_its_parts_and_watches_it(tmp_path):
    for name in ("train.source-target.source.bin", "train1.source-target.target.idx"):
        (tmp_path / name).write_bytes(b"ids")
        Checksums(tmp_path).add(name)
        task = make_task()
        task.data_checks.verify(str(tmp_path), r"train\d*\.")
        task.data_checks.check_unchanged()
        (tmp_path / name).write_bytes(b"idt!")
        task.data_checks.verify(str(tmp_path), r"valid\d*\.")
        with pytest.raises(InputError, match="changed while it was being read"):
            task.train_step(None, torch.nn.Module(), None, None, 0)
        with pytest.raises(InputError, match="is damaged or was changed"):
            task.data_checks.verify(str(tmp_path), r"train\d*\.")
        (tmp_path / name).write_bytes(b"ids")


def test_the_task_compares_dictionaries_and_the_subword_model(tmp_path):
    codes, dictionary = tmp_path / "codes.bpe", tmp_path / "dict.factor-tf.txt"
    codes.write_text("#version: 0.2\na b</w>\n")
    dictionary.write_text("a 1\n")
    Checksums(tmp_path).add(codes.name, dictionary.name)
    options = Namespace(_name=None, bpe="subword_nmt", bpe_codes=str(codes), bpe_separator="@@")
    assert make_task().build_bpe(options).encode("ab") == "ab"
    codes.write_text("#version: 0.2\na c</w>\n")
    with pytest.raises(InputError, match=r"codes\.bpe is damaged or was changed"):
        make_task().build_bpe(options)
    make_task().data_checks.verify(str(tmp_path), r".*\.(txt|json)$")
    dictionary.write_text("a 2\n")
    with pytest.raises(InputError, match=r"dict\.factor-tf\.txt is damaged"):
        make_task().data_checks.verify(str(tmp_path), r".*\.(txt|json)$")


@pytest.mark.parametrize(
    "header,words",
    [
        ({"format": "fairseq-etads picking 1"}, ""),
        ({"format": "fairseq-etads picking", "schema_version": 1}, ""),
        ({}, ""),
        ({"format": "fairseq-etads picking 3"}, r"FILE: written by a later version .* reads up to 2\): update with"),
        ({"format": "fairseq-etads picking", "schema_version": 3}, "written by a later version"),
        ({"format": "fairseq-etads shortlist 1"}, 'FILE: not a file of the kind "picking" .*; make it again'),
        *(({"format": f"fairseq-etads picking {wrong}"}, "is not a version") for wrong in ("0", "1.0", "one", "")),
        *(({"format": "fairseq-etads picking", "schema_version": x}, "is not a version") for x in (0, "1", 1.0, True)),
    ],
)
def test_kinds_and_versions(header, words):
    with pytest.raises(InputError, match=words) if words else contextlib.nullcontext():
        check_format(header, "picking", "FILE", "make it again", newest=2, older=True)


def test_readers_refuse_a_later_version_and_read_files_without_one(tmp_path, monkeypatch):
    labels, picking, content = (tmp_path / name for name in ("labels.words.test", "picking.json", "content.npz"))
    readers = (
        (labels, lambda: SelectionFile(labels, "--labels").header["documents"] == 0),
        (picking, lambda: SentencePickingSettings.read(picking, "").words == 5),
        (content, lambda: content_model.ContentModel.load(content, "").tokens == "a-z0-9"),
    )
    write_label_rows(labels, {"documents": 0}, [])
    picking.write_text(SentencePickingSettings(5, ()).to_json())
    model = content_model.ContentModel.load(BUNDLED / "debian" / "content.npz", "")  # an older file, without "format"
    monkeypatch.setattr(content_model, "name_format", lambda kind: name_format(kind, 2))
    model.save(content)
    for path in (labels, picking):
        path.write_text(path.read_text().replace(" 1", " 2", 1))
    for _, read in readers:
        with pytest.raises(InputError, match="written by a later version"):
            read()
    monkeypatch.undo()
    model.save(content)
    for path in (labels, picking):
        path.write_text(path.read_text().replace(f'"format": "{name_format(path.name.split(".")[0], 2)}", ', ""))
    assert all(read() for _, read in readers)
