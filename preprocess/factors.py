"""Compute word factors for feature-rich encoders: POS tags, entities, TF and IDF bins (Nallapati et al. 2016, 2.2).

The text file OUT/factors/SPLIT.NAME contains one value for each token in OUT/tokens/SPLIT.source. Each subword receives
the value of its word. These text files are converted to the following files:

    OUT/bin/factors.json                    {"factors": ["pos", "ner", "tf", "idf"]}: names of the factors, in order
    OUT/bin/dict.factor-NAME.txt            fairseq dictionary of the values
    OUT/bin/SPLIT.factor-NAME.bin, .idx     ids of the values and the end symbol, in fairseq's indexed format

The paper does not specify how TF and IDF are binned. Here, *tf* is the number of times that the word occurs in the
document (1, 2, ...), and the last bin also contains all larger counts. *idf* is ln((1 + D) / (1 + df)), where D is the
number of training documents and df is the number of training documents that contain the word. The bins of *idf* have
equal widths and range from 0 to ln(1 + D), the value for a word that does not occur in the training documents.
*salience* is the salience level of the sentence that contains the word, as written by etads-shorten. The value of each
factor for a sentence mark is the mark itself.
"""

import contextlib
import dataclasses
import json
import math
import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from tqdm import tqdm

from fairseq_etads.data.labels import SALIENCE
from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files import ORIGINAL
from fairseq_etads.files.inputs import read_lines, zip_lines
from fairseq_etads.files.outputs import copy_file, open_output, write_text
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.subwords import join_words
from fairseq_etads.text.words import SENTENCE_MARK

from . import encode

TAGS = ("pos", "ner")
"""Factors that consist of word tags, which are read from a file or predicted by spaCy."""

Item = Tuple[str, str, str, Dict[str, str]]
"""A document's location, tokens, raw line, and lines of the files of :func:`find_tag_files`."""


def compute_idf_bin(df: int, documents: int, bins: int) -> int:
    """Compute the idf bin of a word, from 0 (in all documents) to ``bins - 1``, as the module docstring defines it."""
    return min(bins - 1, int(bins * math.log((1 + documents) / (1 + df)) / math.log(1 + documents)))


class SpacyTagger:
    """Tagger that uses an installed spaCy pipeline. Raises InputError if spaCy or the model is not installed."""

    def __init__(self, model: str):
        try:
            import spacy
        except ImportError:
            raise InputError(f"--spacy-model {model}: spaCy is missing: pip install spacy") from None
        try:
            self.pipeline = spacy.load(model, disable=["parser", "lemmatizer"])
        except OSError:
            how = f"python -m spacy download {model}, or name a folder that contains one"
            raise InputError(f"--spacy-model {model}: no such model is installed: {how}") from None

    def tag_words(self, words: List[str], starts: List[bool]) -> Dict[str, List[str]]:
        """Return the tags of the words for each of TAGS. ``starts`` tells which words begin sentences, or is empty."""
        from spacy.tokens import Doc

        document = self.pipeline(Doc(self.pipeline.vocab, words=words, sent_starts=starts or None))
        return {
            "pos": [token.tag_ or token.pos_ or "X" for token in document],
            "ner": [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in document],
        }


class FactorComputer:
    """Computes the factors of the tokens in a line. ``idf`` has the idf bin of each word in the training documents."""

    def __init__(self, settings: PreparationSettings, out: Path, idf: Dict[str, str]):
        self.settings, self.idf = settings, idf
        self.tagger = SpacyTagger(settings.spacy_model) if settings.spacy_model else None
        # The tagger requires words in their original case.
        cased = dataclasses.replace(settings, lowercase=False) if self.tagger else settings
        self.tokenizer = encode.build_tokenizer(cased, out, "source")
        self.encode_subwords: Optional[Callable[[str], str]] = None
        if {*TAGS, SALIENCE}.intersection(settings.factors) and (
            settings.is_sentencepiece or (self.tagger and settings.tokens == "bpe")
        ):
            self.encode_subwords = encode.build_encoder(settings, out, encode.TO_SUBWORDS, "source")

    def __call__(self, item: Item) -> List[str]:
        """Return a line of one value per token for each factor. Raises InputError if tags do not match the words."""
        where, tokens, raw, tags = item
        words, numbers = join_words(tokens.split(), self.settings.subwords)
        tagged = self._compute_spacy_tags(self.tagger, words, tags.get(ORIGINAL) or raw) if self.tagger else {}
        lines = []
        for name in self.settings.factors:
            if name == "tf":
                counts = Counter(words)
                values = [str(min(counts[word], self.settings.tf_bins)) for word in words]
            elif name == "idf":
                values = [self.idf.get(word, str(self.settings.idf_bins - 1)) for word in words]
            elif name in tagged:
                values = tagged[name]
            else:
                what = "sentences" if name == SALIENCE else "words"
                values = self._assign_values_to_words(f"{where} ({name})", raw, tags[name].split(), len(words), what)
            values = [SENTENCE_MARK if word == SENTENCE_MARK else value for word, value in zip(words, values)]
            lines.append(" ".join(values[number] for number in numbers))
        return lines

    def _compute_spacy_tags(self, tagger: SpacyTagger, words: List[str], raw: str) -> Dict[str, List[str]]:
        """Return the tags of the words for each name in TAGS."""
        # The words as the raw line spells them, in its case and with its digits.
        spelt = self._split_into_words(self.tokenizer.encode(raw))
        if [word == SENTENCE_MARK for word in spelt] != [word == SENTENCE_MARK for word in words]:
            spelt = words
        places = [place for place, word in enumerate(words) if word != SENTENCE_MARK]
        starts = [place == 0 or words[place - 1] == SENTENCE_MARK for place in places] if SENTENCE_MARK in words else []
        values = {name: [SENTENCE_MARK] * len(words) for name in TAGS}
        for name, tags in tagger.tag_words([spelt[place] for place in places], starts).items() if places else ():
            for place, tag in zip(places, tags):
                values[name][place] = tag
        return values

    def _split_into_words(self, line: str) -> List[str]:
        pieces = self.encode_subwords(line) if self.encode_subwords else line
        return join_words(pieces.split(), self.settings.subwords)[0]

    def _assign_values_to_words(self, where: str, raw: str, given: List[str], expected: int, what: str) -> List[str]:
        """Return the value of each tokenised word, given values of the raw "words" or "sentences" (``what``)."""
        sentences = self.tokenizer.tokenize_sentences(raw)
        parts = [[" ".join(sentence)] if what == "sentences" else sentence for sentence in sentences]
        given = [value for value in given if value != SENTENCE_MARK]
        if sum(map(len, parts)) != len(given):
            raise InputError(f"{where}: {len(given)} values for {sum(map(len, parts))} {what}; one for each is needed")
        values: List[str] = []
        remaining = iter(given)
        for number, part in enumerate(parts):
            values += [SENTENCE_MARK] * (number > 0 and self.settings.source_marks)
            for text in part:
                values += [next(remaining)] * len(self._split_into_words(text))
        if len(values) != expected:
            raise InputError(f"{where}: {len(values)} words but {expected} after subword segmentation")
        return values


def find_tag_files(work: encode.Preparation, split: str) -> Dict[str, Path]:
    """Return the paths of the factors read from files, and ORIGINAL for spaCy. Raises InputError if one is missing."""
    tagger, files = work.settings.spacy_model, {}
    for name in work.settings.factors:
        if name == SALIENCE or (name in TAGS and not tagger):
            files[name] = work.text / f"{split}.source.{name}"
            if not files[name].is_file():
                how = f"with a tag for each word of {split}.source; or give --spacy-model"
                how = "which etads-shorten writes" if name == SALIENCE else how
                raise InputError(f"--factors {name}: no {files[name]}, {how}")
    original = work.text / f"{split}.source.{ORIGINAL}"
    return {**files, ORIGINAL: original} if tagger and original.is_file() else files


def write_factors(work: encode.Preparation) -> None:
    """Write the files that the module docstring lists. Raises InputError if tags do not fit, or spaCy is missing."""
    names, out = work.settings.factors, work.out
    arguments = (work.settings, out, _write_idf_bins(work) if "idf" in names else {})
    for split in work.splits:
        files = find_tag_files(work, split)
        paths = [out / "tokens" / f"{split}.source", work.text / f"{split}.source", *files.values()]
        rows = enumerate(zip_lines(paths, map(read_lines, paths)), 1)
        items = ((f"{split}.source, line {n}", *row[:2], dict(zip(files, row[2:]))) for n, row in rows)
        with contextlib.ExitStack() as stack:
            opened = [stack.enter_context(open_output(out / "factors" / f"{split}.{name}")) for name in names]
            for lines in encode.map_in_order(FactorComputer, arguments, items, work.jobs, encode.TOKENIZER_MODULES):
                for file, line in zip(opened, lines):
                    file.write(line + "\n")
    for name in names:
        encode.run_in_separate_process(_binarise_factor, work, name)
    write_text(out / "bin" / "factors.json", json.dumps({"factors": list(names)}) + "\n")


def _write_idf_bins(work: encode.Preparation) -> Dict[str, str]:
    """Write the idf bin of each word in the training documents to OUT/factors/idf.txt, and return the bins."""
    path = work.out / "factors" / "idf.txt"
    if work.like:
        copy_file(work.like / "factors" / "idf.txt", path)
    else:
        documents = 0
        counts: Counter = Counter()
        train = read_lines(work.out / "tokens" / "train.source")
        for line in tqdm(train, desc="document frequencies", unit=" lines", disable=None):
            documents += 1
            counts.update(set(join_words(line.split(), work.settings.subwords)[0]))
        with open_output(path) as file:
            for word, df in sorted(counts.items()):
                file.write(f"{word} {compute_idf_bin(df, documents, work.settings.idf_bins)}\n")
    return dict(line.rsplit(" ", 1) for line in read_lines(path))


def _binarise_factor(work: encode.Preparation, name: str) -> None:
    """Write the dictionary of a factor, and the ids of the factor values."""
    multiprocessing.set_start_method("fork", force=True)  # as explained in prepare.py
    from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
    from fairseq.data import Dictionary

    from .dictionary import count_words

    texts, binary = work.out / "factors", work.out / "bin"
    path = binary / f"dict.factor-{name}.txt"
    if work.like:
        copy_file(work.like / "bin" / path.name, path)
    else:
        values = count_words([texts / f"train.{name}"], work.jobs)
        values.finalize(padding_factor=1)
        values.save(str(path))
    dictionary = Dictionary.load(str(path))
    binarizer = VocabularyDatasetBinarizer(dictionary, append_eos=True)
    for split in work.splits:
        file, prefix = str(texts / f"{split}.{name}"), str(binary / f"{split}.factor-{name}")
        FileBinarizer.multiprocess_dataset(file, "mmap", binarizer, prefix, len(dictionary), num_workers=work.jobs)
