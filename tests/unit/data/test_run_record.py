"""RUN/training.json: a run finds its data in any place."""

import pytest

from fairseq_etads.data.run_record import RunRecord, compute_data_fingerprint, find_prepared_folder
from fairseq_etads.platform.errors import InputError


@pytest.fixture
def shared(tmp_path):
    """Prepared data that several runs share."""
    folder = tmp_path / "with space" / "prepared"
    folder.mkdir(parents=True)
    (folder / "prepare.json").write_text("{}")
    (tmp_path / "run").mkdir()
    return folder


def test_a_run_with_shared_data_knows_where_they_are(shared, tmp_path):
    run = tmp_path / "run"
    RunRecord(["fairseq-train", "x/bin", "--lr", "1 2"], str(shared), compute_data_fingerprint(shared)).write(run)
    assert RunRecord.read(run).command == ["fairseq-train", "x/bin", "--lr", "1 2"]
    assert find_prepared_folder(run, None) == shared and find_prepared_folder(run, tmp_path) == tmp_path
    (shared / "prepare.json").write_text('{"other": 1}')
    with pytest.raises(InputError, match="the data there has changed; give --prepared"):
        find_prepared_folder(run, None)
    (shared / "prepare.json").unlink()
    with pytest.raises(InputError, match="which no longer exists; give --prepared"):
        find_prepared_folder(run, None)


def test_runs_of_an_earlier_version_and_moved_ones_know_them_too(shared, tmp_path):
    run = tmp_path / "run"
    for name in ("started.txt", "finished.txt"):
        (run / name).write_text(f"fairseq-train {shared}/bin --user-dir fairseq_etads --arch etads\n")
        assert find_prepared_folder(run, None) == shared
        (run / name).unlink()
    RunRecord([], str(tmp_path / "before" / "prepared"), {}).write(run)
    shared.rename(run / "prepared")
    assert find_prepared_folder(run, None) == run / "prepared"
    assert find_prepared_folder(tmp_path / "another", None) == tmp_path / "another" / "prepared"


@pytest.mark.parametrize("content", ["{", '{"command": []}', '{"command": [1], "prepared": "", "data": {}}'])
def test_a_damaged_record_is_refused(tmp_path, content):
    (tmp_path / "training.json").write_text(content)
    with pytest.raises(InputError, match=r"training\.json is damaged"):
        find_prepared_folder(tmp_path, None)
