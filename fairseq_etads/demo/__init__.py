"""``etads-demo``: a local web page on which a model folder summarises pasted text."""
