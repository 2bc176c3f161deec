"""Dictionaries, the extended ids of words in a batch, softmax candidates, and pretrained word vectors."""
