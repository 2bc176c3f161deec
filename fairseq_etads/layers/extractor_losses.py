"""What a summariser with an extractor learns beside its summaries (Hsu et al. 2018)."""

from typing import Any, Dict, Tuple

from torch import Tensor

from .capabilities import unwrapped
from .tagging import sentence_loss


class ExtractorLosses:
    """The losses of sentences and of inconsistency.

    Args:
        extraction, inconsistency: weights of the losses; 0: off. top: how many words inconsistency looks at.

    Raises:
        ValueError: ``top`` is below 1.
    """

    def __init__(self, extraction: float, inconsistency: float, top: int):
        if top < 1:
            raise ValueError(f"--inconsistency-top {top}: choose 1 or more")
        self.extraction, self.inconsistency, self.top = extraction, inconsistency, top

    def __call__(
        self, model: Any, sample: Dict[str, Any], extra: Dict[str, Any], real: Tensor
    ) -> Dict[str, Tuple[float, Tensor]]:
        """The losses of a batch.

        The loss of a document's sentences counts for each word of its summary, so that it is weighted like the others
        with --length-normalised and without. It is left out in validation where there are no labels.

        Args:
            extra: what the decoder returns beside logits. real: (N, T) bool, False at padding.

        Returns:
            name in the log -> weight, and values (N, T), 0 at padding.

        Raises:
            ValueError: there are no labels to train with.
        """
        found: Dict[str, Tuple[float, Tensor]] = {}
        attention: Any = extra.get("sentence_attention")
        if self.extraction and ("labels" in sample or model.training):
            if "labels" not in sample:
                raise ValueError("--extraction-loss: the split has no labels in DATA or --labels; see etads-labels")
            logits, there = attention.extraction
            labels = unwrapped(model).extractor.of_units(sample["labels"], sample["net_input"]["src_tokens"])  # (B, U)
            of_documents = sentence_loss(logits, labels, there & (labels >= 0))  # (B,)
            found["extraction_loss"] = self.extraction, of_documents[:, None] * real
        if self.inconsistency:
            values = attention.inconsistency(self.top).masked_fill(~real, 0)
            found["inconsistency_loss"] = self.inconsistency, values
        return found
