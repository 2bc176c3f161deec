"""Create the model card of a model folder, in the format of the Hugging Face Hub, and change decoding defaults.

This module does not import torch or fairseq.
"""

import hashlib
import json
import re
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, NamedTuple

from ...files.checksums import NAME as CHECKSUMS
from ...files.checksums import Checksums, compute_sha256, format_checksum_list
from ...files.outputs import PARTIAL, write_text
from ...platform.command_options import format_option_name
from ...platform.errors import InputError
from ...search.options import combine_options
from ...text.subwords import OPAQUE
from ...text.words import SENTENCE_MARK
from .config import CARD, CONFIG, EXTRACTOR, FolderConfig, read_config

_SECTION = re.compile(r"^## Defaults of decoding\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,59}")


_USE = """\
## Use

In Python, with fairseq-etads installed:

```python
from fairseq_etads import Summarizer

summarizer = Summarizer.load("PATH/TO/THIS/FOLDER")
print(summarizer.summarize("The text of a document.").text)
```

In a shell: `etads-summarize PATH/TO/THIS/FOLDER documents.txt --lines`
"""
_LIMITS = """\
## Limits

A summary can be wrong: words and numbers may be left out, mixed up or made up. Check a summary before you rely on it.
"""


_SCORES = ["## Scores\n", "| metric | F1 | P | R | 95 % interval of F1 |", "|---|---|---|---|---|"]


class ModelCardMetadata(NamedTuple):
    """Information in the model card that is not stored in config.json."""

    title: str = ""
    license: str = ""  # SPDX identifier
    language: str = ""  # code of the language
    command: str = ""  # with which the model was trained
    scores: Any = None  # parsed contents of rouge.json
    text_report: Mapping[str, Any] = MappingProxyType({})  # parsed contents of report.json of the text
    prepared_report: Mapping[str, Any] = MappingProxyType({})  # parsed contents of report.json of the prepared data
    picked_words: int = 0  # maximum number of words that the extractor selects, or 0 without an extractor
    has_content: bool = False  # whether a content model can choose the sentences of summaries


NO_METADATA = ModelCardMetadata()


def check_language_or_licence_code(option: str, value: str) -> str:
    """Raise InputError if the code of a licence or language is not valid in the YAML header."""
    if value and not _CODE.fullmatch(value):
        raise InputError(f"{option} {value!r}: choose a short name, such as mit, cc-by-4.0 or en")
    return value


def read_scores(path: Path) -> Any:
    """Read a report of ``etads-rouge --json``. Raises InputError if the file cannot be read or is no such report."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        _format_score_rows(report)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path}: not a report of scores, as written by etads-rouge --json") from None
    return report


def make_model_card(config: FolderConfig, parameters: int, words: Dict[str, int], info: ModelCardMetadata) -> str:
    """Create the text of the model card, README.md.

    ``words`` contains the vocabulary sizes of the encoder ("source") and the decoder ("target").
    """
    front = ["---", "library_name: fairseq-etads", "pipeline_tag: summarization"]
    front += [f"license: {info.license}"] if info.license else []
    front += [f"language: {info.language}"] if info.language else []
    packages = config.made_by.items()
    versions = ", ".join(f"{_format_table_cell(name)} {_format_table_cell(version)}" for name, version in packages)
    command = f"\n```sh\n{info.command.strip()}\n```\n" if info.command else ""
    parts = [
        "\n".join([*front, "---\n"]),
        f"# {info.title}\n",
        f"A summarisation model of the architecture `{config.architecture}` with {parameters:,} parameters, exported "
        "by fairseq-etads. Loading it runs no code from this folder.\n",
        _USE,
        _format_texts_section(config, words, info),
        _format_data_section(info),
        f"## Training\n{command}\nExported with {versions}; weights are stored as {config.weights['dtype']}.\n",
        "" if info.scores is None else "\n".join([*_SCORES, *_format_score_rows(info.scores), ""]),
        format_defaults_section(config),
        _LIMITS,
    ]
    return "\n".join(part for part in parts if part)


def _format_texts_section(config: FolderConfig, words: Dict[str, int], info: ModelCardMetadata) -> str:
    task, text = config.task, config.text
    subwords = {"subword_nmt": "BPE", **OPAQUE}.get(text["subwords"], text["subwords"] or "whole words")
    case = "kept" if text["keep_case"] else "lowered"
    known = f"{words['source']:,} of documents and {words['target']:,} of summaries"
    source, target = task["truncate_source"], task["truncate_target"]
    read = f"The first {source:,} tokens of each document are read."
    if info.picked_words:
        read = (
            f"Documents may have any length. An extractor picks the most probable sentences, {info.picked_words:,} "
            f"words at most, and the first {source:,} tokens of these sentences are read."
        )
    trained = f" In training, summaries were read up to {target:,} tokens."
    choice = config.decoding.get("choose", "none")
    if choice == "extract":
        read = (
            "Documents may have any length. An extractor and a content model choose whole sentences of the document, "
            "which are spelled as in the document."
        )
        trained = ""
    elif choice == "hypothesis":
        read += (
            " A content model chooses among the hypotheses in the beam (`--choose hypothesis`); `--choose none` "
            "returns the hypothesis with the best score."
        )
    elif info.has_content:
        read += (
            " A content model can choose the sentences of the summary (`--choose content`), either word for word from "
            "the whole document or from all hypotheses of the search. `--choose none` returns the best hypothesis."
        )
    return f"""\
## Texts

- {read}{trained}
- Words follow the rules "{text["words"]}" (language {text["language"]}), case {case}; tokens are {subwords}.
- Known tokens: {known}. {SENTENCE_MARK} separates the sentences of a summary, if the training summaries contained it.
"""


def _format_data_section(info: ModelCardMetadata) -> str:
    lines = []
    lengths = info.prepared_report.get("lengths")
    if isinstance(lengths, dict):
        lines = ["| part | lines | mean tokens | longest |", "|---|---|---|---|"]
        for name, numbers in lengths.items():
            if isinstance(numbers, dict):
                cells = [_format_table_cell(numbers.get(key)) for key in ("lines", "mean tokens", "max tokens")]
                lines.append(f"| {_format_table_cell(name)} | {' | '.join(cells)} |")
    corpus = info.text_report.get("corpus") or info.text_report.get("kind")
    origin = f"Corpus: {_format_table_cell(corpus)}.\n" if isinstance(corpus, str) else ""
    if not lines and not origin:
        return ""
    return "\n".join(["## Training data\n", origin, *lines, ""])


def _format_score_rows(report: Any) -> List[str]:
    rows = []
    for name, score in report["scores"].items():
        numbers = [score["f1"], score["precision"], score["recall"], *(score["f1_interval"] or ())]
        f1, precision, recall, *interval = (f"{float(number):.2f}" for number in numbers)
        shown = " to ".join(interval) or "not computed"
        rows.append(f"| ROUGE-{_format_table_cell(name[5:])} | {f1} | {precision} | {recall} | {shown} |")
    signature = re.sub(r"[`\r\n]", " ", str(report["signature"]))[:500]
    return [*rows, "", f"`{signature}`"]


def format_defaults_section(config: FolderConfig, note: str = "") -> str:
    """Create the section about the decoding defaults. ``note`` explains how they were chosen."""
    return (
        f"## Defaults of decoding\n\n`{format_command_line_options(config.decoding)}`; every call can override them.\n"
        + (f"\n{note}\n" if note else "")
    )


def check_writable(folder: Path) -> None:
    """Raise InputError if a folder is not writable."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to ({error.strerror})") from None


def set_decoding_defaults(folder: Path, decoding: Dict[str, Any], note: str) -> None:
    """Replace the decoding defaults of a model folder, and add a note in Markdown about their choice to the model card.

    If the function is interrupted, the folder can still be loaded with either the old or the new defaults, because
    SHA256SUMS is removed before config.json is replaced, and is written again afterwards. A folder without it is loaded
    without comparing checksums. After an interruption, call the function again. Raises InputError if the folder is not
    a model folder, the folder is not writable, or a decoding option is invalid.
    """
    combine_options(decoding, {})
    check_writable(folder)
    config = replace(read_config(folder), decoding=decoding)
    sums = Checksums(folder).listed
    if not sums:  # an earlier interruption has left no SHA256SUMS
        names = [path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]
        names = [name for name in names if name not in (CARD, CONFIG) and not name.endswith(PARTIAL)]
        names += [f"{EXTRACTOR}/{CHECKSUMS}"] if (folder / EXTRACTOR / CHECKSUMS).is_file() else []
        sums = {name: compute_sha256(folder / name) for name in names}
    sums = {**sums, CONFIG: hashlib.sha256(config.to_json().encode()).hexdigest()}
    (folder / CHECKSUMS).unlink(missing_ok=True)
    write_text(folder / CONFIG, config.to_json())
    card, section = folder / CARD, format_defaults_section(config, note)
    if card.is_file():
        text = card.read_bytes().decode("utf-8", "replace")
        is_there = _SECTION.search(text)
        text = _SECTION.sub(lambda _: f"{section}\n", text, count=1) if is_there else f"{text}\n{section}"
        write_text(card, text, "replace")
    write_text(folder / CHECKSUMS, format_checksum_list(sums))


def format_command_line_options(decoding: Dict[str, Any]) -> str:
    """Format decoding options as command-line arguments."""
    given = (
        (format_option_name(name) if value else f"--no-{format_option_name(name)[2:]}")
        if isinstance(value, bool)
        else f"{format_option_name(name)} {shlex.quote(str(value))}"
        for name, value in decoding.items()
    )
    return " ".join(given)


def _format_table_cell(value: Any) -> str:
    """Format a value as the text of a table cell."""
    shown = f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
    return re.sub(r"[|`<>\r\n]", " ", shown)[:200]
