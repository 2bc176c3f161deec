"""Capabilities of models beyond fairseq's interface, determined in one place for all models."""

from typing import Any, FrozenSet, Iterator, NamedTuple, Optional

from fairseq.models import FairseqIncrementalDecoder

from .pointer import PointerHead

Capabilities = FrozenSet[str]
"""A model's mechanisms, each named by the option that enables it: "--pointer", "--pointer soft", …"""


class TrainedBy(NamedTuple):
    """The criterion of a model that selects words or sentences.

    Attributes:
        criterion: its name.
        model: the kind of model, for messages: "an architecture that selects words or sentences".
    """

    criterion: str
    model: str


class DecoderCapabilities(NamedTuple):
    """Properties of a decoder that a search depends on; the defaults fit fairseq's own decoders.

    Attributes:
        shares_documents: it accepts a :class:`BeamState` and encoder output with one row per document, while the
            summaries have one row per beam.
        takes_requests: its forward pass, and its model's, have the argument ``request``, a :class:`WordRequest`.
        has_output_vocabulary: it has ``output_vocabulary(src_tokens)``, an :class:`OutputVocabulary`.
        pointer: its pointer head, or None.
        large_vocabulary_trick: number of words in its softmax; 0: all.
        is_incremental: it is one of fairseq's incremental decoders.
        has_adaptive_softmax: its words are in clusters, each with its own softmax.
    """

    shares_documents: bool = False
    takes_requests: bool = False
    has_output_vocabulary: bool = False
    pointer: Optional[PointerHead] = None
    large_vocabulary_trick: int = 0
    is_incremental: bool = False
    has_adaptive_softmax: bool = False


def unwrapped(model: Any) -> Any:
    """Return the model inside DistributedDataParallel and similar wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model


def decoder_capabilities(model: Any) -> DecoderCapabilities:
    """Find the capabilities of a model's decoder; the defaults for a model without a decoder."""
    decoder = getattr(model, "decoder", None)
    return DecoderCapabilities(
        shares_documents=bool(getattr(decoder, "shares_documents", False)),
        takes_requests=bool(getattr(decoder, "takes_requests", False)),
        has_output_vocabulary=hasattr(decoder, "output_vocabulary"),
        pointer=getattr(decoder, "pointer", None),
        large_vocabulary_trick=int(getattr(decoder, "large_vocabulary_trick", 0)),
        is_incremental=isinstance(decoder, FairseqIncrementalDecoder),
        has_adaptive_softmax=getattr(decoder, "adaptive_softmax", None) is not None,
    )


def pointer_of(model: Any) -> Optional[PointerHead]:
    """Return a model's pointer head, or None."""
    return decoder_capabilities(model).pointer


def capabilities_of(model: Any) -> Capabilities:
    """List the mechanisms of a model that options of a training, a criterion or a search can require.

    A model from another package can name further ones in an attribute ``capabilities``.
    """
    return frozenset((*_mechanisms(model), *getattr(model, "capabilities", ())))


def _mechanisms(model: Any) -> Iterator[str]:
    decoder = getattr(model, "decoder", None)
    pointer = pointer_of(model)
    if pointer is not None:
        yield from ("--pointer", f"--pointer {pointer.kind}")
    for option, is_there in (
        ("--large-vocabulary-trick", getattr(decoder, "large_vocabulary_trick", 0)),
        ("--adaptive-softmax-cutoff", getattr(decoder, "adaptive_softmax", None) is not None),
        ("--decoder-layerdrop", getattr(decoder, "decoder_layerdrop", 0)),
        ("--sentence-attention extractor", getattr(model, "extractor", None) is not None),
        ("--sentence-selector", getattr(decoder, "selector", None) is not None),
        ("--closed-book-decoder", getattr(decoder, "closed_book", None) is not None),
    ):
        if is_there:
            yield option


def pointer_kind(capabilities: Capabilities) -> str:
    """Kind of pointer in a model's capabilities, as --pointer names it: "none", "soft" or "switch"."""
    return next((kind for kind in ("switch", "soft") if f"--pointer {kind}" in capabilities), "none")
