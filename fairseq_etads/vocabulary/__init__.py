"""Vocabulary: dictionaries, the extended ids of a batch, the candidates of a softmax, and word vectors."""
