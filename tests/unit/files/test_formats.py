"""Stored files say of which kind and version they are. Other kinds and later versions are refused."""

import json

import pytest

from fairseq_etads.commands.likelihood import read_likelihoods
from fairseq_etads.data.labels import SelectionFile, SentencePickingSettings, write_label_rows
from fairseq_etads.files.inputs import check_format, name_format
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search import content_model
from fairseq_etads.summarizer.folder.config import BUNDLED


@pytest.mark.parametrize(
    "header,words",
    [
        ({"format": "fairseq-etads picking 1"}, ""),
        ({"format": "fairseq-etads picking", "schema_version": 1}, ""),
        ({}, ""),
        ({"format": "fairseq-etads picking 3"}, r"FILE: written by a later version .* reads up to 2\): update with"),
        ({"format": "fairseq-etads picking", "schema_version": 3}, "written by a later version"),
        ({"format": "fairseq-etads shortlist 1"}, 'FILE: not a file of the kind "picking" .*; make it again'),
        ({"format": None}, "not a file of the kind"),
        *(
            ({"format": f"fairseq-etads picking {wrong}"}, "is not a version")
            for wrong in ("0", "-1", "1.0", "one", "")
        ),
        *(({"format": "fairseq-etads picking", "schema_version": x}, "is not a version") for x in (0, "1", 1.0, True)),
    ],
)
def test_kinds_and_versions(header, words):
    if not words:
        check_format(header, "picking", "FILE", "make it again", newest=2, may_lack=True)
        return
    with pytest.raises(InputError, match=words):
        check_format(header, "picking", "FILE", "make it again", newest=2, may_lack=True)


def test_readers_refuse_a_later_version_and_read_files_without_one(tmp_path, monkeypatch):
    labels, picking, content = (tmp_path / name for name in ("labels.words.test", "picking.json", "content.npz"))
    likelihoods = tmp_path / "likelihood-test-best.json"
    scores = {"checkpoint": "", "data": "", "subset": "", "log_likelihood": [], "tokens": [], "unknown": []}
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
    for version in ("", '"format": "fairseq-etads likelihoods 1", ', '"format": "fairseq-etads likelihoods 2", '):
        likelihoods.write_text("{" + version + json.dumps(scores)[1:])
        assert (read_likelihoods(likelihoods) is None) == version.endswith('2", ')
    monkeypatch.undo()
    model.save(content)
    for path in (labels, picking):
        path.write_text(path.read_text().replace(f'"format": "{name_format(path.name.split(".")[0], 2)}", ', ""))
    assert all(read() for _, read in readers)
