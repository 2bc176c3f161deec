"""ConvS2S (Gehring et al. 2017; Narayan et al. 2018): ``--arch convs2s``, ``convs2s_gigaword``, ``convs2s_cnndm``."""

from . import model as model
from .model import PRESETS as PRESETS
