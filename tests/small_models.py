"""Small models of every preset, their criterions, and a batch of pairs with labels, factors and copied words."""

import copy
import functools
from dataclasses import fields

import convolutional
import language_models
import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from helpers import RECURRENT, SMALL, model_config
from omegaconf import OmegaConf, open_dict
from recurrent import EXTRACTOR, MARK, recurrent_task

from fairseq_etads.data.pairs import SentenceTargets, SummarizationDataset, TokenValues
from fairseq_etads.models import rnn, selector, transformer_options
from fairseq_etads.systems import abs as abs_system
from fairseq_etads.systems import convs2s
from fairseq_etads.systems.rewriting import model as rewriting

DOCUMENTS = [[5, 6, MARK, 7, 45, 9, 10, MARK, 46, 5], [8], [4, 47, 5, MARK, 8, 8, MARK], [], [21, 50, MARK, 22, 30]]
SUMMARIES = [[5, 45, MARK, 7], [8, 9, 11], [47], [10, 6, MARK, 52], []]
"""Ids 4 to 42 are known words, 43 is the sentence mark, 44 to 52 can only be copied."""
TAGGERS = {
    "word_tagger": {"encoder_embed_dim": 6, "letter_dim": 3, "letter_filters": 5, "encoder_hidden_size": 4},
    "sentence_extractor": {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "max_sentences": 3},
    "pooled_extractor": {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "sentence_place_dim": 3},
    "pointer_extractor": {
        **{"encoder_embed_dim": 6, "sentence_filters": 3, "encoder_hidden_size": 4, "decoder_hidden_size": 5}
    },
}
FAMILIES = {
    "transformers": transformer_options.PRESETS,
    "recurrent": rnn.PRESETS,
    "convolutions": convs2s.PRESETS,
    "language models": abs_system.PRESETS,
    "selectors": {**selector.PRESETS, **rewriting.PRESETS},
}


def sizes_of(arch):
    """Options that make a preset small and free of noise, with all its mechanisms."""
    if arch in TAGGERS:
        return {**TAGGERS[arch], "dropout": 0.0, "letter_dropout": 0.0}
    if arch in rnn.PRESETS:
        preset, small = rnn.PRESETS[arch], {"large_vocabulary_trick": 25, "encoder_projection": 11, "readout_dim": 16}
        sizes = {**RECURRENT, **{option: size for option, size in small.items() if preset.get(option)}}
        if preset.get("sentence_attention") == "extractor":
            sizes.update(EXTRACTOR)
        return {**sizes, "dropout": 0.0}
    if arch in convs2s.PRESETS:
        return convolutional.SIZES
    if arch in abs_system.PRESETS:
        return language_models.SIZES
    return {**SMALL, "encoder_embed_dim": 16, "attention_dropout": 0.0, "activation_dropout": 0.0}


@functools.cache
def _config_of_criterion(name):
    values = {option.name: option.default for option in fields(CRITERION_DATACLASS_REGISTRY[name])}
    for reference, value in (("sentence_avg", False), ("ddp_backend", "legacy_ddp")):  # to options of fairseq-train
        if reference in values:
            values[reference] = value
    plain = {key: value for key, value in values.items() if isinstance(value, (int, float, str, type(None)))}
    return OmegaConf.create({**plain, "_name": name})


def options_of_criterion(name, **options):
    """The options of a criterion, with their defaults."""
    return OmegaConf.merge(_config_of_criterion(name), options)


def model_options(arch, model):
    """The options of a small model, some of them changed."""
    options = copy.deepcopy(model_config(arch, **sizes_of(arch)))
    with open_dict(options):
        for name, value in model.items():
            options[name] = value
    return options


def build(arch, model, seed=1, **task_options):
    """A task, and a model in float64 with random weights."""
    task = recurrent_task(**task_options)
    torch.manual_seed(seed)
    built = task.build_model(model_options(arch, model)).double()
    with torch.no_grad():  # also zeros, such as the vectors of padding, which tied tables train
        for parameter in built.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, dtype=torch.float64))
    return task, built


class Numbers(TokenValues):
    """A number for each word of each document: whether its id is odd."""

    def __init__(self, by_sentence):
        self.by_sentence = by_sentence

    def __getitem__(self, number):
        found, sentence = [], 0
        for token in DOCUMENTS[number]:
            value = sentence % 2 if self.by_sentence else token % 2
            found.append(-1.0 if token == MARK else float(value))
            sentence += token == MARK
        return torch.tensor([*found, -1.0])


class Order:
    """Sentences of each document in the order of its summary, or candidates of an extractor."""

    steps = ((2, 0, 1), (0,), (1, 0), (), (1,))

    def collate(self, tokens, numbers, pad):
        width = max(1, *(len(self.steps[number]) for number in numbers), 0)
        return torch.tensor([[*self.steps[n], *[-1] * (width - len(self.steps[n]))] for n in numbers])


class Targets(SentenceTargets):
    """A distribution over the sentences of the document for each sentence of the summary with words."""

    def __init__(self):
        pass

    def __getitem__(self, number):
        sentences = "".join(" |"[word == MARK] for word in SUMMARIES[number]).split("|")
        rows = sum(1 for sentence in sentences if sentence)
        columns = DOCUMENTS[number].count(MARK) + 1
        return torch.arange(1.0, rows * columns + 1).view(rows, columns).softmax(dim=1)


def batch(task, model, numbers, left=(False, False), more=(0, 0)):
    """Collate the pairs with these numbers like the task's dataset, padded on the left or not, with more columns."""
    eos = task.src_dict.eos()
    documents, targets = ([torch.tensor([*text, eos]) for text in texts] for texts in (DOCUMENTS, SUMMARIES))
    names = getattr(model, "factors", ())
    pairs = SummarizationDataset(
        documents,
        [len(text) for text in documents],
        task.src_dict,
        targets,
        [len(text) for text in targets],
        task.tgt_dict,
        truncate_source=400,
        truncate_target=100,
        left_pad_source=left[0],
        left_pad_target=left[1],
        shuffle=False,
        factors={
            name: [torch.cat([(text[:-1] + place) % 5 + 4, text[-1:]]) for text in documents]
            for place, name in enumerate(names)
        },
    )
    if getattr(model, "labels_in_order", False):
        labels = Order()
    else:
        labels = Numbers(by_sentence=getattr(model, "training_label_type", "sentences") == "sentences")
    pairs.token_values = {"labels": labels, "sentence_targets": Targets()}
    lengths = [max(len(texts[n]) for n in numbers) for texts in (documents, targets)]
    pad_to = {"source": lengths[0] + more[0], "target": lengths[1] + more[1]}
    return pairs.collater([pairs[number] for number in numbers], pad_to_length=pad_to)
