"""Model folders, which contain all files needed for summarisation. Loading one does not run any code from it.

config.json          architecture, options, lengths, text processing and decoding defaults; see ``config.py``
model.safetensors    the weights, in which tied weights are stored only once
dict.source.txt, dict.target.txt   the source and target vocabularies as fairseq dictionaries
codes.bpe, sentencepiece.model …   the subword model, if the model uses subwords
shortlist.safetensors   the summary words that are associated with each document word, if there is a shortlist
factors.json, dict.factor-NAME.txt, idf.txt   the source factors, if the model reads any
content.npz          the content model that chooses between hypotheses, if there is one
extractor/           the sentence extractor's own model folder with picking.json, if the model reads long documents. It
                     also contains content.npz, if a content model can choose the sentences of summaries
README.md            the model card
SHA256SUMS           the checksums of all files except README.md (see ``files/checksums.py``)
"""
