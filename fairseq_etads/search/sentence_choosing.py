"""Choose summaries, or sentences for a summary, by a content model, the other hypotheses or the predicted judgement.

:func:`choose_sentences` maximises the expected ROUGE under a content model. The sentences are those of the document, or
a summariser has generated them. :class:`Reranker` chooses among hypotheses. :class:`Readability` predicts how readers
would judge them, by a ridge regression of the experts' judgements in SummEval (Fabbri et al. 2021; the systems
that were not pretrained) on properties of the summary. Rules of news text count what readers stumble over: an opening
"he" or "but" without the sentence before, captions, the first person, fragments, and missing full stops.
"""

import itertools
import math
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..text import subsequences
from ..text.subsequences import rouge_l, rouge_n
from ..text.subwords import join_words
from ..text.words import SENTENCE_ENDS, SENTENCE_MARK, count_words
from .content_model import MOST_COUNTED, ContentModel, Item, stem_words
from .hypotheses import Results
from .lengths import NO_LIMITS, SummaryLimits
from .terms import ActiveTerm, SearchTerm, TermBatch

PROPERTIES = {
    "neighbours": (0.519, 0.088),
    "sentences": (-0.354, -0.072),
    "log_words": (0.896, 0.961),
    "first": (0.053, -0.113),
    "short": (-1.170, -0.660),
    "depth": (-0.132, -0.390),
}
"""Weights in the predicted coherence and relevance, from 1 to 5, of each property of a summary: the proportion of
sentences that follow the sentence before in the document, the number of sentences, log(1 + number of words), whether
the document's first sentence is included, the proportion of sentences with fewer than :data:`SHORT` words, and the mean
of log(1 + number of the sentence in the document)."""
SHARES = np.array([0.75, 0.25])
"""Shares of predicted coherence and relevance in the readability, chosen on validation pairs of CNN/Daily Mail."""
CONSTANT = (0.719, 0.491)
"""Constant terms, with the share of copied words and of sentences in the document's order, which is 1 here."""
FLAW = 1.5
"""Cost of a flaw, in points of predicted coherence and relevance."""
SHORT = 6
ALIKE, REPETITION = 0.35, 3.0
"""Share of the shorter sentence's words that two sentences may have in common, and flaws for each share above it."""
LONG_STEM = 4
"""Minimum number of letters of the stems that are compared."""

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_PRONOUNS = frozenset(("he", "she", "they", "this", "these", "those"))
_OPENERS = _PRONOUNS | frozenset(
    re.findall(
        r"\w+",
        "it his her their its him them that and but however also meanwhile so then or while although because yet still "
        "instead",
    )
)
_FIRST_PERSON = frozenset(("i", "we", "my", "our", "me", "us"))
_SPEAKS = re.compile(r"\b(?:said|says|told|added|wrote|asked|tweeted)\b")
_FURNITURE = (
    *("#", "pictured", "is seen", "are seen", "scroll down", "mailonline", "updated:", "published:", "copyright"),
    *("image:", "photo", "click here", " video", "getty", "editor's note", "sign up", "follow us", "this page"),
    *("table below", "see more", "read more"),
)
"""Parts of captions and of other furniture of a page, without spaces before colons and apostrophes."""
_PLACE = re.compile(r"\( ?(?:left|right|above|below|inset|cent(?:re|er)|top|bottom)\b")

_JOINED = re.compile(r"(?<!\S)[a-z0-9]\S*\w (?:The|An?|He|She|It|They|We|But|And|There|This|These|Their) [a-z]")
"""A word that begins a sentence, within one: a caption or a heading without a full stop runs into the next sentence."""


class SentenceOverlap:
    """A value for each two of N sentences, given their words, that depends on the distinct words that they share.

    ``compute`` returns the values from the numbers of words that a sentence shares with each one (N,), and of words in
    the shorter of both (N,). For a book, a table of all pairs does not fit into memory, so it is called when needed.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], compute: Callable[[np.ndarray, np.ndarray], np.ndarray]):
        columns: Dict[str, int] = {}
        self._words = [
            np.array(sorted({columns.setdefault(word, len(columns)) for word in one}), dtype=int) for one in sentences
        ]
        self._sizes = np.array(list(map(len, self._words)), dtype=np.float32)
        self._all = np.concatenate([*self._words, np.zeros(0, dtype=int)])
        self._numbers = np.repeat(np.arange(len(sentences)), list(map(len, self._words)))
        self._compute = compute
        self._rows: Dict[int, np.ndarray] = {}

    def __getitem__(self, number: int) -> np.ndarray:
        """Return the values of a sentence with each sentence (N,), which are 0 with itself."""
        if number not in self._rows:
            is_shared = np.zeros(len(self._all) + 1, dtype=np.float32)
            is_shared[self._words[number]] = 1
            common = np.bincount(self._numbers, is_shared[self._all], len(self._words)).astype(np.float32)
            self._rows[number] = self._compute(common, np.minimum(self._sizes, self._sizes[number]))
            self._rows[number][number] = 0
        return self._rows[number]


class Readability:
    """Predicts the readability of sets of a document's N sentences, given the raw text and the stems of each.

    Attributes:
        lengths: the number of stems in each sentence (N,).
        own, dangling, opening: the flaws (N,) of a sentence, of a sentence without the one before it, and of the first
            sentence of a summary.
        repeated: the flaws of two sentences that tell the same.
    """

    def __init__(self, texts: Sequence[str], stems: Sequence[Sequence[str]]):
        own, dangling, opening = [], [], []
        for number, text in enumerate(texts):
            sentence = text.lower().replace("``", '"').replace("''", '"').replace("’", "'").strip()
            words: List[str] = _WORD.findall(sentence) or [""]
            opens = words[0].partition("'")[0] in _OPENERS
            dangling.append(number and (1.0 if opens else 0.5 if _PRONOUNS.intersection(words[:5]) else 0.0))
            opening.append(0.5 if opens and number else 0.0)
            says_i = number > 0 and not _FIRST_PERSON.isdisjoint(words) and not _SPEAKS.search(sentence)
            ends = sentence.rstrip(" '\"”)`").endswith((".", "?", "!"))
            spelled = sentence.replace(" :", ":").replace(" '", "'")
            has_furniture = spelled.startswith(("by ", "video")) or any(part in spelled for part in _FURNITURE)
            has_furniture = has_furniture or ("(" in spelled and _PLACE.search(spelled) is not None)
            own.append(
                says_i
                + 1.5 * has_furniture
                + 1.5 * (not ends or _JOINED.search(text) is not None)
                + (len(words) < SHORT)
                + 0.5 * ((sentence.count('"') + (sentence.count("“") != sentence.count("”"))) % 2)
            )
        long_stems = [[stem for stem in sentence if len(stem) >= LONG_STEM] for sentence in stems]
        self.repeated = SentenceOverlap(
            long_stems, lambda common, least: REPETITION * np.maximum(common / np.maximum(least, 1) - ALIKE, 0)
        )
        self.own, self.dangling, self.opening = np.array(own), np.array(dangling), np.array(opening)
        self.lengths = np.array(list(map(len, stems)), dtype=int)

    def score_extensions(self, taken: np.ndarray) -> np.ndarray:
        """Predict the readability (B, N) of sets of the same size, booleans (B, N), with each of the N sentences.

        It is the predicted coherence and relevance in their :data:`SHARES`, minus :data:`FLAW` for each flaw, and
        meaningless where the set contains the sentence.
        """
        numbers = np.arange(taken.shape[1])
        size = int(taken[0].sum()) + 1 if len(taken) else 1
        short, depth = (self.lengths < SHORT).astype(float), np.log1p(numbers)
        follows, precedes = np.zeros_like(taken), np.zeros_like(taken)
        follows[:, 1:], precedes[:, :-1] = taken[:, :-1], taken[:, 1:]
        neighbours = (taken & follows).sum(1)[:, None] + follows + precedes
        first = np.minimum(np.where(taken.any(1), taken.argmax(1), len(numbers))[:, None], numbers)
        properties = {
            "neighbours": neighbours / (size - 1) if size > 1 else 1.0,
            "sentences": size,
            "log_words": np.log1p((taken @ self.lengths)[:, None] + self.lengths),
            "first": first == 0,
            "short": ((taken @ short)[:, None] + short) / size,
            "depth": ((taken @ depth)[:, None] + depth) / size,
        }
        predicted = sum(np.multiply(SHARES @ PROPERTIES[name], value) for name, value in properties.items())
        without = taken & ~follows
        pairs = np.zeros(taken.shape, dtype=np.float32)
        for row, number in np.argwhere(taken).tolist():
            pairs[row] += self.repeated[number]
        flaws = (taken @ self.own + without @ self.dangling + (pairs * taken).sum(1) / 2)[:, None] + self.own + pairs
        flaws += self.opening[first] + np.where(follows, 0, self.dangling) - np.append(self.dangling[1:], 0) * precedes
        scores: np.ndarray = predicted + SHARES @ CONSTANT - FLAW * flaws
        return scores


BIGRAM_WEIGHT = 2.0
"""Weight of the expected ROUGE-2 relative to ROUGE-1."""
LONGEST, LONGEST_EXTRACT = 1.15, 1.7
"""Maximum number of words in a summary with generated sentences or of the document's alone, as a multiple of the mean
length of the training summaries."""
FEWEST_WORDS = 3
"""Minimum number of words in a chosen sentence."""
SAME = 0.6
"""Maximum proportion of the shorter sentence's words that two chosen sentences may have in common."""
WIDTH = 10
"""Beam size, the number of sentence sets that the search extends in each step."""
PATIENCE = 3
"""Number of steps without a better set after which the search ends, because larger sets become worse."""


class ExpectedNgrams(NamedTuple):
    """The words and bigrams that are expected in the reference summary of a document."""

    items: Mapping[Item, float]  # probability that the reference summary contains each item
    length: float  # expected number of words in the reference summary

    def compute_expected_rouge(self, sentences: Sequence[Sequence[str]]) -> float:
        """Return the expected ROUGE-1 F1 of a summary plus :data:`BIGRAM_WEIGHT` times the expected ROUGE-2 F1.

        F1 is estimated as 2 × (expected number of common grams) / (number of grams in the summary + expected number of
        grams in the reference). The summary consists of the stems of each sentence.
        """
        words = [word for sentence in sentences for word in sentence]
        return float(_SetScorer([words], self).score_extensions(np.zeros((1, 1), dtype=bool))[0, 0])


class _SetScorer:
    """Computes the scores of sets of sentences, to which one sentence is added.

    The common grams of a set are counted within its sentences: unlike ROUGE, no bigram crosses the end of a sentence.
    """

    def __init__(self, sentences: Sequence[Sequence[str]], expectation: ExpectedNgrams):
        self.lengths = np.array([len(sentence) for sentence in sentences], dtype=int)
        self._expected = expectation.length
        self._orders = []
        for order, most in MOST_COUNTED.items():
            columns: Dict[Tuple[str, ...], int] = {}
            grams = [
                columns.setdefault(gram, len(columns))
                for sentence in sentences
                for gram in zip(*(sentence[start:] for start in range(order)))
            ]
            numbers = np.repeat(np.arange(len(sentences)), np.maximum(self.lengths - order + 1, 0))
            pairs, counts = np.unique(numbers * len(columns) + np.array(grams, dtype=int), return_counts=True)
            numbers, places = np.divmod(pairs, max(len(columns), 1))
            bounds = np.searchsorted(numbers, np.arange(len(sentences) + 1))
            # the expected number of common grams, by how often a set contains the gram
            items, several = expectation.items, range(1, most + 1)
            probabilities = np.array([items.get((gram, count), 0.0) for gram in columns for count in several])
            common = np.pad(probabilities.reshape(-1, most).cumsum(1), ((0, 0), (1, 0)))
            self._orders.append((order, most, numbers, places, counts, bounds, common))

    def score_extensions(self, taken: np.ndarray) -> np.ndarray:
        """Compute the expected ROUGE (B, N) of sets with each of N sentences, from sets ``taken``, booleans (B, N)."""
        sizes = (taken @ self.lengths)[:, None] + self.lengths
        total = np.zeros(taken.shape)
        for order, most, numbers, places, counts, bounds, common in self._orders:
            rows, entries = taken[:, numbers].nonzero()
            held = np.bincount(rows * len(common) + places[entries], counts[entries], len(taken) * len(common))
            held = held.reshape(len(taken), -1).astype(int)
            before = common[np.arange(len(common)), np.minimum(held, most)]
            gains = common[places, np.minimum(held[:, places] + counts, most)] - before[:, places]
            sums = np.concatenate([np.zeros((len(taken), 1)), gains.cumsum(1)], axis=1)
            found = before.sum(1)[:, None] + sums[:, bounds[1:]] - sums[:, bounds[:-1]]
            grams = np.maximum(sizes - order + 1, 0) + max(self._expected - order + 1, 1)
            total += (BIGRAM_WEIGHT if order == 2 else 1.0) * 2 * found / grams
        return total


def choose_sentence_set(
    sentences: Sequence[Sequence[str]],
    expectation: ExpectedNgrams,
    most_words: float,
    readability: Optional[Readability] = None,
    weight: float = 0.0,
    limits: SummaryLimits = NO_LIMITS,
    written: Sequence[str] = (),
) -> List[int]:
    """Choose the set of sentences with the highest score, using beam search over sets of increasing size.

    The score is the expected ROUGE plus the weighted predicted readability.

    Args:
        sentences: the stems of each candidate sentence, in the order in which candidates appear in a summary.
        expectation: the expected content of the reference summary.
        most_words: the maximum number of words in a summary. If every candidate is longer, only the best is chosen.
        readability, weight: the predictor of readability, if the candidates are the document's sentences.
        limits: limits that the user sets. With a number of sentences, as many as that are chosen, if there are so many.
        written: the text of each candidate sentence, to which the limits apply.

    Returns the indices of the chosen sentences in ascending order, none if no candidate contains words. Raises
    LimitError if no candidate is within the limits.
    """
    scorer = _SetScorer(sentences, expectation)
    sizes = np.array(list(map(count_words, written))) if limits.are_set else scorer.lengths
    fits = (sizes <= limits.words) & (scorer.lengths > 0)
    usable = fits & (scorer.lengths >= FEWEST_WORDS)
    usable = usable if usable.any() else fits
    too_similar = SentenceOverlap(sentences, lambda common, least: common > SAME * least)
    best = tuple(limits.choose_required(written))
    best_score = -math.inf if readability is not None or best else 0.0
    beam: List[Tuple[int, ...]] = [best]
    while beam and len(beam[0]) < min(len(best) + PATIENCE, limits.sentences):
        taken = np.zeros((len(beam), len(sentences)), dtype=bool)
        for row, kept in zip(taken, beam):
            row[list(kept)] = True
        scores = scorer.score_extensions(taken)
        if readability is not None:
            scores += weight * readability.score_extensions(taken)
        too_long = (taken @ scorer.lengths)[:, None] + scorer.lengths > most_words
        too_long |= (taken @ sizes)[:, None] + sizes > limits.words
        forbidden = too_long | ~usable | taken
        for place, number in np.argwhere(taken).tolist():
            forbidden[place] |= too_similar[number]
        scores[forbidden] = -math.inf
        found: Dict[Tuple[int, ...], float] = {}
        for place in np.argsort(-scores, axis=None, kind="stable").tolist():
            kept, number = beam[place // len(sentences)], place % len(sentences)
            score = float(scores.flat[place])
            if len(found) == WIDTH or score == -math.inf:
                break
            found.setdefault(tuple(sorted((*kept, number))), score)
        beam = list(found)
        if beam and (found[beam[0]] > best_score or limits.sentences < math.inf):
            best, best_score = beam[0], found[beam[0]]
    if not best and usable.any():
        alone = scorer.score_extensions(np.zeros((1, len(sentences)), dtype=bool))[0]
        return [int(np.where(usable, alone, -math.inf).argmax())]
    if not best and limits.are_set:
        raise limits.make_error(written)
    return list(best)


class Candidate(NamedTuple):
    """A candidate sentence for a summary, with its index in the document or among the generated sentences."""

    words: List[str]
    number: Optional[int]  # in the document
    written: Optional[int]  # among the generated sentences


class SentenceChoice(NamedTuple):
    """The chosen sentences of a summary, in order, and their expected ROUGE."""

    sentences: List[Candidate]
    score: float


def pad_probabilities(probabilities: Sequence[float], sentences: int) -> List[float]:
    """Pad or truncate a list of probabilities to the number of sentences. Missing probabilities are 0."""
    return [*probabilities, *[0.0] * sentences][:sentences]


def choose_sentences(
    model: ContentModel,
    sentences: Sequence[List[str]],
    probabilities: Sequence[float],
    written: Sequence[List[str]] = (),
    most_words: Optional[int] = None,
    texts: Sequence[str] = (),
    readability: float = 0.0,
    limits: SummaryLimits = NO_LIMITS,
    written_texts: Sequence[str] = (),
) -> SentenceChoice:
    """Choose the set of sentences with the highest expected ROUGE and readability.

    Args:
        model: the content model, which predicts the content of the summary.
        sentences, texts: the words of each sentence in the document, and its raw text, for readability and limits.
        probabilities: the selection probability of each sentence in the document. Missing probabilities are 0.
        written, written_texts: the words and the text of additional candidates, such as sentences of the hypotheses.
        most_words: the maximum number of words in the summary. By default, this is :data:`LONGEST` or, without
            ``written``, :data:`LONGEST_EXTRACT` times the mean length of the training summaries.
        readability: the weight of the readability, which needs candidates from the document alone.
        limits: limits that the user sets, which replace the default of ``most_words``.

    Returns the chosen sentences and their expected ROUGE. The list is empty if no candidate contains words.
    """
    document = model.stem_document(sentences)
    if not any(document):
        return SentenceChoice([], 0.0)
    length = limits.words if limits.words < math.inf else model.length
    expected = ExpectedNgrams(
        model.predict_ngram_probabilities(document, pad_probabilities(probabilities, len(sentences))), length
    )
    merged = merge_sentences(sentences, document, written, model.tokens)
    stems = [each for _, each in merged]
    reading = Readability(texts, document) if readability else None
    shown = [
        texts[each.number] if each.number is not None else written_texts[each.written or 0]
        for each, _ in (merged if limits.are_set else ())
    ]
    has_length = limits.sentences < math.inf or limits.words < math.inf
    longest = most_words or (math.inf if has_length else (LONGEST if written else LONGEST_EXTRACT) * model.length)
    chosen = choose_sentence_set(stems, expected, longest, reading, readability, limits, shown)
    score = expected.compute_expected_rouge([stems[place] for place in chosen])
    return SentenceChoice([merged[place][0] for place in chosen], score)


def merge_sentences(
    sentences: Sequence[List[str]], document: Sequence[List[str]], written: Sequence[List[str]], tokens: str
) -> List[Tuple[Candidate, Sequence[str]]]:
    """Merge the sentences of a document with generated sentences, and drop duplicate generated sentences.

    Each generated sentence is placed after the document sentence with which it shares the most distinct stems, the
    first of them if several share the same number. ``document`` contains the stems of ``sentences``. Returns each
    candidate with its stems.
    """
    words = [set(sentence) for sentence in document]
    seen = {tuple(sentence) for sentence in document}
    placed: List[Tuple[int, int, Candidate, Sequence[str]]] = [
        (number, 0, Candidate(sentence, number, None), stems)
        for number, (sentence, stems) in enumerate(zip(sentences, document))
    ]
    for rank, sentence in enumerate(written):
        key = tuple(stem_words(sentence, tokens))
        if key not in seen:
            seen.add(key)
            common = set(key)
            place = max(range(len(words)), key=lambda number: (len(words[number] & common), -number), default=0)
            placed.append((place, rank + 1, Candidate(sentence, None, rank), key))
    return [row[2:] for row in sorted(placed, key=lambda row: row[:2])]


CONSENSUS_WEIGHT = 0.75
"""Weight of the consensus relative to the expected ROUGE."""


def split_sentences(words: Sequence[str]) -> List[List[str]]:
    """Split the words of a document into sentences at sentence marks or, without marks, at final punctuation."""
    if SENTENCE_MARK in words:
        return subsequences.split_sentences(words, SENTENCE_MARK)
    ends = [number for number, word in enumerate(words, 1) if word in set(SENTENCE_ENDS)]
    parts = (list(words[start:end]) for start, end in zip([0, *ends], [*ends, len(words)]))
    return [sentence for sentence in parts if sentence]


def make_positional_sentence_probabilities(sentences: int) -> List[float]:
    """Return sentence probabilities that depend only on positions, for use without an extractor: 1, 1/2, 1/3, …"""
    return [1 / (position + 1) for position in range(sentences)]


def compute_consensus(hypotheses: Sequence[Sequence[str]], counts: Sequence[bool]) -> List[float]:
    """Compute the mean of ROUGE-1, ROUGE-2 and ROUGE-L (F1) of each hypothesis against the others, from their stems.

    Only the hypotheses that ``counts`` are compared with. Each is treated as one sentence. The consensus, from 0 to 1,
    is 0 for a hypothesis that is not compared with any other.
    """
    totals = [0.0] * len(hypotheses)
    for one, other in itertools.combinations(range(len(hypotheses)), 2):
        if counts[one] or counts[other]:
            texts = [hypotheses[one]], [hypotheses[other]]
            score = (rouge_n(*texts, 1) + rouge_n(*texts, 2) + rouge_l(*texts)) / 3
            totals[one] += score * counts[other]
            totals[other] += score * counts[one]
    return [total / max(sum(counts) - counted, 1) for total, counted in zip(totals, counts)]


class Reranker(NamedTuple):
    """A re-ranker that adds the expected ROUGE and the consensus to the scores of hypotheses.

    Attributes:
        model: the content model, which must have been trained without an extractor (``etads-content RUN`` with a
            summariser's run folder).
        weight: the weight of the expected ROUGE (:meth:`ExpectedNgrams.compute_expected_rouge`) relative to the score
            from the search. The consensus (:func:`compute_consensus`) has :data:`CONSENSUS_WEIGHT` times
            this weight.
        subwords: the type of subwords in the tokens; see :func:`~fairseq_etads.text.subwords.find_word_ends`.
    """

    model: ContentModel
    weight: float
    subwords: str

    def compute_scores(
        self, document: Sequence[str], hypotheses: Sequence[Sequence[str]], scores: Sequence[float]
    ) -> List[float]:
        """Add the weighted expected ROUGE and consensus to the score of each hypothesis of a document.

        ``document`` and ``hypotheses`` are tokens without start and end symbols. Hypotheses with an infinite score are
        excluded from the consensus of the others.
        """
        sentences = self.model.stem_document(split_sentences(join_words(document, self.subwords)[0]))
        items = self.model.predict_ngram_probabilities(
            sentences, make_positional_sentence_probabilities(len(sentences))
        )
        expected = ExpectedNgrams(items, self.model.length)
        words = [join_words(tokens, self.subwords)[0] for tokens in hypotheses]
        texts = [stem_words([word for word in one if word != SENTENCE_MARK], self.model.tokens) for one in words]
        agreement = compute_consensus(texts, [math.isfinite(score) for score in scores])
        return [
            score + self.weight * (expected.compute_expected_rouge([text]) + CONSENSUS_WEIGHT * agrees)
            for score, text, agrees in zip(scores, texts, agreement)
        ]

    def rank_hypotheses(
        self, document: Sequence[str], tokens: Sequence[Sequence[str]], hypotheses: Sequence[Dict[str, Any]]
    ) -> List[Dict[str, Any]]:
        """Return the hypotheses with their new scores, sorted from best to worst; see :meth:`compute_scores`."""
        scores = self.compute_scores(document, tokens, [float(one["score"]) for one in hypotheses])
        scored = [{**one, "score": one["score"].new_tensor(score)} for one, score in zip(hypotheses, scores)]
        return sorted(scored, key=lambda hypothesis: -float(hypothesis["score"]))


class ContentTerm(SearchTerm):
    """The term for ``--content-model``, which sorts the finished hypotheses by the scores of a :class:`Reranker`.

    The term does not change the scores of words during the search.
    """

    reranks = True

    def __init__(self, reranker: Reranker, source_dictionary: Any):
        self.reranker, self.source_dictionary = reranker, source_dictionary

    def begin(self, batch: TermBatch) -> Optional[ActiveTerm]:
        return None

    def finish(self, results: Results, batch: TermBatch) -> None:
        words = batch.dictionary
        special = {words.pad(), words.eos(), words.bos()}
        for ids, hypotheses in zip(batch.net_input["src_tokens"].tolist(), results):
            document = [self.source_dictionary[word] for word in ids if word not in special]
            texts = [[words[word] for word in one["tokens"].tolist() if word not in special] for one in hypotheses]
            hypotheses[:] = self.reranker.rank_hypotheses(document, texts, hypotheses)
