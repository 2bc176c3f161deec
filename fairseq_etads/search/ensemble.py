"""One or several models for the beam search, which average their probabilities, and the scores of references.

The documents are encoded once. Then one decoding step at a time is computed for all beams.
"""

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from fairseq import utils
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..kernels.beam_state import BeamState
from ..kernels.linear import widen_to_float32
from ..layers.decoder_output import DecoderOutput, get_decoder_capabilities
from ..layers.pointer import PointerOutput, Selection
from ..vocabulary.output import CandidateWords, OutputVocabulary
from .hypotheses import Results
from .inference import restrict_softmax


class EncodedBatch:
    """A cache for the outputs of an ensemble for one batch, which the first search fills and later searches read.

    It holds the encoder output of each model, and the tensors that the decoder computes once per document
    (``BeamState.memory``). They are stored on the CPU and never modified.

    Pass the same object to all searches over a batch (:meth:`.generator.SummaryGenerator.generate`), even if their
    options differ, and run only one search at a time. If a model of the ensemble is replaced, the outputs of the new
    model are computed. Do not train a model between the searches.
    """

    def __init__(self) -> None:
        self._kept: Dict[int, Dict[str, Any]] = {}

    def load(self, number: int, model: Any, name: str, device: torch.device) -> Any:
        """Return a value of the ensemble's model with this number, on ``device``, or None if it is not cached."""
        kept = self._kept.get(number, {})
        return _move_to_device(kept.get(name), device) if kept.get("model") is model else None

    def store(self, number: int, model: Any, name: str, value: Any) -> None:
        """Store the first value with this name, "encoder_out" or "memory", of the ensemble's model with this number."""
        if self._kept.get(number, {}).get("model") is not model:
            self._kept[number] = {"model": model}
        if name not in self._kept[number]:
            self._kept[number][name] = _move_to_device(value, torch.device("cpu"))

    @property
    def bytes(self) -> int:
        """Return the size of the cached tensors in bytes. Shared memory is counted only once."""
        tensors = (value for value in pytree.tree_leaves(self._kept) if isinstance(value, Tensor))
        storages = (tensor.untyped_storage() for tensor in tensors)
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _move_to_device(value: Any, device: torch.device) -> Any:
    """Copy a nested structure of dictionaries, lists and tuples, and move its tensors to ``device``."""
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.to(device), value)


class EnsembleMember:
    """The model with index ``number`` of an ensemble, in evaluation mode, with its encoder output and decoder state.

    The rows of tensors are sorted by document and then by beam.

    Attributes:
        first_beam: the number of rows per document in the first step, in which all hypotheses of a document are
            identical.
        pointer: the output of the pointer head in the last step, or None if the model has no pointer.
    """

    first_beam: int

    def __init__(self, ensemble: "Ensemble", model: Any, number: int):
        self.model: Any = model
        self.number, self.encoded = number, ensemble.encoded
        self.capabilities = get_decoder_capabilities(model)
        self.has_plain_softmax = _has_plain_softmax(model)
        self.pointer: Optional[PointerOutput] = None
        self.encoder_out: Any = None
        if self.encoded is not None:
            self.encoder_out = self.encoded.load(number, model, "encoder_out", ensemble.device)
        if self.encoder_out is None and hasattr(model, "encoder"):
            self.encoder_out = model.encoder.forward_torchscript(ensemble.net_input)
            if self.encoded is not None:
                self.encoded.store(number, model, "encoder_out", self.encoder_out)

    def decode(self, tokens: Tensor) -> Tuple[Any, ...]:
        """Run the decoder on search ids (rows, t), and return its output for at least the last of the t steps."""
        raise NotImplementedError

    def reorder(self, parents: Tensor, rows: Tensor, documents: Optional[Tensor]) -> None:
        """Reorder the decoder state to match the new hypotheses, and keep only ``documents`` (B',), or all if None.

        ``parents`` (B', beam') are the old beams that the new ones continue, and ``rows`` (B' * beam',) their rows in
        the old state.
        """
        raise NotImplementedError

    def score_next_words(self, tokens: Tensor, temperature: float) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor]]:
        """Compute the log-probabilities of the next words and the attention weights, given the words so far (rows, t).

        The logits are divided by the softmax temperature. For a model with a pointer, the log-probabilities of the
        mixture are divided instead, so that the temperature also applies to copying.

        Returns:
            Three float32 tensors: the log-probabilities (rows, V), those before a switch decides between generating and
            copying, or None for a model without a switch, and the attention weights (rows, S), or None.
        """
        out = self.decode(tokens)
        output = DecoderOutput.from_fairseq_output(out)
        attention, logits = output.attention, output.logits[:, -1:]
        if temperature != 1.0 and self.capabilities.pointer is None:
            logits = widen_to_float32(logits) / temperature
        undecided: Optional[Tensor] = None
        if self.has_plain_softmax and logits.dtype == torch.float32 and logits.is_cpu:
            logits = logits[:, -1]
            # compute in place, because the memory is reused; see inference.BlockedOutputProjection
            lprobs = torch.log_softmax(logits, dim=-1, out=logits)
        else:
            lprobs = self._compute_log_probs((logits, *out[1:]), temperature)
            self.pointer = output.pointer
            if output.pointer is not None and output.pointer.hard:
                output.logits = logits
                undecided = self._compute_log_probs(output.to_mixture().to_fairseq_output(), temperature)
        return lprobs, undecided, None if attention is None else attention[:, -1].float()

    def _compute_log_probs(self, output: Tuple[Any, ...], temperature: float) -> Tensor:
        """Compute log-probabilities (rows, V) from the decoder output for the last word."""
        lprobs = self.model.get_normalized_probs(output, log_probs=True, sample=None)[:, -1].float()
        if temperature != 1.0 and self.capabilities.pointer is not None:
            lprobs = torch.log_softmax(lprobs / temperature, dim=-1)
        result: Tensor = lprobs
        return result


class SharedEncoderMember(EnsembleMember):
    """An ensemble member for a model of this project.

    All beams of a document share one row of the encoder output (see :mod:`fairseq_etads.kernels.beam_state`).
    """

    first_beam = 1

    def __init__(self, ensemble: "Ensemble", model: Any, number: int):
        super().__init__(ensemble, model, number)
        src_tokens, candidates = ensemble.net_input["src_tokens"], ensemble.candidates
        self._restricted = {} if candidates is None else restrict_softmax(model, src_tokens, candidates)
        self.encoder_out = {**self.encoder_out, **self._restricted}
        self.state = BeamState(ensemble.documents, ensemble.device, getattr(model, "memory_dtype", None))
        if self.encoded is not None:
            self.state.memory = self.encoded.load(number, model, "memory", ensemble.device) or {}
        self.selection = ensemble.selection if self.capabilities.pointer is not None else None
        # Collect the modules with a state only once. fairseq would search for them at every step.
        self._stateful = [part for part in model.decoder.modules() if hasattr(part, "reorder_incremental_state")]

    def decode(self, tokens: Tensor) -> Tuple[Any, ...]:
        self.state.begin_step()
        # The decoder creates its vocabulary in the first step. In this step, all tokens are start symbols and need no
        # conversion.
        if "vocabulary" in self.encoder_out:
            tokens = self.encoder_out["vocabulary"].convert_to_dictionary_ids(tokens)
        out: Tuple[Any, ...] = self.model.decoder(tokens, encoder_out=self.encoder_out, incremental_state=self.state)
        if self.encoded is not None:
            # after the first step, the memory is complete and no document has finished
            self.encoded.store(self.number, self.model, "memory", self.state.memory)
            self.encoded = None
        if self.selection is not None:
            # store the probabilities in the state's memory, so that rows of finished documents are removed there too
            memory = self.state.memory.setdefault(self.model.decoder, {})
            probabilities = memory.setdefault("selection", self.selection.probabilities)
            output = DecoderOutput.from_fairseq_output(out)
            assert output.pointer is not None
            output.pointer = output.pointer.restrict_to_selection(self.selection._replace(probabilities=probabilities))
            out = output.to_fairseq_output()
        return out

    def reorder(self, parents: Tensor, rows: Tensor, documents: Optional[Tensor]) -> None:
        self.state.reorder(parents, documents)
        for part in self._stateful:
            part.reorder_incremental_state(self.state, rows)
        if documents is not None:
            selected = self.model.encoder.reorder_encoder_out(self.encoder_out, documents)
            # encoders drop unknown keys, so add the restricted outputs again
            self.encoder_out = {**self._restricted, **selected}


class RepeatedEncoderMember(EnsembleMember):
    """An ensemble member for a model from outside this project, whose encoder output is repeated for each beam."""

    def __init__(self, ensemble: "Ensemble", model: Any, number: int):
        super().__init__(ensemble, model, number)
        documents, self.first_beam = ensemble.documents, ensemble.beam
        self.rows = documents * self.first_beam
        self.state: Dict[str, Any] = {}
        self._reorder_encoder_out(torch.arange(documents, device=ensemble.device).repeat_interleave(self.first_beam))

    def _reorder_encoder_out(self, rows: Tensor) -> None:
        if self.encoder_out is not None:
            self.encoder_out = self.model.encoder.reorder_encoder_out(self.encoder_out, rows)

    def decode(self, tokens: Tensor) -> Tuple[Any, ...]:
        if not hasattr(self.model, "decoder"):
            return self.model(tokens)
        if not self.capabilities.is_incremental:
            return self.model.decoder(tokens, encoder_out=self.encoder_out)
        return self.model.decoder(tokens, encoder_out=self.encoder_out, incremental_state=self.state)

    def reorder(self, parents: Tensor, rows: Tensor, documents: Optional[Tensor]) -> None:
        if self.capabilities.is_incremental:
            self.model.decoder.reorder_incremental_state_scripting(self.state, rows)
        # otherwise, nothing needs to be reordered, because all rows of a document are the same
        if documents is not None or len(rows) != self.rows:
            self._reorder_encoder_out(rows)
        self.rows = len(rows)


def _has_plain_softmax(model: Any) -> bool:
    """Return whether the model's word distribution is simply the softmax of the decoder output."""
    capabilities = get_decoder_capabilities(model)
    return (
        capabilities.shares_documents
        and not capabilities.has_adaptive_softmax
        and capabilities.pointer is None
        and not capabilities.large_vocabulary_trick
        and _has_known_probability_normalisation(model)
        and _has_known_probability_normalisation(model.decoder)
    )


def _has_known_probability_normalisation(part: Any) -> bool:
    """Return whether ``get_normalized_probs`` is defined by fairseq or this project rather than another package."""
    return type(part).get_normalized_probs.__module__.split(".")[0] in ("fairseq", __name__.split(".")[0])


class Ensemble:
    """An ensemble of models in evaluation mode, which averages the models' probabilities.

    Args:
        models, net_input: the models, and their input, a batch of B documents.
        beam: the number of hypotheses per document.
        temperature: the softmax temperature; see :meth:`EnsembleMember.score_next_words`.
        encoded: a cache, which is filled if it is empty, or None.
        selection: the words that pointers may copy, or None to allow all words.
        candidates: the words over which all models compute the softmax, whose columns are their search ids, or None for
            all V words.

    Attributes:
        documents: B, which decreases when documents are finished.
        vocabulary: the output vocabulary of all models, or None if no model has one.
        decided_against: the boolean mask (B, beam, V), or None if no model has a switch. The mask is True for words
            that have probability 0 under all models in the last step, because switches decided between generating and
            copying.
    """

    decided_against: Optional[Tensor] = None

    def __init__(
        self,
        models: List[Any],
        net_input: Dict[str, Tensor],
        documents: int,
        beam: int,
        temperature: float,
        encoded: Optional[EncodedBatch] = None,
        selection: Optional[Selection] = None,
        candidates: Optional[CandidateWords] = None,
    ):
        self.net_input, self.documents, self.beam, self.temperature = net_input, documents, beam, temperature
        self.encoded, self.selection, self.candidates = encoded, selection, candidates
        self.device = next(tensor.device for tensor in net_input.values() if isinstance(tensor, Tensor))
        self.vocabulary = make_output_vocabulary(models, net_input, candidates)
        self.members: List[EnsembleMember] = [
            (SharedEncoderMember if get_decoder_capabilities(model).shares_documents else RepeatedEncoderMember)(
                self, model, number
            )
            for number, model in enumerate(models)
        ]

    def score_next_words(self, tokens: Tensor, first: bool) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute the log-probabilities of the next words and the mean attention weights.

        Words in :attr:`decided_against` receive their log-probability under the mixture of generating and copying
        instead of -inf. The search chooses such a word only if no other word is left.

        Args:
            tokens: the start symbol and the words so far (B, beam, t).
            first: whether this is the first step, in which all beams are identical, and only one of them is returned.

        Returns:
            The log-probabilities (B, beam, V), and the attention weights (B, beam, S) averaged over the members that
            return attention, or None. V is the largest number of words in a member's distribution. Members assign
            probability 0 to words that their distribution does not contain.
        """
        documents, beam, length = tokens.shape
        log_probs, undecided, attentions = [], [], []
        for member in self.members:
            rows = tokens[:, : member.first_beam] if first else tokens
            lprobs, mixed, attention = member.score_next_words(rows.reshape(-1, length), self.temperature)
            kept = 1 if first else beam
            log_probs.append(lprobs.view(documents, rows.size(1), -1)[:, :kept])
            undecided.append(None if mixed is None else mixed.view(documents, rows.size(1), -1)[:, :kept])
            if attention is not None:
                attentions.append(attention.view(documents, rows.size(1), -1)[:, :kept])
        together = _log_mean_probs(log_probs)
        if any(mixed is not None for mixed in undecided):
            self.decided_against = together.isneginf()
            mixture = _log_mean_probs([x if mixed is None else mixed for x, mixed in zip(log_probs, undecided)])
            together = torch.where(self.decided_against, mixture, together)
        return together, _average_attention(attentions)

    def get_mean_copy_distribution(self) -> Optional[Tensor]:
        """Return the mean copy distribution (B, beam, S) of the last step, or None if no model has a pointer.

        In the first step, the beam dimension has size 1.
        """
        pointers = (member.pointer for member in self.members)
        found = [pointer.log_copy[:, -1].exp() for pointer in pointers if pointer is not None]
        return _average_attention([weights.view(self.documents, -1, weights.size(-1)) for weights in found])

    def reorder(self, parents: Tensor, documents: Optional[Tensor], old_beam: int, first: bool) -> None:
        """Reorder the decoder states of all members; see :meth:`EnsembleMember.reorder`.

        ``old_beam`` is the number of hypotheses per document in the previous step, which was the first if ``first``.
        """
        kept = torch.arange(self.documents, device=parents.device) if documents is None else documents
        for member in self.members:
            beam = member.first_beam if first else old_beam
            # in the first step, all new beams continue the same beam
            origin = parents if beam > 1 or not first else torch.zeros_like(parents)
            member.reorder(origin, (kept.unsqueeze(1) * beam + origin).view(-1), documents)
        self.documents = len(kept)


def _log_mean_probs(log_probs: List[Tensor]) -> Tensor:
    """Return the logarithms of the mean probabilities (B, beam, V). V may differ: missing words have probability 0."""
    if len(log_probs) == 1:
        return log_probs[0]
    widest = max(log_probs, key=lambda x: x.size(-1))
    total = widest.clone()  # this is the only large allocation
    for x in log_probs:
        if x is not widest:
            part = total[..., : x.size(-1)]
            torch.logaddexp(part, x, out=part)
    return total.sub_(math.log(len(log_probs)))


def _average_attention(attentions: List[Tensor]) -> Optional[Tensor]:
    if not attentions:
        return None
    return attentions[0] if len(attentions) == 1 else torch.stack(attentions).mean(0)


def make_output_vocabulary(
    models: List[Any], net_input: Dict[str, Tensor], candidates: Optional[CandidateWords] = None
) -> Optional[OutputVocabulary]:
    """Return the output vocabulary of an ensemble, or None if no model has one.

    It includes the words of the source documents if a model has a pointer. ``candidates`` are as in :class:`Ensemble`.
    """
    able: List[Any] = [model for model in models if get_decoder_capabilities(model).has_output_vocabulary]
    able.sort(key=lambda model: get_decoder_capabilities(model).pointer is None)
    if able and candidates is not None:
        found: OutputVocabulary = restrict_softmax(able[0], net_input["src_tokens"], candidates)["vocabulary"]
        return found
    return able[0].decoder.make_output_vocabulary(net_input["src_tokens"]) if able else None


class _ScoringModel:
    """A model wrapper for scoring references, which gives every reference a positive probability.

    For this purpose, a pointer with a switch mixes generating and copying instead of choosing one of them. Unless
    ``width`` is 0, distributions are padded to ``width`` words with a probability of 0.
    """

    def __init__(self, model: Any, width: int):
        self.model, self.width = model, width
        self.eval = model.eval

    def __call__(self, **net_input: Any) -> Any:
        return self.model(**net_input)

    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any) -> Tensor:
        mixed = DecoderOutput.from_fairseq_output(net_output).to_mixture()
        if mixed.pointer is not None:
            net_output = mixed.to_fairseq_output()
        if self.width == 0:
            scores: Tensor = self.model.get_normalized_probs(net_output, log_probs=log_probs, sample=sample)
            return scores
        probs: Tensor = self.model.get_normalized_probs(net_output, log_probs=False, sample=sample)
        probs = nn.functional.pad(probs, (0, max(0, self.width - probs.size(-1))))
        return probs.log() if log_probs else probs  # ensembles average probabilities before computing the logarithm


def score_references(
    models: List[Any], sample: Dict[str, Any], pad: int, score: Callable[[List[Any], Dict[str, Any]], Results]
) -> Results:
    """Score the reference summaries of a batch, whose "target" (B, T) contains their dictionary ids.

    ``score`` runs fairseq's scorer, given a list of models and a batch with extended ids in "target". Its output is
    returned: for each document, a list with one hypothesis, whose "tokens" are the dictionary ids of the reference.

    Raises:
        ValueError: the batch contains no references.
    """
    references = sample.get("target")
    if references is None:
        raise ValueError("--score-reference: no references found; fairseq-generate scores the references in its data")
    target, width = references, 0
    vocabulary = make_output_vocabulary(models, sample["net_input"])
    if vocabulary is not None:
        # As in training, words that the model cannot produce are replaced with the unknown word. Otherwise, a reference
        # with such a word would have probability 0.
        target = vocabulary.convert_to_producible_ids(references)
        if len(models) > 1:
            width = int(target.max()) + 1
    scored = score([_ScoringModel(model, width) for model in models], {**sample, "target": target})
    for hypotheses, reference in zip(scored, references):
        hypotheses[0]["tokens"] = utils.strip_pad(reference, pad)
    return scored
