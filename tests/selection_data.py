"""Texts of a test: binarised without a command, and of content models."""

import numpy as np
import torch
from fairseq.data import Dictionary, indexed_dataset

from fairseq_etads.search.content_model import WIDTHS, ContentModel, FeatureNetwork, NgramPriorProbabilities


def dictionary_of(texts, tail=()):
    """Words in order of first occurrence; words of ``tail`` can only be copied."""
    words = list(dict.fromkeys(word for text in texts for word in text.split() if word not in tail))
    dictionary = Dictionary()
    for number, word in enumerate(words):
        dictionary.add_symbol(word, n=len(words) - number)
    for word in tail:
        dictionary.add_symbol(word, n=0)
    return dictionary


def names_of_scores(scores):
    """Weights of NovelSentences by the names of reference.novel_sentences."""
    return {
        **{"W_u": scores.sentence.weight, "b_u": scores.sentence.bias, "W_d": scores.document.weight},
        **{"b_d": scores.document.bias, "w_c": scores.content.weight[0], "b": scores.content.bias[0]},
        **{"W_s": scores.salience.weight, "W_r": scores.novelty.weight},
    }


def names_of_extractor(extractor):
    """Weights of a SentenceExtractor by the names of reference.sentence_extractor."""
    found = {"E": extractor.embed_tokens.weight, **names_of_scores(extractor.scores)}
    for name, network in (("words", extractor.words.rnn), ("sentences", extractor.sentences.rnn)):
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        found[name] = [[getattr(network, f"{n}_l0{end}") for n in names] for end in ("", "_reverse")]
    return found


def write_ids(folder, split, side, texts):
    """Write texts of word numbers as one side of a split."""
    prefix = f"{folder}/{split}.source-target.{side}"
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=100)
    for ids in texts:
        builder.add_item(torch.tensor([*ids, 2]))
    builder.finalize(f"{prefix}.idx")


def write_subset(folder, split, documents, summaries):
    write_ids(folder, split, "source", documents)
    write_ids(folder, split, "target", summaries)


def write_data(folder, splits, tail=(), dictionary=None):
    """Write data like fairseq-preprocess; ``splits`` are name -> pairs of a document and a summary (None: it has
    none).
    """
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [pair for split in splits.values() for pair in split]
    dictionary = dictionary or dictionary_of([text for pair in pairs for text in pair if text is not None], tail)
    for side in ("source", "target"):
        dictionary.save(str(folder / f"dict.{side}.txt"))
    for split, texts in splits.items():
        for side, column in (("source", 0), ("target", 1)):
            if any(pair[column] is None for pair in texts):
                continue
            write_ids(folder, split, side, [[dictionary.index(w) for w in pair[column].split()] for pair in texts])
    return dictionary


def random_networks(seed):
    """Small networks of a content model with random weights."""
    numbers = np.random.RandomState(seed)
    networks = {}
    for order, width in WIDTHS.items():
        layers = tuple(
            (numbers.randn(rows, columns).astype("float32"), numbers.randn(rows).astype("float32"))
            for rows, columns in ((4, width), (3, 4), (1, 3))
        )
        networks[order] = FeatureNetwork(numbers.randn(width), 1 + numbers.rand(width), layers)
    return networks


def made_text(r, sentences, kinds=9):
    """Random sentences of random words."""
    return [[f"w{r.randint(0, kinds)}" for _ in range(r.randint(3, 7))] for _ in range(sentences)]


def content_model(path, length=12.0, of_extractor=True):
    """Write a content model with networks of random weights."""
    pairs = [([["w1", "w2", "w3"], ["w4", "w5"]], [["w1", "w2"]]) for _ in range(9)]
    ContentModel(NgramPriorProbabilities.from_pairs(iter(pairs)), random_networks(4), length, of_extractor).save(path)
    return path
