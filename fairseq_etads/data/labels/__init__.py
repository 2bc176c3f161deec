"""Labels of the words or sentences of a document that its summary uses, made from references; and their files."""
