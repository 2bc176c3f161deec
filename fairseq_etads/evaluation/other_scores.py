"""Compute scores other than ROUGE: METEOR, BERTScore and two rewards used in training.

METEOR (Banerjee and Lavie 2005) is computed with nltk and WordNet, without whose synonyms it would be another metric,
and BERTScore (Zhang et al. 2020) with the package bert-score. The rewards (:mod:`.rewards`) are computed from text,
where training computes them from tokens, so the values may differ slightly. Nothing is downloaded.
"""

import functools
import hashlib
import io
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..data.labels import compute_idf
from ..files.checksums import compute_sha256
from ..platform.command_options import option
from ..text.records import SOURCE
from ..text.words import LATIN, SENTENCE_MARK, find_words
from ..version import get_version
from .resampling import bootstrap_intervals
from .rewards import EntailmentReward, Reward, RougeSalReward, Text
from .rouge import RougeSettings, align_columns, format_interval
from .summaries import read_lines

Sentences = Sequence[str]
"""Sentences of a summary or reference, as strings."""
Scored = Tuple[np.ndarray, str]
"""Scores of all pairs in [0, 100], shape (n, values), and the part of the signature that describes the scores."""
Scorer = Callable[[Sequence[Sentences], Sequence[List[Sentences]]], Scored]
"""Function that computes scores, given n summaries and a list of references for each summary."""

Predictor = Callable[[Sequence[str], Sequence[str]], List[float]]
"""Function that returns the probability of entailment for each of n pairs, given n premises and n hypotheses."""

NAMES = ("meteor", "bertscore", "rougesal", "entail")
FIGURES = {
    "meteor": ("METEOR",),
    "bertscore": ("BERTScore-F1", "BERTScore-P", "BERTScore-R"),
    "rougesal": ("ROUGESal",),
    "entail": ("entailment",),
}
"""Mapping from score names to the names of the values that make up the score."""
DEBIAN_WORDNET = Path("/usr/share/wordnet")
NO_WORDNET = (
    "--also meteor needs WordNet for synonyms: install Debian's wordnet-base, put nltk's wordnet.zip into "
    "~/nltk_data/corpora, or give a folder that contains data.noun, index.noun and the other files with --wordnet"
)


@dataclass
class ScoreOptions:
    """Options of scores other than ROUGE."""

    also: List[str] = option(
        [],
        "additional scores to compute. meteor: METEOR (requires WordNet); bertscore: BERTScore (requires pip install "
        "bert-score and --bertscore-model); rougesal, entail: rewards used in training (require --saliency-documents "
        "and --entail-model, respectively)",
        choices=NAMES,
        nargs="+",
    )
    wordnet: Optional[str] = option(
        None,
        "folder containing the WordNet files for METEOR (default: NLTK's WordNet corpus, or Debian's "
        f"{DEBIAN_WORDNET})",
        metavar="DIR",
        needs=("--also meteor",),
    )
    bertscore_model: Optional[str] = option(
        None,
        "folder containing the model and tokeniser for BERTScore, as saved by save_pretrained",
        metavar="DIR",
        needs=("--also bertscore",),
    )
    bertscore_layer: Optional[int] = option(
        None,
        "layer that provides the hidden states for BERTScore (default: the layer that bert-score uses for a model "
        "with the folder's name, or otherwise the last layer)",
        needs=("--also bertscore",),
    )
    saliency_documents: Optional[str] = option(
        None,
        "file containing training documents for the rougesal reward, one per line; words that are rare in these "
        "documents receive larger weights",
        metavar="FILE",
        needs=("--also rougesal",),
    )
    entail_model: Optional[str] = option(
        None,
        "folder containing the model for the entail reward, created by etads-nli train",
        metavar="DIR",
        needs=("--also entail",),
    )


def check_score_options(args: ScoreOptions) -> None:
    """Raise ValueError if a required option is missing."""
    if "bertscore" in args.also and not args.bertscore_model:
        raise ValueError("--also bertscore: give a model folder with --bertscore-model; nothing is downloaded")
    if "rougesal" in args.also and not args.saliency_documents:
        raise ValueError("--also rougesal: give a file of training documents with --saliency-documents")
    if "entail" in args.also and not args.entail_model:
        raise ValueError("--also entail: give a model folder with --entail-model; create one with etads-nli train")


def list_score_inputs(args: ScoreOptions) -> Dict[str, List[Path]]:
    """Return a mapping from each option of the scores in --also to its file, or to the files in its folder."""
    named = {name: getattr(args, name) for name in ("wordnet", "bertscore_model", "saliency_documents", "entail_model")}
    paths = {f"--{name.replace('_', '-')}": Path(value) for name, value in named.items() if value}
    return {option: list(path.iterdir()) if path.is_dir() else [path] for option, path in paths.items()}


def load_scorers(args: Any, load_entailment: Callable[[str], Predictor]) -> Dict[str, Scorer]:
    """Load the data that the scores in --also require, and return the scorers by the names of scores.

    ``load_entailment`` loads the entailment model in a folder, for which this package would have to import torch.
    Raises ValueError if required data or a required package is missing.
    """
    made: Dict[str, Scorer] = {}
    for name in dict.fromkeys(args.also):
        if name == "meteor":
            made[name] = adapt_scorer_to_sentences(functools.partial(score_with_meteor, find_wordnet(args.wordnet)))
        elif name == "bertscore":
            made[name] = adapt_scorer_to_sentences(
                functools.partial(score_with_bertscore, load_bertscore(args.bertscore_model, args.bertscore_layer))
            )
        elif name == "rougesal":
            made[name] = make_rougesal_scorer(args.saliency_documents, args.tokens)
        else:
            made[name] = make_entailment_scorer(args.entail_model, load_entailment)
    return made


def adapt_scorer_to_sentences(scorer: Callable[[List[str], List[List[str]]], Scored]) -> Scorer:
    """Convert a function that scores texts as strings to a scorer for summaries that are split into sentences."""
    return lambda hypotheses, references: scorer(
        [" ".join(sentences) for sentences in hypotheses],
        # An empty list of sentences means that the reference is missing.
        [[" ".join(sentences) for sentences in several if sentences] or [""] for several in references],
    )


def find_wordnet(folder: Optional[str]) -> Any:
    """Return nltk's reader for the WordNet files in a folder, or in nltk's corpus or the Debian package if it is None.

    Raises ValueError, which explains how to install WordNet, if it is missing.
    """
    import nltk.data
    from nltk.corpus import wordnet
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    if folder is None:
        try:
            wordnet.ensure_loaded()
            return wordnet
        except LookupError:
            folder = str(DEBIAN_WORDNET)
            if not DEBIAN_WORDNET.is_dir():
                raise ValueError(NO_WORDNET) from None
    path = Path(folder).resolve()
    missing = [name for name in ("data.noun", "index.noun", "data.adj", "noun.exc") if not (path / name).is_file()]
    if missing:
        raise ValueError(f'--wordnet "{folder}": no {missing[0]} in it. {NO_WORDNET}')
    nltk.data.path.append(str(path))  # nltk reads only from folders in this list

    class EnglishWordNetReader(WordNetCorpusReader):
        """Reader of the English WordNet. Support for other languages is disabled."""

        def open(self, file: str) -> Any:
            if file == "lexnames":  # Debian's package does not contain this file
                return io.StringIO("".join(f"{number:02} {number:02} 0\n" for number in range(45)))
            return super().open(file)

        def map_wn(self, version: str = "wordnet") -> Any:
            return None

    return EnglishWordNetReader(str(path), None)


def score_with_meteor(wordnet: Any, hypotheses: List[str], references: List[List[str]]) -> Scored:
    """Compute the METEOR score of each hypothesis against the one of its references for which the score is highest.

    The score of an empty hypothesis is 0. nltk searches WordNet for synonyms of the stems of unmatched words. It finds
    no synonyms if the stem is not itself a word.
    """
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.translate.meteor_score import meteor_score

    words = NLTKWordTokenizer().tokenize
    found = [
        meteor_score([words(text) for text in texts], words(hypothesis), wordnet=wordnet) if hypothesis else 0.0
        for hypothesis, texts in zip(hypotheses, references)
    ]
    signature = f"METEOR|nltk:{metadata.version('nltk')}|wordnet:{wordnet.get_version()}|alpha:0.9|beta:3|gamma:0.5"
    return 100 * np.array(found)[:, None], f"{signature}|stem:porter|tok:nltk|case:lower"


def load_bertscore(folder: str, layer: Optional[int]) -> Any:
    """Create bert-score's scorer for the model in a folder. Raises ValueError if one of them cannot be loaded."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
    try:
        from bert_score import BERTScorer
        from bert_score.utils import model2layers
        from transformers import AutoConfig
    except (ImportError, OSError) as error:
        raise ValueError(f"--also bertscore needs bert-score: pip install bert-score ({error})") from None
    try:
        last = AutoConfig.from_pretrained(folder).num_hidden_layers
        chosen = layer or min(model2layers.get(Path(folder).resolve().name, last), last)
        if not 1 <= chosen <= last:
            raise ValueError(f"--bertscore-layer {chosen}: the model has layers 1 to {last}")
        return BERTScorer(model_type=folder, num_layers=chosen)
    except (OSError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f'--bertscore-model "{folder}": cannot be loaded ({reason})') from None


def score_with_bertscore(scorer: Any, hypotheses: List[str], references: List[List[str]]) -> Scored:
    """Compute BERTScore's F1, precision and recall for each hypothesis against the reference with the highest F1.

    Neither idf weighting nor rescaling is used. Empty texts receive a score of 0, because bert-score raises an error
    for them with transformers 5. The references are scored one by one, because bert-score would return the highest
    precision, recall and F1, even if they belong to different references.
    """
    found = np.zeros((len(hypotheses), 3))
    pairs = [
        (row, text)
        for row, (hypothesis, several) in enumerate(zip(hypotheses, references))
        for text in several
        if hypothesis and text
    ]
    if pairs:
        values = scorer.score([hypotheses[row] for row, _ in pairs], [text for _, text in pairs])
        precision, recall, f1 = (value.double().numpy() for value in values)
        figures = np.stack([f1, precision, recall], axis=1)
        rows, starts = np.unique([row for row, _ in pairs], return_index=True)
        for row, own in zip(rows, np.split(figures, starts[1:])):
            found[row] = own[own[:, 0].argmax()]
    folder = Path(scorer.model_type).resolve()
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        digest.update(path.name.encode() + path.read_bytes())
    versions = "|".join(f"{name}:{metadata.version(name)}" for name in ("bert-score", "transformers"))
    model = f"model:{folder.name},sha256 {digest.hexdigest()[:12]}|layer:{scorer.num_layers}"
    return 100 * found, f"BERTSCORE|{versions}|{model}|idf:no|rescaled:no"


def make_rougesal_scorer(documents: str, tokens: str = LATIN) -> Scorer:
    """Return a scorer for ROUGESal in which the saliency of a word is its inverse document frequency (idf).

    Args:
        documents: file with one document per line, from which the inverse document frequencies are computed.
        tokens: kind of words, a key of :data:`~fairseq_etads.text.words.TOKENS`.

    Raises:
        ValueError: the file cannot be read or contains no words.
    """
    lines = [line.replace(SENTENCE_MARK, " ") for line in read_lines(documents, side=SOURCE)]
    split_words = functools.partial(find_words, tokens=tokens)
    idf, unseen = compute_idf(map(split_words, lines))
    if not idf:
        raise ValueError(f"--saliency-documents {documents}: there are no words in it")

    def compute_saliency(sentences: Text) -> List[List[float]]:
        return [[idf.get(word, unseen) / unseen for word in sentence] for sentence in sentences]

    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    signature = f"ROUGESAL|saliency:idf,sha256 {digest}|stem:no|tok:{tokens}"
    return functools.partial(_score_best_reference, RougeSalReward(compute_saliency), split_words, signature)


def make_entailment_scorer(folder: str, load: Callable[[str], Predictor]) -> Scorer:
    """Return a scorer for the reward ``entail`` (:class:`.rewards.EntailmentReward`) with a length ratio of at most 1.

    ``load`` loads the entailment model in the folder when there are summaries to score.
    """
    weights = compute_sha256(Path(folder) / "model.safetensors")[:12]

    def predict_entailment(premises: Text, hypotheses: Text) -> List[float]:
        return load(folder)([" ".join(words) for words in premises], [" ".join(words) for words in hypotheses])

    signature = f"ENTAIL|model:sha256 {weights}|length-cap:1"
    return functools.partial(_score_best_reference, EntailmentReward(predict_entailment), str.split, signature)


def _score_best_reference(
    reward: Reward,
    split: Callable[[str], List[str]],
    signature: str,
    hypotheses: Sequence[Sentences],
    references: Sequence[List[Sentences]],
) -> Scored:
    """Compute a reward for each summary against the reference for which the reward is highest."""
    numbers = [number for number, several in enumerate(references) for _ in several]
    texts = [[split(sentence) for sentence in hypothesis] for hypothesis in hypotheses]
    wanted = [[split(sentence) for sentence in reference] for several in references for reference in several]
    found = np.zeros(len(hypotheses))
    np.maximum.at(found, numbers, reward([texts[number] for number in numbers], wanted, []))
    return 100 * found[:, None], signature


def compute_scores(
    names: Dict[str, Scorer], hypotheses: Sequence[str], references: Sequence[Sequence[str]], settings: RougeSettings
) -> Tuple[List[str], np.ndarray, List[str]]:
    """Compute all values of the requested scores.

    Args:
        names: scorers by the names of scores, as returned by :func:`load_scorers`.
        hypotheses: n lines of text with one hypothesis each.
        references: one or more sets of n lines of text with one reference each.
        settings: ROUGE settings. Their sentence mark and byte limit also apply to these scores.

    Returns:
        The names of the values, the values, shape (n, values), and the first part of each score's signature.
    """
    texts = [[settings.prepare(line) for line in lines] for lines in (hypotheses, *references)]
    several = [list(found) for found in zip(*texts[1:])]
    heads: List[str] = []
    parts, signatures = [np.empty((len(texts[0]), 0))], []
    for name, scorer in names.items():
        figures, signature = scorer(texts[0], several)
        limit = [f"bytes:{settings.byte_limit}"] * bool(settings.byte_limit)
        heads += FIGURES[name]
        parts.append(figures)
        signatures.append("|".join([signature, f"refs:{len(references)}" + ",best" * (len(references) > 1), *limit]))
    return heads, np.concatenate(parts, axis=1), signatures


def make_score_report(
    heads: List[str], figures: np.ndarray, signatures: List[str], bootstrap: int, seed: int
) -> Dict[str, Any]:
    """Return means, 95 % intervals and signatures as JSON types. The intervals are None if ``bootstrap`` is 0."""
    intervals = bootstrap_intervals(figures, bootstrap, seed).T.tolist() if bootstrap else [None] * len(heads)
    means = figures.mean(axis=0).tolist()
    made = f"n:{len(figures)}|bootstrap:{bootstrap}|seed:{seed}|v:{get_version()}"
    return {
        "scores": {head: {"mean": means[i], "interval": intervals[i]} for i, head in enumerate(heads)},
        "signatures": [f"{signature}|{made}" for signature in signatures],
    }


def format_table(report: Dict[str, Any]) -> str:
    """Format the result of :func:`make_score_report` as a table for the terminal, without a newline at the end."""
    scores = report["scores"].items()
    rows = [[head, f"{score['mean']:.2f}", format_interval(score["interval"])] for head, score in scores]
    return "\n".join([align_columns(["score", "mean", "95 % interval"], rows), *report["signatures"]])
