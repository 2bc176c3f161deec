"""The command ``etads-content`` (train): train a model that predicts the words and bigrams in summaries."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from ..data.labels import SelectionFile, make_label_file_name
from ..data.preparation import WordText, list_summary_sentences
from ..data.run_record import find_prepared_folder, list_checkpoints
from ..platform.command_options import SIZE, argument, option, options_command
from ..platform.errors import InputError
from ..search.content_model import (
    DOCUMENTS,
    FILE,
    MOST_COUNTED,
    WIDTHS,
    ContentModel,
    FeatureNetwork,
    NgramPriorProbabilities,
    make_feature_tables,
)
from ..text.subwords import OPAQUE
from .shared_options import get_binarised_folder, open_split, prepared_option


@dataclass
class ContentOptions:
    """Options of ``etads-content``."""

    run: Path = argument(
        "RUN",
        "run folder created by etads-train, or an extractor's run folder, such as OUT/extractor of etads-train --long",
    )
    prepared: Optional[Path] = prepared_option("the data used for training, or RUN/prepared")
    documents: int = option(
        DOCUMENTS,
        "number of training documents from which features are computed (default: %(default)s); word and bigram "
        "counts always come from all documents",
        bounds=SIZE,
    )
    seed: int = option(1, "random seed")


HIDDEN = 32
"""Number of units in each of the two hidden layers."""
BATCH, RATE, EPOCHS = 2048, 3e-3, 2
"""Number of examples per step, initial learning rate of Adam (which decays to 0), and number of epochs."""
LEAST_STEPS = 400
"""Minimum number of steps. The batches are smaller if there are too few examples."""
MOST_LEARNT = 10_000_000
"""Number of training examples after which no more documents are read. They require about 2.5 GB of memory."""


class StemmedPair(NamedTuple):
    """A pair for training: word stems of each sentence, and the probability of each document sentence."""

    document: List[List[str]]
    probabilities: List[float]
    summary: List[List[str]]


class StemmedSplit:
    """The training pairs as word stems, with the probabilities of the document sentences.

    ``run`` belongs to a summariser, which reads ``limit`` tokens of each document, or to an extractor (``limit`` None),
    for which etads-select has computed probabilities. ``folder`` contains its binarised data.
    """

    def __init__(self, run: Path, folder: Path, limit: Optional[int]):
        self.pairs = open_split(folder, "train")
        self._subwords = self.pairs.subwords
        if self._subwords in OPAQUE:
            kind = OPAQUE[self._subwords]
            raise InputError(f"RUN: its data consists of {kind}, which this command cannot join into words")
        self._limit = limit
        self._file = None
        if limit is None:
            self.pairs.check_sentence_marks("RUN/prepared")
            self._file = SelectionFile(run / make_label_file_name("probabilities", "sentences", "train"), "RUN")

    def __len__(self) -> int:
        return len(self.pairs) if self._file is None else min(len(self.pairs), len(self._file))

    def __getitem__(self, number: int) -> StemmedPair:
        from ..search.sentence_choosing import (
            make_positional_sentence_probabilities,
            pad_probabilities,
            split_sentences,
            stem_words,
        )

        tokens = self.pairs.read_document(number)
        text = WordText.from_tokens(tokens, self._subwords, self._limit)
        if self._file is None:
            document = split_sentences(text.words)
            probabilities = make_positional_sentence_probabilities(len(document))
        else:
            document = text.split_sentences()
            # Sentences that the extractor did not read have no probability.
            known = [value or 0.0 for value in self._file.read_probabilities(number, tokens)]
            probabilities = pad_probabilities(known, len(document))
        summary = self.pairs.read_summary(number) if self.pairs.has_summaries else []
        sentences = list_summary_sentences(summary, self._subwords)
        return StemmedPair([*map(stem_words, document)], probabilities, [*map(stem_words, sentences)])


def read_document_limit(run: Path) -> Optional[int]:
    """Return the number of tokens that a summariser reads from each document, or None for the run of an extractor."""
    if (run / make_label_file_name("probabilities", "sentences", "train")).is_file():
        return None
    path = next(iter(list_checkpoints(run)), None)
    if path is None:
        raise InputError(f"RUN {run}: it has neither probabilities from etads-select nor checkpoints of a summariser")
    from fairseq import checkpoint_utils  # importing fairseq registers the plugin, which makes loading safe

    state = checkpoint_utils.load_checkpoint_to_cpu(str(path)).get("task_state", {})
    return int(state.get("truncate_source", 1024))


def train_content_model(run: Path, folder: Path, documents: int, seed: int) -> str:
    """Train a content model, write it to the run folder, and return a message about it.

    The priors are computed from all documents in the folder of binarised data, the networks from ``documents`` of them.
    """
    limit = read_document_limit(run)
    texts = StemmedSplit(run, folder, limit)
    lengths: List[int] = []

    def read_pairs() -> Iterator[Tuple[List[List[str]], List[List[str]]]]:
        for number in tqdm(range(len(texts)), desc="counting words and bigrams", unit=" documents", disable=None):
            pair = texts[number]
            lengths.append(sum(map(len, pair.summary)))
            yield pair.document, pair.summary

    priors = NgramPriorProbabilities.from_pairs(read_pairs())
    random = np.random.RandomState(seed)
    chosen = random.permutation(len(texts))[:documents]
    found: Dict[int, List[np.ndarray]] = {order: [np.zeros((0, WIDTHS[order]))] for order in MOST_COUNTED}
    labels: Dict[int, List[bool]] = {order: [] for order in MOST_COUNTED}
    taken = 0
    for number in tqdm(chosen.tolist(), desc="computing features", unit=" documents", disable=None):
        if sum(map(len, labels.values())) >= MOST_LEARNT:
            break
        taken += 1
        pair = texts[number]
        if any(pair.document) and any(pair.summary):
            tables = make_feature_tables(pair.document, pair.probabilities, priors, pair.summary, held_out=True)
            for order, table in tables.items():
                found[order].append(table.features)
                labels[order].extend(table.labels)
    if not labels[1]:
        raise InputError("DATA: no pair has a word in its document and in its summary, so there is nothing to learn")
    networks = {o: fit_feature_network(np.concatenate(found[o]), labels[o], seed) for o in MOST_COUNTED}
    model = ContentModel(priors, networks, sum(lengths) / max(len(texts), 1), limit is None)
    model.save(run / FILE)
    kept = len(model.get_stored_counts())
    return f"{run / FILE}: {kept:,} words and bigrams from {len(texts):,} pairs, networks trained on {taken:,}"


def fit_feature_network(features: np.ndarray, labels: Sequence[bool], seed: int) -> FeatureNetwork:
    """Train a network on examples (n, features) and labels with Adam, minimising the binary cross-entropy."""
    import torch
    from torch import nn

    x, y = torch.from_numpy(features.astype(np.float32)), torch.tensor(labels, dtype=torch.float32)
    mean = x.mean(0) if len(x) else x.new_zeros(x.size(1))
    deviation = (x.std(0) if len(x) > 1 else x.new_zeros(x.size(1))) + 1e-3
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers = [nn.Linear(x.size(1), HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, 1)]
        network = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
        x = (x - mean) / deviation
        batch = min(BATCH, max(EPOCHS * len(x) // LEAST_STEPS, 1))
        steps = EPOCHS * -(-len(x) // batch)
        optimizer = torch.optim.Adam(network.parameters(), RATE)
        decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / max(steps, 1))
        for _ in range(EPOCHS if len(x) else 0):
            for rows in torch.randperm(len(x)).split(batch):
                loss = nn.functional.binary_cross_entropy_with_logits(network(x[rows])[:, 0], y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                decay.step()
    weights = tuple((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers)
    return FeatureNetwork(mean.numpy(), deviation.numpy(), weights)


@options_command(
    "etads-content",
    ContentOptions,
    ValueError,
    description="Train a content model and write it to RUN/content.npz. A content model predicts the probability "
    "that a summary contains a given word or bigram of its document. During decoding, it chooses among the "
    "hypotheses in the beam or, with an extractor, chooses the sentences of a summary. If RUN is the run folder "
    "of an extractor, run etads-select on the train split first.",
    epilog="""\
examples:
  etads-content runs/mine
  etads-summarize runs/mine --split test --output summaries.txt
  etads-content runs/long/extractor
  etads-extract runs/long/extractor/prepared extract.txt --by content --selection runs/long/extractor
  etads-summarize runs/long --split test --output summaries.txt --content runs/long/extractor

  See etads docs decoding and etads docs long for descriptions of the model.""",
)
def main(args: ContentOptions) -> None:
    """Run the command ``etads-content``."""
    folder = get_binarised_folder(find_prepared_folder(args.run, args.prepared))
    print(train_content_model(args.run, folder, args.documents, args.seed))
