"""Every reader of etads-corpus on small files in the original formats, and on data sets that save_to_disk wrote or that
the local cache has, without the network.
"""

import gzip
import json
import lzma
import os
import sys

import corpora
import pytest
from etads_preprocess.corpus import main
from etads_preprocess.readers import READERS
from etads_preprocess.readers.questions import find_answer_sentences
from preparation import refusal
from programs import as_program

main = as_program(main)


def run(tmp_path, *arguments, jobs=1):
    """Run the command; returns the folder and the report."""
    out = tmp_path / "text"
    main([*map(str, arguments), "--out", str(out), "--jobs", str(jobs)])
    return out, json.loads((out / "report.json").read_text(encoding="utf-8"))


def refused(tmp_path, *arguments):
    return refusal(main, *arguments, "--out", tmp_path / "text", "--jobs", "1")


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_every_kind_of_corpus_has_a_help(capsys):
    """argparse formats a help text only on request, and then fails if the text has a single per cent sign."""
    for reader in READERS:
        with pytest.raises(SystemExit):
            main([reader.name, "--help"])
        assert f"usage: etads-corpus {reader.name}" in capsys.readouterr().out


def stories(folder, *kinds):
    """The options that name the stories of the kinds, and the lists of URLs."""
    return ["cnndm", "--stories", *(folder / kind / "stories" for kind in kinds), "--urls", folder / "url_lists"]


@pytest.mark.parametrize("anonymised", [False, True])
def test_cnn_daily_mail(tmp_path, anonymised):
    command = stories(corpora.cnndm(tmp_path / "raw", anonymised=anonymised), "cnn", "dailymail")
    command += ["--expect", "5,2,2"]
    out, report = run(tmp_path, *command, *(["--entity-names"] if anonymised else []))
    assert lines(out / "train.source")[0] == (
        "(CNN) -- The audio library no. 0 doesn't play files. <q> Dr. Smith, of the U.S. team, said: \"It's fast.\" "
        "<q> A caption without a full stop."
    )
    assert lines(out / "train.target")[0] == "audio library no. 0 is fast. <q> It plays nothing ."
    assert len(lines(out / "train.source")) == len(lines(out / "train.target")) == 5
    assert report["splits"]["train"]["dropped"] == {"empty source": 1}
    assert report["splits"]["test"]["changed"] == {"full stops added": 4}
    if anonymised:
        out, _ = run(tmp_path / "entities", *command)
        text = (out / "train.source").read_text()
        assert "@entity0, of the U.S. team" in text and "Paris" not in text and "Smith" not in text


def test_published_numbers_and_missing_stories_of_cnn_daily_mail(tmp_path):
    folder = corpora.cnndm(tmp_path / "raw")
    both = stories(folder, "cnn", "dailymail")
    assert "train has 5 documents, not 287,113 or 287,226" in refused(tmp_path / "a", *both)
    for expected in ("many", "5,2,²"):
        assert f"--expect {expected}" in refused(tmp_path / "a", *both, "--expect", expected)
    one = [*stories(folder, "cnn"), "--expect", "any"]
    error = refused(tmp_path / "b", *one)
    assert "--allow-missing" in error and "2015/train/0.html" in error
    _, report = run(tmp_path / "b", *one, "--allow-missing")
    assert report["splits"]["train"]["dropped"] == {"empty source": 1, "story not found": 3}
    assert "no list of URLs" in refused(tmp_path / "c", *one[:-3], folder)
    (folder / "url_lists" / "all_val.txt").unlink()
    assert "--expect: there is no valid" in refused(tmp_path / "d", *both, "--expect", "5,2,2")
    assert set(run(tmp_path / "d", *both, "--expect", "any")[1]["splits"]) == {"train", "test"}


def example(**features):
    """Return a length-prefixed tf.train.Example of texts, with a feature of another kind."""

    def field(number, content):
        size, length = len(content), b""
        while size > 127:
            size, length = size >> 7, length + bytes([size & 127 | 128])
        return bytes([number << 3 | 2]) + length + bytes([size]) + content

    entries = [(name, field(1, field(1, text.encode()))) for name, text in features.items()]
    entries.append(("label", field(3, b"\x08\x07")))  # Int64List
    record = field(1, b"".join(field(1, field(1, name.encode()) + field(2, feature)) for name, feature in entries))
    return len(record).to_bytes(8, "little") + record


def test_chunks_of_cnn_daily_mail(tmp_path):
    abstract = '<s> he did n\'t . </s> <s> " a well - known man " said so </s>'
    record = example(article="he did n't , \" she said . mr. x - a well - known man - left . " * 9, abstract=abstract)
    (tmp_path / "raw").mkdir()
    for name in ("train_000.bin", "train_001.bin", "val.bin"):
        (tmp_path / "raw" / name).write_bytes(record * 2)
    command = ["cnndm", "--chunks", tmp_path / "raw"]
    assert "there is no test" in refused(tmp_path, *command, "--expect", "4,2,1")
    out = tmp_path / "text"
    assert lines(out / "train.target") == ['he didn\'t. <q> "a well-known man" said so.'] * 4
    assert lines(out / "valid.source")[0].startswith("he didn't,\" she said. <q> mr. x-a well-known man-left. <q> he")
    (tmp_path / "raw" / "val.bin").write_bytes(record + record[:-3])
    assert "val.bin: no record 2" in refused(tmp_path / "b", *command, "--expect", "any")
    (tmp_path / "raw" / "val.bin").write_bytes(record[:8] + b"\x0a\xff" + record[10:])
    assert "not a tf.train.Example" in refused(tmp_path / "c", *command, "--expect", "any")
    assert "choose one" in refused(tmp_path / "d", *command, "--urls", tmp_path)


def test_json_lines_of_arxiv_and_summeval(tmp_path):
    """Abstracts of Cohan et al.'s corpora are lists of marked sentences, and SummEval has several references."""
    papers = {"article_text": ["we study x .", "it works ."], "abstract_text": ["<S> x works . </S>", "<S> so . </S>"]}
    papers["article_id"] = "1"
    corpora.write(tmp_path / "papers.jsonl", json.dumps(papers) + "\n")
    out, _ = run(tmp_path / "papers", "table", "--train", tmp_path / "papers.jsonl", "--join-tokens")
    assert lines(out / "train.source") == ["we study x. <q> it works."]
    assert lines(out / "train.target") == ["x works. <q> so."]
    judged = {"article": "It works. It is new.", "references": ["It works.", "New."], "systems": {"M8": "It."}}
    corpora.write(tmp_path / "judged.jsonl", json.dumps(judged) + "\n")
    out, _ = run(tmp_path / "judged", "table", "--test", tmp_path / "judged.jsonl")
    assert lines(out / "test.target") + lines(out / "test.target.1") == ["It works.", "New."]


def test_gigaword_digits_rare_words_and_unknown_ones_and_ready_made_text_is_left_as_it_is(tmp_path):
    folder = corpora.gigaword(tmp_path / "raw")
    out, report = run(tmp_path, "gigaword", "--data", folder)
    first = "the audio maker said on monday that # of its ### shops will close ."
    assert lines(out / "train.source")[0] == first
    assert lines(out / "train.target")[0] == "audio maker closes # shops"
    assert lines(out / "test.source")[0] == "<unk> of the network maker said <unk> ."
    assert lines(out / "test.target") == ["network maker <unk> <unk>", "font maker closes"]
    assert report["splits"]["train"]["documents"] == 24 and report["notes"] == []
    (folder / "train" / "train.title.txt.gz").write_bytes(gzip.compress(b"<unk> rare rare\n" * 24))
    out, report = run(tmp_path / "ready", "gigaword", "--data", folder)
    assert lines(out / "train.target")[0] == "<unk> rare rare"
    assert lines(out / "test.target")[0] == "network maker says no" and report["notes"]


def test_the_filter_of_namas(tmp_path):
    folder = tmp_path / "raw"
    article = "the maker of networks said on monday that it will close shops ."
    good, bad = f"{article}\n", f"{article[:-2]}\n"
    corpora.write(folder / "train.article.txt", good + bad + good * 3)
    titles = ["maker closes many shops", "maker closes many shops", "update on the maker of shops", "maker closes"]
    corpora.write(folder / "train.title.txt", "\n".join([*titles, "other words are here"]) + "\n")
    out, report = run(tmp_path, "gigaword", "--data", folder, "--rare", "0", "--filter")
    assert lines(out / "train.target") == ["maker closes many shops"]
    reasons = ["article without a full stop", "length", "no word in common", "not a headline"]
    assert report["splits"]["train"]["dropped"] == {f"filter: {reason}": 1 for reason in reasons}


def test_duc_from_sgml_has_four_references_and_may_be_like_gigaword(tmp_path):
    folder = corpora.duc(tmp_path / "raw")
    command = ["duc", "--docs", folder / "docs", "--models", folder / "models"]
    out, report = run(tmp_path, *command)
    first = "The network maker & others said 3 shops will close. <q> It blamed costs. <q> More followed."
    assert lines(out / "test.source")[0] == first
    names = ["test.target", *(f"test.target.{number}" for number in (1, 2, 3))]
    assert [lines(out / name)[1][-1] for name in names] == ["A", "B", "C", "D"]
    assert report["splits"]["test"]["references"] == 4 and not (out / "train.source").exists()
    lead = ["--as-gigaword", "--source-sentences", "1", "--short-lead"]
    for chars, ending in (("10", "will close ."), ("130", "will close . <q> it blamed costs .")):
        out, _ = run(tmp_path / chars, *command, *lead, chars)
        assert lines(out / "test.source")[0] == f"the network maker & others said # shops {ending}"
    next((folder / "models").glob("D30001.P.*")).unlink()
    assert "APW19981016.0240 has 3" in refused(tmp_path / "z", *command)


def test_duc_from_parallel_files_and_what_is_missing(tmp_path):
    folder = corpora.duc_parallel(tmp_path / "raw")
    out, _ = run(tmp_path, "duc", "--data", folder)
    assert lines(out / "test.target.3") == ["Maker closes, says 3", "Font maker closes"]
    (folder / "task1_ref3.txt").unlink()
    assert "--references 4: " in refused(tmp_path / "x", "duc", "--data", folder)
    run(tmp_path / "y", "duc", "--data", folder, "--references", "3")
    assert "--docs and --models, or --data" in refused(tmp_path / "x", "duc")


def test_sumpubmed_from_its_folders(tmp_path):
    folder = corpora.sumpubmed(tmp_path / "raw")
    out, report = run(tmp_path, "sumpubmed", "--data", folder)
    splits = report["splits"]
    assert sum(about["documents"] for about in splits.values()) == 4
    assert {"BACKGROUND not of 15 to 130 words": 1} in [about["dropped"] for about in splits.values()]
    assert splits["train"]["source"]["max words"] == 34 * 15, "not the most sentences that have 520 words"
    target = "the role of this gene is unknown. <q> we asked e.g. what it does in mice."
    assert lines(out / "test.target") == [target] and "BACKGROUND" not in (out / "train.source").read_text()
    arguments = ["sumpubmed", "--data", folder, "--valid-size", "1", "--test-size", "1"]
    (folder / "abstract" / "abstract_2.txt").unlink()
    assert "text_2.txt: no abstract" in refused(tmp_path / "x", *arguments)
    _, report = run(tmp_path / "skip", *arguments, "--skip-bad")
    assert "no abstract" in {reason for about in report["splits"].values() for reason in about["dropped"]}


def test_sumpubmed_and_scitldr_as_json_lines(tmp_path):
    folder = tmp_path / "raw"
    for name in ("train", "dev", "test"):
        record = json.dumps({"id": 1, "source": ["a b.", "c d."], "target": ["e  f.", "g."]}) + "\n"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress(record.encode()))
    out, _ = run(tmp_path, "sumpubmed", "--data", folder)
    assert lines(out / "valid.source") == ["a b. <q> c d."] and lines(out / "test.target") == ["e f. <q> g."]

    out, report = run(tmp_path / "s", "scitldr", "--data", corpora.scitldr(tmp_path / "scitldr"))
    assert lines(out / "train.source")[0] == "We study audio . <q> It works."
    assert lines(out / "valid.target") == ["audio works.", "video works."]
    assert lines(out / "valid.target.1") == ["", "Another reference."]
    assert report["splits"]["train"]["changed"] == {"references not used (--train-references)": 3}
    out, report = run(tmp_path / "t", "scitldr", "--data", tmp_path / "scitldr", "--train-references", "all")
    assert len(lines(out / "train.source")) == report["splits"]["train"]["documents"] == 7
    assert lines(out / "train.source")[1:3] == ["We study video . <q> It works."] * 2


AESLC = "Please  read this.\n@home we wait.\n\n@subject\nRe: the plan\n"
TURNS = ["Hello {vocalsound} .", "The L_C_D_ is dear .", "Fine .", "Dear . {gap}", "Yes ."]
SPANS = [["1", "1"], ["3", "4"]]
MEETING = {
    "general_query_list": [{"query": "Summarize the meeting", "answer": "All agreed."}],
    "specific_query_list": [{"query": "What of the LCD?", "answer": "It is dear.", "relevant_text_span": SPANS}],
    "meeting_transcripts": [{"speaker": ("Ann", "Bob")[n % 2], "content": turn} for n, turn in enumerate(TURNS)],
}


def test_aeslc_from_its_folders_and_as_json_lines(tmp_path):
    raw = tmp_path / "raw"
    corpora.write(raw / "train" / "a.subject", AESLC)
    corpora.write(raw / "dev" / "a.subject", AESLC + "\n@ann0\nplan to read\n\n@ann1\nthe plan\n\n@ann2\nread\n")
    out, _ = run(tmp_path, "aeslc", "--data", raw)
    assert lines(out / "train.source") == lines(out / "valid.source") == ["Please read this. <q> @home we wait."]
    assert lines(out / "train.target") == lines(out / "valid.target") == ["Re: the plan"]
    out, _ = run(tmp_path / "annotated", "aeslc", "--data", raw, "--annotated")
    assert lines(out / "train.target") == ["Re: the plan"]
    assert [lines(out / f"valid.target{n}")[0] for n in ("", ".1", ".2")] == ["plan to read", "the plan", "read"]

    record = {"document": "Please  read this.\n@home we wait.", "summary": "Re: the plan", "annotated": ["a b", "c"]}
    corpora.table(tmp_path / "json" / "dev.jsonl", [record])
    out, _ = run(tmp_path / "j", "aeslc", "--data", tmp_path / "json", "--annotated")
    assert lines(out / "valid.source") == ["Please read this. <q> @home we wait."]
    assert lines(out / "valid.target") == ["a b"] and lines(out / "valid.target.1") == ["c"]
    corpora.write(raw / "test" / "b.subject", "no subject\n")
    assert "b.subject: no @subject" in refused(tmp_path / "r", "aeslc", "--data", raw)


def test_qmsum_as_meetings_and_as_spans(tmp_path):
    raw = tmp_path / "raw"
    corpora.write(raw / "train" / "m.json", json.dumps(MEETING, indent=1))
    pair = {"query": "Summarize it", "gold_span": "Ann: Yes .", "summary": "All agreed.", "whole": True}
    corpora.table(raw / "val.jsonl", [MEETING, pair])
    out, report = run(tmp_path, "qmsum", "--data", raw)
    turns = "Ann: Hello . <q> Bob: The LCD is dear . <q> Ann: Fine . <q> Bob: Dear . <q> Ann: Yes ."
    whole = f"Summarize the meeting <q> {turns}"
    span = "What of the LCD? <q> Bob: The LCD is dear . <q> Bob: Dear . <q> Ann: Yes ."
    assert lines(out / "train.source") == [whole, span]
    assert lines(out / "valid.source") == [whole, span, "Summarize it <q> Ann: Yes ."]
    assert lines(out / "valid.target") == ["All agreed.", "It is dear.", "All agreed."]
    assert report["splits"]["train"]["changed"]["marks of the transcription removed"] == 3
    out, _ = run(tmp_path / "specific", "qmsum", "--data", raw, "--queries", "specific")
    assert lines(out / "valid.source") == [span]
    assert "val.jsonl, line 2" in refused(tmp_path / "w", "qmsum", "--data", raw, "--whole-meetings")
    corpora.write(raw / "val.jsonl", '{"query": 1}\n')
    assert "val.jsonl, line 1" in refused(tmp_path / "b", "qmsum", "--data", raw)


def test_parallel_text(tmp_path):
    source = corpora.write(tmp_path / "s", "One. Two.\nThree <q> four\n")
    targets = [corpora.write(tmp_path / "t", "a\nb\n"), corpora.write(tmp_path / "u", "\nc <q> d\n")]
    out, report = run(tmp_path, "parallel", "--test", source, *targets)
    assert lines(out / "test.source") == ["One. Two.", "Three < q > four"]
    assert lines(out / "test.target") == ["a", "b"] and lines(out / "test.target.1") == ["", "c < q > d"]
    assert report["splits"]["test"]["changed"]["literal <q> neutralised"] == 2
    out, _ = run(tmp_path / "m", "parallel", "--test", source, *targets, "--marked")
    assert lines(out / "test.source")[1] == "Three <q> four"
    targets[0].write_bytes(b"\xff\nb\n")
    out, _ = run(tmp_path / "bad", "parallel", "--test", source, *targets, "--skip-bad")
    assert lines(out / "test.source") == ["Three < q > four"] and lines(out / "test.target") == ["b"]
    corpora.write(targets[0], "only one\n")
    for files in ([source, targets[0]], [targets[0], source]):
        error = refused(tmp_path / "n", "parallel", "--test", *files)
        assert f"{targets[0]} has 1 lines, fewer than {source}" in error
    assert not (tmp_path / "n" / "text" / "test.source").exists(), "half a split was left"


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_sentences_with_answers_become_pairs(version, tmp_path):
    out, report = run(tmp_path, "squad", "--data", corpora.squad(tmp_path / "raw", version))
    assert lines(out / "train.source")[:2] == ["The audio was made by Dr. Ada Zeno in 1800.", "It weighs 2 tons."]
    assert lines(out / "train.target")[:2] == ["1800 <q> Ada Zeno", "2 tons"]
    assert {split: about["documents"] for split, about in report["splits"].items()} == {"train": 12, "valid": 4}


def test_answers_go_to_their_own_sentence_and_are_cut_where_sentences_meet():
    context = 'In 1066 the Normans, led by William of "Rouen", won. Rouen is in France! They\u00a0stayed.'

    def found(*answers):
        questions = [{"question": "?", "answers": [corpora.place(context, answer)]} for answer in answers]
        documents = [document for _, document in find_answer_sentences({"context": context, "qas": questions}, "here")]
        return [(document.source[0], document.targets[0]) for document in documents]

    first, second = found("Normans", "Rouen is", "the Normans", "William")
    assert first[1] == ["Normans", "William", "the Normans"] and second == ("Rouen is in France!", ["Rouen is"])
    assert [answers for _, answers in found("won. Rouen")] == [["won."], ["Rouen"]]


def test_a_damaged_paragraph_is_named_or_counted(tmp_path):
    folder = corpora.squad(tmp_path / "raw")
    content = json.loads((folder / "train-v1.1.json").read_text(encoding="utf-8"))
    paragraph = content["data"][1]["paragraphs"][0]
    for damaged, value, reason in (
        (paragraph["qas"][0]["answers"][0], {"answer_start": 3}, "not where answer_start says"),
        (paragraph["qas"][0], {"answers": 1}, "damaged answers"),
        (paragraph, {"context": 7}, "without context"),
    ):
        damaged.update(value)
        corpora.write(folder / "train-v1.1.json", json.dumps(content))
        error = refused(tmp_path / reason, "squad", "--data", folder)
        assert "train-v1.1.json, article 2, paragraph 1" in error and reason in error
        split = run(tmp_path / reason, "squad", "--data", folder, "--skip-bad")[1]["splits"]["train"]
        assert split["documents"] == 10 and sum(split["dropped"].values()) == 1


def test_what_is_no_squad_is_refused(tmp_path):
    folder = corpora.squad(tmp_path / "raw", "2.0")
    command = ["squad", "--data", folder, "--squad-version", "1.1"]
    assert "no train-v1.1.json" in refused(tmp_path, *command)
    for content in ("", "[]", '{"data": 1}', '{"data": [{"title": "x"}]}', "[" * 100_000):
        corpora.write(folder / "train-v1.1.json", content)
        assert "train-v1.1.json: not SQuAD's JSON" in refused(tmp_path, *command)


PAIR = '{"source": ["A document."], "target": ["One."]}\n'
REFERENCES = "input.txt task1_ref0.txt"


@pytest.mark.parametrize(
    "kinds,names,said",
    [
        ("gigaword", f"train.article.txt train.titel.txt {REFERENCES}", "train.title.txt does not"),
        ("gigaword duc", f"{REFERENCES} task1_ref1.txt task1_ref3.txt", "task1_ref2.txt does not"),
        ("sumpubmed scitldr", "train.jsonl dev.jsonl valid.jsonl", "dev.jsonl and valid.jsonl are both valid"),
        ("sumpubmed", "line_text/text_3.txt line_text/text_003.txt abstract/abstract_3.txt", "have the same number"),
        ("sumpubmed duc scitldr aeslc qmsum squad gigaword", "other.txt", ": n"),
    ],
)
def test_files_that_would_be_left_out_are_named(tmp_path, kinds, names, said):
    for name in names.split():
        corpora.write(tmp_path / "raw" / name, PAIR)
    for kind in kinds.split():
        assert said in refused(tmp_path, kind, "--data", tmp_path / "raw")


def test_another_seed_of_the_split_is_not_the_old_split(tmp_path):
    rows = "".join(f"Document {n}.,s{n}\n" for n in range(60))
    table = corpora.write(tmp_path / "all.csv", "document,summary\n" + rows)
    split = ["table", "--input", table, "--split", "60/20/20"]
    run(tmp_path, *split, "--split-seed", "0")
    for other in (["--split-seed", "1"], []):
        assert "was made with other options" in refused(tmp_path, *split, *other)


def test_options_without_effect_and_impossible_ones_are_refused(tmp_path, monkeypatch):
    """The last option is the one that is named."""
    corpora.write(tmp_path / "train.jsonl", PAIR)
    monkeypatch.chdir(tmp_path)
    assert "--train" in refused(tmp_path, "table")
    assert "--docs and --models" in refused(tmp_path, "duc", "--data", ".", "--as-gigaword")
    for words in ("sumpubmed --data . --seed 1", "table --train x --source-words -1"):
        assert " ".join(words.split()[-2:]) in refused(tmp_path, *words.split())
    for option in ("--delimiter ;", "--short-lead 9"):
        assert option in refused(tmp_path, "table", "--train", "train.jsonl", *option.split())


ROWS = {"article": ["First. Second.", "Third.\nFourth.", ""], "highlights": ["a\nb", "c", "d"], "id": ["x", "y", "z"]}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        for name in ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE"):
            patch.setenv(name, "1")
        module = pytest.importorskip("datasets", reason="needs the extra datasets")
        module.disable_progress_bars()
        yield module


def test_a_saved_data_set_with_splits(datasets, tmp_path):
    table = datasets.Dataset.from_dict(ROWS)
    tables = {"train": table, "validation": table.select([1]), "unsupervised": table}
    datasets.DatasetDict(tables).save_to_disk(tmp_path / "saved")
    text, report = run(tmp_path, "hf", "--data", tmp_path / "saved")
    assert {split: about["documents"] for split, about in report["splits"].items()} == {"train": 2, "valid": 1}
    assert lines(text / "train.source") == ["First. <q> Second.", "Third. <q> Fourth."]
    assert lines(text / "train.target") == ["a <q> b", "c"]
    assert lines(text / "valid.target") == ["c"], "the rows that select chose, and not all"
    assert report["splits"]["train"]["dropped"] == {"empty source": 1}
    assert any("unsupervised is left out" in note for note in report["notes"]) and report["inputs"]
    assert run(tmp_path, "hf", "--data", tmp_path / "saved")[1] == report, "a second call finds it done"


def test_a_saved_data_set_of_one_piece_is_split(datasets, tmp_path):
    documents = [f"Document {number}." for number in range(60)]
    table = datasets.Dataset.from_dict({"body": documents, "heads": [["a", "b"]] * 60})
    table.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=table).save_to_disk(tmp_path / "train-only")
    columns = ["--source-column", "body", "--target-column", "heads", "--target-list", "references"]
    for name in ("one", "train-only"):
        command = ["hf", "--data", tmp_path / name, *columns, "--split", "60/20/20"]
        splits = run(tmp_path / f"{name}-text", *command)[1]["splits"]
        assert sum(about["documents"] for about in splits.values()) == 60 and len(splits) == 3
        assert splits["test"]["references"] == 2


def test_a_name_in_the_cache_of_data_sets(datasets, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    (tmp_path / "tiny_news").mkdir()
    datasets.Dataset.from_dict(ROWS).to_json(tmp_path / "tiny_news" / "train.jsonl")
    datasets.load_dataset(str(tmp_path / "tiny_news"), cache_dir=str(cache))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(tmp_path, "hf", "--data", "tiny_news")[1]["splits"]["train"]["documents"] == 2


def test_what_is_wrong_with_a_saved_data_set_is_said(datasets, tmp_path):
    table = datasets.Dataset.from_dict(ROWS)
    datasets.DatasetDict(train=table, test=table).save_to_disk(tmp_path / "saved")
    datasets.DatasetDict(other=table).save_to_disk(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    saved = ["--data", tmp_path / "saved"]
    for options, words in (
        (["--data", "nobody/nothing", "--config", "c"], "nothing', 'c').save_to_disk(FOLDER)"),
        (["--data", tmp_path / "empty"], "not a folder of save_to_disk"),
        (["--data", tmp_path / "other"], "it has other"),
        ([*saved, "--split", "9/1/0"], "--split 9/1/0"),
        ([*saved, "--source-column", "text"], "--source-column text"),
    ):
        assert words in refused(tmp_path, "hf", *options)
    arrow = next((tmp_path / "saved" / "train").glob("*.arrow"))
    arrow.write_bytes(arrow.read_bytes()[:400])
    assert str(tmp_path / "saved") in refused(tmp_path, "hf", *saved)


def test_the_network_is_switched_off_and_the_library_of_data_sets_named_if_it_is_missing(tmp_path, monkeypatch):
    for name in ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "datasets is missing: pip install datasets" in refused(tmp_path, "hf", "--data", tmp_path)
    assert os.environ["HF_DATASETS_OFFLINE"] == os.environ["HF_HUB_OFFLINE"] == "1"
