"""Shortlists: searches with one, the command that learns them against a loop, damaged files and their folders."""

import collections
import copy
import logging
import math
import pickle

import numpy as np
import pytest
import torch
from convolutional import conv, conv_task
from decoding import assert_same, make_sample, sharpen
from decoding import options as command_options
from fairseq import search
from fairseq.token_generation_constraints import pack_constraints
from folders import make_run
from helpers import EOS, PAD, make_batch, make_model, make_task
from recurrent import inputs, log_probs, recurrent, recurrent_task
from safetensors.numpy import save_file
from scripted import scripted_model
from seeds import shifted
from selection_data import write_data
from shortlists import make_shortlist, random_shortlist, write_only

from fairseq_etads import Summarizer
from fairseq_etads.commands import shortlist as shortlist_learning
from fairseq_etads.commands.export import main as export
from fairseq_etads.commands.shortlist import main
from fairseq_etads.files.checksums import NAME, Checksums
from fairseq_etads.files.inputs import name_format
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.inference import find_batch_candidates
from fairseq_etads.search.options import DECLARED, DecodingOptions
from fairseq_etads.search.search_rules import SpecialTokens
from fairseq_etads.summarizer.folder.config import SHORTLIST, read_config
from fairseq_etads.training.task import SummarizationTask
from fairseq_etads.vocabulary.dictionary import compute_fingerprint, limit_known_words
from fairseq_etads.vocabulary.shortlist import KIND, read_shortlist, write_shortlist

V, UNK = 44, 3
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [8, 45, 33, 62, 20, 30, 31], [70, 71, 70, 12], [52]]
FAMILIES = {
    "etads": {},
    "etads, soft": {"pointer": "soft", "pointer_continue": True},
    "etads, switch": {"pointer": "switch"},
    "gru_seq2seq": {},
    "pg_coverage": {},
    "gru_seq2seq, switch": {"pointer": "switch"},
    "convs2s, soft": "soft",
    "convs2s, tied": "tied",
}
SETTINGS = [
    {"beam_size": 4, "max_len_b": 12},
    {"beam_size": 3, "max_len_b": 9, "min_len": 4, "no_repeat_ngram_size": 1, "ngram_ignore_tokens": "w3 w30"},
    {"beam_size": 3, "coverage_penalty": 0.5, "length_penalty_type": "wu", "max_len_b": 9, "temperature": 1.3},
    {"beam_size": 3, "max_len_b": 9, "tokens_to_suppress": ("w1", "w5"), "allow_unk": True, "unk_penalty": -0.5},
    {"beam_size": 2, "exact_length": 6},
    {"beam_size": 3, "max_len_b": 9, "min_sentences": 2},
    {"beam_size": 30, "max_len_b": 4},
]
CASES = [*(("etads, soft", settings) for settings in SETTINGS), *((name, SETTINGS[0]) for name in FAMILIES)]
"""Each setting with a pointer, and each family with one setting."""


def made(family):
    """A model of a family and its task; the output layer has a bias."""
    arch, options = family.split(",")[0], FAMILIES[family]
    if arch == "etads":
        task = make_task(tail=30, mark=True)
        return sharpen(make_model(arch, task, share_all_embeddings=False, output_bias=True, **options)), task
    if arch == "convs2s":
        task = conv_task()
        return conv(options, task), task
    task = recurrent_task()
    model = recurrent(arch, task, **options)
    with torch.no_grad():
        model.decoder.output_projection.weight.normal_(std=2.0, generator=torch.Generator().manual_seed(shifted(1)))
    return model, task


def summaries(model, task, documents, shortlist=None, **options):
    arguments = {name: options.pop(name) for name in ("prefix_tokens", "constraints") if name in options}
    sample = make_sample(documents)
    sample["net_input"] = inputs(model, sample["net_input"]["src_tokens"])
    generator = SummaryGenerator([model], task.target_dictionary, shortlist=shortlist, **options)
    return generator.generate(None, sample, **arguments)


def possible(results):
    """Drop hypotheses of score -inf, which fill a beam when a list is used up; their order does not matter."""
    found = [[hypothesis for hypothesis in row if hypothesis["score"] > -math.inf] for row in results]
    assert all(found)
    return found


def tokens_of(results):
    return [[hypothesis["tokens"].tolist() for hypothesis in row] for row in results]


@pytest.mark.parametrize("family, settings", CASES, ids=str)
def test_the_softmax_runs_over_the_documents_list(family, settings):
    """It equals a model with an output layer that gives all other words no probability; copying is not affected. A list
    of all words changes nothing.
    """
    model, task = made(family)
    shortlist, changed = random_shortlist(task), 0
    plain = summaries(model, task, DOCUMENTS, **settings)
    exact = 1e-5 if family.startswith("convs2s") else 0  # other kernels
    assert_same(summaries(model, task, DOCUMENTS, make_shortlist(task, frequent=V), **settings), plain, exact, exact)
    given = DecodingOptions(**{name: value for name, value in settings.items() if name in DECLARED})
    special, beam = SpecialTokens.from_dictionary(task.target_dictionary, given), settings["beam_size"]
    for document, row in zip(DOCUMENTS, plain):
        source = {"src_tokens": make_batch([document])}
        words = find_batch_candidates(shortlist, source, None, None, special, EOS, beam).words
        assert len(words) < V or beam > 20
        want = summaries(write_only(copy.deepcopy(model), words.tolist()), task, [document], **settings)
        got = summaries(model, task, [document], shortlist, **settings)
        assert_same(possible(got), possible(want))
        changed += tokens_of(got) != tokens_of([row])
    assert changed or beam > 20, "the list leaves nothing out"


def test_the_lists_are_those_of_a_loop():
    task = make_task(tail=30, target_words=30)
    together = {5: [20, 21], 9: [22], 33: [23], PAD: [24], UNK: [25]}
    shortlist = make_shortlist(task, 2, together)
    extra = torch.tensor([[26, 50], [PAD, PAD]])
    found = shortlist.choose_candidates(make_batch([[5, 33, 60], [9]]), 0, extra, always=(27,))
    expected = []
    for document, more in (([5, 33, 60], [26]), ([9], [])):
        own = [word for word in document if word < 30]
        others = [other for word in document for other in together.get(word, [])]
        expected.append(sorted({0, 1, 2, 3, 4, 5, *own, *others, *more, 27}))
    assert [found.words[allowed].tolist() for allowed in found.allowed] == expected
    alone = shortlist.choose_candidates(make_batch([[9]]), 0, always=(27,))
    assert alone.words.tolist() == expected[1] and alone.allowed is None
    assert shortlist.choose_candidates(make_batch([[9]]), 12).words.tolist() == [*range(12), 22]


@pytest.mark.parametrize("family", ["etads, soft", "gru_seq2seq"])
def test_prefixes_and_constraints_are_on_the_list(family):
    model, task = made(family)
    shortlist, options = make_shortlist(task, 1), {"beam_size": 4, "max_len_b": 7}
    prefix = torch.tensor([[40, 39], [38, PAD], [PAD, PAD], [37, EOS], [36, 35]])
    found = summaries(model, task, DOCUMENTS, shortlist, prefix_tokens=prefix, **options)
    for row, words in zip(found, prefix.tolist()):
        wanted = [word for word in words if word != PAD]
        assert row[0]["tokens"][: len(wanted)].tolist() == wanted and row[0]["score"].isfinite()
    free = summaries(model, task, DOCUMENTS, shortlist, **options)
    assert tokens_of(found)[2] == tokens_of(free)[2], "the prefixes of others are not on its list"
    required = pack_constraints([[torch.tensor([41, 40])], [], [torch.tensor([39])], [], []])
    strategy = search.LexicallyConstrainedBeamSearch(task.target_dictionary, "ordered")
    options.update(constraints=required, search_strategy=strategy)
    constrained = summaries(model, task, DOCUMENTS, shortlist, **options)
    assert "41, 40" in str(constrained[0][0]["tokens"].tolist()) and 39 in constrained[2][0]["tokens"]


@pytest.mark.parametrize("arch", ["words_lvt2k", "pg_coverage"])
def test_a_prefix_may_hold_words_that_are_not_on_the_list_of_the_trick(arch):
    task = recurrent_task()
    model, documents = recurrent(arch, task, large_vocabulary_trick=25), [[5, 6, 40], [5, 6, 7], [9, 8]]
    listed = [model.decoder.choose_candidates(make_batch([document])).words for document in documents]
    assert [40 in words for words in listed] == [True, False, False]
    options, prefix = {"beam_size": 3, "max_len_b": 6}, torch.tensor([[40, 3], [6, 40], [PAD, PAD]])
    found = summaries(model, task, documents, prefix_tokens=prefix, **options)
    for row in (0, 1):
        assert found[row][0]["tokens"][:2].tolist() == prefix[row].tolist() and found[row][0]["score"].isfinite()
    said = log_probs(model, make_batch(documents[1:2]), torch.tensor([[EOS, 6]]))[0][0, 1, UNK]
    torch.testing.assert_close(found[1][0]["positional_scores"][1], said, rtol=1e-4, atol=1e-4)
    assert tokens_of(found)[2][0] == tokens_of(summaries(model, task, documents, **options))[2][0]


def test_what_cannot_have_a_shortlist_is_refused():
    task = recurrent_task()
    clusters = make_model("etads_basic", task, adaptive_softmax_cutoff=(20, 30), share_all_embeddings=False)
    allowed = search.PrefixConstrainedBeamSearch(task.target_dictionary, lambda *_: [EOS])
    for message, model, options in (
        ("--large-vocabulary-trick 25", recurrent("words_lvt2k", task), {}),
        ("--shortlist works only with models of this project", scripted_model(task.target_dictionary), {}),
        ("--adaptive-softmax-cutoff", clusters, {}),
        ("prefix_allowed_tokens_fn", make_model("etads", task), {"search_strategy": allowed}),
    ):
        with pytest.raises(ValueError, match=message):
            SummaryGenerator([model], task.target_dictionary, shortlist=make_shortlist(task), **options)


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
    assert 'not a file of the kind "shortlist"' in refusal(path, words)


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
        assert reading.build_generator([model], command_options(**given)).shortlist.frequent.tolist() == [4, 5]
    assert plain.build_generator([model], command_options()).shortlist is None
