"""scripts/quick_tests.py: its tests for a change, within its time limit."""

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "quick_tests.py"


@pytest.fixture(scope="module")
def quick():
    """The script as a module, which remembers what each file imports."""
    spec = importlib.util.spec_from_file_location("quick_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "changed, nearest",
    [
        ("fairseq_etads/layers/pointer.py", "layers/test_pointer.py"),
        ("fairseq_etads/attention.py", "attention/test_attention.py"),
        ("fairseq_etads/systems/abs/features.py", "systems/abs/test_extractive.py"),
        ("preprocess/factors.py", "preprocess/test_factors.py"),
        ("tests/recurrent.py", "models/test_recurrent.py"),
        ("tests/reference/search.py", "search/test_penalties.py"),
        ("tests/unit/text/test_words.py", "text/test_words.py"),
        ("scripts/mutation_testing.py", "project/test_documented_commands.py"),
        ("docs/overview.md", "project/test_imports.py"),
    ],
)
def test_a_change_is_tested_by_what_is_about_it(changed, nearest, quick):
    assert (ROOT / changed).is_file()
    chosen = quick.choose_tests([changed], most=400)
    assert f"tests/unit/{nearest}" in chosen
    assert len(chosen) < len(quick.list_unit_tests()) / 2


def test_the_nearest_come_first(quick):
    near = quick.compute_distances(["fairseq_etads/layers/pointer.py"])
    assert near["tests/unit/layers/test_pointer.py"] == quick.NEAREST
    assert near["tests/unit/layers/test_sharing.py"] == quick.PACKAGE
    assert near["tests/unit/models/test_pickling.py"] == quick.PACKAGES
    assert "tests/unit/evaluation/test_rouge.py" not in near and "tests/unit/preprocess/test_readers.py" not in near
    chosen = quick.choose_tests(["fairseq_etads/layers/pointer.py"], most=90)
    assert [near[test] for test in chosen] == sorted(near[test] for test in chosen)


@pytest.mark.parametrize("changed", [[], ["fairseq_etads/layers/pointer.py"], ["fairseq_etads/platform/compat.py"]])
def test_what_is_chosen_takes_no_longer_than_it_may(changed, quick):
    known = quick.read_test_times()
    for most in (10, 90):
        chosen = quick.choose_tests(changed, most)
        assert chosen and sum(known.get(test, quick.UNKNOWN) for test in chosen) <= most
    assert quick.choose_tests(["tests/unit/search/test_shortlist.py"], most=0) == [
        "tests/unit/search/test_shortlist.py"
    ]


def test_the_core_exists_and_fits(quick):
    core = [f"tests/unit/{name}.py" for name in quick.CORE.split()]
    assert not [path for path in core if not (ROOT / path).is_file()]
    assert sorted(quick.choose_tests([], most=90)) == sorted(core)


def test_no_test_starts_after_the_time_is_up(request):
    conftest = request.config.pluginmanager.getplugin(str(ROOT / "tests" / "conftest.py"))
    for until in (time.time() + 60, time.time() - 1):
        item = SimpleNamespace(config=SimpleNamespace(until=until))
        if until > time.time():
            conftest.pytest_runtest_setup(item)
        else:
            with pytest.raises(pytest.skip.Exception, match="no time left"):
                conftest.pytest_runtest_setup(item)


def test_new_and_changed_files_count(quick, tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for name in ("kept.py", "changed.py", "deleted.py"):
        (tmp_path / name).write_text("")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    assert quick.list_changed_files("HEAD") == []
    (tmp_path / "changed.py").write_text("x = 1\n")
    (tmp_path / "new.py").write_text("")
    (tmp_path / "deleted.py").unlink()
    assert quick.list_changed_files("HEAD") == ["changed.py", "new.py"]
    with pytest.raises(SystemExit, match="unknown revision"):
        quick.list_changed_files("no-such-commit")


def test_times_are_taken_from_a_report(quick, tmp_path, monkeypatch):
    (tmp_path / "tests").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "tests" / f"test_{name}.py").write_text("")
    report = tmp_path / "report.xml"
    cases = [("tests.test_a", 1.25), ("tests.test_a.TestIt", 2), ("tests.test_b", 0.5), ("tests.test_gone", 9)]
    text = "".join(f'<testcase classname="{name}" name="test" time="{time}"/>' for name, time in cases)
    report.write_text(f"<testsuites><testsuite>{text}</testsuite></testsuites>")
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    monkeypatch.setattr(quick, "SECONDS", tmp_path / "seconds.json")
    quick.SECONDS.write_text(json.dumps({"tests/test_b.py": 7, "tests/test_c.py": 3, "tests/test_old.py": 4}))
    quick.record_test_times(report)
    assert quick.read_test_times() == {"tests/test_a.py": 3.2, "tests/test_b.py": 0.5, "tests/test_c.py": 3}


def test_the_command_prints_files_and_says_what_it_left_out():
    command = [sys.executable, str(SCRIPT), "fairseq_etads/layers/pointer.py", "--seconds", "20"]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT.parent)
    lines = result.stdout.splitlines()
    assert "tests/unit/layers/test_pointer.py" in lines and all((ROOT / line).is_file() for line in lines)
    assert "left out for their time:" in result.stderr
