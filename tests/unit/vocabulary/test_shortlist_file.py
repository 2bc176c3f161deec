"""etads-shortlist: its result against a loop; files that refuse other words and damage; folders with a shortlist."""

import collections
import logging
import pickle

import numpy as np
import pytest
from decoding import options
from folders import make_run
from helpers import make_model, make_task
from safetensors.numpy import save_file
from selection_data import write_data

from fairseq_etads import Summarizer
from fairseq_etads.commands import shortlist as shortlist_learning
from fairseq_etads.commands.export import main as export
from fairseq_etads.commands.shortlist import main
from fairseq_etads.files.checksums import NAME, Checksums
from fairseq_etads.files.inputs import name_format
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.folder.config import SHORTLIST, read_config
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.vocabulary.dictionary import compute_fingerprint, limit_known_words
from fairseq_etads.vocabulary.shortlist import KIND, read_shortlist, write_shortlist

WORDS = [f"w{number}" for number in range(30)]


def random_pairs(seed):
    generator = np.random.default_rng(seed)
    pairs = []
    for _ in range(40):
        document = [WORDS[number] for number in (generator.random(8) ** 2 * 30).astype(int)]
        summary = [document[0], *(WORDS[number] for number in (generator.random(3) * 30).astype(int))]
        pairs.append((" ".join(document), " ".join(summary)))
    return pairs


def read(path, folder):
    task = SummarizationTask.of_folder(folder)
    return read_shortlist(path, task.source_dictionary, task.target_dictionary), task


def slow_table(pairs, index, frequent, per_word, known):
    """Frequent words of summaries, and words of documents -> words of summaries, by counting pairs one by one."""
    number_of = collections.Counter(word for _, s in pairs for word in set(s.split()))
    order = sorted(number_of, key=lambda word: (-number_of[word], index(word)))
    everywhere = [word for word in order if index(word) < known][:frequent]
    together = collections.Counter((s, w) for d, t in pairs for s in set(d.split()) for w in set(t.split()))
    table = {}
    for s in {word for d, _ in pairs for word in d.split()}:
        found = [
            (-count, index(w))
            for (first, w), count in together.items()
            if first == s and count >= 2 and w != s and w not in everywhere and index(w) < known
        ]
        table[index(s)] = [number for _, number in sorted(found)[:per_word]]
    return [index(word) for word in everywhere], table


@pytest.mark.parametrize("most_counts", [2**27, 1, 100])
@pytest.mark.parametrize("seed", range(3))
def test_words_go_together_as_a_loop_finds(seed, most_counts, tmp_path, monkeypatch):
    monkeypatch.setattr(shortlist_learning, "MOST_COUNTS", most_counts)
    train = random_pairs(seed)
    write_data(tmp_path / "bin", {"train": train}, tail=("w28", "w29"))
    out = tmp_path / "lists" / "mine.safetensors"
    assert main([str(tmp_path), "--frequent", "3", "--per-word", "4", "--out", str(out)]) == 0
    shortlist, task = read(out, tmp_path / "bin")
    index, known, rows = task.source_dictionary.index, shortlist.known_words, shortlist.together.tolist()
    frequent, table = slow_table(train, index, 3, 4, known)
    assert shortlist.frequent.tolist() == frequent
    for word, others in table.items():
        if word < known:
            assert rows[word] == [*others, *[3] * (4 - len(others))], "the unknown word fills"
    assert any(table.values()) and rows[-1] == [3] * 4


def test_only_what_the_model_reads_is_counted(tmp_path):
    pairs = [("a b", "x y"), ("a b", "x y"), ("c", "z"), ("d", "z"), ("e", "z")]
    write_data(tmp_path / "bin", {"train": pairs})
    tables = []
    for given in ([], ["--truncate-source", "1"], ["--truncate-target", "1"]):
        assert main([str(tmp_path / "bin"), "--frequent", "1", *given]) == 0
        shortlist, task = read(tmp_path / "bin" / SHORTLIST, tmp_path / "bin")
        spelt = {
            task.source_dictionary.symbols[n]: [task.target_dictionary.symbols[w] for w in row if w != 3]
            for n, row in enumerate(shortlist.together.tolist()[:-1])
        }
        tables.append({word: others for word, others in spelt.items() if others})
    assert tables == [{"a": ["x", "y"], "b": ["x", "y"]}, {"a": ["x", "y"]}, {"a": ["x"], "b": ["x"]}]


def test_data_without_training_or_summaries_are_refused(tmp_path, capsys):
    write_data(tmp_path / "bin", {"test": [("a", "b")]})
    assert main([str(tmp_path)]) == 2 and 'no split "train"' in capsys.readouterr().err
    write_data(tmp_path / "more", {"train": [("a", None)], "test": [("a", "b")]})
    assert main([str(tmp_path / "more")]) == 2 and "no summaries" in capsys.readouterr().err


@pytest.fixture
def written(tmp_path):
    words, path = make_task(tail=5).source_dictionary, tmp_path / "words.safetensors"
    write_shortlist(path, np.array([4, 5], dtype=np.int32), np.full((44, 2), -1, dtype=np.int32), words, words, {})
    return path, words


def refusal(path, source, target=None):
    with pytest.raises(InputError) as error:
        read_shortlist(path, source, target or source)
    assert "\n" not in str(error.value) and str(path.name) in str(error.value)
    return str(error.value)


def test_other_dictionaries_are_refused(written):
    path, words = written
    bounded = limit_known_words(words, 30)
    assert "a different target dictionary" in refusal(path, words, bounded)
    assert "a different source dictionary" in refusal(path, bounded, words)
    other = make_task(tail=9).source_dictionary
    read_shortlist(path, other, other)  # a different copy tail is allowed
    other.symbols[7], other.symbols[8] = other.symbols[8], other.symbols[7]
    assert "a different source dictionary" in refusal(path, other)


def test_damage_is_noticed_and_nothing_is_run(written, tmp_path):
    path, words = written
    whole = path.read_bytes()
    for content in (b"", whole[:-1], whole[:20] + b"\xff" * 8 + whole[28:], pickle.dumps({"frequent": 1})):
        path.write_bytes(content)
        assert "damaged" in refusal(path, words)
    assert "no such file" in refusal(tmp_path / "missing.safetensors", words)


@pytest.mark.parametrize(
    "name, array, message",
    [
        ("frequent", np.array([44], dtype=np.int32), "'frequent' has an id outside the 44 words"),
        ("frequent", np.array([-1], dtype=np.int32), "'frequent' has an id"),
        ("together", np.full((44, 2), 44, dtype=np.int32), "'together' has an id"),
        ("together", np.full((44, 2), -2, dtype=np.int32), "'together' has an id"),
        ("together", np.zeros((43, 2), dtype=np.int32), "'together' has 43 rows for 44 words"),
        ("together", np.zeros((44, 2), dtype=np.int64), "not 32-bit integers"),
        ("together", None, "'together' is missing"),
    ],
)
def test_numbers_that_are_no_words_are_refused(written, name, array, message):
    path, words = written
    arrays = {"frequent": np.array([4], dtype=np.int32), "together": np.full((44, 2), -1, dtype=np.int32), name: array}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    about = {
        "format": name_format(KIND),
        **dict.fromkeys(("source_dictionary", "target_dictionary"), compute_fingerprint(words)),
    }
    save_file(arrays, str(path), metadata=about)
    assert message in refusal(path, words)
    save_file(arrays, str(path), metadata={**about, "format": "x"})
    assert "is not a shortlist of this version" in refusal(path, words)


def test_the_list_of_checksums_has_it_if_there_is_one(tmp_path):
    folder = tmp_path / "bin"
    write_data(folder, {"train": random_pairs(5)})
    assert main([str(folder)]) == 0 and not (folder / NAME).exists()
    Checksums(folder).add("dict.source.txt")
    for _ in range(2):  # the folder can also be made again with another shortlist
        assert main([str(folder), "--frequent", "2"]) == 0
        assert set(Checksums(folder).listed) == {"dict.source.txt", SHORTLIST}
        read(folder / SHORTLIST, folder)
    content = bytearray((folder / SHORTLIST).read_bytes())
    content[-1] ^= 1
    (folder / SHORTLIST).write_bytes(bytes(content))
    with pytest.raises(InputError, match=f"{SHORTLIST} is damaged or was changed"):
        read(folder / SHORTLIST, folder)


TEXTS = ["w1 w2 New w3 new other w9", "w20 w21 w22 w23", "w9"]


def test_a_folder_decodes_with_its_shortlist_unless_told_otherwise_and_has_none_of_other_words(tmp_path, capsys):
    logging.getLogger("fairseq_etads.training.task").setLevel(logging.WARNING)
    run, folder, file, table = tmp_path / "run", tmp_path / "model", tmp_path / "list", np.full((44, 1), 11, np.int32)
    make_run(run, pointer="soft")
    words = SummarizationTask.of_folder(run / "prepared" / "bin").source_dictionary
    write_shortlist(file, np.array([10], dtype=np.int32), table, words, words, {})
    with_list, decoding = ["--shortlist", str(file)], ["--beam", "3", "--max-len", "9"]
    assert export([str(run), str(folder), *with_list, *decoding]) == 0
    assert read_config(folder).decoding["shortlist"] is True and SHORTLIST in Checksums(folder).listed
    summarizer = Summarizer.load(folder, "cpu")
    assert export([str(run), str(tmp_path / "plain"), *decoding]) == 0
    plain = Summarizer.load(tmp_path / "plain", "cpu")
    without, found = summarizer.summarize(TEXTS, shortlist=False), summarizer.summarize(TEXTS)
    assert [s.tokens for s in without] == [s.tokens for s in plain.summarize(TEXTS)] != [s.tokens for s in found]
    few = {f"w{number}" for number in range(7)}  # a beam of 3 needs seven words besides the special symbols
    for text, summary in zip(TEXTS, found):
        assert set(summary.tokens) <= {*text.lower().split(), "w6", "w7", *few, "<unk>"}, "w6, w7 have the ids 10, 11"
    with pytest.raises(InputError, match=r"--shortlist: .*plain has none"):
        plain.summarize(TEXTS, shortlist=True)

    words = make_task(target_words=30).target_dictionary
    write_shortlist(file, np.zeros(1, dtype=np.int32), table[:30], words, words, {})
    assert export([str(run), str(tmp_path / "refused"), *with_list]) == 2
    assert f"--shortlist {file} was created with a different source dictionary" in capsys.readouterr().err
    assert not (tmp_path / "refused").exists()


def test_the_task_reads_the_file_of_its_option_or_of_a_call(written):
    path, plain, task = str(written[0]), make_task(tail=5), make_task(tail=5, shortlist=str(written[0]))
    model = make_model("etads", task)
    for reading, given in ((task, {}), (plain, {"shortlist": path})):
        assert reading.build_generator([model], options(**given)).shortlist.frequent.tolist() == [4, 5]
    assert plain.build_generator([model], options()).shortlist is None
