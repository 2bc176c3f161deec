"""The command ``etads-prepare`` (prepare data): tokenise and binarise text, and build the dictionary.

It uses fairseq's ``--tokenizer`` and ``--bpe`` classes, and prints the options with which ``fairseq-interactive``
processes new text in exactly the same way as the training text.
"""

import argparse
import multiprocessing
import os
import shlex
import shutil
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from fairseq_etads.data.preparation import (
    FACTORS,
    TOKENS,
    PreparationSettings,
    format_command_line,
    make_inference_options,
    read_preparation_settings,
)
from fairseq_etads.files import SIDES, SPLITS
from fairseq_etads.files.checksums import Checksums, compute_checksum_and_line_count, compute_sha256
from fairseq_etads.files.inputs import read_json, read_lines
from fairseq_etads.files.outputs import check_no_colon, copy_file, lock_output, write_json
from fairseq_etads.files.shards import Shard
from fairseq_etads.platform.command_options import (
    JobsOption,
    add_options,
    argument,
    check_options,
    format_option_name,
    get_given_options,
    option,
)
from fairseq_etads.platform.console import Parser, command
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.subwords import OPAQUE
from fairseq_etads.text.words import LANGUAGES, SENTENCE_MARK, WORD_KINDS

from . import encode
from .factors import find_tag_files, write_factors

CORPORA: Dict[str, Dict[str, Any]] = {
    "cnndm": {"tokens": "word", "words": "ptb", "size": 50_000},
    "gigaword": {"tokens": "word", "words": "spaces", "size": 50_000},
    "sumpubmed": {"tokens": "word", "words": "ptb", "size": 50_000},
}
"""Mapping from each value of --corpus to the settings that its recipes use instead of the command's defaults."""
LISTED, BESIDE = (".bin", ".idx", ".txt", ".json"), ("dict.", "factors/")
"""Suffixes of the files that OUT/bin/SHA256SUMS lists, and prefixes of files that are written next to OUT/bin."""
FEWEST = 0.9
"""Minimum ratio of the number of known words to the requested number. A lower ratio causes a warning."""
DESCRIPTION = f"""\
Convert TEXT/{{train,valid,test}}.{{source,target}} (one document or summary per line) to OUT/bin, the input of
fairseq-train.

  etads-prepare text/ run/ --tokens bpe --size 3000
  fairseq-train run/bin --user-dir fairseq_etads --task summarization --arch etads ...

{SENTENCE_MARK} separates sentences in TEXT. Summaries keep this mark; documents keep it only with
--source-sentence-marks. The subword model, the tokenised text, report.json (lengths, checksums) and prepare.json (the
settings and the checksums of TEXT) are also written to OUT. At the end, the command prints the options with which
fairseq-interactive processes new text in the same way. If you run it again with the same options, it creates only
missing files."""


def _check_text_files(text: Path, splits: Sequence[str], made: Checksums) -> Dict[str, str]:
    """Return a dictionary that maps each text file in the splits to its checksum."""
    listed = Checksums(text, "Make the text again")
    if not text.is_dir():
        raise InputError(f'TEXT "{text}" is not a folder; etads-debian --sample --out {text} makes one')
    checksums = {}
    for split in splits:
        counts = {}
        for side in SIDES:
            path = text / f"{split}.{side}"
            if not path.is_file():
                expected = ", ".join(f"{s}.{e}" for s in splits for e in SIDES)
                raise InputError(f'TEXT "{text}" has no file {path.name}; it must contain {expected}')
            made.watch(path)
            checksums[path.name], counts[path] = compute_checksum_and_line_count(path)
            listed.compare(path.name, checksums[path.name])
        if len(set(counts.values())) != 1 or 0 in counts.values():
            said = " and ".join(f"{path} has {count:,}" for path, count in counts.items())
            raise InputError(f"line counts must be equal and above 0, but {said}")
    return checksums


def _write_or_check_record(out: Path, record: Dict[str, Any], made: Checksums) -> None:
    """Write ``record`` to prepare.json, unless the file already contains this record."""
    path, sizes = out / "prepare.json", dict.fromkeys(("size", "source_size", "target_size"))
    known = read_json(path, "give another OUT or delete it") if path.exists() else None
    if known is not None:
        different = [key for key in {**record, **known} if known.get(key) != record.get(key)]
        # Another size can be chosen as long as no model has been learned, because the known one may have been refused.
        before, now = ({**about, "settings": {**about.get("settings", {}), **sizes}} for about in (known, record))
        names = PreparationSettings(**record["settings"]).subword_files
        is_refused = names and not any((out / name).exists() for name in [*names, "bin/complete"])
        if different and not (before == now and is_refused):
            what = f"{', '.join(different)} (see {path})"
            raise InputError(f'OUT "{out}" was prepared with other {what}; give another OUT or delete it')
        if not different:
            made.add(path.name)
            return
    with made.record_new_files(path.name):
        write_json(path, record)


def prepare_data(
    settings: PreparationSettings,
    text: Path,
    out: Path,
    jobs: int,
    like: Optional[Path] = None,
    given: Optional[Mapping[str, Path]] = None,
    shard: Optional[Shard] = None,
) -> Dict[str, Any]:
    """Create all missing files in ``out``, and return the options for new text (see :func:`make_inference_options`).

    A folder of prepared data ``like`` provides the settings, the subword model and the dictionaries; ``text`` need not
    contain all splits then. The user may have ``given`` files of :data:`etads_preprocess.encode.GIVEN`. With a
    ``shard``, only this part of the text is tokenised. Raises InputError if the text, an option or an earlier output is
    invalid.
    """
    given = given or {}
    if "\n" in str(out):
        reason = "has a line break in its path, which commands that read the options cannot handle"
        raise InputError(f"OUT {reason}: rename it")
    check_no_colon("OUT", out)
    if os.path.realpath(text) == os.path.realpath(out):
        reason = "is the same folder as TEXT, so its checksums would be overwritten"
        raise InputError(f"OUT {out} {reason}: name another folder")
    if str(out).startswith("-"):  # commands that read the options would mistake such a path for an option
        out = out.absolute()
    folder = encode.get_shard_folder(out, shard) if shard else out
    with lock_output(folder, "OUT", folder=True):
        settings = read_preparation_settings(like, "--like") if like else settings
        wanted = {split for split in SPLITS if any((text / f"{split}.{side}").is_file() for side in SIDES)}
        wanted |= set() if like else {"train", "valid"}
        splits = [split for split in SPLITS if split in wanted] or SPLITS
        settings.check()
        if not like:
            encode.check_given_files(given, settings)
        Checksums(folder, f"Delete {folder} or give another OUT").verify(["prepare.json"])
        made = Checksums(folder, "Delete it to have it made again")
        made.verify(made.listed, may_be_missing=True)
        if (folder / "bin" / "complete").exists():
            binarised = Checksums(folder / "bin", f"Delete {folder / 'bin'} to have it made again")
            binarised.verify(binarised.listed)
        record = {"settings": settings.to_record(), "text": _check_text_files(text, splits, made)}
        has_subwords = all((out / name).exists() for name in settings.subword_files)
        if like:
            record["like"] = _read_reused_checksums(like, settings)
        if given:
            if "model" in given and settings.tokens == "sentencepiece" and not has_subwords:
                encode.check_sentencepiece_model(given["model"], settings, text)
            made.watch(*given.values())
            record["given"] = {name: compute_sha256(path) for name, path in given.items()}
        work = encode.Preparation(settings, text, out, splits, jobs, like)
        for split in splits:
            tags = find_tag_files(work, split)
            made.watch(*tags.values())
            record["text"].update({path.name: compute_sha256(path) for path in tags.values()})
        _write_or_check_record(folder, record, made)
        words = "tokens" if settings.tokens == "word" else "words"
        if not shard:
            encode.join_shards(work, made, words, record)
        encode.encode_all_files(work, made, text, words, encode.TO_WORDS, shard)
        if shard:
            return make_inference_options(settings, out)
        if settings.tokens != "word":
            if not has_subwords:
                with made.record_new_files(*settings.subword_files):
                    if like:
                        for name in settings.subword_files:
                            copy_file(like / name, out / name)
                    elif given:
                        encode.copy_subword_model(given, out, settings)
                    else:
                        train = [out / words / f"train.{side}" for side in SIDES]
                        encode.learn_subwords(train, settings.tokens, settings.size, out / settings.subword_files[0])
            made.add(*settings.subword_files)
            encode.encode_all_files(work, made, out / words, "tokens", encode.TO_SUBWORDS)
        if not (out / "bin" / "complete").exists():
            _binarise_text(work, made, given.get("dict.txt"))
        if not (out / "report.json").exists():
            with made.record_new_files("report.json"):
                _write_report(work)
        made.add("report.json")
        return make_inference_options(settings, out)


def _read_reused_checksums(like: Path, settings: PreparationSettings) -> Dict[str, str]:
    """Return the checksums of the files that --like reuses: the dictionaries, subword model and idf bins."""
    subwords = [name for name in settings.subword_files if name != "sentencepiece.vocab"]  # it only lists the pieces
    idf = [like / "factors" / "idf.txt"] if "idf" in settings.factors else []
    paths = [*sorted((like / "bin").glob("dict.*.txt")), *(like / name for name in subwords), *idf]
    for path in paths:
        if not path.is_file():
            raise InputError(f"--like {like}: it has lost {path.name}")
    advice = f"Prepare {like} again"
    Checksums(like, advice).verify([*subwords, "factors/idf.txt"], may_be_missing=True)
    Checksums(like / "bin", advice).verify(path.name for path in paths if path.parent.name == "bin")
    return {path.name: compute_sha256(path) for path in paths}


def _binarise_text(work: encode.Preparation, made: Checksums, given: Optional[Path]) -> None:
    """Write dictionaries, binarised text and factors to OUT, which contains tokens/.

    The dictionary also contains words of the documents that the model's vocabulary lacks, so that a pointer can copy
    them. Raises InputError if fairseq-preprocess fails, factors cannot be computed, or an input file has changed.
    """
    out = work.out
    shutil.rmtree(out / "bin", ignore_errors=True)  # fairseq-preprocess rejects an incomplete folder
    made.forget(*(name for name in made.listed if name.startswith(BESIDE)))
    try:
        encode.run_in_separate_process(_run_fairseq_preprocess, work, given)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        where = f"({type(error).__name__}: {error}); the full output is in {out / 'preprocess.txt'}"
        raise InputError(f"fairseq-preprocess failed {where}") from None
    if work.settings.factors:
        write_factors(work)
    made.verify_unchanged()
    complete = [path for path in sorted(out.glob("**/*")) if path.is_file() and path.suffix != ".partial"]
    made.add(*(name for path in complete if (name := str(path.relative_to(out))).startswith(BESIDE)))
    Checksums(out / "bin").add(*(path.name for path in (out / "bin").iterdir() if path.suffix in LISTED))
    (out / "bin" / "complete").touch()


def _run_fairseq_preprocess(work: encode.Preparation, given: Optional[Path]) -> None:
    """Write the dictionaries, and run fairseq-preprocess with its output redirected to OUT/preprocess.txt."""
    # Otherwise, the worker processes of fairseq would be started with the method forkserver.
    multiprocessing.set_start_method("fork", force=True)
    from .dictionary import make_dictionaries

    # fairseq splits paths at commas, so the paths that it receives are relative to OUT.
    like, given = work.like and work.like.absolute(), given and given.absolute()
    os.chdir(work.out)
    names = make_dictionaries(work, like, given)
    arguments = ["-s", "source", "-t", "target", "--destdir", "bin", "--workers", str(work.jobs), "--srcdict", names[0]]
    arguments += ["--tgtdict", names[1]] if len(names) > 1 else ["--joined-dictionary"]
    arguments += [f"--{split}pref=tokens/{split}" for split in work.splits]
    with open("preprocess.txt", "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from fairseq_cli.preprocess import cli_main

    sys.argv = ["fairseq-preprocess", *arguments]
    cli_main()


def _write_report(work: encode.Preparation) -> None:
    """Write statistics about the prepared data to OUT/report.json."""
    out, settings = work.out, work.settings
    binary = sorted(path for path in (out / "bin").iterdir() if path.suffix in (".bin", ".idx", ".txt"))
    listed, size = Checksums(out / "bin").listed, settings.size if settings.tokens == "word" else 0
    sizes = {"source": settings.source_size or size, "target": settings.target_size or size}
    wanted = {side: words for side, words in sizes.items() if words}  # as far as they are known
    report = {
        "lengths": {name: encode.measure_tokens_per_line(out / "tokens" / name) for name in work.names},
        "vocabulary": encode.run_in_separate_process(make_vocabulary_report, out, work.splits, wanted),
        "sha256": {path.name: listed.get(path.name) or compute_sha256(path) for path in binary},
    }
    write_json(out / "report.json", report)


def make_vocabulary_report(out: Path, splits: Sequence[str], wanted: Dict[str, int]) -> Dict[str, Any]:
    """Count the "known" words of each side, and the words of "summaries": all, "unknown" and, of these, "copyable"."""
    from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, is_padding_word

    known = {}
    for side in SIDES:
        dictionary = SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt"))
        words = dictionary.symbols[dictionary.nspecial : dictionary.known_words]
        known[side] = {word for word in words if not is_padding_word(word)}
    specials = set(dictionary.symbols[: dictionary.nspecial])
    counts = {}
    for split in splits:
        count = {"words": 0, "unknown": 0, "copyable": 0}
        for document, summary in zip(*(read_lines(out / "tokens" / f"{split}.{side}") for side in SIDES)):
            words = summary.split()
            unknown = [word for word in words if word not in known["target"]]
            count["words"] += len(words)
            count["unknown"] += len(unknown)
            if unknown:
                in_document = set(document.split()) - specials
                count["copyable"] += sum(word in in_document for word in unknown)
        counts[split] = count
    return {"known": {side: len(words) for side, words in known.items()}, "asked": wanted, "summaries": counts}


def _summarise_vocabulary(report: Dict[str, Any]) -> Iterator[str]:
    """Summarise the report in a few lines of text, and warn if a vocabulary is far smaller than requested."""
    known, asked = report["known"], report["asked"]
    yield f"known words: {known['source']:,} of documents, {known['target']:,} of summaries"
    for side, what in (("source", "documents"), ("target", "summaries")):
        if known[side] < FEWEST * asked.get(side, 0):
            yield f"WARNING: {asked[side]:,} words of {what} were asked for, and the training text has {known[side]:,}"
    for split, count in report["summaries"].items():
        unknown, copyable = count["unknown"] / max(1, count["words"]), count["copyable"] / max(1, count["unknown"])
        yield f"{split}.target: {unknown:.2%} of the words are unknown, {copyable:.1%} of these are in their document"


@dataclass
class PreparationOptions(JobsOption):
    """Options of ``etads-prepare``. Those that are not set are None or False, so that they can be told from others."""

    text: Path = argument("TEXT", "folder containing {train,valid}.{source,target} and perhaps test.{source,target}")
    out: Path = argument("OUT", "output folder for the prepared data")
    tokens: Optional[str] = option(
        None,
        "type of tokens. bpe: BPE merges of words, learned by subword-nmt; sentencepiece: SentencePiece unigram pieces "
        "of raw text; sentencepiece-bpe: SentencePiece BPE pieces; word: whole words; gpt2: GPT-2 pieces of raw text, "
        "as read by BART; huggingface: the pieces of the tokeniser in --model (default: bpe)",
        choices=TOKENS,
    )
    words: Optional[str] = option(
        None,
        "how to split text into words. moses: Moses tokeniser; ptb: Penn Treebank tokenisation, as for CNN/Daily Mail; "
        "spaces: split at spaces, for tokenised text; characters: split Chinese, Japanese and Korean text into "
        "characters; raw: do not split, for SentencePiece (default: moses, or raw with SentencePiece)",
        choices=WORD_KINDS,
    )
    size: Optional[int] = option(None, "number of merges or pieces to learn, or of words to keep (default: 8000)")
    model: Optional[Path] = option(
        None,
        "existing subword model: merges of subword-nmt (--tokens bpe), a SentencePiece model (--tokens sentencepiece), "
        "or tokenizer.json of a Hugging Face library (--tokens huggingface) (default: learn one from the text)",
    )
    gpt2_encoder_json: Optional[Path] = option(None, "GPT-2 encoder.json file, which contains the pieces and their ids")
    gpt2_vocab_bpe: Optional[Path] = option(None, "GPT-2 vocab.bpe file, which contains the BPE merges")
    dictionary: Optional[Path] = option(
        None, "BART's dict.txt, whose pieces the model has in this order (default: the text's pieces, by frequency)"
    )
    language: Optional[str] = option(
        None, "language, for abbreviations and Moses's rules (default: as in etads-corpus, or en)", choices=LANGUAGES
    )
    keep_case: bool = option(False, "preserve case (default: convert the text to lower case, as CNN/DM systems do)")
    source_sentence_marks: bool = option(
        False, f"keep {SENTENCE_MARK} in documents, for hierarchical models; those without are split by rules"
    )
    no_target_sentence_marks: bool = option(False, f"remove the sentence mark {SENTENCE_MARK} from summaries")
    separate_dictionaries: bool = option(
        False, "a dictionary for each side, for models that neither copy words nor share embeddings"
    )
    source_size: Optional[int] = option(
        None, "with --separate-dictionaries, words to keep for documents (default: --size, or all subwords)"
    )
    target_size: Optional[int] = option(
        None,
        "with --separate-dictionaries, words to keep for summaries (default: --source-size). With a single "
        "dictionary, most frequent summary words that the model can generate; others can only be copied (default: all)",
    )
    factors: Optional[List[str]] = option(
        None,
        "source word factors to compute: pos, ner, tf, idf and salience. pos and ner are read from "
        "TEXT/SPLIT.source.pos and .ner (one tag per word) or predicted by --spacy-model. salience is the salience "
        "level of the word's sentence, and is read from TEXT/SPLIT.source.salience, which etads-shorten writes",
        choices=FACTORS,
        metavar="NAME",
        nargs="+",
    )
    tf_bins: Optional[int] = option(None, "number of bins for term frequencies in the tf factor (default: 10)")
    idf_bins: Optional[int] = option(None, "number of bins for inverse document frequencies in idf (default: 10)")
    spacy_model: Optional[str] = option(None, "an installed spaCy model, such as en_core_web_sm", metavar="NAME")
    like: Optional[Path] = option(
        None,
        "reuse the subword model, the dictionaries and the values of all options listed above from an earlier output "
        "folder. TEXT may then contain only some of the splits, such as a test set for a trained model",
        metavar="PREPARED",
    )
    corpus: Optional[str] = option(
        None,
        "use the settings of this corpus's recipes for --tokens, --words and --size, unless they are set explicitly or "
        "determined by --like, by --model, or by a value of --tokens that reads raw text",
        choices=tuple(CORPORA),
    )
    shard: Optional[str] = option(
        None,
        "tokenise only the I-th of N shards of the text and write it to OUT/shards, so that several processes or "
        "machines can share the work. To join the shards and continue, run the same command without --shard",
        metavar="I/N",
    )


def build_parser() -> argparse.ArgumentParser:
    parser = Parser(prog="etads-prepare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, PreparationOptions)
    return parser


def make_settings(args: argparse.Namespace) -> PreparationSettings:
    """Create the settings from the options. Raises InputError if --like is combined with options that it determines."""
    given = get_given_options(args, PreparationOptions)
    others = sorted(given.keys() - {"text", "out", "like", "jobs", "shard", "corpus"})
    if args.like and others:
        raise InputError(f"--like {args.like}: determines the options; leave out {format_option_name(others[0])}")
    is_opaque = args.tokens in OPAQUE  # the pieces may be case-sensitive, and no piece represents the sentence mark
    if args.corpus and not args.like and not is_opaque:
        usual = dict(CORPORA[args.corpus])
        if args.model:
            del usual["size"]  # the model determines it
        if args.tokens and PreparationSettings(tokens=args.tokens).reads_raw_text:
            del usual["words"]  # raw text is not split into words
        given = {**usual, **given}
    report = args.text / "report.json"
    if not args.language and report.is_file():
        given["language"] = read_json(report, "make the text again").get("options", {}).get("language", "en")
    return PreparationSettings(
        **{field.name: given[field.name] for field in fields(PreparationSettings) if field.name in given},
        lowercase=not (args.keep_case or is_opaque),
        source_marks=args.source_sentence_marks,
        target_marks=not (args.no_target_sentence_marks or is_opaque),
        separate=args.separate_dictionaries,
    )


def prepare_text(args: argparse.Namespace) -> None:
    """Prepare the text as the parsed options of ``etads-prepare`` say, and report lengths and unknown words."""
    paths = (args.gpt2_encoder_json, args.gpt2_vocab_bpe, args.dictionary, args.model)
    given = {name: path for name, path in zip(encode.GIVEN, paths) if path is not None}
    shard = None if args.shard is None else Shard.parse(args.shard)
    check_options(args, PreparationOptions)
    options = prepare_data(make_settings(args), args.text, args.out, args.jobs, args.like, given, shard)
    if shard:
        place = encode.get_shard_folder(args.out, shard)
        print(f"shard {args.shard}: {place}; the command without --shard joins all shards")
        return
    report = read_json(args.out / "report.json", "delete it to have it made again")
    for name, about in report["lengths"].items():
        longest = f"{about['mean tokens']:.1f} tokens on average, {about['max tokens']:,} at most"
        print(f"{name}: {about['lines']:,} lines, {longest}")
    said = _summarise_vocabulary(report["vocabulary"]) if "vocabulary" in report else ()
    for line in [*said, *encode.measure_round_trip(read_preparation_settings(args.out, "OUT"), args.text, args.out)]:
        print(line)
    flags = shlex.join(format_command_line(options))
    print(f"binarised data: {args.out / 'bin'}\nfor new text, give fairseq-interactive: {flags}")


main = command(build_parser)(prepare_text)


if __name__ == "__main__":
    sys.exit(main())
