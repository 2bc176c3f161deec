"""Readers for all corpus formats that :mod:`etads_preprocess.corpus` supports."""

from .aeslc import AeslcReader
from .base import Reader
from .cnndm import CnnDailyMailReader
from .duc import DucReader
from .gigaword import GigawordReader
from .hugging_face import HuggingFaceReader
from .parallel import ParallelReader
from .qmsum import QmsumReader
from .squad import SquadReader
from .sumpubmed import SumPubMedReader
from .tables import SciTldrReader, TableReader

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
