"""Load training data: pairs of a document and a summary, and the source factors of the documents."""
