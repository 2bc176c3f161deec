"""Sentence rewriting: Chen and Bansal 2018, "Fast abstractive summarization with … sentence rewriting".

``model``     ``--arch pointer_extractor``: selects sentences one by one
``training``  ``--criterion extractor_rl``: rewards for sentences that the abstractor rewrites
"""

from . import model as model
from . import training as training
