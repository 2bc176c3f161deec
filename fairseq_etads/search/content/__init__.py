"""Predict the words and bigrams of a summary, and choose sentences by their expected ROUGE."""
