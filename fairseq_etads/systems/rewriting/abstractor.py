"""A frozen model that summarises single sentences and is used to rewrite the sentences that an extractor selected."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from torch import Tensor

from ...layers.decoder_output import get_decoder_capabilities
from ...platform.errors import InputError
from ...search.generator import SummaryGenerator
from ...search.strategies import DiverseSiblingsSearch
from ...text.words import SENTENCE_MARK
from ...vocabulary.dictionary import count_known_words

TOKENS = 8000
"""Maximum number of tokens in a batch of sentences, including padding."""


class Abstractor:
    """A sentence rewriter that uses a frozen model loaded from a checkpoint.

    The checkpoint is of an architecture of this project that generates summaries. ``data`` contains its dictionary, and
    ``option`` names it in messages. ``longest`` is the maximum number of tokens in a rewritten sentence. The score of a
    hypothesis's i-th best continuation, counted from 0, is reduced by i times ``diversity``.

    Raises:
        InputError: the checkpoint does not contain a suitable model, or was trained with a different dictionary.
    """

    def __init__(
        self,
        checkpoint: str,
        data: str,
        option: str,
        device: torch.device,
        beam: int = 1,
        diversity: float = 0.0,
        longest: int = 30,
    ):
        overrides = {"data": data, "init_from": None, "extractor": None}
        try:
            models, _, task = checkpoint_utils.load_model_ensemble_and_task([checkpoint], overrides)
        except (OSError, ValueError) as error:
            raise InputError(f"{option} {checkpoint}: {error}") from None
        model: Any = models[0]
        if not get_decoder_capabilities(model).shares_documents:
            raise InputError(f"{option} {checkpoint}: not a summarisation model of this project")
        task.factors.check_no_factors_needed()
        self.dictionary, self.limit = task.source_dictionary, task.truncate_source
        self.model = model.to(device).eval().requires_grad_(False)
        self.device = device
        words = task.target_dictionary
        has_mark = words.unk() < words.index(SENTENCE_MARK) < count_known_words(words)
        strategy = DiverseSiblingsSearch(words, diversity) if diversity and beam > 1 else None
        self.generator = SummaryGenerator(
            [self.model],
            words,
            beam_size=beam,
            nbest=beam,
            max_len_b=longest,
            search_strategy=strategy,
            no_repeat_ngram_size=3 if beam > 1 else 0,
            tokens_to_suppress=(SENTENCE_MARK,) if has_mark else (),
            keep_attention=False,
        )

    def rewrite(self, sentences: Sequence[Tensor]) -> List[List[Dict[str, Tensor]]]:
        """Rewrite sentences, dictionary ids (n,) without the end symbol, truncated to the length used in training.

        Returns a list of hypotheses for each sentence, from best to worst, with the keys of
        :meth:`~fairseq_etads.generation.SummaryGenerator.generate`. Identical sentences are rewritten only once.
        """
        texts = [tuple(sentence.tolist()[: self.limit]) for sentence in sentences]
        found: Dict[Tuple[int, ...], List[Dict[str, Tensor]]] = {}
        batch: List[Tuple[int, ...]] = []
        for text in [*sorted(set(texts), key=lambda text: (len(text), text)), None]:
            if batch and (text is None or (len(batch) + 1) * (len(text) + 1) > TOKENS):
                found.update(zip(batch, self._rewrite_batch(batch)))
                batch = []
            if text is not None:
                batch.append(text)
        return [found[text] for text in texts]

    def get_word_ids(self, hypothesis: Dict[str, Tensor]) -> Tuple[int, ...]:
        """Return the dictionary ids of the words in a hypothesis, without the end symbol."""
        end = self.dictionary.eos()
        return tuple(token for token in hypothesis["tokens"].tolist() if token != end)

    def _rewrite_batch(self, texts: Sequence[Tuple[int, ...]]) -> List[List[Dict[str, Tensor]]]:
        pad, end = self.dictionary.pad(), self.dictionary.eos()
        rows = [torch.tensor([*text, end]) for text in texts]
        tokens = data_utils.collate_tokens(rows, pad, end).to(self.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        net_input: Dict[str, Optional[Tensor]] = {"src_tokens": tokens, "src_lengths": lengths}
        return self.generator.generate(None, {"net_input": net_input})
