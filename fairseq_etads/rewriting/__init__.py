"""Summaries by taking sentences of a document and rewriting them one by one (Chen and Bansal 2018)."""
