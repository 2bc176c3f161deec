"""scripts/once.py, train_once.py and fairseq_summaries.py decide by contents, not by times, what is already done."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documented import project_commands
from dry_runs import dry_run, make_stubs

SCRIPTS = Path(__file__).parents[3] / "scripts"


def run(script, *words, cwd):
    command = [sys.executable, str(SCRIPTS / script), *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def once(cwd, code, *words):
    """Run the code unless ``out`` has been made from ``in`` and the folder ``data``; returns the number of runs."""
    count = f"open('count', 'a').write('x'); {code}"
    options = ["--makes", "out", "--reads", "in", "data", *words, "--", sys.executable, "-c", count]
    result = run("once.py", *options, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return len((cwd / "count").read_text())


COPY = "open('out', 'w').write(open('in').read()); print('made')"


def test_an_output_is_made_again_for_other_contents_or_another_command(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words").write_text("a")
    (tmp_path / "in").write_text("one")
    assert [once(tmp_path, COPY), once(tmp_path, COPY)] == [1, 1]
    os.utime(tmp_path / "in")  # the file is newer, with the same content
    assert once(tmp_path, COPY) == 1
    (tmp_path / "in").write_text("two")
    os.utime(tmp_path / "in", (0, 0))  # the file is older, with other content, as after a wrong clock
    assert once(tmp_path, COPY) == 2 and (tmp_path / "out").read_text() == "two"
    (tmp_path / "data" / "words").write_text("b")
    assert once(tmp_path, COPY) == 3
    (tmp_path / "out").write_text("changed")
    assert once(tmp_path, COPY) == 4 and (tmp_path / "out").read_text() == "two"
    assert once(tmp_path, COPY + " # --duc other") == 5
    (tmp_path / "out.made.json").unlink()
    assert once(tmp_path, COPY + " # --duc other") == 6, "who knows what it was made of"


def test_what_a_command_printed_is_printed_again(tmp_path):
    (tmp_path / "in").write_text("one")
    words = ["--makes", "out", "--keeps", "said", "--reads", "in", "--", sys.executable, "-c", COPY]
    assert [run("once.py", *words, cwd=tmp_path).stdout for _ in range(2)] == ["made\n", "made\n"]
    (tmp_path / "said").write_text("half")
    assert run("once.py", *words, cwd=tmp_path).stdout == "made\n"


LABELS = """#!/bin/bash
echo x >> "$COUNT"
while [ "$1" != --subset ]; do shift; done
mkdir -p labels && cat prepared/SHA256SUMS > "labels/labels.sentences.$2"
"""


def test_recipes_make_labels_again_for_other_data(tmp_path):
    """They looked only for the file: after other data were prepared, a selector learned the old documents' labels."""
    for folder in ("bin", "prepared"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "etads-labels").write_text(LABELS)
    (tmp_path / "bin" / "etads-labels").chmod(0o755)
    python = os.path.dirname(sys.executable)
    environment = {**os.environ, "PATH": f"bin:{python}:{os.environ['PATH']}", "COUNT": "count"}

    def label(kind="extract"):
        code = (
            f'source "{SCRIPTS / "recipes.sh"}"; prepared=prepared; label_once labels {kind} train --truncate-source 9'
        )
        result = subprocess.run(["bash", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return len((tmp_path / "count").read_text().split()), (tmp_path / "labels/labels.sentences.train").read_text()

    (tmp_path / "prepared" / "SHA256SUMS").write_text("old")
    assert [label(), label()] == [(1, "old"), (1, "old")]
    (tmp_path / "prepared" / "SHA256SUMS").write_text("new")
    assert [label(), label()] == [(2, "new"), (2, "new")]
    assert label("match")[0] == 3


def test_no_script_takes_a_file_that_exists_for_what_a_command_would_make():
    """Scripts leave the decision to once.py and its like, which compare contents."""
    skipping = re.compile(r"\[ -[efsd] [^]]*\] \|\|(?:[^\S\n]*#.*)?\s+(?:supervise |python )?(?:etads-\w+|fairseq-\w+)")
    assert skipping.search('[ -f "$out/labels" ] ||  # the last\n    supervise etads-labels "$prepared"')
    found = {path.name: skipping.findall(path.read_text()) for path in SCRIPTS.rglob("*.sh")}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "code,status,said",
    [
        ("raise SystemExit(3)", 3, ""),
        ("pass", 2, "ended without making out"),
        ("import os; os.kill(os.getpid(), 9)", 137, ""),
    ],
)
def test_what_failed_is_not_done(tmp_path, code, status, said):
    result = run("once.py", "--makes", "out", "--", sys.executable, "-c", code, cwd=tmp_path)
    assert result.returncode == status and said in result.stderr
    assert not (tmp_path / "out.made.json").exists()


@pytest.mark.parametrize("script", sorted(SCRIPTS.rglob("*.sh")), ids=lambda path: path.name)
def test_no_script_compares_times(script):
    """A clock that was wrong, a copy or a checkout would leave old results in place."""
    lines = script.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if re.search(r"\s-(nt|ot|newer\w*)\s", line)] == []


def test_an_entailment_model_is_trained_again_for_another_text(tmp_path):
    """Times do not count: the changed text is older than the model."""
    (tmp_path / "text").mkdir()
    (tmp_path / "etads-nli").write_text(
        '#!/bin/sh\necho "$1" >> count\nmkdir -p nli/pairs nli/model\ncase $1 in\n'
        "synthesise) for s in train valid; do cp text/$s.target nli/pairs/$s.tsv; done ;;\n"
        "train) cp nli/pairs/train.tsv nli/model/model.safetensors; echo {} > nli/model/config.json ;;\nesac\n"
    )
    (tmp_path / "etads-nli").chmod(0o755)
    code = f'source "{SCRIPTS}/recipes.sh"; train_nli text nli --epochs "$1"'
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])

    def train(text, epochs="2"):
        for split in ("train", "valid"):
            (tmp_path / "text" / f"{split}.target").write_text(text)
            os.utime(tmp_path / "text" / f"{split}.target", (0, 0))
        environment = {**os.environ, "PATH": path}
        subprocess.run(["bash", "-c", code, "x", epochs], cwd=tmp_path, env=environment, check=True)
        done, _ = (tmp_path / "count").read_text().split(), (tmp_path / "count").write_text("")
        return done, (tmp_path / "nli" / "model" / "model.safetensors").read_text()

    assert train("a\n") == (["synthesise", "train"], "a\n")
    assert train("a\n") == ([], "a\n")
    assert train("b\n") == (["synthesise", "train"], "b\n")
    assert train("b\n", epochs="3") == (["train"], "b\n")


@pytest.mark.parametrize(
    "name,option,rows",
    [
        ("sumpubmed_continue", "--systems", ["without", "with"]),
        ("sumpubmed_selection", "--rows", ["summariser", "bottom-up"]),
    ],
)
def test_a_recipe_compares_two_systems_in_either_order(name, option, rows, tmp_path):
    stubs = make_stubs(tmp_path, ["fairseq-train", "fairseq-generate", *project_commands()])

    def comparisons(rows):
        command = [f"scripts/reproduce/{name}.sh", "--data", "data", option, " ".join(rows)]
        result, calls = dry_run(stubs, command)
        assert result.returncode == 0, result.stdout
        return [call for call in calls if call[0] == "etads-compare"]

    assert comparisons(rows) == comparisons(rows[::-1]) != []
    assert comparisons(rows[:1]) == comparisons(rows[1:]) == []


def test_a_model_folder_is_exported_again_for_another_checkpoint(tmp_path):
    """It used to stay, so that weights were tuned on, and a card described, the model of an earlier training."""
    (tmp_path / "etads-export").write_text(
        '#!/bin/sh\necho x >> count\n[ ! -e "$2" ] || exit 2\n[ ! -e fails ] || exit 2\n'
        'mkdir -p "$2"\necho card > "$2/README.md"\n'
        'cp "$1/checkpoints/checkpoint_best.pt" "$2/model.safetensors"\necho {} > "$2/config.json"\n'
    )
    (tmp_path / "etads-export").chmod(0o755)
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    code = f'source "{SCRIPTS}/common.sh"; export_once run out/model "the end" out/mert.jsonl --dtype "$1"'
    environment = {**os.environ, "PATH": os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), "/bin"])}

    def export(weights, dtype="fp16"):
        (tmp_path / "run" / "checkpoints" / "checkpoint_best.pt").write_text(weights)
        subprocess.run(["bash", "-c", code, "x", dtype], cwd=tmp_path, env=environment, check=True)
        return len((tmp_path / "count").read_text().split()), (tmp_path / "out/model/model.safetensors").read_text()

    assert [export("a"), export("a")] == [(1, "a"), (1, "a")]
    (tmp_path / "out" / "model" / "config.json").write_text('{"decoding": "chosen by etads-tune --write"}')
    (tmp_path / "out" / "mert.jsonl").touch()
    assert export("a") == (1, "a") and (tmp_path / "out" / "mert.jsonl").exists()
    assert export("b") == (2, "b") and not (tmp_path / "out" / "mert.jsonl").exists()
    assert export("b", "fp32")[0] == 3
    assert (tmp_path / "out" / "model" / "README.md").read_text() == "card\nthe end\n"
    (tmp_path / "out" / "model.exported").unlink()  # interrupted before the card was complete
    (tmp_path / "out" / "mert.jsonl").touch()
    assert export("b", "fp32")[0] == 4 and (tmp_path / "out" / "mert.jsonl").exists(), "the weights are the same"
    (tmp_path / "fails").touch()
    with pytest.raises(subprocess.CalledProcessError):
        export("c", "fp32")
    assert (tmp_path / "out" / "model" / "model.safetensors").read_text() == "b", "it stays if another export fails"


@pytest.fixture
def train(tmp_path):
    """Train with a stand-in for fairseq-train that counts its calls in ``count``; returns the process."""
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "prepare.json").write_text('{"text": 1}')
    (tmp_path / "fairseq-train").write_text(
        "#!/bin/sh\necho x >> count\nmkdir -p run/checkpoints\n: > run/checkpoints/checkpoint_last.pt\n[ ! -f fails ]\n"
    )
    (tmp_path / "fairseq-train").chmod(0o755)

    def train(*options):
        command = ["./fairseq-train", "prepared/bin", "--adam-betas", "(0.9, 0.998)", *options]
        return run("train_once.py", "run", "prepared", "--", *command, cwd=tmp_path)

    train.count = lambda: len((tmp_path / "count").read_text().split())
    return train


def test_a_training_is_done_once_with_the_same_options_and_data(train, tmp_path):
    assert "last checkpoint: run/checkpoints/checkpoint_last.pt" in train("--seed", "1").stderr
    assert "already trained with these options" in train("--seed", "1", "--log-interval", "7").stderr
    assert train.count() == 1
    said = train("--seed", "1", "--lr", "2").stderr
    assert "a training with other options" in said and "     > --lr\n     > 2\n" in said and train.count() == 2
    (tmp_path / "prepared" / "prepare.json").write_text('{"text": 2}')
    result = train("--seed", "1", "--lr", "2")
    assert result.returncode == 2 and "trained with other data, at" in result.stderr and train.count() == 2


def test_a_training_is_not_continued_with_another_seed(train, tmp_path):
    """It used to keep the weights of the first seed, recorded as a training with the second."""
    train("--lr", "1")
    record = (tmp_path / "run" / "training.json").read_text()
    for options in (["--seed", "2"], ["--seed=2"]):
        result = train("--lr", "1", *options)
        assert (
            result.returncode == 2 and "--seed 2: run contains a training with --seed 1; name another" in result.stderr
        )
    assert train.count() == 1 and (tmp_path / "run" / "training.json").read_text() == record
    assert "seed" not in train("--lr", "2", "--seed", "1").stderr.split("other options")[0] and train.count() == 2
    (tmp_path / "run" / "checkpoints" / "checkpoint_last.pt").unlink()
    assert train("--lr", "1", "--seed", "2").returncode == 0 and train.count() == 3


@pytest.mark.parametrize("option", [["--init-from", "base.pt"], ["--extractor=base.pt"]])
def test_a_training_from_a_checkpoint_is_not_taken_for_one_from_another(train, tmp_path, option):
    """After the first model was trained again, the second was said to be trained already."""
    base = tmp_path / "base.pt"
    base.write_text("first")
    train(*option)
    assert "already trained" in train(*option).stderr
    base.write_text("second")
    for options in (option, [*option, "--lr", "2"]):
        result = train(*options)
        assert result.returncode == 2 and "--out run: base.pt has changed since this training" in result.stderr
    base.unlink()  # a training that has begun does not need it
    assert "already trained" in train(*option).stderr
    base.write_text("second")
    assert train(*option).returncode == 2 and train.count() == 1
    (tmp_path / "run" / "checkpoints" / "checkpoint_last.pt").unlink()
    assert train(*option).returncode == 0 and train.count() == 2
    base.write_text("third")
    assert train(*option).returncode == 2


def test_a_training_may_change_its_own_checkpoint_and_earlier_records_are_accepted(train, tmp_path):
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    own, record = tmp_path / "run" / "checkpoints" / "checkpoint_last.pt", tmp_path / "run" / "training.json"
    own.write_text("before")
    train("--restore-file", "run/checkpoints/checkpoint_last.pt")
    own.write_text("after")
    assert "already trained" in train("--restore-file", "run/checkpoints/checkpoint_last.pt").stderr
    (tmp_path / "base.pt").write_text("first")
    train("--init-from", "base.pt")
    earlier = json.loads(record.read_text())
    assert list(earlier.pop("files")) == ["base.pt"]
    record.write_text(json.dumps(earlier))
    (tmp_path / "base.pt").write_text("second")
    assert "already trained" in train("--init-from", "base.pt").stderr


def test_a_training_that_failed_is_tried_again(train, tmp_path):
    (tmp_path / "fails").touch()
    assert train("--seed", "1").returncode == 2 and not (tmp_path / "run" / "finished.txt").exists()
    (tmp_path / "fails").unlink()
    assert "other options" not in train("--seed", "1").stderr and train.count() == 2
    assert (tmp_path / "run" / "finished.txt").read_text().endswith("--adam-betas (0.9, 0.998) --seed 1\n")


def test_a_finished_training_without_checkpoints_is_done_again(train, tmp_path):
    train("--seed", "1")
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoints.rename(tmp_path / "elsewhere")
    checkpoints.symlink_to("../elsewhere")  # recipes link the checkpoints of another run
    said = train("--seed", "1").stderr
    assert "already trained" in said and said.endswith(": run/checkpoints/checkpoint_last.pt\n") and train.count() == 1
    checkpoints.unlink()
    said = train("--seed", "1").stderr
    assert "already trained" not in said and "last checkpoint" in said and train.count() == 2


def test_a_training_of_an_earlier_version_is_known(train, tmp_path):
    train("--seed", "1")
    (tmp_path / "run" / "training.json").unlink()
    assert "already trained" in train("--seed", "1").stderr
    assert json.loads((tmp_path / "run" / "training.json").read_text())["prepared"] == str(tmp_path / "prepared")


LOG = "D-1\\t-0.1\\tsecond <q> .\\nD-0\\t-0.2\\tfirst\\nD-0\\t-0.9\\tworse\\n"


@pytest.mark.parametrize(
    "output,names,wanted",
    [
        ("out.txt", "1\n2\n", "first\nsecond <q> .\n"),
        (
            "out.jsonl",
            "a\nb\n",
            '{"document": "a", "summary": "first"}\n{"document": "b", "summary": "second <q> ."}\n',
        ),
        ("-", "1\n2\n", "first\nsecond <q> .\n"),
    ],
)
def test_the_best_summaries_of_this_run_alone_are_written(tmp_path, output, names, wanted):
    (tmp_path / "names").write_text(names)
    (tmp_path / "log").write_text("D-0\t-0.1\tof the run before\n")
    words = ["log", "--names", "names", "--output", output, "--", sys.executable, "-c", f"print('{LOG}', end='')"]
    result = run("fairseq_summaries.py", *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (result.stdout if output == "-" else (tmp_path / output).read_text()) == wanted


def test_a_missing_summary_leaves_the_output_as_it_was(tmp_path):
    (tmp_path / "names").write_text("1\n2\n3\n")
    (tmp_path / "out").write_text("old")
    words = ["log", "--names", "names", "--output", "out", "--", sys.executable, "-c", f"print('{LOG}', end='')"]
    result = run("fairseq_summaries.py", *words, cwd=tmp_path)
    assert result.returncode == 2 and "3 documents but 2 summaries; see log" in result.stderr
    assert (tmp_path / "out").read_text() == "old"
