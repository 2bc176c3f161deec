"""Sentence rewriting: Chen and Bansal 2018, "Fast abstractive summarization with … sentence rewriting".

``model``       ``--arch pointer_extractor``: selects sentences one by one
``criterion``   ``--criterion extractor_rl``: trains the extractor with rewards for rewritten sentences
``abstractor``  the model that rewrites each selected sentence
"""

from . import criterion as criterion
from . import model as model
