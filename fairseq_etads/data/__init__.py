"""Load training data: pairs of a document and a summary, and the factors of the words in the documents."""
