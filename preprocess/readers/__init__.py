"""Readers for all corpus formats that :mod:`etads_preprocess.corpus` supports."""

from .base import Reader
from .cnndm import CnnDailyMailReader
from .folders import AeslcReader, ParallelReader, SciTldrReader, SumPubMedReader
from .gigaword import DucReader, GigawordReader
from .questions import QmsumReader, SquadReader
from .tables import HuggingFaceReader, TableReader

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
