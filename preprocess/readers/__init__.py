"""Readers for all corpus formats that :mod:`etads_preprocess.corpus` supports."""

from .base import Reader
from .cnndm import CnnDailyMailReader
from .duc import DucReader
from .gigaword import GigawordReader
from .hugging_face import HuggingFaceReader
from .parallel import ParallelReader
from .squad import SquadReader
from .sumpubmed import SumPubMedReader
from .tables import SciTldrReader, TableReader

READERS = (
    CnnDailyMailReader,
    GigawordReader,
    DucReader,
    SumPubMedReader,
    SciTldrReader,
    SquadReader,
    TableReader,
    HuggingFaceReader,
    ParallelReader,
)

__all__ = ["READERS", "Reader"]
