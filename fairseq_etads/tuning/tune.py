"""Tune decoding options in trials on documents with references, with Optuna."""

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..evaluation.analysis import analyse_systems
from ..evaluation.resampling import bootstrap_intervals, compare_pairs
from ..evaluation.rouge import METRICS as ROUGE_METRICS
from ..evaluation.rouge import SEED as RESAMPLING_SEED
from ..evaluation.rouge import RougeSettings, score_pairs
from ..evaluation.summaries import split_summary_into_sentences
from ..platform.errors import InputError
from ..search.options import get_value
from ..summarizer import Summarizer
from ..text.counted_words import choose_tokens
from ..version import get_version
from . import METRICS, TRIALS
from .search_space import Parameter, list_allowed_values, make_decoding_options, make_search_space
from .study import TuningStudy, find_best

STUDY_FILE = "study.journal"
"""Name of Optuna's file with the trials."""
RESAMPLES = 10_000
_ATTEMPTS = 50
"""Number of proposals of the sampler that may repeat earlier trials before the first untried settings are used."""


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

    @classmethod
    def from_record(cls, scores: Any, **fields: Any) -> "Trial":
        """Return a trial with the fields of a record in the study."""
        return cls(scores=np.array(scores), **fields)

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
    **options: Any,
) -> Tuning:
    """Try decoding options, or continue an interrupted call with the same arguments.

    Trial 0 uses the current defaults of the model folder. Settings that produce the same result are tried only once.

    Args:
        documents, references, out: see :class:`.TuningStudy`.
        trials: total number of trials, including trials from earlier calls.
        metric: metric to maximise, one of :data:`.METRICS`.
        search, ranges: names of the options to search, and their values; see :func:`make_search_space`.
        options: further arguments of :class:`.TuningStudy`, such as ``seed``.

    Raises:
        InputError: Optuna is not installed, a text or an option is invalid, another process uses ``out``, or the trials
            in ``out`` are damaged or used other settings.
    """
    work = TuningStudy(summarizer, documents, references, out, metric, METRICS, **options)
    rouge = RougeSettings(tokens=choose_tokens(reference for _, reference in work.pairs))
    lengths = [summarizer.token_count(reference) for _, reference in work.pairs]
    with work.open(STUDY_FILE) as study:
        found, defaults = work.read_trials(Trial.from_record, summarizer.config.decoding)
        space = make_search_space(search, ranges or {}, defaults, lengths)
        longest = {parameter.name: parameter.values[-1] for parameter in space if parameter.name == "max_len"}
        for parameter in space:
            if parameter.name == "beam" and 1 in parameter.values and get_value("choose", defaults) == "hypothesis":
                raise InputError(
                    "--beam 1: leaves the content model of the folder nothing to choose from; leave 1 out of --range "
                    "beam, or export the model with --choose none"
                )
            for value in parameter.values:
                chosen = make_decoding_options({**longest, parameter.name: value}, defaults)
                work.encoded.check_decoding_options(**chosen)
        values = {parameter.name: parameter.values for parameter in space}
        work.check_settings(defaults, {"--search or --range": values, "way of scoring": rouge.signature(1)})

        def propose() -> Optional[Tuple[Any, Dict[str, Any]]]:
            return _propose_settings(study, space, defaults, found)

        def run(number: int, settings: Dict[str, Any], on_batch: Callable[[int], Any]) -> Trial:
            """Generate summaries with these settings, and evaluate them."""
            decoding = make_decoding_options(settings, defaults) if number else defaults
            started = time.monotonic()
            summaries = [" ".join(each.text.split()) for each in work.encoded.summarize(on_batch, **decoding)]
            texts, wanted = zip(*work.pairs)
            scores = score_pairs(summaries, [wanted], rouge)[:, :, 0]
            sentences = [split_summary_into_sentences(summary) for summary in summaries]
            figures = analyse_systems(texts, {"trial": sentences})["trial"].figures
            seconds = round(time.monotonic() - started, 3)
            return Trial(number, settings, decoding, scores.round(6), figures, summaries, seconds)

        work.run_trials(found, trials, propose, run)
    signature = f"ROUGE|{rouge.signature(1)}|n:{len(work.pairs)}|v:{get_version()}"
    return Tuning(found, space, metric, work.seed, len(work.pairs), work.given, signature, work.fingerprint)


def _propose_settings(
    study: Any, space: Sequence[Parameter], defaults: Dict[str, Any], found: Sequence[Trial]
) -> Optional[Tuple[Any, Dict[str, Any]]]:
    """Begin a trial with new settings, as indices of values, or return None if there are none left."""
    import optuna

    def suggest(trial: Any) -> Dict[str, Any]:
        settings: Dict[str, Any] = {}
        for parameter in space:
            name, values = parameter.name, list_allowed_values(parameter, settings, defaults)
            if parameter.is_ordered:
                settings[name] = values[trial.suggest_int(name, 0, len(values) - 1)]
            else:
                settings[name] = trial.suggest_categorical(name, values)
        return settings

    def is_possible(settings: Dict[str, Any]) -> bool:
        return all(settings[p.name] in list_allowed_values(p, settings, defaults) for p in space)

    candidates: Iterable[Optional[Dict[str, Any]]]
    if found:  # the sampler's own proposals, and then the first settings that have not been tried
        every = (dict(zip((p.name for p in space), values)) for values in itertools.product(*(p.values for p in space)))
        candidates = itertools.chain([None] * _ATTEMPTS, (settings for settings in every if is_possible(settings)))
    else:
        first = {parameter.name: get_value(parameter.name, defaults) for parameter in space}
        if not is_possible(first):
            return study.ask(), first  # the sampler cannot learn from values that are not among its own
        candidates = [first]
    tried = [make_decoding_options(trial.settings, defaults) for trial in found]
    for settings in candidates:
        if settings is not None:
            if make_decoding_options(settings, defaults) in tried:
                continue
            study.enqueue_trial(
                {p.name: p.values.index(settings[p.name]) if p.is_ordered else settings[p.name] for p in space}
            )
        trial = study.ask()
        proposed = suggest(trial)
        if make_decoding_options(proposed, defaults) not in tried:
            return trial, proposed
        study.tell(trial, state=optuna.trial.TrialState.PRUNED)
    return None
