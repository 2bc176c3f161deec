"""``etads-demo``: a page in the browser of this computer, on which a model folder summarises what is pasted."""
