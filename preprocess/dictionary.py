"""Build dictionaries with a copy tail, i.e. with words that the model can copy but does not learn.

A word in the copy tail has a count of 0. The known words before it are padded to a multiple of 8 entries.
"""

from pathlib import Path
from typing import Iterable, List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line

from fairseq_etads.files import SIDES
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.outputs import open_output
from fairseq_etads.platform.errors import InputError
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, is_padding_word, load_checked_dictionary

from .encode import Preparation


def count_words(files: List[Path], jobs: int) -> Dictionary:
    """Count the words between white space in text files. Raises InputError for files that are missing or not UTF-8."""
    counts = Dictionary()
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
        for _ in read_lines(path):  # detects invalid UTF-8, for which fairseq would not report the position
            pass
        Dictionary.add_file_to_dictionary(str(path), counts, tokenize_line, jobs)
    return counts


def append_copy_tail(dictionary: Dictionary, words: Iterable[str]) -> None:
    """Append the words that a dictionary lacks in alphabetical order, except padding words, which count as known."""
    for word in sorted({*words}.difference(dictionary.symbols)):
        if not is_padding_word(word):
            dictionary.add_symbol(word, n=0)


def build_dictionary(train: List[Path], documents: List[Path], size: int, jobs: int, tail: bool = True) -> Dictionary:
    """Build a dictionary of the words to learn, in order of decreasing frequency, followed by the copy tail.

    These are the ``size`` most frequent words of the ``train`` files besides special symbols (-1: all). The copy tail,
    if wanted, also contains the words of the ``documents``.
    """
    dictionary = count_words(train, jobs)
    seen = {*dictionary.symbols, *count_words(documents, jobs).symbols}
    dictionary.finalize(nwords=size + dictionary.nspecial if size > 0 else -1)
    append_copy_tail(dictionary, seen if tail else ())
    return dictionary


def extend_dictionary(path: Path, texts: List[Path], jobs: int) -> Dictionary:
    """Read a pretrained model's dictionary, and append a copy tail that contains all other words in the texts.

    The given words keep their order, and the model learns all of them: a count of 0, which would mark the copy tail,
    becomes 1. Raises InputError if the file at ``path`` is not a dictionary.
    """
    try:
        given = load_checked_dictionary(Dictionary.load, str(path))
    except ValueError as error:
        raise InputError(f"--dictionary {error}") from None
    dictionary = Dictionary()
    for word, count in zip(given.symbols[given.nspecial :], given.count[given.nspecial :]):
        dictionary.add_symbol(word, n=max(count, 1))
    append_copy_tail(dictionary, count_words(texts, jobs).symbols)
    return dictionary


def build_bounded_dictionaries(
    train: List[Path], summaries: List[Path], documents: List[Path], size: int, target_size: int, jobs: int
) -> Tuple[Dictionary, Dictionary]:
    """Build source and target dictionaries with the same ids but different vocabulary sizes.

    Both dictionaries contain three groups of words: the ``target_size`` most frequent words in the summaries, which the
    model can generate, the most frequent other words in the training files, up to ``size`` in total (-1: all), and the
    copy tail, with all words of the ``documents``. In the target dictionary, words in the second group have a count of
    0 and therefore belong to the copy tail. Each of the first two groups is padded to end at a multiple of 8 entries.
    """
    read, target = count_words(train, jobs), count_words(summaries, jobs)
    seen = {*read.symbols, *target.symbols, *count_words(documents, jobs).symbols}
    generated = min(target_size, len(target) - target.nspecial)
    target.finalize(nwords=generated + target.nspecial)
    counts = dict(zip(read.symbols, read.count))
    others = [word for word in counts if word not in target.indices and not is_padding_word(word)]
    others.sort(key=lambda word: (-counts[word], word))

    source = Dictionary()
    for word, count in zip(target.symbols[target.nspecial :], target.count[target.nspecial :]):
        source.add_symbol(word, n=count + counts.get(word, 0))
    for word in others[: size - generated] if size > 0 else others:
        source.add_symbol(word, n=counts[word])
    source.pad_to_multiple_(8)
    append_copy_tail(source, seen)
    for word in source.symbols[len(target) :]:
        target.add_symbol(word, n=0)
    return source, target


def write_dictionary(dictionary: Dictionary, path: Path) -> None:
    """Write a dictionary in fairseq's format. An incomplete file never has its final name."""
    with open_output(path) as file:
        dictionary.save(file)


def make_dictionaries(work: Preparation, like: Optional[Path], given: Optional[Path]) -> List[str]:
    """Write the joined dictionary for tokens/, or one for each side, to the current folder, and return their names.

    They are built from the training text, or extend the dictionaries of prepared data ``like`` or the ``given`` one.
    """
    settings, jobs = work.settings, work.jobs
    size = settings.size if settings.tokens == "word" else -1
    texts = {split: Path("tokens", f"{split}.source") for split in work.splits}
    documents = [path for split, path in texts.items() if split != "train"]
    source, target = (Path("tokens", f"train.{side}") for side in SIDES)
    if like:
        dictionaries = _extend_dictionaries(like, [*texts.values()])
    elif settings.separate:
        # Only the source dictionary requires a copy tail. If the model generates <unk>, it can be replaced with a word
        # from the tail.
        dictionaries = [
            build_dictionary([source], documents, settings.source_size or size, jobs),
            build_dictionary([target], [], settings.target_size or size, jobs, tail=False),
        ]
    elif settings.target_size:
        dictionaries = [*build_bounded_dictionaries([source], [target], documents, size, settings.target_size, jobs)]
    elif given:
        dictionaries = [extend_dictionary(given, [source, target, *documents], jobs)]
    else:
        dictionaries = [build_dictionary([source, target], documents, size, jobs)]
    names = [f"dict.{side}.txt" for side in SIDES] if len(dictionaries) > 1 else ["dict.txt"]
    for dictionary, name in zip(dictionaries, names):
        write_dictionary(dictionary, Path(name))
    return names


def _extend_dictionaries(like: Path, documents: List[Path]) -> List[Dictionary]:
    """Extend the dictionary or dictionaries in ``like`` with new words from the documents."""
    names = [like / "bin" / f"dict.{side}.txt" for side in SIDES]
    joined = names[0].read_bytes() == names[1].read_bytes()
    source, target = (SummarizationDictionary.load(str(name)) for name in names)
    new = {word for path in documents for line in read_lines(path) for word in line.split()}
    # If both dictionaries contain the same words, they must also assign the same ids to the new words.
    for dictionary in [target, source] if source.symbols == target.symbols else [source]:
        append_copy_tail(dictionary, new)
    return [source] if joined else [source, target]
