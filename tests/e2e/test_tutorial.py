"""Every command of docs/tutorial.md, in order, as a reader types them; with fewer texts and shorter trainings."""

import os
import re
import subprocess
from pathlib import Path

import corpora
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TINY = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 32 --cpu --num-workers 0"
SHORTENED = {
    "source .venv/bin/activate\n": "",  # the environment of the test is active already
    "etads-debian --sample --out data/sample\n": "",  # the quickstart runs this command, and its files are small here
    "--size 1000": "--size 40",
    "python explain.py": "python - < explain.py",  # the server runs this without importing torch once more
    "--max-update 800 --cpu --": "--max-update 8 --cpu -- --num-workers 0",
    "--warmup-updates 200": "--warmup-updates 2",
    "--documents 200 --trials 20": "--documents 5 --trials 2",
    "text runs/fairseq\n": f"text runs/fairseq --max-update 8 {TINY}\n",
}
"""Text of the page -> its replacement here."""


def shortened(code, used):
    for long, short in SHORTENED.items():
        if long in code:
            assert long not in used, f"{long} stands twice in the tutorial"
            used.add(long)
            code = code.replace(long, short)
    return code


@pytest.fixture(scope="module")
def followed(programs, tmp_path_factory):
    """Folder of a reader who has followed the tutorial, and the output of each block of commands."""
    folder, printed, used = tmp_path_factory.mktemp("tutorial"), {}, set()
    (folder / "scripts").symlink_to(ROOT / "scripts")
    corpora.plain(folder / "data" / "sample")
    for side, text in (("source", "The text"), ("target", "It")):  # 100 lines are enough for shares of 4 %
        with open(folder / "data" / "sample" / f"train.{side}", "a", encoding="utf-8") as file:
            file.writelines(f"{text} of number {n}\n" for n in range(100))
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for language, code in BLOCKS:
        if language == "python":
            (folder / re.match(r"# (\w+\.py):", code)[1]).write_text(code, encoding="utf-8")
            continue
        command = ["bash", "-euo", "pipefail", "-c", shortened(code, used)]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, f"{code}\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
        printed[code] = result.stdout
    assert used == set(SHORTENED), "the tutorial no longer says what is shortened here"
    return folder, printed


def output_of(command, printed):
    """Output of the block of commands that contains this command."""
    (output,) = [output for code, output in printed.items() if re.search(rf"^{command} ?", code, re.MULTILINE)]
    return output


def test_one_file_becomes_summaries_and_scores_and_options_are_tried(followed):
    folder, printed = followed
    references = (folder / "runs/mine/text/test.target").read_text().splitlines()
    assert len((folder / "summaries.txt").read_text().splitlines()) == len(references) > 0
    scores = output_of("etads-rouge", printed)
    assert scores.count("ROUGE-1") == 2 and scores.count("ROUGE|backend") == 2 and scores.count("reference  ") == 2
    assert "rep. 1" in output_of("etads-analyse", printed)
    table = [line for line in output_of("etads-tune", printed).splitlines() if line.startswith("|")]
    assert len(table) == 4 and (folder / "model-tuning" / "tuning.png").is_file()


def test_a_summary_of_new_text_says_what_was_copied(followed):
    folder, printed = followed
    assert (folder / "model" / "model.safetensors").is_file()
    text = (folder / "new.txt").read_text(encoding="utf-8")
    summary, *explained = output_of("python explain.py", printed).splitlines()
    shown = output_of("etads-summarize model", printed).splitlines()[-1]  # with the case of the document
    assert summary.lower() == shown.lower() != ""
    assert explained, "after eight steps it copies more often than it generates"
    for line in explained:
        word, start, end, shown = re.fullmatch(r"(\S+) +copied from characters (\d+) to (\d+): (.+)", line).groups()
        assert text[int(start) : int(end)] == shown and shown.lower() == word and word in summary


def test_fairseqs_commands_train_and_score_on_the_same_text(followed):
    folder, printed = followed
    out = folder / "runs" / "fairseq"
    assert "ROUGE-L" in output_of("scripts/fairseq.sh", printed)
    lines = (out / "generated.txt").read_text().splitlines()
    summaries = dict(line[2:].split("\t")[::2] for line in lines if line.startswith("D-"))
    written = (out / "summaries.txt").read_text().splitlines()
    assert written == [summaries[str(number)] for number in range(len(summaries))] != [], "in the documents' order"
