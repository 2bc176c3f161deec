"""Which words there are: dictionaries, the extended ids of a batch, the candidates of a softmax, word vectors."""
