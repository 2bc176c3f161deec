"""Readers for all corpus formats that :mod:`etads_preprocess.corpus` supports."""

from .base import Reader
from .cnndm import CnnDailyMailReader
from .folders import AeslcReader, SciTldrReader, SumPubMedReader
from .gigaword import DucReader, GigawordReader
from .hugging_face import HuggingFaceReader
from .parallel import ParallelReader
from .questions import QmsumReader, SquadReader
from .tables import TableReader

READERS = (
    CnnDailyMailReader,
    GigawordReader,
    DucReader,
    SumPubMedReader,
    SciTldrReader,
    AeslcReader,
    QmsumReader,
    SquadReader,
    TableReader,
    HuggingFaceReader,
    ParallelReader,
)

__all__ = ["READERS", "Reader"]
