"""Tune decoding options in trials on documents with references, with Optuna.

The trials are stored in one of Optuna's journal files. Trial 0 uses the defaults of the model folder.
"""

import contextlib
import hashlib
import itertools
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from ..evaluation.analysis import analyse_systems
from ..evaluation.resampling import bootstrap_intervals, compare_pairs
from ..evaluation.rouge import METRICS as ROUGE_METRICS
from ..evaluation.rouge import SEED as RESAMPLING_SEED
from ..evaluation.rouge import RougeSettings, score_pairs
from ..evaluation.summaries import split_summary_into_sentences
from ..files.checksums import Checksums, compute_sha256
from ..files.outputs import lock_output
from ..files.resumable import find_differing_settings
from ..platform.errors import InputError
from ..search.options import get_value
from ..summarizer import Summarizer
from ..summarizer.encoded_documents import STATE_BYTES, EncodedDocuments
from ..summarizer.folder.config import CONFIG, FolderConfig
from ..summarizer.folder.loading import list_needed_files
from ..summarizer.summarizer import MAX_TOKENS
from ..text.counted_words import choose_tokens
from ..version import get_version
from . import MOST_DOCUMENTS, TRIALS, TuningListener, check_options
from .search_space import Parameter, list_allowed_values, make_decoding_options, make_search_space

STUDY_FILE = "study.journal"
"""Name of Optuna's file with the trials."""
OLD_FILE = "trials.jsonl"
"""Name of the file in which earlier versions stored the trials."""
RESAMPLES = 10_000
_ATTEMPTS = 50
"""Number of proposals of the sampler that may repeat earlier trials before the first untried settings are used."""
_SETTINGS, _RESULT = "settings", "result"  # attributes of the study and of its trials
_DEFAULTS = "set of default options"


class Trial(NamedTuple):
    """Settings and results of a finished trial.

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

    def get_document_scores(self, metric: str) -> np.ndarray:
        """Return the scores of all documents (n,) for one of :data:`.METRICS`."""
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
        metric: metric that is maximised, one of :data:`.METRICS`.
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
        best: Trial = find_best(self.trials, self.metric)
        return best

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


def find_best(found: Sequence[Any], metric: str) -> Any:
    """Return the first of the trials or rounds with the highest score."""
    return max(found, key=lambda trial: trial.score(metric))


def check_optuna_installed() -> None:
    """Raise InputError if Optuna is not installed. Call this function before starting the search."""
    try:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
    except ImportError:
        raise InputError("etads-tune: Optuna is missing: pip install optuna") from None


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
        out: folder for the trials, which is created if it does not exist.
        trials: total number of trials, including trials from earlier calls.
        metric: metric to maximise, one of :data:`.METRICS`.
        search, ranges: names of the options to search, and their values; see :func:`make_search_space`.
        most_documents: maximum number of documents, which are otherwise a random sample that depends on ``seed``.
        max_tokens, state_bytes: see :class:`EncodedDocuments`.

    Raises:
        InputError: Optuna is not installed, a text or an option is invalid, another process uses ``out``, or the trials
            in
            ``out`` are damaged, used other settings or are from a version before Optuna's journal.
    """
    check_optuna_installed()
    listener = listener or TuningListener()
    check_options(metric, trials=trials, documents=most_documents, max_tokens=max_tokens)
    pairs = choose_pairs(documents, references, most_documents, seed, listener)
    if (out / OLD_FILE).exists() and not (out / STUDY_FILE).exists():
        raise InputError(
            f"--out {out}: {OLD_FILE} has trials of an earlier version, which cannot be continued; name another "
            "folder, or delete the file to start again"
        )
    scoring = RougeSettings(tokens=choose_tokens(reference for _, reference in pairs)).signature(1)
    fingerprint = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
    signature = f"ROUGE|{scoring}|n:{len(pairs)}|v:{get_version()}"
    lengths = [summarizer.token_count(reference) for _, reference in pairs]
    encoded = EncodedDocuments(summarizer, [document for document, _ in pairs], max_tokens, state_bytes)
    with lock_output(out, "--out", folder=True), _open_study(out / STUDY_FILE, seed) as study:
        found, defaults = _get_trials(study), summarizer.config.decoding
        if defaults in [trial.decoding for trial in found[1:]]:  # --write has replaced the defaults of trial 0
            defaults = dict(study.user_attrs[_SETTINGS][_DEFAULTS])
        space = make_search_space(search, ranges or {}, defaults, lengths)
        longest = {parameter.name: parameter.values[-1] for parameter in space if parameter.name == "max_len"}
        for parameter in space:
            if parameter.name == "beam" and 1 in parameter.values and get_value("choose", defaults) == "hypothesis":
                raise InputError(
                    "--beam 1: leaves the content model of the folder nothing to choose from; leave 1 out of --range "
                    "beam, or export the model with --choose none"
                )
            for value in parameter.values:
                encoded.check_decoding_options(**make_decoding_options({**longest, parameter.name: value}, defaults))
        settings = {
            "model": compute_model_fingerprint(summarizer.folder, summarizer.config),
            "choice of documents and references": fingerprint,
            _DEFAULTS: defaults,
            "--metric": metric,
            "--seed": seed,
            "--search or --range": {parameter.name: parameter.values for parameter in space},
            "way of scoring": scoring,
        }
        settings = json.loads(json.dumps(settings))
        check_same_settings(out / STUDY_FILE, study.user_attrs.get(_SETTINGS, settings), settings)
        study.set_user_attr(_SETTINGS, settings)
        if found:
            listener.on_message(f"{out / STUDY_FILE}: {len(found)} trials exist already")
        first = len(found)
        for number in range(first, trials):
            proposal = _propose_settings(study, space, defaults, found)
            if proposal is None:
                listener.on_message(f"all {number} different settings have been tried")
                break
            listener.on_trial_start(number, trials, encoded.documents)
            trial = _run_trial(number, proposal[1], defaults, encoded, pairs, listener)
            result = {**trial._asdict(), "scores": trial.scores.tolist()}
            proposal[0].set_user_attr(_RESULT, {name: value for name, value in result.items() if name != "number"})
            study.tell(proposal[0], trial.score(metric))
            found.append(trial)
            if number == first:
                about = f"encoder states take {encoded.state_bytes / 2**20:,.1f} MiB"
                if encoded.encoded_once < encoded.documents:
                    about += f" for {encoded.encoded_once:,} of {encoded.documents:,} documents; the others are encoded"
                    about += " again in each trial"
                listener.on_message(f"{about} (--encoder-memory)")
            listener.on_trial_end(trial, find_best(found, metric))
    return Tuning(found, space, metric, seed, len(pairs), len(documents), signature, fingerprint)


def check_same_settings(path: Path, before: Dict[str, Any], now: Dict[str, Any]) -> None:
    """Raise InputError if the trials in a file used other settings than those of this search."""
    differ = find_differing_settings(before, now)
    if differ:
        raise InputError(
            f"{path}: its trials used another {' and '.join(differ)}; name another folder, or delete it to start again"
        )


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


def compute_model_fingerprint(folder: Path, config: FolderConfig) -> str:
    """Compute a SHA-256 hash of a model folder. The hash does not depend on the decoding defaults."""
    listed = Checksums(folder).listed
    sums = {
        name: listed.get(name) or compute_sha256(folder / name) for name in list_needed_files(config) if name != CONFIG
    }
    return hashlib.sha256(json.dumps([replace(config, decoding={}).to_json(), sums]).encode()).hexdigest()


@contextlib.contextmanager
def _open_study(path: Path, seed: int) -> Iterator[Any]:
    """Context manager with Optuna's study in a file that no other process uses. The file is created if necessary."""
    import optuna
    from optuna.storages.journal import JournalFileBackend

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
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.get_trials(deepcopy=False)))
    yield study


def _get_trials(study: Any) -> List[Trial]:
    """Return the finished trials of a study in order, numbered without those that failed."""
    results = [trial.user_attrs[_RESULT] for trial in study.get_trials(deepcopy=False) if trial.value is not None]
    return [Trial(n, **{**result, "scores": np.array(result["scores"])}) for n, result in enumerate(results)]


def _propose_settings(
    study: Any, space: Sequence[Parameter], defaults: Dict[str, Any], found: Sequence[Trial]
) -> Optional[Tuple[Any, Dict[str, Any]]]:
    """Begin a trial with new settings, as indices of values, or return None if there are none left."""
    import optuna

    def enqueue(settings: Dict[str, Any]) -> None:
        study.enqueue_trial(
            {p.name: p.values.index(settings[p.name]) if p.is_ordered else settings[p.name] for p in space}
        )

    def suggest(trial: Any) -> Dict[str, Any]:
        settings: Dict[str, Any] = {}
        for parameter in space:
            name, values = parameter.name, list_allowed_values(parameter, settings, defaults)
            if parameter.is_ordered:
                settings[name] = values[trial.suggest_int(name, 0, len(values) - 1)]
            else:
                settings[name] = trial.suggest_categorical(name, values)
        return settings

    if not found:
        settings = {parameter.name: get_value(parameter.name, defaults) for parameter in space}
        if any(settings[p.name] not in list_allowed_values(p, settings, defaults) for p in space):
            return study.ask(), settings  # the sampler cannot learn from values that are not among its own
        enqueue(settings)
        trial = study.ask()
        return trial, suggest(trial)

    def is_new(settings: Dict[str, Any]) -> bool:
        return make_decoding_options(settings, defaults) not in tried

    tried = [make_decoding_options(trial.settings, defaults) for trial in found]
    for _ in range(_ATTEMPTS):
        trial = study.ask()
        settings = suggest(trial)
        if is_new(settings):
            return trial, settings
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    combinations = (
        dict(zip((p.name for p in space), values)) for values in itertools.product(*(p.values for p in space))
    )
    for settings in combinations:
        if is_new(settings) and all(settings[p.name] in list_allowed_values(p, settings, defaults) for p in space):
            enqueue(settings)
            trial = study.ask()
            return trial, suggest(trial)
    return None


def _run_trial(
    number: int,
    settings: Dict[str, Any],
    defaults: Dict[str, Any],
    encoded: EncodedDocuments,
    pairs: Sequence[Tuple[str, str]],
    listener: TuningListener,
) -> Trial:
    """Generate summaries with the given settings, and evaluate them."""
    decoding = make_decoding_options(settings, defaults) if number else defaults
    started = time.monotonic()
    try:
        found = encoded.summarize(listener.on_documents_summarised, **decoding)
    except ValueError as error:
        raise InputError(f"trial {number} ({json.dumps(settings)}): {error}") from None
    except torch.cuda.OutOfMemoryError:
        raise InputError(f"trial {number}: out of memory; choose less than --max-tokens {encoded.max_tokens}") from None
    summaries = [" ".join(summary.text.split()) for summary in found]
    documents, references = zip(*pairs)
    scores = score_pairs(summaries, [references], RougeSettings(tokens=choose_tokens(references)))[:, :, 0]
    sentences = [split_summary_into_sentences(summary) for summary in summaries]
    figures = analyse_systems(documents, {"trial": sentences})["trial"].figures
    seconds = round(time.monotonic() - started, 3)
    return Trial(number, settings, decoding, scores.round(6), figures, summaries, seconds)
