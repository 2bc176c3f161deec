"""Trainings that are interrupted and resumed, also with other options; commands that are killed at random moments."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
import toy
from helpers import environment, run_command
from seeds import OFFSET
from toy import COMMON, PREPROCESS, checkpoint, train, train_command, updates_of, write_labelled_pairs, write_pairs

RATE = r"train_inner .*\blr=([\d.e-]+)"
RECURRENT = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "12", "--readout-dim", "12", *COMMON]


@pytest.fixture(scope="module")
def begun(corpus, tmp_path_factory):
    """A training of four updates."""
    save = tmp_path_factory.mktemp("begun") / "save"
    train(corpus / "bin", save, "--max-update", "4", "--disable-validation")
    return save


def validated(output):
    return [int(number) for number in re.findall(r"valid on 'valid' subset .*num_updates (\d+)", output)]


def learns_from_rewards(whole, resumed):
    rewards = [float(value) for value in re.findall(r"greedy_rougeL=([\d.]+)", whole)]
    assert rewards and min(rewards) > 0.3, "the model that it began with had learnt the task"


def learns_from_pairs(whole, resumed):
    """The tenth update ends an epoch; three updates on pairs follow every fourth one, and are not counted."""
    logged = [line for line in whole.splitlines() if "train_inner" in line]
    assert len(logged) == 13 and re.search(r"auxiliary_accuracy=[\d.]+", logged[3]) and "auxiliary" not in logged[2]


def falls_after_epochs(whole, resumed):
    """fairseq saves before the scheduler learns the result of an epoch, and does not save how many were worse."""
    assert re.findall(RATE, whole) == ["1e-06"] * 9 + ["5e-07"] * 3 and re.findall(RATE, resumed) == ["5e-07"] * 3


REWARDS = "--truncate-source 8 --truncate-target 5 --finetune-from-model {trained}/checkpoint_best.pt --rl-max-len 6"
REWARDS += " --criterion summarization_rl --rewards rouge1,rougeL --rl-weight 0.9"
PAIRS = "--arch entail_s2s --optimizer adam --lr 1e-2 --clip-norm 5 --batch-size 60 --sentence-avg --truncate-source 9"
PAIRS += " --truncate-target 5 --auxiliary-task entailment --auxiliary-data {pairs} --auxiliary-every 4:3"
PAIRS += " --auxiliary-words spaces --auxiliary-batch-size 16"
PLATEAU = "--lr 1e-6 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --lr-threshold 0.5 --lr-patience 1"
CONTINUED = {
    # fairseq counted the updates of --ema-update-freq from 0 again
    "average": ("--store-ema --ema-decay 0.9 --ema-start-update 2 --ema-update-freq 3 --max-update", "49", None),
    "rewards": (f"{REWARDS} --max-update", ("5", "12"), learns_from_rewards),
    "pairs of texts": (f"{PAIRS} --max-update", ("7", "13"), learns_from_pairs),
    "plateau": (f"{PLATEAU} --batch-size 300 --max-tokens 9999 --max-epoch", "34", falls_after_epochs),
}
"""Options, when the training is interrupted and ends, and a check of the outputs of the whole and the resumed one."""


@pytest.mark.parametrize("name", CONTINUED)
def test_a_training_goes_on_as_if_uninterrupted(name, corpus, trained, tmp_path):
    options, (first, last), check = CONTINUED[name]
    write_labelled_pairs(tmp_path)
    options = options.format(trained=trained, pairs=tmp_path).split()
    if name != "plateau":
        options.insert(0, "--disable-validation")
    model = {"model": RECURRENT} if name == "pairs of texts" else {}

    def run(save, updates):
        return train(corpus / "bin", tmp_path / save, "--dropout", "0.2", *options, updates, **model)

    whole, _, resumed = run("whole", last), run("parts", first), run("parts", last)
    one, other = (checkpoint(tmp_path / save) for save in ("whole", "parts"))
    pairs = [(one["model"], other["model"])]
    if name == "average":
        pairs.append((one["extra_state"]["ema"], other["extra_state"]["ema"]))
    assert all(torch.equal(value, again[key]) for values, again in pairs for key, value in values.items())
    if check:
        check(whole, resumed)


def test_a_training_interrupted_before_its_first_checkpoint_is_saved(corpus, tmp_path):
    """Otherwise the whole training would be lost, although the script says that the same command continues it."""
    log, options = tmp_path / "said", ("--dropout", "0.3", "--disable-validation")
    endless = ("--max-epoch", "100000", "--data-buffer-size", "1")
    command = train_command(corpus / "bin", tmp_path / "save", *options, *endless)
    with open(log, "w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(anew=True), stdout=said, stderr=said)
        while "num_updates=3," not in log.read_text():
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 128 + signal.SIGINT, log.read_text()[-2000:]
    reached = updates_of(tmp_path / "save")
    assert 3 <= reached < 30, f"interrupted too late to show anything: {reached} updates"
    assert f"Interrupted by SIGINT after {reached} updates" in log.read_text()
    for save in ("save", "whole"):
        train(corpus / "bin", tmp_path / save, *options, "--max-update", "30")
    resumed, whole = (checkpoint(tmp_path / save)["model"] for save in ("save", "whole"))
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_patience_counts_validations_and_not_saves_and_counts_on_after_a_restart(corpus, tmp_path):
    """With a learning rate of 0, no validation is better than the first one."""
    options = ["--lr", "0", "--save-interval-updates", "1", "--validate-interval-updates", "4", "--patience", "3"]
    options += ["--validate-interval", "99", "--max-update"]
    first, second, third = (train(corpus / "bin", tmp_path / "save", *options, n) for n in ("8", "99", "99"))
    assert [validated(log) for log in (first, second, third)] == [[4, 8], [12, 16], []]
    assert "training is complete after 16 updates" in third and updates_of(tmp_path / "save") == 16


INTERRUPTED = """
import os, signal, sys
import fairseq_cli.train as command
from fairseq.trainer import Trainer
from fairseq_etads.fairseq_fixes import extend_commands
name = sys.argv.pop(1)
owner = command if name == "validate" else Trainer
plain = getattr(owner, name)
def interrupted(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    return plain(*arguments)
setattr(owner, name, interrupted)
extend_commands()  # --user-dir does it only once, in the command server
command.cli_main()
"""
"""fairseq-train that receives SIGTERM during its first validation or update."""


@pytest.mark.parametrize(
    "name, options",
    [("validate", ["--max-update", "4"]), ("train_step", ["--max-epoch", "1", "--max-tokens", "99999"])],
)
def test_an_interrupted_validation_is_run_when_training_is_resumed(corpus, tmp_path, name, options):
    """Otherwise the last model would never be validated, and there would be no best checkpoint."""
    command = train_command(corpus / "bin", tmp_path, *options)
    first = run_command(["python", "-", name, *command[1:]], cwd=tmp_path, check=False, input=INTERRUPTED)
    assert first.returncode == 128 + signal.SIGTERM and validated(first.stdout) == [], first.stdout[-2000:]
    assert not (tmp_path / "checkpoint_best.pt").exists()
    position, updates = checkpoint(tmp_path)["extra_state"]["train_iterator"], updates_of(tmp_path)
    assert (position["iterations_in_epoch"] == 0) == (name == "train_step")
    assert validated(run_command(command, cwd=tmp_path).stdout) == [updates]
    best, last = (checkpoint(tmp_path, which)["extra_state"] for which in ("best", "last"))
    assert best["val_loss"] == best["best"] == last["val_loss"]
    assert {name: last["train_iterator"][name] for name in position} == position
    assert validated(run_command(command, cwd=tmp_path).stdout) == []


def test_training_saves_every_few_minutes_without_validating(corpus, tmp_path):
    options = ["--max-update", "4", "--save-interval-minutes", "1e-9", "--validate-interval", "99"]
    output = train(corpus / "bin", tmp_path / "save", *options)
    assert len(re.findall(r"Saved checkpoint .*checkpoint_last.pt", output)) == 3
    assert validated(output) == [4]


def test_a_rate_falls_after_validations_without_a_better_loss(corpus, tmp_path):
    """The rate falls before the first epoch ends; reduce_lr_on_plateau only uses losses at the ends of epochs."""
    options = ["--max-update", "12", "--validate-interval-updates", "3", "--validate-interval", "99", "--lr", "1e-6"]
    options += ["--lr-scheduler", "reduce_lr_on_validation", "--lr-shrink", "0.5", "--lr-threshold", "0.5"]
    output = train(corpus / "bin", tmp_path / "save", *options, "--max-tokens", "40")
    assert [float(rate) for rate in re.findall(RATE, output)] == [1e-6] * 6 + [5e-7] * 3 + [2.5e-7] * 3


def test_stages_go_on_as_if_unbroken(corpus, tmp_path):
    """Weights and Adagrad's sums of two stages are those of one training (See et al. 2017)."""
    options = "--arch pointer_generator --no-paper-init --attention-dim 10 --criterion summarization_nll"
    options += " --length-normalised --no-end-if-cut --optimizer lazy_adagrad --lr 0.15 --initial-accumulator 0.1"
    options += " --clip-norm 2 --truncate-source 5 --truncate-target 2 --batch-size 8 --sort-within 10"

    def stage(name, updates, *more):
        words = [*options.split(), "--disable-validation", "--max-update", updates, *more]
        log, state = train(corpus / "bin", tmp_path / name, *words, model=RECURRENT), checkpoint(tmp_path / name)
        return log, [state["model"], [value["sum"] for value in state["last_optimizer_state"]["state"].values()]]

    _, whole = stage("whole", "4")
    stage("first", "2")
    log, resumed = stage("second", "4", "--continue-once", str(tmp_path / "first" / "checkpoint_last.pt"))
    assert "@ 2 updates" in log and checkpoint(tmp_path / "second")["task_state"]["no_end_if_cut"]
    torch.testing.assert_close(resumed, whole, rtol=1e-4, atol=1e-6)


def test_a_dictionary_with_the_same_words_in_another_order_is_refused(begun, corpus, tmp_path):
    """Such a dictionary used to be accepted; after the next checkpoint, the right data was refused."""
    lines = (corpus / "bin" / "dict.source.txt").read_text().splitlines()
    (tmp_path / "dict.txt").write_text("\n".join([*lines[1:8], lines[0], *lines[8:]]) + "\n")
    texts = [f"--{split}pref={corpus / 'text' / split}" for split in ("train", "valid")]
    run_command([*PREPROCESS, str(tmp_path / "bin"), *texts, "--srcdict", str(tmp_path / "dict.txt")], cwd=tmp_path)
    last = begun / "checkpoint_last.pt"
    before = last.read_bytes()
    for place, options in ((begun, []), (tmp_path / "new", ["--finetune-from-model", str(last)])):
        said = train(tmp_path / "bin", place, *options, "--max-update", "8", check=False).strip().splitlines()[-1]
        assert f"training cannot continue from {last} with" in said and "the source dictionary in DATA" in said
    assert last.read_bytes() == before and not list(tmp_path.glob("new/*.pt"))


def test_another_scheduler_and_an_average_begin_where_the_training_is(begun, corpus, tmp_path):
    """Some schedulers used to fail with KeyError: 'best'."""
    save = Path(shutil.copytree(begun, tmp_path / "save"))
    options = ["--max-update", "5", "--disable-validation", "--lr-scheduler", "reduce_lr_on_plateau"]
    options += ["--warmup-updates", "16", "--store-ema", "--ema-decay", "0.5"]
    assert re.findall(RATE, train(corpus / "bin", save, *options)) == ["0.0003125"]
    state, start = checkpoint(save), checkpoint(begun)["model"]
    for name in (name for name in start if ".layers." in name):  # fairseq averages a shared table several times
        average = (start[name] + state["model"][name]) / 2
        torch.testing.assert_close(state["extra_state"]["ema"][name], average)


def test_the_best_value_of_another_metric_is_forgotten(corpus, tmp_path):
    train(corpus / "bin", tmp_path / "save", "--max-update", "2", "--patience", "3")
    train(corpus / "bin", tmp_path / "save", "--max-update", "3", "--best-checkpoint-metric", "ppl", "--lr", "0")
    state = checkpoint(tmp_path / "save")["extra_state"]
    assert state["best"] == state["val_loss"]


def test_half_precision_trains_on_a_cpu_through_overflows_and_goes_on(corpus, tmp_path):
    """fairseq asked for CUDA when the first update overflowed. Layers that are shared stay so."""
    options = ["--arch", "gated_es_transformer", "--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", str(2**24)]
    options.append("--disable-validation")
    logs = [train(corpus / "bin", tmp_path / "save", *options, "--max-update", number) for number in "24"]
    assert "gradient overflow detected" in logs[0] and "@ 2 updates" in logs[1] and updates_of(tmp_path / "save") == 4


def test_an_empty_split_of_several_folders_is_named_before_training(corpus, tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    write_pairs(folder, "train", 0, seed=3)
    dictionary = ["--srcdict", str(corpus / "bin" / "dict.source.txt")]
    run_command([*PREPROCESS, str(folder), f"--trainpref={folder / 'train'}", *dictionary], cwd=tmp_path)
    output = train(f"{corpus / 'bin'}:{folder}", tmp_path / "save", "--max-epoch", "2", check=False)
    assert f'the split "train" in "{folder}" has no pairs' in output.strip().splitlines()[-1]


TRAINING = "--max-update 48 --cpu -- --validate-interval-updates 12 --save-interval-updates 3 --batch-size 16"
TRAINING += " --num-workers 0 --dropout 0.3 --encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32"
TRAINING += " --encoder-ffn-embed-dim 32 --encoder-attention-heads 2 --decoder-attention-heads 2"
COMMANDS = {
    "etads-prepare text prepared --tokens bpe --size 60 --factors tf idf": "prepared/codes.bpe",
    f"etads-train --prepared prepared --out run --recipe paper {TRAINING}": "run/checkpoints/checkpoint_last.pt",
    "etads-summarize debian text/test.source --lines --output new.txt --read-ahead 4": "new.txt.partial",
}
"""Command -> its sign: a file that has over 200 bytes in the middle. Each command finds the results of earlier ones."""
KILLS = 4
"""Number of moments at which each command is killed: one in each quarter of its time. It is also killed at its sign."""
MAY_CHANGE = r"/SHA256SUMS$|/bin/|\.pt$"
"""Results that may exist before they are complete, which the commands take into account."""
NO_RESULTS = (".log", "/preprocess.txt", ".partial", ".tmp", ".lock", ".new", ".resume")
"""Endings of the paths of logs, which contain times, and of files that a killed command may leave behind."""


def plain(value):
    """Replace the tensors in nested containers by their bytes, which can be compared with ==."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.numpy().tobytes()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def results(folder):
    """Path -> content of each result; of a checkpoint, which contains times, what the next updates depend on."""
    found = {}
    for path in filter(Path.is_file, folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.endswith(".pt"):
            state = torch.load(path, weights_only=True)
            more = [state["extra_state"].get(part) for part in ("train_iterator", "best")]
            found[name] = plain([state["model"], state["last_optimizer_state"], *more])
        elif not name.endswith(NO_RESULTS):
            found[name] = path.read_bytes()
    return found


def is_running(group):
    """Tell whether a process of the group has not ended. Zombies have; nobody may be there to wait for them."""
    for folder in Path("/proc").iterdir():
        try:
            state, _, number = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(number) == group and state not in "ZX":
                return True
        except (OSError, ValueError):  # it has ended, or is no process
            continue
    return False


def has_begun(sign):
    return sign.exists() and sign.stat().st_size > 200


def run(command, folder, kill_after=None, kill_at=None):
    """Run a command, and kill its process group after some seconds or at a sign; returns its status and its output."""
    with open(folder.with_name("said"), "w+") as said:
        # not a new session, because processes of the command server can only join a group of their own session
        files = {"stdout": said, "stderr": said, "preexec_fn": os.setpgrp}
        process = subprocess.Popen(command.split(), cwd=folder, env=environment(), **files)
        try:
            while kill_at and process.poll() is None and not has_begun(kill_at):
                time.sleep(0.001)
            process.wait(0 if kill_at else kill_after)
        except subprocess.TimeoutExpired:
            while is_running(process.pid):  # a process may just be starting another one
                os.killpg(process.pid, signal.SIGKILL)
                time.sleep(0.005)
        return process.wait(), said.seek(0) or said.read()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes by Linux's /proc")
def test_a_killed_command_that_is_run_again_makes_the_same(tmp_path):
    print(f"ETADS_TEST_SEED={OFFSET}")
    draw, folder, before = random.Random(1), tmp_path / "work", tmp_path / "before"
    (folder / "text").mkdir(parents=True)
    for seed, (split, count) in enumerate((("train", 160), ("valid", 12), ("test", 64))):
        write_pairs(folder / "text", split, count, seed, words=[*toy.WORDS, "doesn't", "well-known", "Zürich"])
    for command, sign in COMMANDS.items():
        shutil.copytree(folder, before)
        started = time.monotonic()
        status, said = run(command, folder)
        assert status == 0, said
        seconds, wanted, interrupted = time.monotonic() - started, results(folder), 0
        for number in range(KILLS + 1):
            shutil.rmtree(folder)
            shutil.copytree(before, folder)
            moment = seconds * draw.uniform(number, number + 1) / KILLS
            at_sign = number == KILLS
            ends = {"kill_at": folder / sign} if at_sign else {"kill_after": moment}
            status, said = run(command, folder, **ends)
            assert status in (0, -signal.SIGKILL), said
            where = f"{command}, killed " + (f"at {sign}" if at_sign else f"after {moment:.3f} of {seconds:.3f} s")
            left = results(folder)
            half = [path for path in left if left[path] != wanted.get(path) and not re.search(MAY_CHANGE, path)]
            assert not half, f"{where}: not complete"
            interrupted += status != 0 and has_begun(folder / sign) and left != wanted
            if number == 1:  # the run that continues is killed, too, unless it ends before
                run(command, folder, kill_after=draw.uniform(0, moment))
            status, said = run(command, folder)
            assert status == 0, f"{where}, and run again:\n{said}"
            again = results(folder)
            differ = [path for path in {**wanted, **again} if again.get(path) != wanted.get(path)]
            assert not differ, f"{where}, and run again: not the same"
        assert interrupted, f"no kill came in the middle: {command}"
        shutil.rmtree(before)
