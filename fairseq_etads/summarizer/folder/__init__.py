"""A model folder: everything needed for summarising, in readable files that run no code when they are loaded.

config.json          architecture and options, lengths, text processing, defaults of decoding; see ``config.py``
model.safetensors    the weights, tied ones once
dict.source.txt, dict.target.txt   the words that the model knows, in fairseq's format
codes.bpe, sentencepiece.model …   the subword model, if there is one
shortlist.safetensors   words that go with words of documents, of a folder that decodes with a shortlist
factors.json, dict.factor-NAME.txt, idf.txt   of a model that reads source factors
extractor/           of a model that reads long documents: the model folder of the sentence extractor, picking.json, and
                     content.npz if a content model chooses the sentences of summaries
README.md            the model card
SHA256SUMS           checksums of all but README.md, see ``text/checksums.py``
"""
