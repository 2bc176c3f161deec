"""Tune decoding options in trials on documents with references. Trial 0 uses the defaults of the model folder."""

import hashlib
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ...evaluation.analysis import Analysis, analyse_systems
from ...evaluation.resampling import bootstrap_intervals, compare_pairs
from ...evaluation.rouge import METRICS as ROUGE_METRICS
from ...evaluation.rouge import SEED as RESAMPLING_SEED
from ...evaluation.rouge import RougeSettings, score_pairs
from ...evaluation.summaries import split_summary_into_sentences
from ...platform.errors import InputError
from ...search.call_options import get_value
from ...summarizer import Summarizer
from ...summarizer.encoded_documents import STATE_BYTES, EncodedDocuments
from ...summarizer.folder.config import CONFIG, FolderConfig
from ...summarizer.folder.loading import list_needed_files
from ...summarizer.summarizer import MAX_TOKENS
from ...text.checksums import Checksums, compute_sha256
from ...version import get_version
from .choices import MOST_DOCUMENTS, TRIALS, TRIALS_FILE, check_options
from .proposals import check_optuna_installed, propose_settings
from .search_space import Parameter, make_decoding_options, make_search_space
from .trial_store import VERSION, TrialStore

RESAMPLES = 10_000
_DEFAULTS = "set of default options"


class Trial(NamedTuple):
    """Settings and results of a trial.

    Attributes:
        number: index of the trial. Trial 0 uses the defaults of the model folder.
        settings: dictionary that maps parameter names to values.
        decoding: values of all decoding options.
        scores: F1 scores of ROUGE-1, ROUGE-2 and ROUGE-L for each document, shape (n, 3), from 0 to 100.
        figures: summary statistics; see :class:`~fairseq_etads.evaluation.analysis.Analysis`.
        summaries: texts of the n generated summaries.
        seconds: duration of the trial in seconds.
    """

    number: int
    settings: Dict[str, Any]
    decoding: Dict[str, Any]
    scores: np.ndarray
    figures: Dict[str, Optional[float]]
    summaries: List[str]
    seconds: float

    @classmethod
    def from_record(cls, record: Dict[str, Any]) -> "Trial":
        """Create a trial from a record in the store."""
        return cls(**{**record, "scores": np.array(record["scores"])})

    def get_document_scores(self, metric: str) -> np.ndarray:
        """Return the scores of all documents (n,) for one of :data:`.choices.METRICS`."""
        if metric == "mean":
            return np.asarray(self.scores.mean(axis=1))
        return np.asarray(self.scores[:, ROUGE_METRICS.index(metric)])

    def score(self, metric: str) -> float:
        """Return the mean score over all documents."""
        return float(self.get_document_scores(metric).mean())


@dataclass(frozen=True)
class Tuning:
    """Results of all trials of a search.

    Attributes:
        trials: results of all trials in order.
        space: parameters of the search with their values.
        metric: metric that is maximised, one of :data:`.choices.METRICS`.
        seed: random seed of the search.
        documents, given: number of documents that are summarised in each trial, and number of documents that were
            provided.
        signature: line of text that describes the settings of ROUGE.
        fingerprint: SHA-256 hash of the documents and references that are used in all trials.
    """

    trials: List[Trial]
    space: List[Parameter]
    metric: str
    seed: int
    documents: int
    given: int
    signature: str
    fingerprint: str

    @property
    def best(self) -> Trial:
        """Return the first of the trials with the highest score."""
        return find_best_trial(self.trials, self.metric)

    def compute_confidence_interval(self, trial: Trial) -> Tuple[float, float]:
        """Return the 95 % confidence interval of a trial's mean score."""
        low, high = bootstrap_intervals(trial.get_document_scores(self.metric), RESAMPLES, RESAMPLING_SEED).tolist()
        return low, high

    def compare_best_with_defaults(self) -> Dict[str, Any]:
        """Compare the best trial with the defaults of the folder. Returns the result of :func:`compare_pairs`."""
        first, second = (trial.get_document_scores(self.metric) for trial in (self.best, self.trials[0]))
        # There must be enough resamples for the smallest possible p-value to be below 0.05 divided by the number of
        # trials.
        return compare_pairs(first, second, max(RESAMPLES, 40 * len(self.trials)), RESAMPLING_SEED)


class TuningListener:
    """Listener that is notified of the progress of a search. The methods of this base class do nothing."""

    def on_message(self, text: str) -> None:
        """Show a message to the user."""

    def on_trial_start(self, number: int, trials: int, documents: int) -> None:
        """Called when a trial starts."""

    def on_documents_summarised(self, documents: int) -> None:
        """Called when ``documents`` more documents have been summarised."""

    def on_trial_end(self, trial: Any, best: Any) -> None:
        """Called at the end of a trial, or of a round in weight tuning. ``best`` is the best trial or round so far."""


def find_best_trial(trials: Sequence[Trial], metric: str) -> Trial:
    """Return the first of the trials with the highest score."""
    return max(trials, key=lambda trial: (trial.score(metric), -trial.number))


def tune(
    summarizer: Summarizer,
    documents: Sequence[str],
    references: Sequence[str],
    out: Path,
    *,
    trials: int = TRIALS,
    metric: str = "mean",
    search: Sequence[str] = (),
    ranges: Optional[Dict[str, str]] = None,
    most_documents: int = MOST_DOCUMENTS,
    seed: int = 1,
    max_tokens: int = MAX_TOKENS,
    state_bytes: int = STATE_BYTES,
    listener: Optional[TuningListener] = None,
) -> Tuning:
    """Try decoding options, or continue an interrupted call with the same arguments.

    Trial 0 uses the current defaults of the model folder. Settings that produce the same result are tried only once.

    Args:
        documents, references: raw texts of the documents and of their reference summaries. A pair is skipped if one of
            its texts contains no words.
        out: path of the folder for the trials, which is created if it does not exist.
        trials: total number of trials, including trials from earlier calls.
        metric: metric to maximise, one of :data:`.choices.METRICS`.
        search, ranges: names of the options to search, and their values; see :func:`make_search_space`.
        most_documents: maximum number of documents. If there are more documents, a random sample is used, which depends
            on ``seed``.
        max_tokens, state_bytes: maximum number of tokens per batch and maximum size of the cache; see
            :class:`EncodedDocuments`.

    Raises:
        InputError: Optuna is not installed, a text or an option is invalid, or the trials in ``out`` are damaged or
            used other settings.
    """
    check_optuna_installed()
    listener = listener or TuningListener()
    check_options(metric, trials=trials, documents=most_documents, max_tokens=max_tokens)
    pairs = choose_pairs(documents, references, most_documents, seed, listener)
    out.mkdir(parents=True, exist_ok=True)
    scoring = RougeSettings().signature(1)
    defaults = _read_first_trial_options(out / TRIALS_FILE, summarizer.config.decoding)
    lengths = [summarizer.token_count(reference) for _, reference in pairs]
    space = make_search_space(search, ranges or {}, defaults, lengths)
    encoded = EncodedDocuments(summarizer, [document for document, _ in pairs], max_tokens, state_bytes)
    _check_values(space, defaults, encoded)
    fingerprint = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    settings = {
        "model": compute_model_fingerprint(summarizer.folder, summarizer.config),
        "choice of documents and references": fingerprint,
        _DEFAULTS: defaults,
        "--metric": metric,
        "--seed": seed,
        "--search or --range": {parameter.name: parameter.values for parameter in space},
        "way of scoring": scoring,
        VERSION: get_version(),
    }
    with TrialStore(out / TRIALS_FILE, settings) as store:
        _Study(encoded, pairs, space, defaults, metric, seed, store, listener).run(trials)
        found = [Trial.from_record(record) for record in store.trials]
    signature = f"ROUGE|{scoring}|n:{len(pairs)}|v:{get_version()}"
    return Tuning(found, space, metric, seed, len(pairs), len(documents), signature, fingerprint)


def choose_pairs(
    documents: Sequence[str], references: Sequence[str], most: int, seed: int, listener: TuningListener
) -> List[Tuple[str, str]]:
    """Return the document-reference pairs that all trials use, in the given order."""
    if len(documents) != len(references):
        raise InputError(
            f"{len(documents):,} documents and {len(references):,} references: every document needs one reference"
        )
    if not documents:
        raise InputError("there are no documents")
    pairs = [(d, r) for d, r in zip(documents, references) if d.strip() and r.strip()]
    if not pairs:
        raise InputError("no document and its reference both have words")
    if len(pairs) < len(documents):
        listener.on_message(
            f"{len(documents) - len(pairs):,} pairs are skipped, because a document or its reference has no words"
        )
    if len(pairs) > most:
        chosen = np.random.default_rng(seed).choice(len(pairs), most, replace=False)
        listener.on_message(f"{most:,} of {len(pairs):,} documents are chosen at random (--documents, --seed)")
        pairs = [pairs[number] for number in sorted(chosen.tolist())]
    return pairs


def _read_first_trial_options(path: Path, present: Dict[str, Any]) -> Dict[str, Any]:
    """Return the decoding options for trial 0.

    These are the defaults of the model folder or, if --write has replaced them, the previous defaults.
    """
    head, trials = TrialStore.read_trials_without_lock(path)
    before = head.get(_DEFAULTS)
    if isinstance(before, dict) and present in [trial.get("decoding") for trial in trials[1:]]:
        return before
    return present


def _check_values(space: Sequence[Parameter], defaults: Dict[str, Any], encoded: EncodedDocuments) -> None:
    """Raise InputError if the model does not support one of the values in the search space."""
    longest = {parameter.name: parameter.values[-1] for parameter in space if parameter.name == "max_len"}
    for parameter in space:
        if parameter.name == "beam" and 1 in parameter.values and get_value("choose", defaults) == "hypothesis":
            raise InputError(
                "--beam 1: leaves the content model of the folder nothing to choose from; leave 1 out of --range beam, "
                "or export the model with --choose none"
            )
        for value in parameter.values:
            encoded.check_decoding_options(**make_decoding_options({**longest, parameter.name: value}, defaults))


def compute_model_fingerprint(folder: Path, config: FolderConfig) -> str:
    """Compute a SHA-256 hash of a model folder. The hash does not depend on the decoding defaults."""
    listed = Checksums(folder).listed
    sums = {
        name: listed.get(name) or compute_sha256(folder / name) for name in list_needed_files(config) if name != CONFIG
    }
    return hashlib.sha256(json.dumps([replace(config, decoding={}).to_json(), sums]).encode()).hexdigest()


class _Study:
    """Runs the trials for a call of :func:`tune`."""

    def __init__(
        self,
        encoded: EncodedDocuments,
        pairs: Sequence[Tuple[str, str]],
        space: Sequence[Parameter],
        defaults: Dict[str, Any],
        metric: str,
        seed: int,
        store: TrialStore,
        listener: TuningListener,
    ):
        self.encoded, self.pairs, self.space, self.defaults = encoded, pairs, space, defaults
        self.metric, self.seed, self.store, self.listener = metric, seed, store, listener

    def run(self, trials: int) -> None:
        """Run trials until the store contains ``trials`` trials or all settings have been tried."""
        found = [Trial.from_record(record) for record in self.store.trials]
        if found:
            self.listener.on_message(f"{self.store.path}: {len(found)} trials exist already")
        first = len(found)
        for number in range(first, trials):
            settings = self._propose_next_settings(found)
            if settings is None:
                self.listener.on_message(f"all {number} different settings have been tried")
                return
            self.listener.on_trial_start(number, trials, self.encoded.documents)
            self.store.append(self._run_trial(number, settings))
            found.append(Trial.from_record(self.store.trials[-1]))
            if number == first:
                self._report_encoder_state_memory()
            self.listener.on_trial_end(found[-1], find_best_trial(found, self.metric))

    def _propose_next_settings(self, found: Sequence[Trial]) -> Optional[Dict[str, Any]]:
        if not found:
            return {parameter.name: get_value(parameter.name, self.defaults) for parameter in self.space}
        tried = [(trial.settings, trial.score(self.metric)) for trial in found]
        return propose_settings(self.space, self.defaults, tried, self.seed)

    def _run_trial(self, number: int, settings: Dict[str, Any]) -> Dict[str, Any]:
        """Generate summaries with the given settings, evaluate them, and return a record for the store."""
        decoding = make_decoding_options(settings, self.defaults) if number else self.defaults
        started = time.monotonic()
        try:
            found = self.encoded.summarize(self.listener.on_documents_summarised, **decoding)
        except ValueError as error:
            raise InputError(f"trial {number} ({json.dumps(settings)}): {error}") from None
        except torch.cuda.OutOfMemoryError:
            raise InputError(
                f"trial {number}: out of memory; choose less than --max-tokens {self.encoded.max_tokens}"
            ) from None
        summaries = [" ".join(summary.text.split()) for summary in found]
        scores = score_pairs(summaries, [[reference for _, reference in self.pairs]], RougeSettings())[:, :, 0]
        return {
            "number": number,
            "settings": settings,
            "decoding": decoding,
            "scores": scores.round(6).tolist(),
            "figures": self._analyse_summaries(summaries).figures,
            "summaries": summaries,
            "seconds": round(time.monotonic() - started, 3),
        }

    def _analyse_summaries(self, summaries: Sequence[str]) -> Analysis:
        documents = [document for document, _ in self.pairs]
        return analyse_systems(documents, {"trial": [split_summary_into_sentences(summary) for summary in summaries]})[
            "trial"
        ]

    def _report_encoder_state_memory(self) -> None:
        kept, documents = self.encoded.encoded_once, self.encoded.documents
        about = f"encoder states take {self.encoded.state_bytes / 2**20:,.1f} MiB"
        if kept < documents:
            about += f" for {kept:,} of {documents:,} documents; the others are encoded again in each trial"
        self.listener.on_message(f"{about} (--encoder-memory)")
