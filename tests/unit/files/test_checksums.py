"""SHA256SUMS: damage is noticed anywhere, files changed on purpose can be accepted, and a list is optional."""

import shutil
import subprocess
from argparse import Namespace

import pytest
import torch
from helpers import make_task

from fairseq_etads.files.checksums import NAME, Checksums
from fairseq_etads.platform.errors import InputError


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
