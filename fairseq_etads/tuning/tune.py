"""Tune decoding options in trials on documents with references, with Optuna, and report the trials.

The search space consists of the decoding options to tune and a short list of values for each.
"""

import csv
import datetime
import itertools
import math
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tabulate import tabulate

from ..evaluation.analysis import analyse_systems, make_plots_reproducible, save_figure
from ..evaluation.resampling import bootstrap_intervals, compare_pairs
from ..evaluation.rouge import METRICS as ROUGE_METRICS
from ..evaluation.rouge import SEED as RESAMPLING_SEED
from ..evaluation.rouge import RougeSettings, score_pairs
from ..evaluation.summaries import split_summary_into_sentences
from ..files.outputs import open_output, write_json
from ..platform.command_options import format_option_name
from ..platform.errors import InputError
from ..search.options import CALL, DECLARED, LARGEST, check_values, format_unknown_option, get_type, get_value
from ..summarizer import Summarizer
from ..summarizer.folder.model_card import format_command_line_options
from ..text.words import choose_tokens
from ..version import get_version
from . import METRIC_NAMES, METRICS, TRIALS
from .study import TuningStudy, find_best, remove_markdown

SEARCHED = ("lenpen", "coverage_penalty", "no_repeat_ngram_size", "min_len", "max_len")
"""Decoding options that are searched by default."""
_MOST_VALUES = 1000
_STEPS = 20


class Parameter(NamedTuple):
    """A decoding option to tune."""

    name: str  # one of :data:`~fairseq_etads.search.options.CALL`
    values: Tuple[Any, ...]  # values to try; numbers are in ascending order

    @property
    def is_ordered(self) -> bool:
        """Return whether the values of the parameter are numbers."""
        return get_type(self.name) in (int, float)


def make_search_space(
    names: Sequence[str], ranges: Dict[str, str], decoding: Dict[str, Any], lengths: Sequence[int]
) -> List[Parameter]:
    """Return the parameters of a search, in the order in which their values are chosen.

    Args:
        names: names of the options to search, with hyphens or underscores (default: :data:`SEARCHED`).
        ranges: values to try by names of options, as in :func:`parse_values`. These options are also searched.
        decoding: default values of the decoding options.
        lengths: number of tokens in each reference summary.

    Raises:
        InputError: an option does not exist, cannot be searched, has impossible values, or has no effect.
    """
    asked = [_find_option(name, "--search") for name in (names or SEARCHED)]
    given = {_find_option(name, "--range"): text for name, text in ranges.items()}
    values = {
        name: parse_values(name, given[name])
        if name in given
        else _choose_default_values(name, get_value(name, decoding), lengths)
        for name in dict.fromkeys([*asked, *given])
    }
    space = _remove_impossible_lengths([*map(Parameter, values, values.values())], decoding)
    # The possible values of min_len depend on the other options, so min_len comes last.
    return sorted(space, key=lambda parameter: parameter.name == "min_len")


def _find_option(name: str, option: str) -> str:
    known = name.strip().lstrip("-").replace("-", "_")
    if known not in CALL:
        raise InputError(format_unknown_option(known, CALL))
    if not DECLARED[known].metadata.get("tunable", True):
        shown = format_option_name(known)
        raise InputError(f"{option} {name}: {shown} cannot be searched; set it in etads-export or etads-summarize")
    return known


def parse_values(name: str, text: str) -> Tuple[Any, ...]:
    """Parse values of the form ``LOW:HIGH``, ``LOW:HIGH:STEP`` or ``A,B,C``, or raise InputError."""
    kind, where = get_type(name), f"--range {name.replace('_', '-')}={text}"
    bounds = text.split(":")
    if len(bounds) in (2, 3) and kind in (int, float):
        low, high, *step = (_parse_value(part, kind, where) for part in bounds)
        if low > high:
            raise InputError(f"{where}: the lowest value comes first: {bounds[1]}:{bounds[0]}")
        if step and step[0] <= 0:
            raise InputError(f"{where}: choose a step above 0")
        values = _make_grid(low, high, step[0] if step else _choose_step(high - low, kind), where)
    elif len(bounds) == 1 and text.strip():
        values = list(dict.fromkeys(_parse_value(part.strip(), kind, where) for part in text.split(",")))
        values = sorted(values) if kind in (int, float) else values
    else:
        raise InputError(f"{where}: choose LOW:HIGH, LOW:HIGH:STEP or values separated by commas")
    for value in values:
        try:
            check_values({name: value}, in_call=True)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
    return tuple(values)


def _parse_value(text: str, kind: type, where: str) -> Any:
    if kind is str:
        return text
    try:
        value = {"true": True, "false": False}[text.lower()] if kind is bool else kind(text)
        if not abs(value) <= LARGEST:  # this is also true for NaN
            raise ValueError
        return value
    except (KeyError, ValueError):
        what = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise InputError(f"{where}: {text.strip()!r} is not {what}") from None


def _choose_step(width: float, kind: type) -> Any:
    """Return the smallest step of the form 1, 2 or 5 times a power of ten that produces at most 21 values."""
    least = width / _STEPS
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
    return max(1, round(step)) if kind is int else step


def _make_grid(low: Any, high: Any, step: Any, where: str) -> List[Any]:
    """Return values from ``low`` to ``high``. ``high`` is always included, so the last step may be shorter."""
    count = (high - low) / step + 1e-9
    if count >= _MOST_VALUES:
        raise InputError(f"{where}: has more than {_MOST_VALUES:,} values; choose a larger step")
    values = [low + number * step for number in range(int(count) + 1)]
    values = [value if isinstance(value, int) else round(value, 10) for value in values]
    return values if values[-1] == high else [*values, high]


def _choose_default_values(name: str, present: Any, lengths: Sequence[int]) -> Tuple[Any, ...]:
    """Return the values to try for an option if the user has not specified any. They include the current value."""
    metadata = DECLARED[name].metadata
    if get_type(name) is bool:
        return (False, True)
    if "choices" in metadata:
        return tuple(metadata["choices"])
    middle, longest = np.percentile(lengths, [50, 99], method="nearest").astype(int).tolist()
    if name == "min_len":
        values: Sequence[Any] = _choose_about_ten_integers(min(1, present), max(1, middle))
    elif name == "max_len":
        values = _choose_about_ten_integers(max(1, middle), max(1, longest))
    elif "tuned" in metadata:
        values = metadata["tuned"]
    else:
        option = name.replace("_", "-")
        raise InputError(f"--search {option}: its range is missing; give --range {option}=LOW:HIGH")
    return tuple(sorted({*values, present}))


def _choose_about_ten_integers(low: int, high: int) -> List[int]:
    """Return about ten integers between ``low`` and ``high``."""
    return [*range(low, high, max(1, round((high - low) / 10))), high]


def _remove_impossible_lengths(space: Sequence[Parameter], decoding: Dict[str, Any]) -> List[Parameter]:
    """Remove values of min_len and max_len that are incompatible with all values of the other option."""
    values = {parameter.name: parameter.values for parameter in space}
    lengths = [name for name in ("min_len", "max_len", "max_len_a") if name in values]
    if lengths and ("exact_length" in values or get_value("exact_length", decoding)):
        raise InputError(f"--search {lengths[0].replace('_', '-')}: has no effect with --exact-length")
    if not lengths or "max_len_a" in values or get_value("max_len_a", decoding):
        return list(space)
    least = values.get("min_len", (get_value("min_len", decoding),))[0]
    most = values.get("max_len", (get_value("max_len", decoding),))[-1]
    if least > most:
        names = " or ".join(lengths).replace("_", "-")
        raise InputError(f"--min-len {least} is more than --max-len {most}: choose another --range of {names}")
    return [
        p._replace(values=tuple(value for value in p.values if least <= value <= most)) if p.name in lengths else p
        for p in space
    ]


def list_allowed_values(parameter: Parameter, chosen: Dict[str, Any], decoding: Dict[str, Any]) -> Tuple[Any, ...]:
    """Return the values of a parameter that go with those ``chosen`` before: min_len must not exceed max_len."""
    together = {**decoding, **chosen}
    if parameter.name != "min_len" or get_value("max_len_a", together):
        return parameter.values
    return tuple(value for value in parameter.values if value <= get_value("max_len", together))


def make_decoding_options(chosen: Dict[str, Any], defaults: Dict[str, Any]) -> Dict[str, Any]:
    """Return all decoding options for these values of parameters. Options without effect have general defaults."""
    decoding = {**defaults, **chosen}
    idle: List[Tuple[str, Any]] = []
    if not get_value("coverage_penalty", decoding):
        idle += [("coverage_penalty_type", "summary"), ("stepwise_coverage_penalty", False)]
    if get_value("length_penalty_type", decoding) == "avg":
        idle.append(("length_penalty_beta", get_value("length_penalty_beta", {})))
    return {**decoding, **{name: value for name, value in idle if name in decoding}}


STUDY_FILE = "study.journal"
"""Name of Optuna's file with the trials."""
RESAMPLES = 10_000
LEVEL = 0.05
"""Significance level for p-values, before it is divided by the number of compared trials."""
FIGURES = {"words": "words", "novel 2-grams": "new 2", "repeated 3-grams": "rep. 3", "copy rate": "copied"}
"""Statistics in the terminal table, with their column headings. The files contain all statistics."""
_ATTEMPTS = 50
"""Number of proposals of the sampler that may repeat earlier trials before the first untried settings are used."""


class Trial(NamedTuple):
    """Settings and results of a finished trial."""

    number: int  # trial 0 uses the defaults of the model folder
    settings: Dict[str, Any]  # values of the searched parameters
    decoding: Dict[str, Any]  # values of all decoding options
    scores: np.ndarray  # F1 of ROUGE-1, ROUGE-2 and ROUGE-L of each document, shape (n, 3), from 0 to 100
    figures: Dict[str, Optional[float]]  # see :class:`~fairseq_etads.evaluation.analysis.Analysis`
    summaries: List[str]
    seconds: float

    @classmethod
    def from_record(cls, scores: Any, **fields: Any) -> "Trial":
        """Return a trial with the fields of a record in the study."""
        return cls(scores=np.array(scores), **fields)

    def get_document_scores(self, metric: str) -> np.ndarray:
        """Return the scores of all documents (n,) for one of :data:`.METRICS`."""
        scores = self.scores.mean(axis=1) if metric == "mean" else self.scores[:, ROUGE_METRICS.index(metric)]
        return np.asarray(scores)

    def score(self, metric: str) -> float:
        """Return the mean score over all documents."""
        return float(self.get_document_scores(metric).mean())


@dataclass(frozen=True)
class Tuning:
    """Results of all trials of a search, in order."""

    trials: List[Trial]
    space: List[Parameter]
    metric: str  # one of :data:`.METRICS`, which is maximised
    seed: int
    documents: int  # number of documents that are summarised in each trial
    given: int  # number of documents that were provided
    signature: str  # settings of ROUGE
    fingerprint: str  # SHA-256 hash of the documents and references that are used in all trials

    @property
    def best(self) -> Trial:
        """Return the first of the trials with the highest score."""
        best: Trial = find_best(self.trials, self.metric)
        return best

    def compute_confidence_interval(self, trial: Trial) -> List[float]:
        """Return the 95 % confidence interval of a trial's mean score."""
        scores = trial.get_document_scores(self.metric)
        return list(bootstrap_intervals(scores, RESAMPLES, RESAMPLING_SEED).tolist())

    def compare_best_with_defaults(self) -> Dict[str, Any]:
        """Compare the best trial with the defaults by :func:`compare_pairs`. Returns JSON types."""
        first, second = (trial.get_document_scores(self.metric) for trial in (self.best, self.trials[0]))
        # There must be enough resamples for the smallest possible p-value to be below 0.05 divided by the number of
        # trials.
        found = compare_pairs(first, second, max(RESAMPLES, 40 * len(self.trials)), RESAMPLING_SEED)
        level = LEVEL / max(len(self.trials) - 1, 1)
        values: Dict[str, Any] = {name: x if x is None else np.asarray(x).tolist() for name, x in found.items()}
        return {**values, "level": level, "significant": values["p_randomisation"] < level}

    def format_markdown_table(self) -> str:
        """Format the table for a terminal, with the index of the best trial in bold."""
        shown: List[List[Any]] = []
        for trial in self.trials:
            number = f"**{trial.number}**" if trial is self.best else str(trial.number)
            settings = [f"{value:g}" if isinstance(value, float) else str(value) for value in trial.settings.values()]
            figures = [trial.figures[name] for name in FIGURES]
            shown.append([number, *settings, *map(trial.score, METRICS), *figures])
        names = ["trial", *(parameter.name.replace("_", "-") for parameter in self.space)]
        heads = [*names, "mean", *(f"R-{metric[5:]}" for metric in ROUGE_METRICS), *FIGURES.values()]
        columns, texts = ["right"] * len(heads), [*range(len(names))]
        return tabulate(shown, heads, "pipe", ".2f", missingval="-", disable_numparse=texts, colalign=columns)

    def format_conclusion(self) -> str:
        """Return sentences that state whether the best trial is better than the defaults."""
        best, others = self.best, len(self.trials) - 1
        low, high = self.compute_confidence_interval(best)
        about = f"the best by {METRIC_NAMES[self.metric]}: {best.score(self.metric):.2f} [{low:.2f}, {high:.2f}]"
        if best.number == 0:
            return f"The folder's defaults (trial 0) are {about}. None of {others} others is better."
        found = self.compare_best_with_defaults()
        interval = " [{:+.2f}, {:+.2f}]".format(*found["interval"]) if found["interval"] else ""
        verdict = (
            f"That is significant even for the best of {others} (p below {found['level']:.2g})."
            if found["significant"]
            else f"That is not significant for the best of {others} (p is not below {found['level']:.2g}): on other "
            "documents the defaults may be as good or better."
        )
        return (
            f"Trial {best.number} is {about}. The folder's defaults (trial 0) have "
            f"{self.trials[0].score(self.metric):.2f}; the difference is {found['difference']:+.2f}{interval}, "
            f"p = {found['p_randomisation']:.4f} (paired randomisation).\n{verdict}\n"
            f"It was chosen on these {self.documents:,} documents, so its score on them is optimistic. Report scores "
            "on documents that took no part."
        )

    def make_card_note(self, source: str) -> str:
        """Return a note about the best trial for the model card. ``source`` describes the documents."""
        best, first = self.best, self.trials[0]
        return (
            f"Chosen by etads-tune on {datetime.date.today().isoformat()}: trial {best.number} of {len(self.trials)} "
            f"(seed {self.seed}), the best by {METRIC_NAMES[self.metric]} on {self.documents:,} of {self.given:,} "
            f"documents of `{remove_markdown(source)}` (SHA-256 {self.fingerprint[:16]}…): "
            f"{best.score(self.metric):.2f}, and {first.score(self.metric):.2f} with the defaults before, "
            f"`{format_command_line_options(first.decoding)}`. The first score is optimistic, because it was chosen on "
            f"these documents. Scores in other sections were made before.\n\n`{self.signature}`"
        )

    def write_tables(self, out: Path) -> None:
        """Write trials.csv and tuning.json, which contain all results except the summaries, to a folder."""
        best = self.best
        table = [
            {"trial": t.number, **t.settings, **{name: t.score(name) for name in METRICS}, **t.figures}
            for t in self.trials
        ]
        with open_output(out / "trials.csv", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
        report = {
            **{name: getattr(self, name) for name in ("metric", "seed", "documents", "given", "signature")},
            "space": {parameter.name: list(parameter.values) for parameter in self.space},
            "best": {
                "trial": best.number,
                "decoding": best.decoding,
                "score": best.score(self.metric),
                "interval": self.compute_confidence_interval(best),
                "against_defaults": self.compare_best_with_defaults() if best.number else None,
            },
            "trials": [
                {**row, "decoding": trial.decoding, "seconds": trial.seconds} for row, trial in zip(table, self.trials)
            ],
        }
        write_json(out / "tuning.json", report)

    def draw_plots(self, out: Path) -> None:
        """Write Optuna's plots to a folder: the metric by trial (history.png), and by parameter value (tuning.png)."""
        import matplotlib
        import optuna

        matplotlib.use("Agg")  # Optuna draws with pyplot, which may otherwise need a display
        # A study in which each parameter has its values in order, and those that only the defaults have.
        study = optuna.create_study(direction="maximize")
        spaces: Dict[str, optuna.distributions.BaseDistribution] = {}
        for parameter in self.space:
            values = dict.fromkeys([*parameter.values, self.trials[0].settings[parameter.name]])
            kind = optuna.distributions.CategoricalDistribution
            spaces[parameter.name] = kind(sorted(values) if parameter.is_ordered else list(values))
        for trial in self.trials:
            score = trial.score(self.metric)
            study.add_trial(optuna.create_trial(params=trial.settings, distributions=spaces, value=score))
        plots = optuna.visualization.matplotlib
        with warnings.catch_warnings(), make_plots_reproducible(), matplotlib.rc_context({"savefig.bbox": "tight"}):
            warnings.simplefilter("ignore")  # the plots are experimental
            for draw, name in ((plots.plot_optimization_history, "history.png"), (plots.plot_slice, "tuning.png")):
                axes: Any = np.atleast_1d(draw(study, target_name=METRIC_NAMES[self.metric]))  # type: ignore[arg-type]
                if draw is plots.plot_slice:
                    for panel in axes:
                        panel.tick_params(axis="x", labelrotation=90, labelsize=8)
                save_figure(axes[0].figure, str(out / name))
                matplotlib.pyplot.close(axes[0].figure)


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
