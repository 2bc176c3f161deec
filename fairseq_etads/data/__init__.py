"""Loading of training data: document-summary pairs, and source factors of the documents."""
