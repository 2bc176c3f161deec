"""The task ``summarization``, which loads data and builds models, criterions and generators."""

import contextlib
import copy
import filecmp
import itertools
import logging
import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch
from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.data import Dictionary
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.search import PrefixConstrainedBeamSearch
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks import FairseqTask, register_task
from fairseq.tasks.translation import load_langpair_dataset
from torch import Tensor

from ..data.pairs import (
    DocumentLabels,
    SourceFactors,
    SummarizationDataset,
    check_unknown_words_in_split,
    detect_language_pair,
)
from ..evaluation.rouge import METRICS
from ..fairseq_fixes import extend_commands
from ..fairseq_fixes.trainer import skips_overflowing_updates
from ..files.checksums import Checksums
from ..kernels.linear import mark_linear_weight_matrices
from ..layers.decoder_output import Capabilities, TrainingCriterion, capabilities_of, get_pointer, get_pointer_kind
from ..models.external_models import (
    build_external_model,
    check_options_before_building,
    is_external_model,
    prepare_for_search,
    replace_rare_words,
)
from ..models.init_from import get_extractor_to_initialise, is_training_from_start, load_initial_weights
from ..platform.command_options import check_option_values
from ..search.content_model import ContentModel
from ..search.ensemble import score_references
from ..search.generator import SummaryGenerator
from ..search.lengths import TextLengths
from ..search.sentence_choosing import ContentTerm, Reranker
from ..vocabulary.dictionary import (
    SummarizationDictionary,
    check_dictionaries_share_ids,
    check_training_dictionaries,
    compute_fingerprint,
    detect_subword_type,
    limit_known_words,
)
from ..vocabulary.shortlist import read_shortlist
from .extra_updates import AuxiliaryUpdateRunner, get_auxiliary_task
from .losses import convert_logged_tensors
from .options import (
    TRUNCATE_SOURCE,
    TRUNCATE_TARGET,
    SummarizationConfig,
    check_criterion_and_model,
    check_decoding,
    check_models_can_summarise,
    check_training,
    collect_search_options,
    get_criterion_name,
)
from .validation import ValidationSummarizer, check_best_metric, describe_training_plan

logger = logging.getLogger(__name__)

_SUBWORD_MODELS = ("bpe_codes", "sentencepiece_model", "huggingface_tokenizer")
"""Options of fairseq's --bpe classes that specify the path of a subword model created by etads-prepare."""


class DataChecks:
    """Check that data files match DATA/SHA256SUMS, if this file exists.

    fairseq maps the data files into memory. If a file is changed while it is in use, the data in memory changes, too.

    Attributes:
        checked: mapping from the path of each verified data folder to the checksums of its files.
    """

    def __init__(self) -> None:
        self.checked: Dict[str, Checksums] = {}

    def verify(self, directory: str, pattern: str) -> None:
        """Verify the checksums of the files whose names match a pattern. Raises InputError if a file has changed."""
        checksums = self.checked.get(directory) or Checksums(Path(directory), "Create the data again")
        self.checked[directory] = checksums
        checksums.verify(name for name in checksums.listed if re.match(pattern, name))

    def check_unchanged(self) -> None:
        """Raise InputError if a file has changed since it was verified."""
        for checksums in self.checked.values():
            checksums.verify_unchanged()


def _check_not_empty(directory: str, split: str, languages: str) -> None:
    """Raise ValueError if a split or one of its parts contains no pairs."""
    files = re.compile(rf"({re.escape(split)}\d*)\.{re.escape(languages)}\.[^.]+\.bin")
    for file in os.scandir(directory) if os.path.isdir(directory) else ():
        found = files.fullmatch(file.name)
        if found and not file.stat().st_size:  # even a document without words contains an end symbol
            raise ValueError(f'the split "{found.group(1)}" in "{directory}" has no pairs: leave it out')


@register_task("summarization", dataclass=SummarizationConfig)
class SummarizationTask(FairseqTask):
    """fairseq task for summarising documents.

    The state of the task in a checkpoint contains the truncation lengths and the fingerprints of the dictionaries. As a
    result, documents are truncated in the same way in training and generation, and other dictionaries are rejected.

    Attributes:
        factors: object that manages the source factors in the data and the source factors that the models read.
        labels: object that adds labels and selection probabilities to batches.
        data_checks: object that compares the data files with their checksums.
        capabilities: the mechanisms of all models that the task has built.
        trained_by: the criterion for training the model if the model selects words or sentences, and None otherwise.
        summary_lengths: percentiles of the truncated training summaries' lengths, or None if these are unknown.
        extra_updates: object that runs the auxiliary updates of --auxiliary-task, or None if this option is not set.

    Raises:
        ValueError: an option has an invalid value, or the data folders have different dictionaries.
        FileNotFoundError: the data folder, a dictionary or a split is missing.
        InputError: a data file does not match SHA256SUMS.
    """

    def __init__(self, cfg: SummarizationConfig, src_dict: Dictionary, tgt_dict: Dictionary):
        super().__init__(cfg)
        if cfg.upsample_primary == -1:  # the default in older checkpoints, where it has no effect
            cfg.upsample_primary = 1
        check_option_values(cfg, SummarizationConfig)
        self.src_dict = src_dict
        self.tgt_dict = tgt_dict
        self.truncate_source = cfg.truncate_source or TRUNCATE_SOURCE
        self.truncate_target = cfg.truncate_target or TRUNCATE_TARGET
        self.no_end_if_cut = bool(cfg.no_end_if_cut)
        self.factors = SourceFactors(cfg)
        self.labels = DocumentLabels(cfg)
        self.data_checks = DataChecks()
        self.summary_lengths: Optional[Dict[str, int]] = None
        self.capabilities: Capabilities = frozenset()
        self.trained_by: Optional[TrainingCriterion] = None
        self.extra_updates: Optional[AuxiliaryUpdateRunner] = None
        self._hides_rare_words = False  # set to True if one of the models is external
        self._trained: Optional[Dict[str, Any]] = None  # the state of this task in the checkpoint to load
        self._training_batches: Any = None
        self._training_folder = ""
        self._evaluated: Any = None  # the training split as a validation set
        self._criterion: Any = None  # the criterion used in training
        self._summaries = ValidationSummarizer(self, cfg) if cfg.eval_rouge or cfg.validation_samples else None

    @classmethod
    def setup_task(cls, cfg: SummarizationConfig, **kwargs: Any) -> "SummarizationTask":
        """Create the task and load the dictionaries in the data folder."""
        # In a Python program, the module of fairseq-train may have been imported after the plugin.
        extend_commands()
        if not cfg.data:
            raise ValueError("no data folder given: name the output of fairseq-preprocess or etads-prepare")
        directory, *further = utils.split_paths(cfg.data)
        if not os.path.isdir(directory):
            raise FileNotFoundError(
                f'data folder (DATA) "{directory}" does not exist; create it with etads-prepare or fairseq-preprocess'
            )
        if cfg.source_lang is None or cfg.target_lang is None:
            cfg.source_lang, cfg.target_lang = detect_language_pair(directory)
        if cfg.source_lang is None or cfg.target_lang is None:
            raise FileNotFoundError(
                f'the data folder (DATA) "{directory}" contains no binarised pair (train.source-target.source.idx); '
                "create one with etads-prepare or fairseq-preprocess, or name the suffixes with -s and -t"
            )
        paths = [os.path.join(directory, f"dict.{side}.txt") for side in (cfg.source_lang, cfg.target_lang)]
        for path in paths:
            if not os.path.isfile(path):
                name = os.path.basename(path)
                raise FileNotFoundError(f'the data folder (DATA) "{directory}" has no dictionary {name}')
        checks = DataChecks()
        checks.verify(directory, r".*\.(txt|json)$")  # all dictionaries and factors.json
        for path, folder in itertools.product(paths, further if str(cfg.dataset_impl) != "raw" else ()):
            check_dictionaries_share_ids(cls.load_dictionary, path, os.path.join(folder, os.path.basename(path)))
        src_dict = tgt_dict = cls.load_dictionary(paths[0])
        src_dict.grows = True  # words that are not in the file are added later, so that they can also be copied
        if not filecmp.cmp(paths[0], paths[1], shallow=False):
            tgt_dict = cls.load_dictionary(paths[1])
            # If both files contain the same words, source and target share one dictionary, but may differ in the number
            # of known words.
            if tgt_dict.symbols == src_dict.symbols:
                if tgt_dict.known_words > src_dict.known_words:
                    raise ValueError(
                        f"{paths[1]} knows {tgt_dict.known_words:,} of the words that it shares with {paths[0]}, which "
                        f"knows only {src_dict.known_words:,}: were --srcdict and --tgtdict of fairseq-preprocess "
                        "swapped?"
                    )
                tgt_dict = limit_known_words(src_dict, tgt_dict.known_words)
        for side, dictionary in ((cfg.source_lang, src_dict), (cfg.target_lang, tgt_dict)):
            known = dictionary.known_words
            logger.info(
                f"[{side}] dictionary: {known:,} known words, {len(dictionary) - known:,} that can only be copied"
            )
        task = cls(cfg, src_dict, tgt_dict)
        task.data_checks = checks
        return task

    @classmethod
    def of_folder(cls, folder: Path) -> "SummarizationTask":
        """Create the task for reading a folder of binarised data without a model."""
        cfg = SummarizationConfig(data=str(folder))
        cfg.dataset_impl, cfg.train_subset, cfg.required_seq_len_multiple, cfg.batch_size = None, "train", 1, None
        return cls.setup_task(cfg)

    @classmethod
    def load_dictionary(cls, filename: str) -> SummarizationDictionary:
        """Load a dictionary from ``dict.*.txt``.

        The words with a count of 0 at the end of the file form the copy tail.
        """
        return SummarizationDictionary.load(filename)

    def build_model(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the model, and record its properties for data loading and option checks.

        Raises:
            ValueError: the model cannot be built with these options and this data, or an option is incompatible with
                the model.
        """
        check_options_before_building(cfg, from_checkpoint)
        if is_external_model(cfg):
            self._hides_rare_words = True
            model = build_external_model(cfg, self, lambda task: FairseqTask.build_model(task, cfg, from_checkpoint))
        else:
            model = super().build_model(cfg, from_checkpoint)
        self.capabilities = self.capabilities | capabilities_of(model)
        self.trained_by = getattr(model, "trained_by", None)
        self.factors.request_factors(getattr(model, "factors", ()))
        self.labels.request_labels(
            getattr(model, "training_label_type", None), getattr(model, "labels_in_order", False)
        )
        if self.is_loading:
            return model
        mark_linear_weight_matrices(model)
        if self.cfg.init_from and is_training_from_start(self.cfg):
            load_initial_weights(model, self.cfg.init_from, self)
        if self.cfg.extractor:
            extractor = get_extractor_to_initialise(model, self.cfg.extractor)
            if is_training_from_start(self.cfg, "--extractor"):
                load_initial_weights(extractor, self.cfg.extractor, self, "--extractor", whole=True)
        if self.trains_auxiliary_task:
            self.extra_updates = AuxiliaryUpdateRunner(self, model)
        return model

    @property
    def trains_auxiliary_task(self) -> bool:
        """Return whether the model will also be trained on an auxiliary task."""
        return str(self.cfg.auxiliary_task) != "none" and not self.is_loading

    def make_auxiliary_modules(self, cfg: Any) -> Dict[str, Any]:
        """Return the named modules that --auxiliary-task adds to a recurrent model with the options ``cfg``."""
        return get_auxiliary_task(str(self.cfg.auxiliary_task)).parts(cfg) if self.trains_auxiliary_task else {}

    def build_criterion(self, cfg: Any, from_checkpoint: bool = False) -> Any:
        """Build the criterion, and determine which labels are added to batches.

        Raises:
            ValueError: the criterion is incompatible with the model, or one of the options has no effect.
        """
        if self.is_loading:
            check_criterion_and_model(cfg, self.capabilities, self.trained_by)
        else:
            check_training(cfg, self.cfg, self.capabilities, self.trained_by)
            check_best_metric(
                self.cfg.eval_rouge, self.cfg.best_checkpoint_metric, self.cfg.maximize_best_checkpoint_metric
            )
            # Check the generation options now rather than at the first validation.
            if self._summaries is not None:
                check_decoding(self.cfg, self._summaries.options, "--pointer" in self.capabilities)
        self.labels.request_labels_for_criterion(cfg, CRITERION_REGISTRY.get(get_criterion_name(cfg)))
        return super().build_criterion(cfg, from_checkpoint)

    def build_bpe(self, args: Any) -> Any:
        """Build fairseq's subword encoder, after checking the subword model against SHA256SUMS in its folder."""
        for path in (getattr(args, option, None) for option in _SUBWORD_MODELS):
            if path and os.path.isfile(path):
                Checksums(Path(path).parent, "Prepare the text again").verify([Path(path).name])
        return super().build_bpe(args)

    @property
    def is_loading(self) -> bool:
        """Return whether the task is loading a checkpoint rather than training a new model."""
        return self._trained is not None

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a batch iterator of fairseq that yields the same batches in resumed and in uninterrupted runs.

        fairseq 0.12.3 seeds the batches of all epochs by --seed and the epoch in which the process starts; here, they
        are always created as if training started in epoch 1.

        A training split that is also a validation set gets two iterators, or each validation would end the epoch.

        Raises ValueError if a text has more tokens than ``--max-tokens``, which fairseq would leave out in training.
        Since texts are truncated, ``--skip-invalid-size-inputs-valid-test`` leaves out none.
        """
        trains = "update_epoch_batch_itr" in kwargs  # only fairseq's training loop passes this argument
        for each in [dataset, *(self.datasets.values() if trains else ())]:
            each.check_batch_size(kwargs.get("max_tokens"))
        if not trains and self._training_batches is not None and dataset is self.datasets.get(self.cfg.train_subset):
            dataset = self._get_training_set_for_validation(dataset)
        epoch = kwargs.get("epoch", 1)
        anew = kwargs.get("disable_iterator_cache") or kwargs.get("update_epoch_batch_itr")
        if anew or not self.can_reuse_epoch_itr(dataset) or dataset in self.dataset_to_epoch_iter:
            iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        else:
            iterator = super().get_batch_iterator(dataset, *args, **{**kwargs, "epoch": 1})
            iterator.epoch = max(epoch, 1)
            dataset.set_epoch(epoch)
        if trains and dataset is self.datasets.get(self.cfg.train_subset):
            self._training_batches = iterator
        return iterator

    def _get_training_set_for_validation(self, dataset: SummarizationDataset) -> SummarizationDataset:
        """Return the training split as a validation set."""
        if self._evaluated is None or self._evaluated.src is not dataset.src:
            self._evaluated = copy.copy(dataset)
            if self._summaries is not None:
                self._evaluated.references = self._summaries.documents
                self._evaluated.token_values = self.labels.load(
                    self._training_folder, self.cfg.train_subset, dataset, self.truncate_source, False, decodes=True
                )
        return self._evaluated

    def begin_training(self, cfg: Any, epoch_itr: Any) -> None:
        """Log how training will proceed. fairseq-train calls this method once, before the first epoch."""
        for line in describe_training_plan(cfg, epoch_itr):
            logger.info(f"training plan: {line}")

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """Before a training epoch, let models with ``limit_embedding_norms`` scale down embeddings with large norms.

        Embeddings do not change when training resumes within an epoch. Options for summaries in validation are checked.
        """
        super().begin_epoch(epoch, model)
        if self._summaries is not None:
            self._summaries.check_generator(model)
        begun = self._training_batches is not None and self._training_batches.iterations_in_epoch > 0
        if hasattr(model, "limit_embedding_norms") and not begun:
            model.limit_embedding_norms()

    def train_step(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, ignore_grad: bool = False
    ) -> Any:
        """Pass the update number to the criterion, and run the forward and backward passes for a batch."""
        self.data_checks.check_unchanged()
        if self._summaries is not None:
            self._summaries.delete_generator()
        if hasattr(criterion, "set_num_updates"):
            criterion.set_num_updates(update_num, skips_overflowing_updates(optimizer))
        self._criterion = criterion
        return super().train_step(
            self._replace_unproducible_words(sample), model, criterion, optimizer, update_num, ignore_grad
        )

    def optimizer_step(self, optimizer: Any, model: Any, update_num: int) -> None:
        """Run an optimiser step, followed by the auxiliary updates that are due."""
        if self.extra_updates is not None:
            self.extra_updates.check_optimizer_and_processes(optimizer)
        if hasattr(self._criterion, "record_applied_update"):
            self._criterion.record_applied_update(gradient_is_finite=not isinstance(optimizer, AMPOptimizer))
        super().optimizer_step(optimizer, model, update_num)
        if self.extra_updates is not None:
            self.extra_updates.run_due_updates(optimizer, model, update_num + 1)

    def valid_step(self, sample: Any, model: Any, criterion: Any, **kwargs: Any) -> Any:
        """Compute the validation loss of a batch.

        If the options request it, the method also logs samples and computes ROUGE scores.
        """
        self.data_checks.check_unchanged()
        if not sample:  # fairseq-validate passes an empty batch to workers that have no batches left
            return torch.zeros(()), 0, {}
        loss, sample_size, logging_output = super().valid_step(
            self._replace_unproducible_words(sample), model, criterion, **kwargs
        )
        if self._summaries is not None:
            logging_output.update(self._summaries.score(sample, model))
        return loss, sample_size, logging_output

    @contextlib.contextmanager
    def without_summaries(self) -> Iterator[Sequence[str]]:
        """Disable summaries during validation within a ``with`` block. Yields the names of the omitted metrics."""
        summaries, self._summaries = self._summaries, None
        try:
            yield METRICS if self.cfg.eval_rouge else ()
        finally:
            self._summaries = summaries

    def _replace_unproducible_words(self, sample: Dict[str, Any]) -> Dict[str, Any]:
        """If the model is external, replace target words that it cannot generate."""
        if not self._hides_rare_words:
            return sample
        return {**sample, "target": replace_rare_words(sample["target"], self.tgt_dict)}

    def reduce_metrics(self, logging_outputs: List[Dict[str, Any]], criterion: Any) -> None:
        """Aggregate fairseq's metrics, and the ROUGE scores if they were computed."""
        logging_outputs = convert_logged_tensors(logging_outputs)
        super().reduce_metrics(logging_outputs, criterion)
        if self._summaries is not None:
            self._summaries.reduce_metrics(logging_outputs)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        """Load a data split, and truncate its documents and summaries."""
        paths, is_training = utils.split_paths(self.cfg.data), split == self.cfg.train_subset
        if not is_training:
            paths = paths[:1]  # only the first folder contains validation and test data
        directory = paths[(epoch - 1) % len(paths)]
        for path in paths:  # check all folders now rather than in the epochs in which they are read
            _check_not_empty(path, split, f"{self.cfg.source_lang}-{self.cfg.target_lang}")
        self.data_checks.verify(directory, rf"{re.escape(split)}\d*\.")  # with additional parts (train1, train2, ...)
        try:
            pairs = load_langpair_dataset(
                directory,
                split,
                self.cfg.source_lang,
                self.src_dict,
                self.cfg.target_lang,
                self.tgt_dict,
                combine=combine,
                dataset_impl=self.cfg.dataset_impl,
                upsample_primary=self.cfg.upsample_primary,
                left_pad_source=self.cfg.left_pad_source,
                left_pad_target=self.cfg.left_pad_target,
                max_source_positions=None,
                max_target_positions=None,
            )
        except FileNotFoundError:
            suffix = f".{self.cfg.source_lang}-{self.cfg.target_lang}.{self.cfg.source_lang}.idx"
            names = os.listdir(directory) if os.path.isdir(directory) else []
            found = sorted(name[: -len(suffix)] for name in names if name.endswith(suffix))
            raise FileNotFoundError(
                f'no split "{split}" (--train-subset, --valid-subset or --gen-subset) in "{directory}"; '
                f"it has: {', '.join(found) or 'none'}"
            ) from None
        dataset = SummarizationDataset(
            pairs.src,
            pairs.src_sizes,
            self.src_dict,
            pairs.tgt,
            pairs.tgt_sizes,
            self.tgt_dict,
            truncate_source=self.truncate_source,
            truncate_target=self.truncate_target,
            ends_if_cut=not self.no_end_if_cut,
            name=split,
            factors=self.factors.load(directory, split, pairs.src_sizes),
            sort_within=self.cfg.sort_within * (self.cfg.batch_size or 0) if is_training else 0,
            references=0 if self._summaries is None or is_training else self._summaries.documents,
            left_pad_source=self.cfg.left_pad_source,
            left_pad_target=self.cfg.left_pad_target,
            shuffle=(split != "test"),
            pad_to_multiple=self.cfg.required_seq_len_multiple,
        )
        decodes = self.is_loading or (self._summaries is not None and not is_training)
        dataset.token_values = self.labels.load(
            directory, split, dataset, self.truncate_source, self.is_loading, decodes
        )
        check_unknown_words_in_split(split, dataset, get_pointer_kind(self.capabilities), self)
        if is_training:
            self._training_folder = directory
        if is_training and pairs.tgt_sizes is not None and len(pairs.tgt_sizes):
            sizes = (min(int(size) - 1, self.truncate_target) for size in pairs.tgt_sizes)  # exclude the end symbol
            self.summary_lengths = TextLengths(sizes).get_percentiles()
        self.datasets[split] = dataset

    def build_dataset_for_inference(
        self, src_tokens: List[Tensor], src_lengths: List[int], constraints: Optional[Tensor] = None
    ) -> SummarizationDataset:
        """Create a dataset from the documents that ``fairseq-interactive`` reads, and truncate them as in training.

        Raises:
            ValueError: the model requires source factors, but the documents contain only words.
        """
        self.factors.check_no_factors_needed()
        return SummarizationDataset(
            src_tokens,
            src_lengths,
            self.src_dict,
            tgt_dict=self.tgt_dict,
            truncate_source=self.truncate_source,
            truncate_target=self.truncate_target,
            left_pad_source=self.cfg.left_pad_source,
            constraints=constraints,
        )

    def build_generator(
        self,
        models: List[Any],
        args: Any,
        seq_gen_cls: Optional[Any] = None,
        extra_gen_cls_kwargs: Optional[Dict[str, Any]] = None,
        prefix_allowed_tokens_fn: Optional[Callable[[int, Tensor], List[int]]] = None,
    ) -> Any:
        """Build a :class:`SummaryGenerator` with the task's options, unless the arguments select another class.

        Args:
            args: fairseq's generation options. ``--score-reference`` selects fairseq's SequenceScorer. Decoding options
                in ``args`` override the options of the task, as in ``hub.translate(…, exact_length=7)``.
            models, seq_gen_cls, extra_gen_cls_kwargs, prefix_allowed_tokens_fn: as in fairseq's ``build_generator``.

        Raises:
            ValueError: an option does not exist, has an invalid value, has no effect, or is incompatible with another
                option.
        """
        check_models_can_summarise(self.cfg.selection, models)
        options = dict(extra_gen_cls_kwargs or {})
        if seq_gen_cls is None:
            seq_gen_cls = SummaryGenerator
            check_decoding(self.cfg, args, any(get_pointer(model) is not None for model in models))
            options = {**collect_search_options(self.cfg, args, self.src_dict), **options}
            shortlist = getattr(args, "shortlist", None) or self.cfg.shortlist
            if shortlist:
                options["shortlist"] = read_shortlist(Path(shortlist), self.src_dict, self.tgt_dict)
            content = getattr(args, "content_model", None) or self.cfg.content_model
            if content:
                model = ContentModel.load(Path(content), "--content-model: etads-content RUN creates the file")
                weight = getattr(args, "content_weight", self.cfg.content_weight)
                if model.of_extractor:
                    raise ValueError(
                        f"--content-model {content}: this model needs an extractor's probabilities; name the file of "
                        "a summariser's run"
                    )
                reranker = Reranker(model, weight, self.subwords)
                options["terms"] = [*options.get("terms", ()), ContentTerm(reranker, self.src_dict)]
            if getattr(args, "lm_path", None) and "lm_model" not in options:
                raise ValueError("--lm-path: only fairseq-generate reads it; in Python, pass lm_model to the generator")
        prepare_for_search(models, args)
        generator = super().build_generator(
            models,
            args,
            seq_gen_cls=seq_gen_cls,
            extra_gen_cls_kwargs=options,
            prefix_allowed_tokens_fn=prefix_allowed_tokens_fn,
        )
        if isinstance(generator, SummaryGenerator):
            if prefix_allowed_tokens_fn and not isinstance(generator.search, PrefixConstrainedBeamSearch):
                raise ValueError(f"prefix_allowed_tokens_fn does not go with {type(generator.search).__name__}")
            formula, early_stopping = generator.scoring.describe_formula(), generator.options.early_stopping
            logger.info(f"score: {formula}; early stopping: {early_stopping}")
        return generator

    def inference_step(
        self,
        generator: Any,
        models: List[Any],
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
    ) -> List[List[Dict[str, Any]]]:
        """Generate summaries for a batch.

        The summary of a document without words is empty. A warning reports the number of such documents.
        """
        self.data_checks.check_unchanged()
        if isinstance(generator, SequenceScorer):
            score = super().inference_step
            return score_references(
                models,
                sample,
                self.tgt_dict.pad(),
                lambda models, batch: score(generator, models, self._replace_unproducible_words(batch)),
            )
        if self._hides_rare_words:
            prefix_tokens = replace_rare_words(prefix_tokens, self.tgt_dict)
        hypotheses = super().inference_step(generator, models, sample, prefix_tokens, constraints)
        tokens = sample["net_input"]["src_tokens"]
        no_word = tokens.eq(self.src_dict.pad()) | tokens.eq(self.src_dict.eos())
        empty = no_word.all(dim=1).nonzero().flatten().tolist()
        for row in empty:
            hypotheses[row] = [self._make_empty_hypothesis(hypotheses[row][0])]
        if empty:
            which = f" (numbers {', '.join(str(int(sample['id'][row])) for row in empty)})" if "id" in sample else ""
            logger.warning(f"{len(empty)} empty document(s){which}: their summaries are empty")
        return hypotheses

    def _make_empty_hypothesis(self, hypothesis: Dict[str, Any]) -> Dict[str, Any]:
        """Create a hypothesis that consists only of the end symbol and has a probability of 1."""
        attention = hypothesis.get("attention")
        return {
            **hypothesis,
            "tokens": hypothesis["tokens"].new_tensor([self.tgt_dict.eos()]),
            "score": torch.zeros(()),
            "positional_scores": hypothesis["positional_scores"].new_zeros(1),
            "attention": None if attention is None else attention[..., :1],
            "alignment": torch.empty(0),
            **({"copied_from": hypothesis["tokens"].new_tensor([-1])} if "copied_from" in hypothesis else {}),
            **({"features": torch.zeros_like(hypothesis["features"])} if "features" in hypothesis else {}),
        }

    def state_dict(self) -> Dict[str, Any]:
        """Return the task state to store in checkpoints, such as truncation lengths and dictionary fingerprints."""
        return {
            **super().state_dict(),
            "truncate_source": self.truncate_source,
            "truncate_target": self.truncate_target,
            "no_end_if_cut": self.no_end_if_cut,
            "source_dictionary": compute_fingerprint(self.src_dict),
            "target_dictionary": compute_fingerprint(self.tgt_dict),
            "factor_dictionaries": self.factors.compute_fingerprints(),
            **({"summary_lengths": self.summary_lengths} if self.summary_lengths else {}),
        }

    def check_checkpoint_dictionaries(self, state: Dict[str, Any], path: str) -> None:
        """Check that the dictionaries match the task state in a checkpoint before training loads its weights.

        The state is empty if the checkpoint was written by another task. Raises ValueError, which names the dictionary
        and the ``path`` of the checkpoint.
        """
        try:
            self._check_dictionaries(state)
        except ValueError as error:
            raise ValueError(f"training cannot continue from {path} with {self.cfg.data}: {error}") from None

    def _check_dictionaries(self, state: Dict[str, Any]) -> None:
        check_training_dictionaries(state, self.src_dict, self.tgt_dict)
        self.factors.check_training_dictionaries(state.get("factor_dictionaries", {}))

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Set the truncation lengths from a checkpoint, unless they are set by options. Reject other dictionaries.

        fairseq calls this method when it loads models for generation, validation or scoring. When training resumes,
        only the dictionaries are compared (see :meth:`check_checkpoint_dictionaries`). In this case, the truncation
        lengths are read from the options of the command, as usual in fairseq.
        """
        self._check_dictionaries(state_dict)
        first, self._trained = self._trained is None, state_dict
        for option in ("truncate_source", "truncate_target"):
            trained = state_dict.get(option)
            if trained is None or getattr(self.cfg, option) is not None:
                continue
            # In an ensemble, use the smallest length, because a model cannot read longer texts than in training.
            setattr(self, option, trained if first else min(trained, getattr(self, option)))
        self.summary_lengths = state_dict.get("summary_lengths")
        self.no_end_if_cut = self.no_end_if_cut or bool(state_dict.get("no_end_if_cut", False))
        super().load_state_dict(state_dict)

    def max_positions(self) -> Tuple[int, int]:
        """Return the maximum lengths of documents and summaries after truncation, including the end symbol."""
        return self.truncate_source + 1, self.truncate_target + 1

    def get_checkpoint_max_positions(self) -> Tuple[Optional[int], Optional[int]]:
        """Return the ``max_positions`` of the checkpoint to load, or (None, None) if there is no checkpoint."""
        if self._trained is None or "truncate_source" not in self._trained:
            return None, None
        return self._trained["truncate_source"] + 1, self._trained["truncate_target"] + 1

    @property
    def source_dictionary(self) -> Dictionary:
        return self.src_dict

    @property
    def target_dictionary(self) -> Dictionary:
        return self.tgt_dict

    @property
    def subwords(self) -> str:
        """The kind of subwords in the data; see :func:`~fairseq_etads.vocabulary.dictionary.detect_subword_type`."""
        return detect_subword_type(self.src_dict, self.cfg.data)

    @property
    def factor_dictionaries(self) -> Dict[str, Dictionary]:
        """Return a mapping from the names of the source factors in the data to their dictionaries."""
        return self.factors.dictionaries

    @factor_dictionaries.setter
    def factor_dictionaries(self, dictionaries: Dict[str, Dictionary]) -> None:
        self.factors.dictionaries = dictionaries
