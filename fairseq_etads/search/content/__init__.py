"""Predict the words and bigrams of a summary, and choose the sentences with the highest expected ROUGE."""

FILE = "content.npz"  # in the folder of a training run, or in a model folder
