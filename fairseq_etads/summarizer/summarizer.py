"""The class :class:`Summarizer`, which summarises raw text and prepared splits with a trained model."""

import os
import threading
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union, overload

import torch
from fairseq import search as fairseq_search
from fairseq import utils

from ..data.labels import SALIENCE
from ..data.run_record import OptionalPath
from ..layers.decoder_output import get_decoder_capabilities, get_pointer
from ..models.external_models import prepare_for_search
from ..models.selector import SentenceExtractor
from ..platform.command_options import MAX_TOKENS, format_option_name
from ..platform.errors import InputError
from ..search.ensemble import EncodedBatch
from ..search.generator import SummaryGenerator
from ..search.hypotheses import BestHypothesis, Results
from ..search.inference import InferenceModel
from ..search.lengths import LimitError, SummaryLimits
from ..search.options import DecodingOptions, check_call, combine_options
from ..search.sentence_choosing import Reranker
from .documents import Batch, Document, DocumentTokenizer, make_batches, split_into_chunks
from .explaining import Explainer
from .explanation import Explanation
from .folder.config import SHORTLIST, find_folder
from .folder.loading import LoadedFolder, load_folder, load_run
from .folder.run_files import RunFiles, find_run_files, is_run
from .prepared_split import PreparedDocument, PreparedSplit, WordSelection
from .sentences import (
    STRENGTH,
    DetokenizedHypothesis,
    GeneratedTokens,
    SummarySentence,
    choose_group_count,
    choose_summary_sentences,
    choose_within_limits,
)
from .summary import CopiedWord, OnPartialSummary, PartialSummary, Span, Summary, Truncation

READ_AHEAD = 256
"""Default number of documents to read ahead, so that batches can contain documents of similar length."""
_MOST_SEARCHES = 16
"""Maximum number of generators in the cache, which contains one generator per set of options."""
_NOT_PICKLED = ("_lock", "_searches", "_copies", "_explainer")


class _Search(NamedTuple):
    """A generator, and the settings for processing its hypotheses."""

    generator: Optional[SummaryGenerator]  # None: only sentences of the document are chosen
    options: DecodingOptions
    origins: bool  # whether the places of copied words are needed
    reranker: Optional[Reranker] = None  # chooses a hypothesis; None: the one with the highest score
    selection: Optional[WordSelection] = None  # word probabilities that restrict copying
    on_step: Optional[OnPartialSummary] = None  # is called with partial summaries

    @property
    def chooses(self) -> bool:
        """True if a content model chooses the summary's sentences."""
        return self.options.choose in ("content", "extract")


class Summarizer:
    """Summariser for raw text and prepared splits. Use :meth:`load` to create an instance.

    Several threads can share an instance, and instances can be pickled. The first call converts the weights to a layout
    that is efficient on the processor. Later calls reuse the converted weights.

    Args:
        folder: path of the model folder or run.
        loaded: contents of the folder.
        device: name of a device, or None for the default.
        files: files of the run, or None for a model folder.

    Attributes:
        folder: path of the folder from which the model was loaded.
        config: contents of config.json in this folder. For a run, these are the contents that an exported model would
            have, without the options of the model.
        device: device on which the model runs.
    """

    def __init__(
        self, folder: Path, loaded: LoadedFolder, device: Optional[str] = None, files: Optional[RunFiles] = None
    ):
        self.folder, self.config, self._files = folder, loaded.config, files
        self.device = choose_device(device)
        self._model = loaded.model.to(self.device)
        factors = tuple(getattr(self._model, "factors", ()))
        self._why_only_prepared = ""
        if factors and (factors != (SALIENCE,) or loaded.extractor is None):
            how = "prepare them with etads-prepare --factors, and summarise a split of a training run (--split)"
            how = "export the model with etads-export --extractor RUN" if factors == (SALIENCE,) else how
            self._why_only_prepared = (
                f"{folder}: the model reads source factors ({', '.join(factors)}), which raw text does not have: {how}"
            )
        elif loaded.extractor is not None and loaded.extractor.picking is None:
            self._why_only_prepared = (
                f"{folder}: its extractor has never shortened documents (etads-shorten), so only splits can be "
                "summarised (--split)"
            )
        if files is None:
            self.check_reads_raw_text()
        self._texts, self._shortlist, self._content = DocumentTokenizer(loaded), loaded.shortlist, loaded.content
        self._of_run = None if files is None else loaded
        self._has_pointer = get_pointer(self._model) is not None
        self._clear_searches()

    @classmethod
    def load(
        cls,
        folder: Union[str, "os.PathLike[str]"],
        device: Optional[str] = None,
        *,
        checkpoint: OptionalPath = None,
        prepared: OptionalPath = None,
        extractor: OptionalPath = None,
        content: OptionalPath = None,
        shortlist: OptionalPath = None,
    ) -> "Summarizer":
        """Load a model folder or a training run. No code from the folder is run.

        Args:
            folder: path of a model folder that was created with ``etads-export``, name of a bundled model, such as
                "debian", or output folder of ``etads-train``.
            device: name of a device, such as "cpu" or "cuda:0". By default, a GPU is used if one is available.
            checkpoint: checkpoint of the run: "best", "last" or the path of a file.
            prepared: folder of the prepared data. By default, it is the folder that was used for training.
            extractor, content: run folders with a sentence extractor and with a content model, or "none". By default,
                the extractor and the content model of the run are used, if they exist.
            shortlist: file created by ``etads-shortlist``, for the decoding option ``shortlist``.

        Raises:
            InputError: the folder is neither a model folder nor a training run, is damaged, or was created by a later
                version. The message suggests a remedy.
        """
        path = find_folder(folder)
        if not is_run(path):
            names = ("checkpoint", "prepared", "extractor", "content", "shortlist")
            for name, value in zip(names, (checkpoint, prepared, extractor, content, shortlist)):
                if value is not None:
                    raise InputError(f"--{name} {value}: {path} is not a training run, which this option needs")
            return cls(path, load_folder(path), device)
        files = find_run_files(path, checkpoint, prepared, extractor, content)
        if shortlist is not None:
            files = files._replace(extra_files={**files.extra_files, SHORTLIST: Path(shortlist)})
        return cls(path, load_run(files), device, files)

    def _clear_searches(self) -> None:
        self._lock = threading.Lock()
        self._searches: Dict[Tuple[Any, ...], _Search] = {}
        # One copy per dtype is enough, because no other option changes the weights.
        self._copies: Dict[Optional[str], InferenceModel] = {}
        self._explainer: Optional[Explainer] = None

    def __getstate__(self) -> Dict[str, Any]:
        """Return the state for pickling, without generators and converted weights, which are recreated when needed.

        A run is loaded again, because fairseq's tasks cannot be pickled.
        """
        if self._files is not None:
            return {"folder": self.folder, "device": str(self.device), "files": self._files}
        return {name: value for name, value in vars(self).items() if name not in _NOT_PICKLED}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        if "files" in state:
            self.__init__(loaded=load_run(state["files"]), **state)  # type: ignore[misc]
            return
        vars(self).update(state)
        self._clear_searches()

    @overload
    def summarize(
        self, texts: str, *, max_tokens: int = ..., on_step: Optional[OnPartialSummary] = ..., **decoding: Any
    ) -> Summary: ...

    @overload
    def summarize(
        self, texts: Iterable[str], *, max_tokens: int = ..., on_step: Optional[OnPartialSummary] = ..., **decoding: Any
    ) -> List[Summary]: ...

    def summarize(
        self,
        texts: Union[str, Iterable[str]],
        *,
        max_tokens: int = MAX_TOKENS,
        on_step: Optional[OnPartialSummary] = None,
        **decoding: Any,
    ) -> Union[Summary, List[Summary]]:
        """Summarise one or more texts.

        Args:
            texts: a single raw text, or an iterable of raw texts. Each line of a text is a paragraph.
            max_tokens: maximum number of source tokens per batch, including padding. Smaller batches require less
                memory.
            on_step: function that is called with a :class:`PartialSummary` of each document after each step of the
                search. It is called in the same thread and can stop the search by raising an exception. With
                ``choose="content"``, the sentences of the summary are chosen only after the search.
            decoding: decoding options, such as ``beam``, ``min_len``, ``max_len``, ``lenpen`` and
                ``no_repeat_ngram_size``. See :data:`~fairseq_etads.search.options.CALL` for all options. The
                default values are stored in the model folder.

        Returns:
            A single summary if ``texts`` is a string. Otherwise, a list of summaries in the order of the texts.

        Raises:
            InputError: a decoding option does not exist or has an invalid value. The message names the option, the
                value and the valid choices.
            TypeError: a text is not a str.
        """
        one = [texts] if isinstance(texts, str) else texts
        summaries = list(self.stream(one, max_tokens=max_tokens, on_step=on_step, **decoding))
        return summaries[0] if isinstance(texts, str) else summaries

    def stream(
        self,
        texts: Iterable[str],
        *,
        max_tokens: int = MAX_TOKENS,
        read_ahead: int = READ_AHEAD,
        errors: str = "raise",
        copied: bool = True,
        selection: Optional[WordSelection] = None,
        on_step: Optional[OnPartialSummary] = None,
        **decoding: Any,
    ) -> Iterator[Summary]:
        """Summarise a stream of texts in constant memory, and yield the summaries in the order of the texts.

        Args:
            texts: iterable of raw texts or documents of a split (:meth:`read_split`), which can be infinite. At most
                ``read_ahead`` texts are read before their summaries are yielded.
            read_ahead: number of texts to read ahead. If it is 1, each text is summarised immediately. Larger numbers
                are faster, because batches then contain documents of similar length.
            errors: "raise" to raise an error about a text, or "keep" to store it in :attr:`Summary.problem` and
                continue.
            copied: whether to determine which words were copied, which requires an additional pass over the summaries.
            selection: word probabilities that restrict copying, for documents of a split.
            max_tokens, on_step, decoding: as in :meth:`summarize`.

        Raises:
            InputError: an option is invalid (see :meth:`summarize`). The error is raised immediately rather than when
                the first summary is requested.
        """
        if isinstance(texts, (str, bytes)):
            raise TypeError("stream takes a sequence of texts; use summarize() for a single text")
        for name, value in (("max_tokens", max_tokens), ("read_ahead", read_ahead)):
            if type(value) is not int or value < 1:
                raise InputError(f"{format_option_name(name)} {value!r}: choose a whole number, 1 or more")
        if errors not in ("raise", "keep"):
            raise InputError(f"errors {errors!r}: choose raise or keep")
        check_call(self.config.decoding, decoding)
        search = self._get_search(decoding, copied, selection)._replace(on_step=on_step)
        if search.chooses and isinstance(texts, PreparedSplit):
            texts.open_sentences()
        return self._stream_summaries(texts, search, max_tokens, read_ahead, errors == "keep")

    def read_split(self, name: str = "test") -> PreparedSplit:
        """Return the documents in a split of a run's prepared data, which :meth:`stream` accepts as texts.

        The model can then also read source factors, and a content model uses the probabilities that the run's extractor
        has predicted for the sentences of the split.

        Raises:
            InputError: the model was not loaded from a training run, or its prepared data does not contain the split.
        """
        if self._files is None or self._of_run is None:
            raise InputError(f"--split {name}: {self.folder} is a model folder; only a training run has prepared data")
        of_extractor = None if self._files.extractor is None else self._files.extractor.run
        return PreparedSplit(self._of_run.task, name, self._of_run.extractor, of_extractor)

    def check_reads_raw_text(self) -> None:
        """Raise InputError if only the splits of the run can be summarised, because the model reads source factors."""
        if self._why_only_prepared:
            raise InputError(self._why_only_prepared)

    def explain(self, text: str, *, summary: Optional[str] = None, **decoding: Any) -> Explanation:
        """Explain the summary that the model generates for a text, or a given summary of the text.

        The explanation is computed in float32 in an additional forward pass over the text and the summary, without
        decoding options. This takes about as long as a training step.

        Args:
            text: raw text of the document.
            summary: summary to explain, such as a reference summary. By default, the model generates the summary.
            decoding: decoding options for generating the summary, as in :meth:`summarize`.

        Returns:
            An explanation with probabilities, attention weights, saliency, focus and copying. Notebooks display it as
            an HTML page. ``to_html()`` returns the same page.

        Raises:
            InputError: an option is invalid (see :meth:`summarize`). The error is also raised if the given summary
                contains no words or too many words, or if decoding options are combined with a given summary.
            TypeError: the text or the summary is not a str.
        """
        for name, value in (("text", text), ("summary", summary)):
            if not isinstance(value, str) and not (value is None and name == "summary"):
                raise TypeError(f"{name} is of type {type(value).__name__}, not str")
        if summary is None:
            return self.summarize(text, **decoding).explain()
        if decoding:
            raise InputError(f"{format_option_name(next(iter(decoding)))} has no effect on a summary that is given")
        explainer = self._get_explainer()
        if not self._texts.tokenize_document(0, text).tokens:
            raise InputError("the document has no words, so there is no summary to explain")
        return explainer.explain(text, explainer.tokenize_given_summary(summary), summary, None)

    def _get_explainer(self) -> Explainer:
        if isinstance(self._model, SentenceExtractor):
            raise InputError(f"{self.folder}: it chooses whole sentences and writes no words that could be explained")
        with self._lock:
            if self._explainer is None:
                self._explainer = Explainer(self._model, self._texts, self.config.architecture)
            return self._explainer

    @property
    def picks_sentences(self) -> bool:
        """Whether the folder contains an extractor that selects the sentences for the model to read."""
        return self._texts.picker is not None

    @property
    def supported_choose_values(self) -> List[str]:
        """Return the values of the decoding option ``choose`` for which the folder contains a content model."""
        of_extractor = None if self._texts.picker is None else self._texts.picker.content
        found = {"content": of_extractor, "extract": of_extractor, "hypothesis": self._content}
        if isinstance(self._model, SentenceExtractor):
            return ["extract"]
        return [*(choose for choose, model in found.items() if model is not None), "none"]

    def token_count(self, text: str) -> int:
        """Count the tokens in a text with the model's tokeniser.

        The count includes tokens beyond the maximum document length of the model, and tokens of sentences that an
        extractor does not select.
        """
        return len(self._texts.tokenize(text))

    def _get_search(
        self, decoding: Dict[str, Any], origins: bool = True, selection: Optional[WordSelection] = None
    ) -> _Search:
        """Return the cached generator for decoding options; with ``origins``, it also determines copied words."""
        options = combine_options(self.config.decoding, decoding, self._has_pointer)
        key = (origins, selection, *vars(options).values())
        with self._lock:
            if key not in self._searches:
                if len(self._searches) >= _MOST_SEARCHES:
                    self._searches.pop(next(iter(self._searches)))
                self._searches[key] = self._make_search(options, origins, selection)
            return self._searches[key]

    def _make_search(
        self, options: DecodingOptions, origins: bool, selection: Optional[WordSelection] = None
    ) -> _Search:
        if options.choose not in self.supported_choose_values:
            others = " or ".join(self.supported_choose_values)
            raise InputError(
                f"--choose {options.choose}: {self.folder} has no content model for it; choose {others}, or create the "
                "folder again with etads-export --content RUN"
            )
        if options.shortlist and self._shortlist is None:
            raise InputError(f"--shortlist: {self.folder} has none; create it again with etads-export --shortlist FILE")
        if options.choose == "extract":
            return _Search(None, options, origins, None, selection)
        is_best = options.choose == "none" and not SummaryLimits.for_document(options, "").are_set
        options = replace(
            options,
            copied_positions=self._has_pointer and origins,
            keep_attention=options.replace_unknown,
            max_len_per_document=True,
            nbest=1 if is_best else options.beam,
        )
        if selection is not None:
            options.selection_threshold, options.selection_factor = selection.threshold, selection.factor
        infer_dtype = options.infer_dtype
        try:
            inference_models: Optional[List[Optional[InferenceModel]]] = None
            if not get_decoder_capabilities(self._model).shares_documents:
                prepare_for_search([self._model], Namespace(beam=None))  # a model of fairseq
            elif infer_dtype not in self._copies:
                copies = InferenceModel(self._model, infer_dtype)
                copies.get_current_copy()  # create it now, so that an error about an unsupported dtype names the option
                self._copies[infer_dtype] = copies
            if infer_dtype in self._copies:
                inference_models = [self._copies[infer_dtype]]
            strategy = reranker = None
            if options.choose == "content":
                strategy = fairseq_search.DiverseBeamSearch(
                    self._texts.target, choose_group_count(options.beam), STRENGTH
                )
            elif options.choose == "hypothesis" and self._content is not None:
                if options.beam == 1:
                    raise ValueError(
                        "--beam 1: there is only one hypothesis, so there is nothing to choose from; add --choose none"
                    )
                reranker = Reranker(self._content, options.content_weight, self._texts.subword_kind or "none")
            generator = SummaryGenerator(
                [self._model],
                self._texts.target,
                search_strategy=strategy,
                inference_models=inference_models,
                shortlist=self._shortlist if options.shortlist else None,
                options=options,
            )
        except ValueError as error:
            raise InputError(str(error)) from None
        return _Search(generator, options, options.copied_positions or not self._has_pointer, reranker, selection)

    def _stream_summaries(
        self, texts: Iterable[str], search: _Search, max_tokens: int, read_ahead: int, keep: bool
    ) -> Iterator[Summary]:
        extracts, selection = search.generator is None, search.selection
        for numbers, results, batches in self.read_batches(texts, max_tokens, read_ahead, keep, selection, extracts):
            for batch in batches:
                results.update(self._summarize_batch(batch, search, keep))
            yield from map(results.pop, numbers)

    def read_batches(
        self,
        texts: Iterable[Any],
        max_tokens: int,
        read_ahead: int = READ_AHEAD,
        keep: bool = False,
        selection: Optional[WordSelection] = None,
        extracts: bool = False,
    ) -> Iterator[Tuple[List[int], Dict[int, Summary], List[List[Document]]]]:
        """Read texts in chunks, and group documents of similar length into batches.

        Args:
            texts, max_tokens, read_ahead, selection: as in :meth:`stream`.
            keep: whether an error in a text becomes its summary.
            extracts: whether only an extractor reads the texts.

        Yields:
            For each chunk, the indices of its texts, the summaries of texts that need no search, because they contain
            no words or have an error, and the batches of all others.
        """
        for part in split_into_chunks(texts, read_ahead):
            results: Dict[int, Summary] = {}
            documents = []
            for number, text in part:
                try:
                    if isinstance(text, str):
                        self.check_reads_raw_text()
                        if selection is not None:
                            raise InputError(f"--selection {selection.folder}: needs --split")
                    elif not isinstance(text, PreparedDocument):
                        raise TypeError(f"text number {number} (from 0) is of type {type(text).__name__}, not str")
                    document = self._texts.tokenize_document(number, text, extracts)
                except Exception as error:
                    if not keep:
                        raise
                    results[number] = _make_failed_summary(error, Truncation())
                    continue
                if document.tokens:
                    documents.append(document)
                else:
                    results[number] = self._explain_later(Summary(""), document, GeneratedTokens((), {}))
            yield [number for number, _ in part], results, list(make_batches(documents, max_tokens))

    def _summarize_batch(self, documents: List[Document], search: _Search, keep: bool) -> Dict[int, Summary]:
        """Return the summaries by number; if the batch fails and ``keep``, each document is summarised on its own."""
        try:
            if search.generator is not None:
                batch = self._texts.make_batch(documents, search.selection)
            else:
                if documents[0].prepared is None and self._texts.picker is not None:
                    rated = self._texts.picker.rate([document.every for document in documents])
                    documents = [document._replace(every=every) for document, every in zip(documents, rated)]
                batch = Batch(documents, {}, [], [])
            return dict(zip((document.number for document in batch.documents), self._decode(batch, search)))
        except Exception as error:
            is_of_data = isinstance(error, InputError) and documents[0].prepared is not None
            if not keep or is_of_data:
                raise
            if len(documents) > 1:
                return {
                    number: summary
                    for document in documents
                    for number, summary in self._summarize_batch([document], search, keep).items()
                }
            return {documents[0].number: _make_failed_summary(error, documents[0].truncation)}

    def _decode(self, batch: Batch, search: _Search, encoded: Optional[EncodedBatch] = None) -> List[Summary]:
        results: Results = [[] for _ in batch.documents]
        if search.generator is not None:
            results = self._search_batch(batch, search, encoded)
        make = self._make_chosen_summary if search.chooses else self._make_best_summary
        found: List[Summary] = []
        for row, result in enumerate(results):
            try:
                found.append(make(row, result, batch, search))
            except LimitError as error:
                found.append(_make_failed_summary(error, batch.documents[row].truncation))
        return found

    def _search_batch(self, batch: Batch, search: _Search, encoded: Optional[EncodedBatch] = None) -> Results:
        """Run the search, and return the hypotheses of each document in descending order of score."""
        sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch.sample)
        spans: Dict[int, Tuple[Optional[Span], ...]] = {}  # by row

        def report_step(found: List[BestHypothesis]) -> None:
            assert search.on_step is not None
            for best in found:
                if best.row not in spans:
                    spans[best.row] = tuple(self._texts.find_token_spans(batch.documents[best.row]))
                search.on_step(self._make_partial_summary(best, batch, spans[best.row]))

        def rank(results: Results) -> Results:
            assert search.reranker is not None
            # Within limits of its length, a summary can consist of sentences of several hypotheses.
            needed = None if SummaryLimits.for_document(search.options, "").are_set else 1
            ranked = []
            for row, hypotheses in enumerate(results):
                document = batch.documents[row]
                spelled = [self._detokenize_hypothesis(row, one, batch, search).tokens for one in hypotheses]
                ranked.append(search.reranker.rank_hypotheses(document.tokens, spelled, hypotheses)[:needed])
            return ranked

        on_step = None if search.on_step is None else report_step
        keep = None if search.reranker is None else rank
        assert search.generator is not None
        return search.generator.generate(None, sample, encoded=encoded, on_step=on_step, keep=keep)

    def _make_partial_summary(
        self, best: BestHypothesis, batch: Batch, spans: Tuple[Optional[Span], ...]
    ) -> PartialSummary:
        document, first = batch.documents[best.row], batch.padding[best.row]
        written, places = self._texts.convert_to_tokens(best.tokens, batch)
        tokens = [written[place] for place in places]
        read = (
            None if x is None else tuple(x[first : first + len(spans)].tolist()) for x in (best.attention, best.copying)
        )
        ended = int(best.tokens[-1]) == self._texts.target.eos()
        text = self._texts.join(tokens)
        return PartialSummary(document.number, text, tuple(tokens), best.score, ended, spans, *read)

    def _make_best_summary(self, row: int, hypotheses: List[Dict[str, Any]], batch: Batch, search: _Search) -> Summary:
        document = batch.documents[row]
        if (limits := self._get_limits(document, search)).are_set:
            there = [one for one in hypotheses if one["score"].isfinite()]
            written = [self._detokenize_hypothesis(row, one, batch, search) for one in there]
            sentences = choose_within_limits(self._texts, document, written, limits)
            if sentences is not None:
                return self._join_sentences(document, sentences, float(hypotheses[0]["score"]), search)
        return self._make_summary(row, hypotheses[0], batch, search)

    def _get_limits(self, document: Document, search: _Search) -> SummaryLimits:
        text = document.text if document.prepared is None else str(document.prepared)
        return SummaryLimits.for_document(search.options, text)

    def _detokenize_hypothesis(
        self, row: int, hypothesis: Dict[str, Any], batch: Batch, search: _Search
    ) -> DetokenizedHypothesis:
        """Convert a hypothesis to text for the summary, and to tokens for an explanation."""
        document, texts = batch.documents[row], self._texts
        written, places = texts.convert_to_tokens(hypothesis["tokens"].cpu(), batch)
        tokens = [written[place] for place in places]
        replaced: Dict[int, Tuple[str, int]] = {}
        origins = [-1] * len(tokens)
        if "copied_from" in hypothesis:
            copied_from = hypothesis["copied_from"].tolist()
            origins = [copied_from[place] - batch.padding[row] if copied_from[place] >= 0 else -1 for place in places]
        if search.options.replace_unknown:
            attended, unknown = hypothesis["alignment"].tolist(), texts.target.unk_word
            for number, place in enumerate(places):  # the document word with the highest attention weight
                origin = attended[place]
                is_word = origin < len(document.tokens) and document.tokens[origin] != unknown
                if tokens[number] == unknown and is_word:
                    tokens[number], origins[number] = replaced[place] = document.tokens[origin], origin
        return DetokenizedHypothesis(texts.join(tokens), tokens, origins, GeneratedTokens(written, replaced))

    def _make_summary(self, row: int, hypothesis: Dict[str, Any], batch: Batch, search: _Search) -> Summary:
        document = batch.documents[row]
        spelled = self._detokenize_hypothesis(row, hypothesis, batch, search)
        copied = self._find_copied_words(document, spelled.tokens, spelled.origins)
        summary = Summary(spelled.text, float(hypothesis["score"]), tuple(spelled.tokens), copied)
        return self._complete_summary(document, summary, spelled.written)

    def _complete_summary(
        self, document: Document, summary: Summary, written: Optional[GeneratedTokens] = None
    ) -> Summary:
        """Return a summary with its readable sentences and the document's details."""
        summary = replace(
            summary,
            truncation=document.truncation,
            picked=document.picked,
            surprisal=self._texts.measure_surprisal(document),
            sentences=self._texts.make_readable(document, summary.text, summary.chosen),
        )
        return self._explain_later(summary, document, written)

    def _make_chosen_summary(
        self, row: int, hypotheses: List[Dict[str, Any]], batch: Batch, search: _Search
    ) -> Summary:
        """Join the sentences that the content model chooses, or return the best hypothesis if there are none."""
        document, texts = batch.documents[row], self._texts
        if document.prepared is not None:
            every = document.prepared.split.read_sentences(document.prepared.number)
            document = document._replace(every=every)
        spelled = [
            self._detokenize_hypothesis(row, one, batch, search) for one in hypotheses if one["score"].isfinite()
        ]
        limits = self._get_limits(document, search)
        sentences, score = choose_summary_sentences(texts, document, spelled, search.options, limits)
        if not sentences and search.generator is None:
            limits.choose_required(())
            return self._complete_summary(document, Summary(""))
        if not sentences:
            return self._make_best_summary(row, hypotheses, batch, search)
        return self._join_sentences(document, sentences, score, search)

    def _join_sentences(
        self, document: Document, sentences: List[SummarySentence], score: float, search: _Search
    ) -> Summary:
        """Make a summary of sentences from the document and from hypotheses."""
        texts = self._texts
        copied: List[CopiedWord] = []
        first = 0
        for sentence in sentences:
            if search.origins:
                place = sentence.chosen.start, sentence.chosen.end
                is_own = sentence.chosen.source == "document"
                spans = texts.align(document.text, sentence.tokens, *place) if is_own else None
                words = self._find_copied_words(document, sentence.tokens, sentence.origins, spans)
                copied += [replace(word, first=word.first + first, last=word.last + first) for word in words]
            first += len(sentence.tokens) + len(texts.mark)
        text = " ".join(["", *texts.mark, ""]).join(sentence.chosen.text for sentence in sentences)
        tokens = tuple(texts.join_with_sentence_marks(sentence.tokens for sentence in sentences))
        chosen = tuple(sentence.chosen for sentence in sentences)
        return self._complete_summary(document, Summary(text, score, tokens, tuple(copied), chosen=chosen))

    def _explain_later(self, summary: Summary, document: Document, written: Optional[GeneratedTokens]) -> Summary:
        """Let a summary of a raw text explain its tokens, or its text like a given one if ``written`` is None."""

        def explain() -> Explanation:
            text = " ".join(summary.sentences)
            if document.is_whole or isinstance(self._model, SentenceExtractor):  # which writes no words
                about = document.text, (), 0, text, (), summary.score, self.config.architecture
                return Explanation(*about, surprisal=summary.surprisal, chosen=summary.chosen)
            explainer = self._get_explainer()
            tokens = explainer.tokenize_given_summary(summary.text) if written is None else written
            score = None if written is None else summary.score
            return replace(explainer.explain(document.text, tokens, text, score), chosen=summary.chosen)

        if document.prepared is None:
            object.__setattr__(summary, "_make_explanation", explain)
            object.__setattr__(summary, "_document", document.text)
        return summary

    def _find_copied_words(
        self, document: Document, tokens: List[str], origins: List[int], spans: Optional[List[Optional[Span]]] = None
    ) -> Tuple[CopiedWord, ...]:
        """Find the copied words of a summary. Subwords are joined if they are also adjacent in the document."""
        # ``spans`` are the positions to which ``origins`` refer: those of the tokens that the model read, or others
        if not any(origin >= 0 for origin in origins):
            return ()
        spans = self._texts.find_token_spans(document) if spans is None else spans
        found = []
        first = 0
        while first < len(tokens):
            last = first
            if origins[first] >= 0:
                while (
                    last + 1 < len(tokens)
                    and origins[last + 1] == origins[last] + 1
                    and self._texts.is_same_word(tokens[last], tokens[last + 1])
                ):
                    last += 1
                known = [span for span in spans[origins[first] : origins[last] + 1] if span is not None]
                start, end = (known[0][0], known[-1][1]) if known else (None, None)
                found.append(
                    CopiedWord(self._texts.join_word_tokens(tokens[first : last + 1]), first, last, start, end)
                )
            first = last + 1
        return tuple(found)


def _make_failed_summary(error: Exception, truncation: Truncation) -> Summary:
    return Summary("", truncation=truncation, problem=" ".join(str(error).split()) or type(error).__name__)


def choose_device(name: Optional[str]) -> torch.device:
    """Return the device with the given name, by default a GPU if there is one. Raises InputError if there is none."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"device {name!r}: choose cpu, or cuda where there is a GPU ({reason})") from None
    return device
