"""Labels of the words or sentences of a document that its reference summary uses, and files of labels."""
