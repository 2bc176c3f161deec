"""Readers for all corpus formats that :mod:`etads_preprocess.corpus` supports."""

from .base import Reader
from .cnndm import CnnDailyMail
from .duc import Duc
from .gigaword import Gigaword
from .hugging_face import HuggingFace
from .parallel import Parallel
from .squad import Squad
from .sumpubmed import SumPubMed
from .tables import SciTldr, Table

READERS = (CnnDailyMail, Gigaword, Duc, SumPubMed, SciTldr, Squad, Table, HuggingFace, Parallel)

__all__ = ["READERS", "Reader"]
