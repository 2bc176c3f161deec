"""Documents with references on which decoding is tuned, and the study in which Optuna stores the trials."""

import contextlib
import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from tqdm import tqdm

from ..files.checksums import Checksums, compute_sha256
from ..files.outputs import lock_output
from ..files.resumable import find_differing_settings
from ..platform.command_options import join_choices
from ..platform.console import print_message
from ..platform.errors import InputError
from ..summarizer import Summarizer
from ..summarizer.encoded_documents import STATE_BYTES, EncodedDocuments
from ..summarizer.folder.config import CONFIG
from ..summarizer.folder.loading import list_needed_files
from ..summarizer.summarizer import MAX_TOKENS
from . import MOST_DOCUMENTS

_SETTINGS, _RESULT = "settings", "result"  # attributes of the study and of its trials
DEFAULTS = "set of default options"
"""Name of the setting with the decoding options of trial 0."""


def find_best(trials: Sequence[Any], metric: str) -> Any:
    """Return the first of the trials with the highest score."""
    return max(trials, key=lambda trial: trial.score(metric))


def remove_markdown(text: str) -> str:
    """Remove Markdown and unprintable characters from a text, and truncate it to 100 characters."""
    return "".join(character for character in text if character.isprintable() and character not in "`|<>")[:100]


class TuningStudy:
    """A study on documents with references.

    A trial is a named tuple with its index ``number``, its options ``decoding``, and a method ``score(metric)``. Trial
    0 uses the defaults of the model folder.

    Args:
        summarizer: the model, which decodes the documents in each trial.
        documents, references: raw texts of the documents and of their reference summaries. A pair is skipped if one of
            its texts contains no words.
        out: folder for the study, which is created if it does not exist.
        metric, metrics: metric to maximise, and the metrics from which it is chosen.
        most_documents: maximum number of documents, which are otherwise a random sample that depends on ``seed``.
        max_tokens, state_bytes: see :class:`EncodedDocuments`.
        quiet: whether to show no progress.
    """

    def __init__(
        self,
        summarizer: Summarizer,
        documents: Sequence[str],
        references: Sequence[str],
        out: Path,
        metric: str,
        metrics: Tuple[str, ...],
        most_documents: int = MOST_DOCUMENTS,
        seed: int = 1,
        max_tokens: int = MAX_TOKENS,
        state_bytes: int = STATE_BYTES,
        quiet: bool = True,
    ):
        try:
            import optuna
        except ImportError:
            raise InputError("Optuna is missing: pip install optuna") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        if metric not in metrics:
            raise InputError(f"--metric {metric}: choose {join_choices(metrics)}")
        self.summarizer, self.out, self.metric, self.seed, self.quiet = summarizer, out, metric, seed, quiet
        self.given = len(documents)  # before empty pairs are left out and a sample is drawn
        self.pairs = self._choose_pairs(documents, references, most_documents)
        self.fingerprint = hashlib.sha256(json.dumps(self.pairs).encode()).hexdigest()
        self.encoded = EncodedDocuments(summarizer, [document for document, _ in self.pairs], max_tokens, state_bytes)

    def _say(self, text: str) -> None:
        print_message(text, self.quiet)

    def _choose_pairs(self, documents: Sequence[str], references: Sequence[str], most: int) -> List[Tuple[str, str]]:
        if len(documents) != len(references):
            counts = f"{len(documents):,} documents and {len(references):,} references"
            raise InputError(f"{counts}: every document needs one reference")
        pairs = [(d, r) for d, r in zip(documents, references) if d.strip() and r.strip()]
        if not pairs:
            raise InputError("no document and its reference both have words")
        if len(pairs) < len(documents):
            self._say(f"{len(documents) - len(pairs):,} pairs are skipped: a document or its reference has no words")
        if len(pairs) > most:
            chosen = np.random.default_rng(self.seed).choice(len(pairs), most, replace=False)
            self._say(f"{most:,} of {len(pairs):,} documents are chosen at random (--documents, --seed)")
            pairs = [pairs[number] for number in sorted(chosen.tolist())]
        return pairs

    @contextlib.contextmanager
    def open(self, file: str) -> Iterator[Any]:
        """Context manager with the study in a file, which no other process uses. It is created if necessary."""
        import optuna
        from optuna.storages.journal import JournalFileBackend

        self.path = path = self.out / file
        with lock_output(self.out, "--out", folder=True):
            content = path.read_bytes() if path.exists() else b""
            whole = content.rfind(b"\n") + 1
            if whole < len(content):  # a killed process has left half a line, to which Optuna would add the next one
                os.truncate(path, whole)
            try:
                study = optuna.create_study(
                    storage=optuna.storages.JournalStorage(JournalFileBackend(str(path))),
                    study_name="etads-tune",
                    direction="maximize",
                    load_if_exists=True,
                )
                interrupted = study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING])
            except OSError as error:
                raise InputError(f"{path}: cannot be written ({error.strerror})") from None
            except Exception:
                raise InputError(f"{path}: damaged, or not a study of Optuna; delete the file to start again") from None
            for trial in interrupted:
                study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            # With the same seed, a continued search would begin with the same random settings again.
            study.sampler = optuna.samplers.TPESampler(seed=self.seed + len(study.get_trials(deepcopy=False)))
            self.study = study
            yield study

    def read_trials(self, make: Callable[..., Any], defaults: Dict[str, Any]) -> Tuple[List[Any], Dict[str, Any]]:
        """Return the finished trials, made from their records by ``make``, and the decoding options of trial 0.

        These are the ``defaults`` of the folder, unless ``--write`` has replaced them with those of a later trial.
        """
        finished = [trial for trial in self.study.get_trials(deepcopy=False) if trial.value is not None]
        found = [make(**trial.user_attrs[_RESULT]) for trial in finished]
        if found:
            self._say(f"{self.path}: {len(found)} trials exist already")
        is_written = defaults in [trial.decoding for trial in found[1:]]
        return found, dict(self.study.user_attrs[_SETTINGS][DEFAULTS]) if is_written else defaults

    def check_settings(self, defaults: Dict[str, Any], more: Dict[str, Any]) -> None:
        """Store the settings of the trials. Raise InputError if the trials of an earlier call used other settings."""
        # The hash of the model does not depend on the decoding defaults.
        folder, config = self.summarizer.folder, self.summarizer.config
        listed = Checksums(folder).listed
        files = [name for name in list_needed_files(config) if name != CONFIG]
        sums = {name: listed.get(name) or compute_sha256(folder / name) for name in files}
        model = json.dumps([replace(config, decoding={}).to_json(), sums])
        settings: Any = {
            "model": hashlib.sha256(model.encode()).hexdigest(),
            "choice of documents and references": self.fingerprint,
            **{DEFAULTS: defaults, "--metric": self.metric, "--seed": self.seed, **more},
        }
        settings = json.loads(json.dumps(settings))
        what = " and ".join(find_differing_settings(self.study.user_attrs.get(_SETTINGS, settings), settings))
        if what:
            raise InputError(f"{self.path}: its trials used another {what}; name another folder, or delete it")
        self.study.set_user_attr(_SETTINGS, settings)

    def run_trials(
        self,
        found: List[Any],
        most: int,
        propose: Callable[[], Optional[Tuple[Any, Any]]],
        run: Callable[[int, Any, Callable[[int], Any]], Any],
    ) -> None:
        """Add trials to those ``found`` until there are ``most``.

        ``propose`` returns one of Optuna's trials and its settings, or None to end the search. ``run`` returns the
        finished trial, given its number, its settings, and a function to call with numbers of decoded documents.
        """
        total = max(most - len(found), 0) * self.encoded.documents
        with tqdm(total=total, desc="tuning", unit=" documents", disable=self.quiet or None) as bar:
            for number in range(len(found), most):
                proposal = propose()
                if proposal is None:
                    self._say(f"there are no new settings after {number} trials")
                    return
                try:
                    trial = run(number, proposal[1], bar.update)
                except ValueError as error:
                    raise InputError(f"trial {number} ({json.dumps(proposal[1])}): {error}") from None
                except torch.cuda.OutOfMemoryError:
                    most_tokens = self.encoded.max_tokens
                    raise InputError(f"trial {number}: out of memory; lower --max-tokens {most_tokens}") from None
                proposal[0].set_user_attr(_RESULT, json.loads(json.dumps(trial._asdict(), default=np.ndarray.tolist)))
                self.study.tell(proposal[0], trial.score(self.metric))
                found.append(trial)
                best = find_best(found, self.metric)
                scores = f"{trial.score(self.metric):.2f}, best {best.score(self.metric):.2f} (trial {best.number})"
                bar.clear()
                self._say(f"trial {number}/{most - 1}: {scores}")
