"""Small tokenisers of Hugging Face's library, trained on a few lines."""

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

KINDS = ("bytes", "wordpiece", "unigram")


def train_tokenizer(path, kind, lines, size=400):
    """Write tokenizer.json of a kind in KINDS that cuts and pads texts, as the files of many models do."""
    options = {"vocab_size": size, "show_progress": False}
    if kind == "bytes":  # as for GPT-2 and RoBERTa
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, **options)
    elif kind == "wordpiece":  # as for BERT
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(special_tokens=["[UNK]", "[PAD]"], **options)
    else:  # as for T5
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        special = ["<unk>", "<pad>", "</s>"]
        trainer = trainers.UnigramTrainer(special_tokens=special, unk_token="<unk>", **options)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(path))
    return path
