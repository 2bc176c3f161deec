"""A few of the faults of scripts/torture.sh; docs/experiments.md has the table of all."""

import re
import sys
from pathlib import Path

from helpers import run_command

TESTS = Path(__file__).parents[1]


def test_no_fault_makes_a_command_silently_different_or_leaves_it_without_words(tmp_path):
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r}); from torture.__main__ import main; sys.exit(main())"
    options = ["--sample", "5", "--kills", "4", "--places", "1", "--moments", "2", "--jobs", "1"]
    result = run_command([sys.executable, "-c", code, *options, "--out", str(tmp_path)], cwd=tmp_path, check=False)
    assert result.returncode == 0, result.stdout[-4000:]
    total = re.search(r"\| all \| (\d+) \| (\d+) \| (\d+) \| 0 \| 0 \| 0 \|", result.stdout)
    assert total, result.stdout[-4000:]
    runs, same, refused = map(int, total.groups())
    assert runs >= 20 and runs == same + refused and same and refused
