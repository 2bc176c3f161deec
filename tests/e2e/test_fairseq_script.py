"""scripts/fairseq.sh: the whole way in fairseq's own commands, from text to scores."""

from helpers import run_command
from test_scripts import SCRIPTS
from toy import write_pairs

TINY = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 32 --cpu --num-workers 0"


def test_text_becomes_scored_summaries(tmp_path):
    (tmp_path / "text").mkdir()
    for seed, (split, count) in enumerate((("train", 80), ("valid", 8), ("test", 24))):
        write_pairs(tmp_path / "text", split, count, seed)
    command = [str(SCRIPTS / "fairseq.sh"), "text", "out", "--max-update", "30", *TINY.split()]
    first = run_command(command, cwd=tmp_path).stdout
    assert "ROUGE-L" in first or "ROUGE-SU4" in first, "by etads-rouge or by files2rouge"
    summaries = (tmp_path / "out" / "summaries.txt").read_text()
    numbers = [
        line.split("\t")[0]
        for line in (tmp_path / "out" / "generated.txt").read_text().splitlines()
        if line[:2] == "D-"
    ]
    assert len(summaries.splitlines()) == len(numbers) == 24 and numbers != sorted(numbers), "they are put in order"
    again = run_command(command, cwd=tmp_path).stdout
    assert "Loaded checkpoint" in again and (tmp_path / "out" / "summaries.txt").read_text() == summaries
