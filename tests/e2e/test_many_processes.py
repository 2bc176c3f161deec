"""Training by several processes on CPUs: they learn what one process learns and log the same; a killed one ends all."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
import toy
from helpers import environment, run_command
from toy import PLUGIN, PREPROCESS, SMALL_MODEL, by_two_workers, checkpoint, updates_of, write_pairs

from fairseq_etads.evaluation import rouge

TRAIN = ["--criterion", "summarization_nll", "--dropout", "0", "--no-epoch-checkpoints", "--disable-validation"]
POINTER = ["--arch", "etads", "--pointer", "soft", *SMALL_MODEL, "--max-tokens", "100", "--lr", "2e-3", *TRAIN]
POINTER += ["--adam-eps", "1e-4"]  # attention's k_proj.bias has no gradient but rounding, which Adam would enlarge
RECURRENT = ["--arch", "pg_coverage", "--encoder-embed-dim", "16", "--encoder-hidden-size", "16"]
RECURRENT += ["--attention-dim", "8", "--batch-size", "10", "--required-batch-size-multiple", "1"]
RECURRENT += ["--optimizer", "lazy_adagrad", "--lr", "0.1", "--num-workers", "0", "--seed", "3", "--cpu"]
RECURRENT += ["--log-format", "simple", *TRAIN]
ROUGE = ("rouge1", "rouge2", "rougeL")
LAZY = ["--optimizer", "lazy_adam", "--lr", "0.01", "--large-vocabulary-trick", "12"]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Two data folders with one dictionary, as --task summarization takes them: a:b, alternating by epoch."""
    folder = tmp_path_factory.mktemp("parts")
    for number, name in enumerate("ab"):
        (folder / name).mkdir()
        for split, count in (("train", 70 + 13 * number), ("valid", 5)):
            write_pairs(folder / name, split, count, seed=number)
        texts = [f"--{split}pref={folder / name / split}" for split in ("train", "valid")]
        same = ["--srcdict", str(folder / "a" / "dict.source.txt")] if number else []
        run_command([*PREPROCESS, str(folder / name), *texts, *same], cwd=folder)
    return f"{folder / 'a'}:{folder / 'b'}"


def command(data, save, *options):
    return ["fairseq-train", str(data), *PLUGIN, "--save-dir", str(save), "--no-progress-bar", *options]


def saved(folder):
    return updates_of(folder), checkpoint(folder)["model"]


def check_same(found, expected, folder):
    """Check that two checkpoints have the same parameters, up to the order of additions, and not the initial ones."""
    (steps, model), (expected_steps, expected_model) = saved(folder / found), saved(folder / expected)
    assert steps == expected_steps > 0
    for name, values in expected_model.items():
        torch.testing.assert_close(model[name], values, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "freq, options, backend",
    [(1, POINTER, "pytorch_ddp"), (2, [*RECURRENT, *LAZY], "legacy_ddp")],
    ids=["pointer, torch's backend", "recurrent"],
)
def test_two_workers_learn_what_one_learns_with_twice_the_batches(freq, options, backend, parts, tmp_path):
    """Two folders of data: an odd number of batches leaves the second worker without one at the end of an epoch.

    With two batches per update, the empty one may follow another, which fairseq did not count either.
    """

    def train(save, *more, times=1):
        more = [*options, "--max-epoch", "3", "--update-freq", str(freq * times), *more]
        return run_command(command(parts, save, *more), cwd=tmp_path).stdout

    logs = by_two_workers(train, tmp_path / "two", backend=backend)
    assert "as rank 1" in logs[1], "there were no two workers"
    train(tmp_path / "one", times=2)
    check_same("two", "one", tmp_path)


def test_another_number_of_workers_continues_in_the_middle_of_an_epoch(parts, tmp_path):
    """fairseq read some batches twice, or ran out of them ("please report this to the fairseq developers")."""

    def train(save, *more):
        options = [*RECURRENT, "--log-interval", "1", "--save-interval-updates", "1", "--keep-interval-updates", "1"]
        return run_command(command(parts, tmp_path / save, *options, *more), cwd=tmp_path).stdout

    logs = by_two_workers(train, "two", "--max-update", "1")[:1]
    logs.append(train("two", "--update-freq", "2", "--max-epoch", "2"))
    pairs = [float(number) for log in logs for number in re.findall(r"train_inner.* epoch 001:.* bsz=([\d.]+)", log)]
    assert sum(pairs) == 70, "every pair is read once in the first epoch"
    assert "share the rest of epoch 1" in logs[1]
    train("one", "--update-freq", "2", "--max-epoch", "2")
    check_same("two", "one", tmp_path)


def test_torchrun_starts_workers_on_cpus(parts, tmp_path):
    """fairseq treats each process as the only worker, or divides by the number of GPUs."""
    train = command(parts, tmp_path / "two", *POINTER, "--max-epoch", "2")
    program = Path(environment(anew=True)["PATH"].split(os.pathsep)[0]) / train[0]
    run_command(["torchrun", "--nproc_per_node", "2", str(program), *train[1:]], cwd=tmp_path, anew=True)
    run_command(command(parts, tmp_path / "one", *POINTER, "--max-epoch", "2", "--update-freq", "2"), cwd=tmp_path)
    check_same("two", "one", tmp_path)


def children(process):
    """Process ids of the workers that a process has started."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(n) for n in found if "spawn_main" in Path(f"/proc/{n}/cmdline").read_text()]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds processes by Linux's /proc")
def test_a_killed_worker_ends_the_training_which_goes_on_when_it_is_started_again(parts, tmp_path):
    """fairseq alone starts no process if there is no GPU, and ends as if nothing had happened."""
    options = [*POINTER, "--save-interval-updates", "1", "--keep-interval-updates", "1", "--max-epoch"]
    train = command(parts, tmp_path / "two", *options)
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            [*train, "100000", "--distributed-world-size", "2"], env=environment(anew=True), stdout=log, stderr=log
        )
        try:
            while not (tmp_path / "two" / "checkpoint_last.pt").exists():
                assert process.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.1)
            first, second = children(process)
            os.kill(second, signal.SIGKILL)
            assert process.wait(timeout=120) == 1
        finally:
            process.kill()
    assert not Path(f"/proc/{first}").exists(), "the other worker is still there"
    assert "process 1 terminated with signal SIGKILL" in (tmp_path / "log").read_text()
    # From here on the workers are started by hand, because that is faster.
    before = saved(tmp_path / "two")[0]
    logs = by_two_workers(lambda *more: run_command([*train, str(2 + before // 2), *more], cwd=tmp_path).stdout)
    assert f"@ {before} updates" in logs[0] and saved(tmp_path / "two")[0] > before > 0


def validations(log):
    """Figures of each validation: updates -> name -> value."""
    found = {}
    for line in log.splitlines():
        match = re.search(r"\| valid \| (epoch .*)", line)
        if match:
            values = dict(part.strip().split(" ", 1) for part in match[1].split("|") if " " in part.strip())
            found[int(values["num_updates"])] = {name: float(values[name]) for name in ROUGE}
    return found


def test_two_workers_log_the_figures_of_later_commands_and_keep_the_best_checkpoint(corpus, trained, tmp_path):
    """Of 25 documents, in uneven batches; both workers show their own samples."""
    data, save = corpus / "bin", tmp_path / "run"
    options = ["--truncate-source", "8", "--truncate-target", "5", "--dropout", "0.1", "--lr", "2e-3"]
    options += ["--finetune-from-model", str(trained / "checkpoint_best.pt"), "--max-update", "8"]
    options += ["--save-interval-updates", "4", "--validate-interval", "99", "--max-tokens-valid", "60"]
    options += ["--eval-rouge", "--eval-rouge-samples", "25", "--eval-rouge-args", '{"beam": 2}']
    options += ["--best-checkpoint-metric", "rouge2", "--maximize-best-checkpoint-metric", "--validation-samples", "20"]
    logs = by_two_workers(toy.train, data, save, *options)
    assert "as rank 1" in logs[1], "there were no two workers"
    found = validations(logs[0])
    assert list(found) == [4, 8]
    texts = [set(re.findall(r"\| validation sample (.*)", log)) for log in logs]
    assert all(texts) and texts[0] != texts[1]

    # Of equally good checkpoints, fairseq keeps the last.
    best = max(found, key=lambda updates: (found[updates]["rouge2"], updates))
    assert checkpoint(save, "best")["optimizer_history"][-1]["num_updates"] == best
    options = ["--gen-subset", "valid", "--beam", "2", "--max-len-b", "5"]
    output = toy.generate(data, save / "checkpoint_best.pt", *options)
    hypotheses = [words for _, words in sorted(toy.summaries(output).items())][:25]
    references = (corpus / "text" / "valid.target").read_text().splitlines()[:25]
    expected = rouge(hypotheses, references, bootstrap=1)
    for name in ROUGE:
        assert found[best][name] == pytest.approx(expected.scores[name].f1, abs=0.011)
    assert found[best]["rouge2"] > 10, "it has not learnt anything: the test shows little"
