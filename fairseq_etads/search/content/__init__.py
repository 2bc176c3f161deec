"""Predict the words and bigrams of a summary, and choose the sentences with the highest expected ROUGE."""
