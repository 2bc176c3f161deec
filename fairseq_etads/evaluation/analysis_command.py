"""The command ``etads-analyse``: ROUGE, novelty, repetition, lengths and places of several systems, side by side."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from tabulate import tabulate
from tqdm import tqdm

from .. import __version__
from .analysis import ORDERS, TENTHS, WORDS, Analyser, Analysis, Source, greedy_oracle, lead_words
from .command import add_scoring_options, check_writable, named_files, read_summaries, run, settings_of, warn
from .rouge import RESAMPLES, RougeReport, Settings, check_numbers, make_report, pair_scores
from .text import find_leftovers, split_summary

FORMATS = {"markdown": "pipe", "latex": "latex_booktabs", "json": None}
PLOTS = (".png", ".svg", ".pdf")
REFERENCE = "reference"
SHORT = {
    "words": "words",
    "sentences": "sent.",
    "copy rate": "copied",
    **{f"novel {n}-grams": f"new {n}" for n in ORDERS},
    "novel sentences": "new sent.",
    **{f"repeated {n}-grams": f"rep. {n}" for n in ORDERS},
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="etads-analyse",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="What summaries are made of, for any number of systems: ROUGE, copied, new and repeated n-grams.",
        epilog="""\
example:
  etads-analyse --source test.source --reference test.target --system etads=etads.txt --system basic=basic.txt \\
      --lead 3 --oracle 3 --plot systems.svg

  copied: per cent of a summary's words that its document has. new N: per cent of its N-grams that the document has
  not. new sent.: per cent of its sentences that do not stand in the document as they are. rep. N: per cent of its
  N-grams that occurred before in the summary. The last table says from which tenth of the documents copied bigrams
  come. What the figures mean in detail is in docs/evaluation.md.""",
    )
    add = parser.add_argument
    add("--source", metavar="FILE", required=True, help="documents, one per line")
    add("--reference", metavar="FILE", nargs="+", required=True, help="reference summaries, one per line")
    add("--system", metavar="NAME=FILE", action="append", default=[], help="a system's summaries; may be repeated")
    add("--lead", metavar="N", type=int, action="append", default=[],
        help="also the documents' first N sentences, as a system; may be repeated")  # fmt: skip
    add("--lead-words", metavar="N", type=int, action="append", default=[], help="also their first N words")
    add("--oracle", metavar="N", type=int,
        help="also the N sentences, or fewer, of the document that are best by ROUGE, chosen greedily")  # fmt: skip
    add("--words", choices=list(WORDS), default="words",
        help="what counts as a word in all but ROUGE (default: %(default)s)")  # fmt: skip
    add("--format", choices=list(FORMATS), default="markdown", help="of stdout (default: %(default)s)")
    add("--plot", metavar="FILE", help="draw a figure; the name must end in " + ", ".join(PLOTS))
    add_scoring_options(parser, RESAMPLES)
    return parser


def _extracts(
    args: argparse.Namespace, settings: Settings, sources: Sequence[str], references: Sequence[Sequence[str]]
) -> Dict[str, List[List[str]]]:
    """Name -> the sentences of the extracts that --lead, --lead-words and --oracle ask for."""
    # always cut, also where summaries are taken whole: an extract is made of sentences
    documents = [split_summary(text, settings.sentence_mark) for text in sources]
    extracts = {f"lead-{n}": [sentences[:n] for sentences in documents] for n in args.lead}
    extracts.update({f"lead-{n}-words": [lead_words(s, n) for s in documents] for n in args.lead_words})
    if args.oracle is not None:
        tokenize = settings.tokenizer.tokenize
        chosen = []
        for number, sentences in enumerate(tqdm(documents, desc="oracle", unit=" documents", disable=None)):
            wanted = [tokenize(" ".join(split_summary(r[number], settings.sentence_mark))) for r in references]
            found = greedy_oracle([tokenize(sentence) for sentence in sentences], wanted, args.oracle)
            chosen.append([sentences[place] for place in found])
        extracts["oracle"] = chosen
    return extracts


def _analyse_all(
    sources: Sequence[str], systems: Dict[str, List[List[str]]], kind: str, settings: Settings
) -> Dict[str, Analysis]:
    """Name -> figures; ``systems`` holds the sentences of each summary."""
    words = WORDS[kind]
    analysers = {name: Analyser() for name in systems}
    for number, text in enumerate(tqdm(sources, desc="n-grams", unit=" documents", disable=None)):
        sentences = split_summary(text, settings.sentence_mark, split_sentences=False)
        source = Source([word for sentence in sentences for word in words(sentence)])
        for name, analyser in analysers.items():
            analyser.add(source, [words(sentence) for sentence in systems[name][number]])
    return {name: analyser.result() for name, analyser in analysers.items()}


def analyse(args: argparse.Namespace) -> Dict[str, Any]:
    """All that ``etads-analyse`` reports, as types that JSON knows."""
    settings = settings_of(args)
    least = {"bootstrap": (args.bootstrap, 1), "seed": (args.seed, 0), "jobs": (args.jobs, 1)}
    least.update({"--oracle": (1 if args.oracle is None else args.oracle, 1)})
    for number in (*args.lead, *args.lead_words):
        least[f"--lead/--lead-words {number}"] = (number, 1)
    check_numbers(**least)
    files = named_files(args.system, REFERENCE)
    names = [args.source, *args.reference, *files.values()]
    sources, *texts = read_summaries(names)
    references, outputs = texts[: len(args.reference)], dict(zip(files, texts[len(args.reference) :]))
    if not args.quiet:
        for name, lines in zip(names[1:], texts):
            warn("etads-analyse", find_leftovers(name, lines))
    mark = settings.sentence_mark
    systems = {
        name: [split_summary(line, mark, settings.split_sentences) for line in lines]
        for name, lines in {REFERENCE: references[0], **outputs}.items()
    }
    for name, extract in _extracts(args, settings, sources, references).items():
        if name in systems:
            raise ValueError(f'--system "{name}=…": the name {name} is taken')
        systems[name] = extract
        # sentences that the document has, whatever they hold; without a mark they may be cut in other places
        outputs[name] = [f" {mark} ".join(sentences) for sentences in extract]
    scores: Dict[str, RougeReport] = {}
    for name, lines in outputs.items():
        found = pair_scores(lines, references, settings, args.jobs, progress=True)
        scores[name] = make_report(found, lines, len(references), settings, args.bootstrap, args.seed)
    analyses = _analyse_all(sources, systems, args.words, settings)
    report = {
        name: {
            "file": files.get(name, args.reference[0] if name == REFERENCE else None),
            "rouge": scores[name].to_dict() if name in scores else None,
            **vars(analysis),
        }
        for name, analysis in analyses.items()
    }
    signature = f"ANALYSIS|words:{args.words}|n:{len(sources)}|v:{__version__}"
    return {"systems": report, "metrics": list(settings.metrics), "signature": signature}


def _tables(report: Dict[str, Any], form: str) -> Tuple[str, str]:
    """The table of figures, and that of places."""
    metrics = report["metrics"]
    rows, places = [], []
    for name, system in report["systems"].items():
        shown = name.replace("|", "\\|") if form == "pipe" else name
        rouge = system["rouge"]["scores"] if system["rouge"] else {}
        figures = [rouge[m]["f1"] if m in rouge else None for m in metrics]
        rows.append([shown, *figures, *(system["figures"][figure] for figure in SHORT)])
        places.append([shown, *system["positions"]])
    heads = ["system", *(f"R-{metric[5:]}" for metric in metrics), *SHORT.values()]
    tenths = ["copied bigrams from tenth", *(str(tenth) for tenth in range(1, TENTHS + 1))]
    return (
        tabulate(rows, heads, tablefmt=form, floatfmt=".2f", missingval="-"),
        tabulate(places, tenths, tablefmt=form, floatfmt=".1f"),
    )


def _analyse(args: argparse.Namespace) -> None:
    check_writable("--json", args.json)
    check_writable("--plot", args.plot, *PLOTS)
    if args.plot:
        from .plots import check_matplotlib, draw

        check_matplotlib()
    report = analyse(args)
    as_json = json.dumps(report, indent=2)
    if args.format == "json":
        print(as_json)
    else:
        print("\n\n".join(_tables(report, str(FORMATS[args.format]))))
        signatures = {system["rouge"]["signature"] for system in report["systems"].values() if system["rouge"]}
        print("\n" + "\n".join([*sorted(signatures), report["signature"]]))
    if args.json:
        Path(args.json).write_text(as_json + "\n", encoding="utf-8")
    if args.plot:
        draw(report["systems"], args.plot)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run ``etads-analyse``; returns its exit code, 2 after an error, which is one line on stderr."""
    args = _parser().parse_args(argv)
    return run("etads-analyse", lambda: _analyse(args))


if __name__ == "__main__":
    sys.exit(main())
