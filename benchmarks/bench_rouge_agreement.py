"""Measure how much the two backends of etads-rouge differ on any two files.

    python benchmarks/bench_rouge_agreement.py HYP REF [--limit 1000] [--what "where the texts are from"]
        [--output benchmarks/results/rouge_agreement.json]

rouge-score and ROUGE-1.5.5.pl score the same lines three times: with their defaults, both with WordNet's lists of
irregular word forms, and both without these lists. By default, only ROUGE-1.5.5.pl uses these lists; it applies them
before stemming. The report contains the differences between the means (Perl minus Python, on a scale from 0 to 100),
the differences for single pairs, and the words with different stems.
"""

import argparse
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
from benchmark_records import write_record

from fairseq_etads.evaluation import RougeSettings, read_lines, score_pairs
from fairseq_etads.evaluation.perl_rouge import find_perl_rouge

METRICS = ("rouge1", "rouge2", "rouge3", "rougeL")
FIGURES = ("f1", "precision", "recall")
STEM = r"""my ($file) = @ARGV; open(S, $file); local $/; my $text = <S>;
$text =~ /(\nlocal %step2list.*?\n)(\n*sub stem.*?\n\}\n)(.*?sub initialise \{.*?\n\}\n)/s or die "no stemmer in $file";
my $code = "$1 $2 $3"; $code =~ s/^local /our /mg; eval "no strict; $code initialise(); 1" or die $@;
$/ = "\n"; while (<STDIN>) { chomp; print stem($_), "\n" }"""


def stem_with_perl(words, home):
    """Stem words with the stemmer of ROUGE-1.5.5.pl.

    The result is empty if the stemmer cannot be extracted from the script.
    """
    done = subprocess.run(
        ["perl", "-e", STEM, str(home / "ROUGE-1.5.5.pl")],
        input="".join(f"{w}\n" for w in words),
        capture_output=True,
        text=True,
    )
    stems = done.stdout.split("\n")[:-1]
    return dict(zip(words, stems)) if len(stems) == len(words) else {}


def compute_differences(python, perl):
    """Compute the differences between two arrays of scores (pairs, metrics, 3), for the means and for single pairs."""
    apart = perl - python
    return {
        metric: {
            "means": {name: round(float(apart[:, m, f].mean()), 4) for f, name in enumerate(FIGURES)},
            "pairs that differ by more than 0.01": int((np.abs(apart[:, m, 0]) > 0.01).sum()),
            "largest of a pair": round(float(np.abs(apart[:, m, 0]).max()), 3),
        }
        for m, metric in enumerate(METRICS)
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hypotheses")
    parser.add_argument("references")
    parser.add_argument(
        "--limit", type=int, default=1000, help="maximum number of pairs to score (default: %(default)s)"
    )
    parser.add_argument("--what", default="", help="description of the texts, which is stored with the results")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "rouge_agreement.json")
    args = parser.parse_args()
    hypotheses, references = (read_lines(name)[: args.limit] for name in (args.hypotheses, args.references))
    report = {"what": args.what, "pairs": len(hypotheses), "differences": {}}
    for name, irregular in (
        ("as each does by itself", None),
        ("both with irregular forms", True),
        ("both without", False),
    ):
        scores = {}
        for backend in ("python", "perl"):
            settings = RougeSettings(backend=backend, irregular=irregular, metrics=METRICS)
            scores[backend] = score_pairs(hypotheses, [references], settings, jobs=2)
            report[f"signature, {backend}, {name}"] = settings.signature(1)
        report["differences"][name] = compute_differences(**scores)
    plain = RougeSettings(irregular=False).tokenizer
    words = Counter(re.sub(r"[^a-z0-9]+", " ", " ".join([*hypotheses, *references]).lower()).split())
    longer = [word for word in words if len(word) > 3]
    stems = stem_with_perl(longer, find_perl_rouge().home)
    other = {word: (plain.tokenize(word)[0], stem) for word, stem in stems.items() if plain.tokenize(word)[0] != stem}
    common = sorted(other, key=words.get, reverse=True)
    report["words of more than 3 letters"] = len(longer)
    report["words that the two stem differently"] = len(other) if stems else "not looked at"
    report["the most frequent of them, Python's stem, Perl's"] = [[word, *other[word]] for word in common[:10]]
    lines = [line.lower() for line in (*hypotheses, *references)]
    report["lines with letters beyond a-z"] = sum(any(c.isalpha() and not c.isascii() for c in line) for line in lines)
    # Some non-ASCII characters become ASCII letters when they are lower-cased. Only Python treats these characters as
    # letters.
    fold = [any(not c.isascii() and re.search("[a-z0-9]", c.lower()) for c in line) for line in hypotheses + references]
    report["lines with characters that lower-case to a-z"] = sum(fold)
    print(json.dumps(report, indent=2))
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
