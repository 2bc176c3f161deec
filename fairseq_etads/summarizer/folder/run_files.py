"""Find the files of a training run that are needed for summarisation. This module imports neither torch nor fairseq.

``etads-export`` copies these files to a model folder, and ``Summarizer.load`` reads them in place.
"""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ...data.labels import PICKING
from ...data.preparation import read_inference_preprocessing_options
from ...data.run_record import OptionalPath, find_checkpoint, find_prepared_folder, read_recipe
from ...files.checksums import compute_sha256
from ...platform.errors import InputError
from ...search.content_model import FILE as CONTENT
from .config import CONFIG

NONE = "none"
"""Value of ``extractor`` and ``content`` that leaves out the extractor or the content model."""


class RunFiles(NamedTuple):
    """Files of a training run that are needed for summarisation.

    The length of the longest summary is used for checkpoints that do not contain the lengths of the training summaries.
    """

    checkpoint: Path  # of fairseq-train
    data: Path  # folder of the data used for training
    text_options: Dict[str, Any]  # ``tokenizer``, ``bpe`` and their options in fairseq, without dashes
    extra_files: Dict[str, Path]  # additional files, by their names in a model folder
    extractor: Optional["RunFiles"] = None  # files of the extractor that selects sentences for the model, if any
    documents: Optional[Path] = None  # file with the tokens of one training document per line
    decoding: Mapping[str, Any] = MappingProxyType({})  # decoding options in recipe.json
    longest_summary: Optional[int] = None  # tokens in the longest training summary, or None if unknown

    @property
    def run(self) -> Path:
        """The run folder of the checkpoint."""
        return self.checkpoint.parent.parent

    @property
    def extracts(self) -> bool:
        """Whether the run is that of an extractor, which summarises documents itself."""
        return self.extractor is not None and self.extractor.run == self.run and (self.run / PICKING).is_file()

    @property
    def content(self) -> Optional[Path]:
        """The content model, or None."""
        of_extractor = None if self.extractor is None else self.extractor.extra_files.get(CONTENT)
        return of_extractor or self.extra_files.get(CONTENT)

    def get_subword_file(self, option: str) -> Path:
        """Return the file of the subword model that one of fairseq's options names."""
        return Path(self.text_options[option.replace("_", "-")])

    def list_all(self) -> List[Path]:
        """Return all files that affect summaries."""
        prepared = self.data.parent / "prepare.json", *sorted(self.data.glob("dict.*.txt"))
        found = [self.checkpoint, *prepared, *self.extra_files.values()]
        return [*filter(Path.is_file, found), *(self.extractor.list_all() if self.extractor else ())]

    def compute_fingerprint(self) -> str:
        """Return the checksums of all files that affect summaries, and the decoding options of the recipe."""
        sums = [compute_sha256(path) for path in self.list_all()]
        return " ".join([*sums, json.dumps(dict(self.decoding), sort_keys=True)])


def is_run(folder: Path) -> bool:
    """Return whether a folder is the output folder of a training run rather than a model folder."""
    return (folder / "checkpoints").is_dir() and not (folder / CONFIG).is_file()


def find_run_files(
    run: Path,
    checkpoint: OptionalPath = None,
    prepared: OptionalPath = None,
    extractor: OptionalPath = None,
    content: OptionalPath = None,
) -> RunFiles:
    """Find the files of a run, the output folder of ``etads-train``.

    Raises InputError if a file is missing or damaged.

    Args:
        checkpoint: "best", "last" or a path (default: the best checkpoint if there is one, otherwise the last one).
        prepared: folder of the prepared data (default: the folder used for training).
        extractor: run folder of the extractor, or :data:`NONE` (default: that which shortened the training text, if
            any).
        content: run folder with a content model, or :data:`NONE` (default: that of the extractor or ``run``, if any).
    """
    path = find_checkpoint(run, checkpoint)
    folder = find_prepared_folder(run, None if prepared is None else Path(prepared))
    extractor_run = None if extractor is None or str(extractor) == NONE else Path(extractor)
    if extractor is None:  # the one that has shortened the training text, or the run itself
        places = [of / name for of in (run, folder.parent) for name in ("shortened/extractor", "extractor")] + [run]
        extractor_run = next((place for place in places if (place / PICKING).is_file()), None)
    idf = folder / "factors" / "idf.txt"
    extra = {"idf.txt": idf} if idf.is_file() else {}
    extractor_files = None
    if extractor_run is not None:
        own = find_prepared_folder(extractor_run, None)
        extractor_files = RunFiles(
            find_checkpoint(extractor_run, option="--extractor"),
            own / "bin",
            read_inference_preprocessing_options(own),
            {PICKING: extractor_run / PICKING},
            documents=_find_training_documents(own),
        )
    content_model = _find_content_model(run, extractor_run, content)
    if content_model is not None:
        from ...search.content_model import ContentModel  # imports numpy, which --help does not need

        advice = f"create it with etads-content {content_model.parent}"
        if not ContentModel.load(content_model, advice).of_extractor:
            extra[CONTENT] = content_model
        elif extractor_files is not None:
            extractor_files.extra_files[CONTENT] = content_model
        else:
            raise InputError(
                f"{content_model}: this content model needs the extractor with which it was trained: name its run with "
                "--extractor, or leave the content model out with --content none"
            )
    return RunFiles(
        path,
        folder / "bin",
        read_inference_preprocessing_options(folder),
        extra,
        extractor_files,
        _find_training_documents(folder),
        (read_recipe(run) or {}).get("decoding", {}),
        _read_longest_summary(folder),
    )


def _find_training_documents(prepared: Path) -> Optional[Path]:
    path = prepared / "tokens" / "train.source"
    return path if path.is_file() else None


def _find_content_model(run: Path, extractor: Optional[Path], content: OptionalPath) -> Optional[Path]:
    if str(content) == NONE:
        return None
    if content is None:
        runs = [folder for folder in (extractor, run) if folder is not None]
        return next((folder / CONTENT for folder in runs if (folder / CONTENT).is_file()), None)
    if not (Path(content) / CONTENT).is_file():
        raise InputError(f"--content {content}: it has no {CONTENT}; create it with etads-content")
    return Path(content) / CONTENT


def _read_longest_summary(prepared: Path) -> Optional[int]:
    """Return the number of tokens in the longest training summary, or None if it is not in report.json."""
    try:
        longest = json.loads((prepared / "report.json").read_text("utf-8"))["lengths"]["train.target"]["max tokens"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return longest if type(longest) is int and longest > 0 else None
