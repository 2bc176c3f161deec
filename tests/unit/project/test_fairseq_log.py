"""scripts/fairseq_log.py: the parts of fairseq's output that a user of the scripts sees."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dry_runs import dry_run, make_stubs

SCRIPT = Path(__file__).parents[3] / "scripts" / "fairseq_log.py"
sys.path.insert(0, str(SCRIPT.parent))
try:
    import fairseq_log
finally:
    sys.path.remove(str(SCRIPT.parent))

TRAIN = ["fairseq-train", "bin", "--max-tokens", "4000", "--max-tokens", "500", "--max-update", "1800"]
TRACEBACK = """\
Traceback (most recent call last):
  File "/bin/fairseq-train", line 8, in <module>
    sys.exit(cli_main())
{}"""


def stamp(text, level="INFO", module="fairseq_cli.train"):
    return f"2026-11-22 03:51:25 | {level} | {module} | {text}"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def watcher(command=TRAIN, **options):
    said, clock = [], Clock()
    return fairseq_log.LogWatcher(command, lambda text, _: said.append(text), clock, **options), said, clock


@pytest.mark.parametrize(
    "output, status, words",
    [
        (
            "usage: fairseq-train [-h]\n  [--lr LR]\nfairseq-train: error: argument --lr: invalid",
            2,
            "argument --lr: invalid",
        ),
        (
            "fairseq-train: error: argument --arch/-a: invalid choice: 'etadz' (choose from 'lstm', 'etads')",
            2,
            "argument --arch/-a: invalid choice: 'etadz'; etads-models lists the architectures",
        ),
        (TRACEBACK.format("ValueError: --focus-layers 9: choose"), 1, "--focus-layers 9: choose"),
        (TRACEBACK.format("fairseq_etads.platform.compat.UnsafeCheckpointError: a.pt: refused"), 1, "a.pt: refused"),
        (
            TRACEBACK.format("RuntimeError: Error(s) in loading:\n\tsize mismatch"),
            1,
            "RuntimeError: Error(s) in loading: size",
        ),
        (
            TRACEBACK.format("KeyError: 'a'")
            + "\n\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACEBACK.format("KeyError: 'b'"),
            1,
            "KeyError: 'b'",
        ),
        (TRACEBACK.format("AssertionError"), 1, "AssertionError"),
        ("only this", 1, "only this"),
        ("", 3, "it said nothing and ended with exit status 3"),
        (
            "",
            -9,
            "killed, as the system does when memory runs out: lower --max-tokens (now 500), then --truncate-source",
        ),
        (
            TRACEBACK.format("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
            1,
            "out of memory: lower --max-tokens (now 500)",
        ),
        (TRACEBACK.format("torch.OutOfMemoryError: CUDA out of memory. Tried"), 1, "out of memory: lower"),
    ],
)
def test_the_reason_of_a_failure(output, status, words):
    reason = fairseq_log.explain_failure(output.split("\n"), status, TRAIN)
    assert words in reason and "\n" not in reason


def test_generation_without_memory_names_its_own_options():
    assert "--beam" in fairseq_log.explain_failure([], -9, ["/bin/fairseq-generate", "--max-tokens", "8"])


def test_a_log_record_behind_the_traceback_is_no_part_of_the_reason():
    lines = [*TRACEBACK.format("ValueError: --lr").split("\n"), stamp("done")]
    assert fairseq_log.explain_failure(lines, 1, TRAIN) == "--lr"


def inner(step, loss=9.0):
    return stamp(
        f"epoch 001:    {step} / 160 loss={loss}, ppl=440, wps=1, num_updates={step}, lr=1", module="train_inner"
    )


def test_progress_tells_the_share_and_the_time_left():
    watch, said, clock = watcher()
    clock.now = 100  # fairseq is reading data
    watch.read_line(stamp("begin training epoch 1", module="fairseq.trainer"))
    for step, now in ((100, 160), (110, 161), (900, 640)):
        clock.now = now
        watch.read_line(inner(step))
    assert said == [
        "step 100 of 1,800 (6 %), loss 9.0, about 17 min left",
        "step 900 of 1,800 (50 %), loss 9.0, about 9 min left",
    ], "the second line came too soon after the first to be shown"


def test_a_training_that_goes_on_is_not_timed_by_the_steps_before():
    watch, said, clock = watcher()
    watch.read_line(stamp("Loaded checkpoint run/checkpoint_last.pt (epoch 5 @ 800 updates)", module="fairseq.trainer"))
    clock.now = 50
    watch.read_line(inner(900))
    assert said == ["continuing after step 800", "step 900 of 1,800 (50 %), loss 9.0, about 8 min left"]


def test_epochs_can_end_before_the_steps():
    watch, said, clock = watcher([*TRAIN, "--max-epoch", "2"])
    clock.now = 80
    watch.read_line(inner(80))
    assert said == ["step 80 of 320 (25 %), loss 9.0, about 4 min left"]


def test_what_takes_unusually_long_can_be_stopped_and_says_so_once():
    watch, said, clock = watcher(usual_minutes=2)
    watch.read_line(stamp("Saved checkpoint run/checkpoint_last.pt (epoch 1 @ 160 updates, score 5.9)"))
    for step in (100, 200, 300, 400):
        clock.now += 60
        watch.read_line(inner(step))
    advice = [line for line in said if "longer than the usual 2 minutes" in line]
    assert len(advice) == 1 and said.index(advice[0]) == 3, said
    assert "(step 160)" in advice[0] and "Ctrl-C" in advice[0] and "15 min left" in advice[0]


def test_every_kind_of_warning_is_shown_once():
    watch, said, _ = watcher()
    for number in (3, 44):
        watch.read_line(
            stamp(f"gradient overflow detected, setting loss scale to: {number}.0", "WARNING", "fairseq.trainer")
        )
    watch.read_line("WARNING:fairseq_etads.training.task:7 words cannot be copied")
    watch.read_line(stamp("ran out of memory in forward pass, skipping batch", "WARNING", "fairseq.trainer"))
    assert said[:2] == [
        "warning: gradient overflow detected, setting loss scale to: 3.0",
        "warning: 7 words cannot be copied",
    ]
    assert len(said) == 3 and "lower --max-tokens" in said[2]


def test_truncation_of_the_training_data_is_shown():
    watch, said, _ = watcher()
    for split in ("valid", "train"):
        text = f"{split} documents: 10 of 12 cut to 20 tokens (52 tokens, 87.0%, left out)"
        watch.read_line(stamp(text, module="fairseq_etads.data.pairs"))
    (line,) = said
    assert line.startswith("train documents: 10 of 12") and "87.0%" in line and "--truncate-source" in line


def test_validation_is_shown_with_its_scores():
    watch, said, _ = watcher()
    text = "epoch 002 | valid on 'valid' subset | loss 5.5 | ppl 46.67 | rouge2 11 | num_updates 80 | best_loss 5.4"
    watch.read_line(stamp(text, module="valid"))
    watch.read_line(stamp("validation sample 0 summary:   a cat", module="fairseq_etads.training.validation.samples"))
    assert said == [
        "validated after step 80: loss 5.5, ppl 46.67, rouge2 11, best loss 5.4",
        "validation sample 0 summary:   a cat",
    ]


def test_a_training_that_the_clock_cut_is_called_so():
    watch, said, _ = watcher()
    watch.read_line(inner(180))
    watch.read_line(stamp("Stopping training due to cumulative_training_time: 0.2 > stop_time_hours: 0.1 hour(s)"))
    watch.report_command_end(0, "log")
    assert "WARNING: the time limit ended training after about step 180 of 1,800 (10 %)" in said[-1]
    whole, said, _ = watcher()
    whole.read_line(stamp("Stopping training due to num_updates: 1800 >= max_update: 1800"))
    whole.report_command_end(0, "log")
    assert said == []


def test_summaries_and_empty_documents_are_counted():
    watch, said, clock = watcher(["fairseq-generate"], documents=3)
    for number in range(3):
        clock.now += 60
        watch.read_line(stamp(f"1 empty document(s) (numbers {number}): their summaries are empty", "WARNING", "task"))
        watch.read_line(f"D-{number}\t-0.5\ta summary")
    watch.report_command_end(0, "log")
    assert said == ["1 of 3 summaries", "2 of 3 summaries", "3 documents are empty, and so are their summaries"]


def test_hypotheses_of_a_document_are_one_summary():
    watch, said, clock = watcher(["fairseq-generate"], documents=3)
    for number in (2, 2, 0, 0, 1, 1):
        clock.now += 60
        watch.read_line(f"D-{number}\t-0.5\ta hypothesis")
    assert said == ["1 of 3 summaries", "2 of 3 summaries"]


def test_the_documents_of_a_shard_are_counted(tmp_path):
    """There was one too many, so that "2 of 3 summaries" was the last line."""
    stubs = make_stubs(tmp_path, ["etads-prepare", "fairseq-generate"])
    tokens = stubs / "run" / "prepared" / "tokens" / "test.source"
    tokens.parent.mkdir(parents=True)
    tokens.write_text("w1\n" * 10)
    counts = []
    for number in range(1, 5):
        command = ["scripts/generate.sh", "--run", "run", "--output", "out", "--shard", f"{number}/4"]
        (call,) = [call for call in dry_run(stubs, command)[1] if "--new" in call]
        counts.append(call[call.index("--documents") + 1])
    assert counts == ["3", "3", "2", "2"]


def run(tmp_path, code, *options):
    command = [sys.executable, str(SCRIPT), str(tmp_path / "log"), *options, "--", sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command_is_run_and_all_it_says_is_kept(tmp_path):
    code = "import os; os.write(2, b'one\\n\\xff\\x1b[2J'); os.write(1, b'two\\n'); raise SystemExit(7)"
    result = run(tmp_path, code)
    assert result.returncode == 7 and result.stdout == ""
    assert sorted((tmp_path / "log").read_bytes().splitlines()) == [b"one", b"two", b"\xff\x1b[2J"]
    assert (
        "failed: " in result.stderr
        and "\x1b" not in result.stderr
        and f"the full output is in {tmp_path}" in result.stderr
    )
    assert run(tmp_path, "print('three')").returncode == 0
    assert len((tmp_path / "log").read_bytes().splitlines()) == 4, "the log is continued"


def test_a_killed_command_is_reported(tmp_path):
    result = run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert result.returncode == 137 and "memory" in result.stderr


def test_it_ends_what_it_runs(tmp_path):
    code = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
    command = [sys.executable, str(SCRIPT), "log", "--", sys.executable, "-c", code]
    process = subprocess.Popen(command, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_a_second_signal_ends_even_what_does_not_listen(tmp_path):
    """After a second Ctrl-C, both handlers used to wait for the command, and one for itself, for ever."""
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w').close(); signal.pause()"
    process = subprocess.Popen(
        [sys.executable, SCRIPT, "log", "--", sys.executable, "-c", f"while True:\n {deaf}"], cwd=tmp_path
    )
    while not (tmp_path / "ready").exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None, "it should wait for the command"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM


def wait_for(path):
    """Wait for a file that a process writes; returns its content."""
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


def ended(pid):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


WAITS = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"


@pytest.mark.skipif(sys.platform != "linux", reason="a killed process can end its children only there")
@pytest.mark.parametrize("killed", ["log", "script"])
def test_what_it_runs_ends_even_if_it_or_the_script_is_killed(tmp_path, killed):
    command = [sys.executable, str(SCRIPT), "log", "--", sys.executable, "-c", WAITS]
    if killed == "script":
        command = ["bash", "-c", '"$@" & wait', "script", *command]
    process = subprocess.Popen(command, cwd=tmp_path)
    pid = int(wait_for(tmp_path / "pid"))
    process.kill()
    process.wait()
    assert ended(pid)


def test_a_log_is_one_process_s_at_a_time(tmp_path):
    process = subprocess.Popen([sys.executable, SCRIPT, "log", "--", sys.executable, "-c", WAITS], cwd=tmp_path)
    wait_for(tmp_path / "pid")
    result = run(tmp_path, "print('mixed')")
    assert result.returncode == 2 and f"is being written (fairseq_log.py, process {process.pid}" in result.stderr
    process.terminate()
    process.wait()
    assert "mixed" not in (tmp_path / "log").read_text()
    assert run(tmp_path, "print('alone')").returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
@pytest.mark.parametrize("code", ["print('one')", "print('one', flush=True); import time; time.sleep(600)"])
def test_a_full_disk_ends_the_command_in_words(tmp_path, code):
    (tmp_path / "log").symlink_to("/dev/full")
    result = run(tmp_path, code)
    assert result.returncode == 2 and "Traceback" not in result.stderr
    assert f"cannot write the log {tmp_path / 'log'}: No space left on device" in result.stderr
