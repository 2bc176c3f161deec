"""Model folders, which contain all files that are needed for summarisation. Loading them does not run any code.

config.json          architecture, options, lengths, text processing and decoding defaults; see ``config.py``
model.safetensors    the weights; tied weights are stored once
dict.source.txt, dict.target.txt   the words that the model knows, in the format of fairseq
codes.bpe, sentencepiece.model …   the subword model, if there is one
shortlist.safetensors   the words associated with each document word, if the folder decodes with a shortlist
factors.json, dict.factor-NAME.txt, idf.txt   if the model reads source factors
extractor/           if the model reads long documents: the model folder of the sentence extractor, picking.json, and
                     content.npz if a content model chooses the sentences of summaries
README.md            the model card
SHA256SUMS           checksums of all files except README.md, see ``text/checksums.py``
"""
