"""``etads-demo``: summarise pasted text with a model folder on a local web page."""
