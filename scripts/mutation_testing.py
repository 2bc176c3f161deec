#!/usr/bin/env python3
"""Find faults that the tests would miss, by introducing thousands of small faults into the code, one at a time.

  scripts/mutation_testing.py [options] [MODULE ...]

mutmut (`pip install -e .[mutation]`) creates the mutants by exchanging an operator, increasing a number by one, or
omitting an argument. A mutant is *killed* if a test fails with it. A mutant that *survives* indicates a missing test,
or has no visible effect. Each module has its own list of test files. Among these tests, each mutant is tested only by
the tests that call the mutated function, in a fork of a process that has already imported torch. Module-level
constants, defaults of dataclasses, and functions with decorators are not mutated.

Results are stored in --out, so that an interrupted run can be continued. The script tests survivors again if tests have
changed, and tests all mutants of a function again if the function has changed. At the end, it prints a table and the
diff of every survivor.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESTS = {
    "attention": "test_attention.py test_attention_exactness.py test_focus_forms.py test_recurrent_attention.py "
    "test_attention_options.py test_half_precision.py test_training_memory.py "
    "test_sentence_attention.py test_contract.py test_dropout.py::test_the_functions_drop_weights",
    "layers/pointer": "test_pointer.py test_contract.py test_training_memory.py test_bottom_up.py test_continuation.py "
    "test_copying.py test_pointer_generator.py test_switch_search.py",
    "training/losses": "test_criterions.py test_sentence_attention.py test_attention_probe.py test_bounds.py "
    "test_losses_not_finite.py test_overflow.py test_closed_book.py "
    "test_selection_loss.py test_half_precision.py test_selector.py test_checks.py test_validation.py",
    "search/hypotheses": "test_penalties.py test_hypotheses.py test_stopping.py",
    "search/search_rules": "test_rule_steps.py test_generation.py",
    "vocabulary/candidates": "test_candidates.py test_output_vocabulary.py",
    "vocabulary/output": "test_output_vocabulary.py test_batch_vocab.py",
}
"""Mapping from modules to their tests in tests/unit/, which run in seconds."""
LEARNING_TEST = "test_selector.py::test_selectors_learn_and_the_criterion_says_so"
"""Test that trains a model, which is left out because it would take most of the time."""
KILLED, SURVIVED, TIMEOUT = "killed", "survived", "timeout"


def fail(message):
    print(f"mutation_testing.py: {message}", file=sys.stderr)
    raise SystemExit(2)


def find_test(name):
    """Return the path of a test file in the repository, followed by "::" and a test if ``name`` contains one."""
    file, *test = name.split("::")
    (path,) = (ROOT / "tests" / "unit").rglob(file)
    return "::".join([str(path.relative_to(ROOT)), *test])


def create_working_folder(module, folder):
    """Create mutmut's working folder with copies of the package and the tests, and with settings for this module."""
    for name in ("fairseq_etads", "tests"):
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    settings = {
        "source_paths": ["fairseq_etads"],
        "only_mutate": [f"fairseq_etads/{module}.py"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", f"--deselect={find_test(LEARNING_TEST)}"],
        "pytest_add_cli_args_test_selection": [find_test(name) for name in TESTS[module].split()],
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    own = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = "\n".join([own, "[tool.mutmut]", *lines, "use_git_change_detection = false", ""])
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")


def reset_survivors(module, folder):
    """If tests have changed, reset the survivors and the record of the functions that each test calls."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        digest.update(path.read_bytes())
    known, now = folder / "tests.sha256", digest.hexdigest()
    results = folder / "mutants" / "fairseq_etads" / f"{module}.py.meta"
    if results.exists() and (not known.exists() or known.read_text() != now):
        statuses = read_mutant_statuses(folder)
        data = json.loads(results.read_text())
        for name in data["exit_code_by_key"]:
            if statuses.get(name) != KILLED:
                data["exit_code_by_key"][name] = None
        results.write_text(json.dumps(data))
        (folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    known.write_text(now)


def run_mutmut(folder, *arguments, **options):
    # Clear PYTHONPATH, because its modules would be imported instead of the mutants.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""}
    command = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, text=True, check=False, **options)


def read_mutant_statuses(folder):
    """Read the status of each mutant: "killed", "survived", "timeout" and so on."""
    output = run_mutmut(folder, "results", "--all", "True", stdout=subprocess.PIPE).stdout
    return dict(line.strip().rsplit(": ", 1) for line in output.splitlines() if ": " in line)


def run_mutation_tests(module, folder, jobs):
    folder.mkdir(parents=True, exist_ok=True)
    create_working_folder(module, folder)
    reset_survivors(module, folder)
    log = folder / "mutmut.log"
    with open(log, "w", encoding="utf-8") as output:
        result = run_mutmut(folder, "run", "--max-children", str(jobs), stdout=output, stderr=subprocess.STDOUT)
    if result.returncode:
        fail(f"mutmut failed on {module}; see the end of {log}")


def print_report(modules, out, diffs):
    found = {module: read_mutant_statuses(out / module) for module in modules}
    if diffs:
        for module, statuses in found.items():
            for name, status in sorted(statuses.items()):
                if status not in (KILLED, TIMEOUT):
                    print(f"== {module}: {status}", flush=True)
                    run_mutmut(out / module, "show", name)
    print(f"| module | mutants | killed | timeout | survived | other | killed or timeout |\n{'|---' * 7}|")
    total = [0] * 5
    for module, statuses in found.items():
        counts = [sum(status == wanted for status in statuses.values()) for wanted in (KILLED, TIMEOUT, SURVIVED)]
        row = [len(statuses), *counts, len(statuses) - sum(counts)]
        total = [a + b for a, b in zip(total, row)]
        print_mutant_counts(f"`{module}`", row)
    print_mutant_counts("all", total)


def print_mutant_counts(name, row):
    print(f"| {name} | {' | '.join(map(str, row))} | {(row[1] + row[2]) / max(1, row[0]):.1%} |")


def main():
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(
        usage=lines[2].strip(),
        description="\n".join([lines[0], *lines[3:]]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = runpy.run_path(str(ROOT / "fairseq_etads" / "version.py"))["get_version"]()
    parser.add_argument("--version", action="version", version=f"mutation_testing.py {version}")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"modules (default: all: {', '.join(TESTS)})")
    out, jobs = ROOT / "runs" / "mutation", os.cpu_count() or 1
    parser.add_argument("--out", type=Path, default=out, help="output folder (default: runs/mutation)")
    parser.add_argument("--jobs", type=int, default=jobs, help="number of processes (default: number of CPU cores)")
    parser.add_argument("--again", action="store_true", help="discard earlier results and test all mutants again")
    parser.add_argument("--report", action="store_true", help="print earlier results without running tests")
    parser.add_argument("--no-diffs", action="store_true", help="print the table without the diffs of survivors")
    args = parser.parse_args()
    modules = args.modules or list(TESTS)
    for module in sorted({*modules} - {*TESTS}):
        fail(f"{module}: choose among {', '.join(TESTS)}")
    if args.jobs < 1:
        fail(f"--jobs {args.jobs}: choose 1 or more")
    if importlib.util.find_spec("mutmut") is None:
        fail("mutmut is not installed: pip install -e .[mutation]")
    for module in modules:
        folder = args.out / module
        if args.report and not (folder / "mutants").is_dir():
            fail(f"--report: no results for {module} in {args.out}")
        if args.again:
            shutil.rmtree(folder, ignore_errors=True)
        if not args.report:
            print(f"== {module}: log in {folder / 'mutmut.log'}", file=sys.stderr)
            run_mutation_tests(module, folder, args.jobs)
    print_report(modules, args.out, not args.no_diffs)


if __name__ == "__main__":
    main()
