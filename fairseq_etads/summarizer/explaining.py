"""Explain summaries, using an additional forward pass that records the outputs of the attention modules."""

import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from ..layers.attention_probe import AttentionRecord, record_attention
from ..layers.decoder_output import DecoderOutput, capabilities_of, get_pointer_kind
from ..platform.errors import InputError
from ..search.inference import copy_model_structure
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import count_known_words
from .documents import Batch, Document, DocumentTokenizer
from .explanation import Explanation, FocusLayer, Matrix, SaliencyLayer, SourceToken, SummaryToken
from .sentences import GeneratedTokens


class Explainer:
    """Explain the summaries of a model, which is not modified.

    Threads can share an instance, but calls do not run in parallel.
    """

    def __init__(self, model: Any, texts: DocumentTokenizer, architecture: str):
        # Copy the modules, because other threads may use the model while the outputs of its attention modules are
        # recorded.
        self._model: Any = copy_model_structure(model)
        self._texts, self._architecture = texts, architecture
        self._device = next(model.parameters()).device
        self._lock = threading.Lock()

    def tokenize_given_summary(self, summary: str) -> GeneratedTokens:
        """Convert a user-provided summary to the tokens with which the model would generate it.

        Raises InputError if the summary contains no words, or more tokens than the model can generate.
        """
        texts = self._texts
        tokens = texts.tokenize_summary(summary)
        if not tokens:
            raise InputError("--summary: it has no words")
        longest = self._model.max_decoder_positions()
        if len(tokens) + 1 > longest:
            raise InputError(
                f"--summary: {len(tokens):,} tokens; this model can write at most {longest - 1:,}: give a shorter "
                "summary"
            )
        return GeneratedTokens((*tokens, texts.target.eos_word), {})

    def explain(self, text: str, written: GeneratedTokens, summary: str, score: Optional[float]) -> Explanation:
        """Explain how the model assigns probabilities to a summary of a raw text.

        ``score`` is the score of the summary in the search, or None if the search did not generate it.
        """
        document = self._texts.tokenize_document(0, text)
        if not document.tokens:
            kind = get_pointer_kind(capabilities_of(self._model))
            return Explanation(document.text, (), 0, summary, (), score, self._architecture, kind)
        batch = self._texts.make_batch([document])
        ids = self._convert_to_ids(written.tokens, batch)
        with self._lock:
            output, named = self._run_model(batch, ids)
        # the modules are named like encoder.layers.0.self_attn
        records = [(int(name.split(".")[2]) + 1, r) for name, r in named.items()]
        gates = [(layer, r.gate[0]) for layer, r in records if r.gate is not None]  # of shape (H, T, S)
        pointer, attention = output.pointer, output.attention
        return Explanation(
            document=text,
            source=self._make_source_tokens(document),
            left_out=document.left_out,
            summary=" ".join(summary.replace(SENTENCE_MARK, " ").split()),
            tokens=self._make_summary_tokens(written, ids, output),
            score=score,
            architecture=self._architecture,
            pointer="none" if pointer is None else pointer.kind,
            saliency_gate=next((r.form for _, r in records if r.form is not None), None),
            attention=None if attention is None else _to_matrix(attention[0]),
            copying=None if pointer is None else _to_matrix(pointer.log_copy[0].exp()),
            saliency=_average([gate for _, gate in gates]),
            selected=_average([r.gated[0] for _, r in records if r.gated is not None]),
            saliency_layers=tuple(SaliencyLayer(layer, tuple(gate.mean((0, 1)).tolist())) for layer, gate in gates),
            focus_layers=tuple(
                FocusLayer(
                    layer,
                    _to_matrix(r.center[0]),
                    _to_matrix(r.scope[0]),
                    None if r.strength is None else tuple(r.strength.tolist()),
                )
                for layer, r in records
                if r.center is not None and r.scope is not None
            ),
            picked=document.picked,
            surprisal=self._texts.measure_surprisal(document),
        )

    def _convert_to_ids(self, tokens: Sequence[str], batch: Batch) -> Tensor:
        """Convert tokens to dictionary ids or temporary ids, shape (1, T), or to the unknown word."""
        target, first_new = self._texts.target, self._texts.first_new_id
        new = {word: first_new + number for number, word in enumerate(batch.new_words)}
        ids = [[target.indices.get(token, new.get(token, target.unk())) for token in tokens]]
        return torch.tensor(ids, device=self._device)

    @torch.no_grad()
    def _run_model(self, batch: Batch, ids: Tensor) -> Tuple[DecoderOutput, Dict[str, AttentionRecord]]:
        """Return the output for the tokens of a summary (1, T), and the outputs of attention modules."""
        net_input = {name: tensor.to(self._device) for name, tensor in batch.sample["net_input"].items()}
        before = ids.roll(1, dims=1)
        before[:, 0] = self._texts.target.eos()
        with record_attention(self._model) as records:
            return DecoderOutput.from_fairseq_output(self._model(**net_input, prev_output_tokens=before)), records

    def _make_source_tokens(self, document: Document) -> Tuple[SourceToken, ...]:
        texts = self._texts
        known = count_known_words(texts.target)
        found: List[SourceToken] = []
        for token, span in zip(document.tokens, texts.find_token_spans(document)):
            start, end = span if span is not None else (None, None)
            number = texts.target.indices.get(token)
            is_known = number is not None and number < known and number != texts.target.unk()
            found.append(SourceToken(token, start, end, is_known))
        return (*found, SourceToken(texts.source.eos_word, None, None, True))

    @torch.no_grad()
    def _make_summary_tokens(
        self, written: GeneratedTokens, ids: Tensor, output: DecoderOutput
    ) -> Tuple[SummaryToken, ...]:
        texts, vocabulary, pointer = self._texts, output.vocabulary, output.pointer
        assert vocabulary is not None, "a model of this project"
        producible = vocabulary.convert_to_producible_ids(ids)
        unknown = (producible[0] == vocabulary.unk).tolist()
        log_probs = _compute_log_probs(self._model, output).gather(2, producible[:, :, None])[0, :, 0]
        p_gen = shares = None
        origins = [-1] * len(written.tokens)
        if pointer is not None:
            p_gen = torch.sigmoid(pointer.gate[0]).tolist()
            columns = vocabulary.convert_to_target_columns(ids)
            shares = pointer.compute_target_log_probs(output.logits.float().log_softmax(-1), columns)[1][0].tolist()
            origins = pointer.find_copied_positions(output.logits, columns)[0].tolist()
        tokens: List[SummaryToken] = []
        for place, (spelled, log_prob) in enumerate(zip(written.tokens, log_probs.tolist())):
            text, origin = written.replaced.get(place, (spelled, origins[place]))
            tokens.append(
                SummaryToken(
                    text=text,
                    shown=texts.join_word_tokens([text]),
                    starts_word=not (tokens and texts.is_same_word(tokens[-1].text, text)),
                    log_probability=log_prob,
                    p_gen=None if p_gen is None else p_gen[place],
                    copied_share=None if shares is None else shares[place],
                    copied_from=origin if origin >= 0 else None,
                    replaces_unknown=unknown[place] and text != texts.target.unk_word,
                )
            )
        return tuple(tokens)


def _compute_log_probs(model: Any, output: DecoderOutput) -> Tensor:
    """Compute log-probabilities (1, T, words) as in the search: where a switch assigns 0, of the mixture instead."""
    log_probs: Tensor = model.get_normalized_probs(output.to_fairseq_output(), log_probs=True).float()
    if output.pointer is None or not output.pointer.hard:
        return log_probs
    mixed: Tensor = model.get_normalized_probs(output.to_mixture().to_fairseq_output(), log_probs=True).float()
    return torch.where(log_probs.isneginf(), mixed, log_probs)


def _average(weights: List[Tensor]) -> Optional[Matrix]:
    """Return the mean (T, S) over heads and layers of a tensor (H, T, S) for each layer, or None without layers."""
    return _to_matrix(torch.stack([layer.mean(0) for layer in weights]).mean(0)) if weights else None


def _to_matrix(values: Tensor) -> Matrix:
    return tuple(map(tuple, values.tolist()))
