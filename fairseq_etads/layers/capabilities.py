"""What a model's decoder can do beyond fairseq's interface: the one place that asks, of any model."""

from typing import Any, NamedTuple, Optional

from fairseq.models import FairseqIncrementalDecoder

from .pointer import PointerHead


class DecoderCapabilities(NamedTuple):
    """What search, task and criterion need to know of a decoder; the defaults are those of fairseq's own decoders.

    Attributes:
        shares_documents: it takes a :class:`BeamState` and encoder output with a single row for each document, while
            the summaries have a row for each beam.
        takes_requests: its forward pass, and its model's, have the argument ``request``, a :class:`WordRequest`.
        has_output_vocabulary: it has ``output_vocabulary(src_tokens)``, an :class:`OutputVocabulary`.
        pointer: its pointer head.
        large_vocabulary_trick: how many words its softmax runs over; 0: all.
        is_incremental: it is one of fairseq's decoders that keep a state from step to step.
        has_adaptive_softmax: its words are in clusters with a softmax each.
        drops_layers: it leaves out some of its layers in training, and then returns no attention.
        has_extractor: an extractor tells its attention which sentences to read (--sentence-attention extractor).
        selects_sentences: it selects sentences of the document for each sentence of the summary.
        has_closed_book: in training it has a second one without attention beside it (--closed-book-decoder).
    """

    shares_documents: bool = False
    takes_requests: bool = False
    has_output_vocabulary: bool = False
    pointer: Optional[PointerHead] = None
    large_vocabulary_trick: int = 0
    is_incremental: bool = False
    has_adaptive_softmax: bool = False
    drops_layers: bool = False
    has_extractor: bool = False
    selects_sentences: bool = False
    has_closed_book: bool = False


def unwrapped(model: Any) -> Any:
    """The model inside DistributedDataParallel and the like."""
    while hasattr(model, "module"):
        model = model.module
    return model


def decoder_capabilities(model: Any) -> DecoderCapabilities:
    """The capabilities of a model's decoder; the defaults for a model without one."""
    decoder = getattr(model, "decoder", None)
    return DecoderCapabilities(
        shares_documents=bool(getattr(decoder, "shares_documents", False)),
        takes_requests=bool(getattr(decoder, "takes_requests", False)),
        has_output_vocabulary=hasattr(decoder, "output_vocabulary"),
        pointer=getattr(decoder, "pointer", None),
        large_vocabulary_trick=int(getattr(decoder, "large_vocabulary_trick", 0)),
        is_incremental=isinstance(decoder, FairseqIncrementalDecoder),
        has_adaptive_softmax=getattr(decoder, "adaptive_softmax", None) is not None,
        drops_layers=bool(getattr(decoder, "decoder_layerdrop", 0)),
        has_extractor=getattr(model, "extractor", None) is not None,
        selects_sentences=getattr(decoder, "selector", None) is not None,
        has_closed_book=getattr(decoder, "closed_book", None) is not None,
    )


def pointer_of(model: Any) -> Optional[PointerHead]:
    """A model's pointer head, or None."""
    return decoder_capabilities(model).pointer
