"""The server of etads-demo: streams of summaries, options, the form."""

# ruff: noqa: F811  # fixtures are imported, and then arguments

import json
import os
import queue
import re
import signal
import threading
from types import SimpleNamespace

import pytest
from folders import DECODING, make_folder

pytest.importorskip("starlette", reason="needs the extra demo")
pytest.importorskip("httpx", reason="needs httpx, which Starlette's client for tests uses")
pytestmark = pytest.mark.filterwarnings("ignore")  # from the client: newer versions of Starlette prefer another httpx

from demo_server import TEXT, ask, client, demo, summarizer, told  # noqa: E402, F401  # fixtures among them

from fairseq_etads.demo import events, form  # noqa: E402
from fairseq_etads.platform.errors import InputError  # noqa: E402
from fairseq_etads.search import call_options  # noqa: E402


def test_the_summary_grows_into_that_of_the_summarizer(client, summarizer):
    waiting, document, *steps, last = told(ask(client, beam=1, min_len=4))
    want = summarizer.summarize(TEXT, beam=1, min_len=4)
    assert waiting == {"kind": "waiting", "before": 0}
    assert [TEXT[start:end] for start, end in document["spans"]] == TEXT.split()
    assert {step["kind"] for step in steps} == {"step"}
    words = [step["text"].split() for step in steps]
    assert len(words) >= 4 and words == [list(want.tokens[:count]) for count in range(1, len(words) + 1)]
    assert (last["kind"], last["text"], last["sentences"]) == ("summary", want.text, list(want.sentences))
    assert last["score"] == pytest.approx(want.score) and words[-1] == last["text"].split()
    assert last["explanation"] == json.loads(json.dumps(want.explain().to_dict()))
    for step, row in zip(steps, want.explain().copying):
        assert dict(step["copying"]) == pytest.approx({j: w for j, w in enumerate(row[:-1]) if w >= 0.01}, abs=2e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam": 4, "min_len": 5, "max_len": 7, "coverage_penalty": 1.5},
        {"infer_dtype": None, "allow_unk": True, "length_penalty_type": "wu"},
    ],
)
def test_options_are_those_of_the_summarizer(client, summarizer, options):
    last = told(ask(client, **options))[-1]
    want = summarizer.summarize(TEXT, **options)
    assert (last["text"], last["score"]) == (want.text, pytest.approx(want.score))


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_a_document_without_words_has_a_summary_without_words(client, text):
    first, last = told(ask(client, text))
    assert (first["kind"], last["kind"], last["text"], last["words_read"]) == ("waiting", "summary", "", 0)


def test_any_text_is_taken_and_comes_back_as_text(client):
    for text in ("<script>alert(1)</script> w1", "\ud800 w1 \udfff", "w1\r\n\r\nw2 \u202e w3", "w" * 5000):
        answer = client.post(
            "/summarize", content=json.dumps({"text": text}).encode(), headers={"Content-Type": "application/json"}
        )
        assert told(answer)[-1]["explanation"]["document"] == text


def test_how_much_was_read_is_said_in_words(client):
    long = told(ask(client, "one two, three. " * 40))[-1]
    assert (long["words"], long["explanation"]["left_out"]) == (120, 60), "the words have their stops"
    assert long["words_read"] == 60
    short = told(ask(client, "w1 w2  w3\n"))[-1]
    assert (short["words"], short["words_read"]) == (3, 3)
    assert events.count_words_read_by_model("a b c", 1, []) == {"words": 3, "words_read": 0}


@pytest.mark.parametrize(
    "options",
    [
        {"beem": 2},
        {"beam": 0},
        {"beam": "5"},
        {"beam": True},
        {"lenpen": "x"},
        {"length_penalty_type": "gnmt"},
        {"min_len": 10},
        {"temperature": 0},
        {"exact_length": 30},
        {"ngram_ignore_tokens": "nowhere"},
        {"stepwise_coverage_penalty": True},
    ],
)
def test_wrong_options_are_refused_in_the_summarizers_words(client, summarizer, options):
    with pytest.raises(InputError) as error:
        summarizer.summarize(TEXT, **options)
    answer = ask(client, **options)
    assert (answer.status_code, answer.text) == (400, str(error.value))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"beam": 51}, "--beam 51: choose at most 50 on this page"),
        ({"max_len": 1001}, "--max-len 1001: choose at most 1000"),
        ({"max_len_a": 11.0}, "--max-len-a 11.0: choose at most 10"),
    ],
)
def test_what_would_take_all_the_memory_is_refused(client, options, words):
    answer = ask(client, **options)
    assert answer.status_code == 400 and words in answer.text


def test_a_folders_own_large_values_are_possible():
    form.check_options({"beam": 80}, {**DECODING, "beam": 80})
    with pytest.raises(InputError, match="--beam 81: choose at most 80"):
        form.check_options({"beam": 81}, {**DECODING, "beam": 80})


def test_the_form_has_every_option_with_the_words_of_the_command_line(client):
    about = client.get("/about.json").json()
    fields = {field["name"]: field for field in about["options"]}
    assert set(fields) == set(call_options.OPTIONS) - {"shortlist", "choose", "choose_words"} and len(
        about["options"]
    ) == len(fields)
    assert all(field["help"] == call_options.OPTIONS[name].help for name, field in fields.items())
    assert [field["name"] for field in about["options"] if field["main"]] == list(form.MAIN)
    assert {name: fields[name]["default"] for name in DECODING} == DECODING
    assert (fields["coverage_penalty"]["default"], fields["early_stopping"]["default"]) == (0.0, None)
    assert (fields["lenpen"]["kind"], fields["allow_unk"]["kind"], fields["infer_dtype"]["kind"]) == (
        "float",
        "bool",
        "choice",
    )
    assert "shortlist" in {field["name"] for field in form.describe_fields({**DECODING, "shortlist": True})}
    assert about["title"] == "a <b>model</b>" and "Architecture etads: copies words" in about["about"]


def test_the_defaults_of_the_form_change_nothing(summarizer):
    defaults = form.get_default_options(summarizer.config.decoding)
    form.check_options(defaults, summarizer.config.decoding)
    assert summarizer.summarize(TEXT, **defaults) == summarizer.summarize(TEXT)


@pytest.mark.parametrize("options, opens", [([], False), (["--open"], True), (["--open", "--no-open"], False)])
def test_the_page_is_opened_if_that_is_asked_for(tmp_path, monkeypatch, capsys, options, opens):
    from fairseq_etads.commands import demo as command

    folder, _ = make_folder(tmp_path)
    opened, threads = queue.Queue(), []
    model = SimpleNamespace(device="cpu", summarize=lambda text: threads.append(threading.current_thread()))
    monkeypatch.setattr("fairseq_etads.summarizer.Summarizer.load", lambda *args: model)
    monkeypatch.setattr(command, "_serve", lambda summarizer, title, listener: opened.put(title))
    monkeypatch.setattr(command.webbrowser, "open", opened.put)
    assert command.main([str(folder), "--port", "0", *options]) == 0
    url = re.search(r"http://127\.0\.0\.1:[1-9]\d*/", capsys.readouterr().out)[0]
    found = {opened.get(timeout=20) for _ in range(1 + opens)}
    assert found == ({"model", url} if opens else {"model"}) and opened.empty()
    assert len(threads) == 1, "what the first summary waits for is done before anybody looks"
    assert not threads[0].is_alive(), "threads of OpenMP that stay would make those of the searches wait asleep"


def test_ctrl_c_does_not_wait_until_the_model_is_loaded():
    from fairseq_etads.commands import demo as command

    ended, loaded = threading.Event(), []

    def load():
        os.kill(os.getpid(), signal.SIGINT)
        loaded.append(not ended.wait(20))

    with pytest.raises(KeyboardInterrupt):
        command._run_in_thread(load)
    assert not loaded, "the interrupt came only after the work was done"
    ended.set()


def test_what_cannot_be_loaded_is_said():
    from fairseq_etads.commands import demo as command

    with pytest.raises(ZeroDivisionError):
        command._run_in_thread(lambda: 1 // 0)
