"""ABS: Rush, Chopra and Weston 2015: ``--arch abs`` (``model``), and ``--extractive-weights`` (``features``)."""

from . import features as features
from . import model as model
from .model import PRESETS as PRESETS
