"""Training data: pairs of document and summary, and the factors of the documents' words."""
