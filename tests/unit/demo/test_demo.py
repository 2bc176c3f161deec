"""The server of etads-demo: streams of summaries, options, the form; its queue, clients that leave, its end, errors."""

# ruff: noqa: F811  # fixtures are imported, and then arguments

import asyncio
import contextlib
import json
import os
import queue
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from demo_server import JSON, TEXT, URL, ask, client, demo, summarizer, told  # noqa: F401  # fixtures among them
from folders import DECODING, make_folder
from starlette.testclient import TestClient

from fairseq_etads.commands import demo as command
from fairseq_etads.demo import server
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.options import CALL

pytestmark = pytest.mark.filterwarnings("ignore")  # from the client: newer versions of Starlette prefer another httpx


def test_the_summary_grows_into_that_of_the_summarizer(client, summarizer):
    waiting, document, *steps, last = told(ask(client, beam=1, min_len=4))
    want = summarizer.summarize(TEXT, beam=1, min_len=4)
    explanation = want.explain()
    assert waiting == {"kind": "waiting", "before": 0}
    assert [TEXT[start:end] for start, end in document["spans"]] == TEXT.split()
    assert {step["kind"] for step in steps} == {"step"}
    words = [step["text"].split() for step in steps]
    assert len(words) >= 4 and words == [list(want.tokens[:count]) for count in range(1, len(words) + 1)]
    assert (last["kind"], last["text"], last["sentences"]) == ("summary", want.text, list(want.sentences))
    assert last["score"] == pytest.approx(want.score) and words[-1] == last["text"].split()
    assert last["explanation"] == json.loads(json.dumps(explanation.to_dict()))
    for step, row in zip(steps, explanation.copying):
        assert dict(step["copying"]) == pytest.approx({j: w for j, w in enumerate(row[:-1]) if w >= 0.01}, abs=2e-3)


def test_any_text_is_taken_and_comes_back_as_text(client):
    for text in ("<script>alert(1)</script> w1", "\ud800 w1 \udfff", "w1\r\n\r\nw2 \u202e w3", "w" * 5000):
        answer = client.post("/summarize", content=json.dumps({"text": text}), headers=JSON)
        assert told(answer)[-1]["explanation"]["document"] == text


def test_how_much_was_read_is_said_in_words(client):
    long = told(ask(client, "one two, three. " * 40))[-1]
    assert (long["words"], long["explanation"]["left_out"]) == (120, 60), "the words have their stops"
    assert long["words_read"] == 60
    short = told(ask(client, "w1 w2  w3\n"))[-1]
    assert (short["words"], short["words_read"]) == (3, 3)
    waiting, none = told(ask(client, " \n\t "))
    assert (waiting["kind"], none["kind"], none["text"], none["words_read"]) == ("waiting", "summary", "", 0)


def test_what_is_wrong_or_would_take_all_the_memory_is_refused_unless_it_is_the_folders_own(client):
    for name, value in (("beem", 2), ("beam", True), ("ngram_ignore_tokens", "nowhere"), ("max_len_a", 11.0)):
        answer = ask(client, **{name: value})
        assert answer.status_code == 400 and name.replace("_", "-") in answer.text
    server.check_options({"beam": 80}, {**DECODING, "beam": 80})
    for most in (50, 80):
        with pytest.raises(InputError, match=f"--beam {most + 1}: choose at most {most}"):
            server.check_options({"beam": most + 1}, {**DECODING, "beam": most})


def test_the_form_has_every_option_and_its_defaults_change_nothing(client, summarizer):
    about = client.get("/about.json").json()
    fields = {field["name"]: field for field in about["options"]}
    assert set(fields) == set(CALL) - {"shortlist", "choose", "choose_words"}
    assert len(about["options"]) == len(fields)
    assert {name: fields[name]["default"] for name in DECODING} == DECODING
    assert [fields[name]["kind"] for name in ("lenpen", "allow_unk", "infer_dtype")] == ["float", "bool", "choice"]
    assert "shortlist" in {field["name"] for field in server.describe_fields({**DECODING, "shortlist": True})}
    extracts = [field["name"] for field in server.describe_fields({"choose": "extract"})]
    assert "words" in extracts and "beam" not in extracts
    assert about["title"] == "a <b>model</b>"
    defaults = server.get_default_options(summarizer.config.decoding)
    server.check_options(defaults, summarizer.config.decoding)
    assert summarizer.summarize(TEXT, **defaults) == summarizer.summarize(TEXT)


@pytest.mark.parametrize("opens", [False, True])
def test_the_page_is_opened_if_that_is_asked_for(tmp_path, monkeypatch, capsys, opens):
    opened, threads = queue.Queue(), []
    model = SimpleNamespace(device="cpu", summarize=lambda text: threads.append(threading.current_thread()))
    model.config, model.picks_sentences = SimpleNamespace(task={"truncate_source": 400}), False
    monkeypatch.setattr("fairseq_etads.summarizer.Summarizer.load", lambda *args: model)
    monkeypatch.setattr(command, "_serve", lambda summarizer, title, listener: opened.put(title))
    monkeypatch.setattr(command.webbrowser, "open", opened.put)
    assert command.main([str(make_folder(tmp_path)[0]), "--port", "0", *["--open"] * opens]) == 0
    url = re.search(r"http://127\.0\.0\.1:[1-9]\d*/", capsys.readouterr().out)[0]
    found = {opened.get(timeout=20) for _ in range(1 + opens)}
    assert found == ({"model", url} if opens else {"model"}) and opened.empty()
    (thread,) = threads  # what the first summary waits for is done before anybody looks
    assert not thread.is_alive(), "threads of OpenMP that stay would make those of the searches wait asleep"


def test_ctrl_c_does_not_wait_until_the_model_is_loaded():
    ended, loaded = threading.Event(), []

    def load():
        os.kill(os.getpid(), signal.SIGINT)
        loaded.append(not ended.wait(20))

    with pytest.raises(KeyboardInterrupt):
        command._run_in_thread(load)
    assert not loaded, "the interrupt came only after the work was done"
    ended.set()
    with pytest.raises(ZeroDivisionError):
        command._run_in_thread(lambda: 1 // 0)


class Held:
    """A summariser with searches that wait at every step until they are released."""

    def __init__(self, summarizer):
        self.summarizer, self.config = summarizer, summarizer.config
        self.stream = summarizer.stream
        self.reached, self.go_on, self.ended = threading.Event(), threading.Event(), []

    def summarize(self, text, on_step, **options):
        def held(partial):
            self.reached.set()
            assert self.go_on.wait(20)
            on_step(partial)

        try:
            return self.summarizer.summarize(text, on_step=held, **options)
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise


@pytest.fixture
def held(summarizer):
    demo = server.DemoServer(Held(summarizer), "held")
    yield demo
    demo.summarizer.go_on.set()
    demo.close()


def test_so_many_may_wait_and_no_more(held, monkeypatch):
    monkeypatch.setattr(server, "MAX_WAITING", 2)
    with TestClient(held.make_app(), base_url=URL) as client, ThreadPoolExecutor(3) as pool:
        answers = []
        for number in (1, 2, 3):
            answers.append(pool.submit(ask, client))
            until(lambda number=number: len(held.jobs) == number)
        refused = ask(client)
        assert refused.status_code == 503 and refused.headers["retry-after"] == "2"
        held.summarizer.go_on.set()
        assert [told(answer.result(60))[0]["before"] for answer in answers] == [0, 1, 2]
        assert told(ask(client))[-1]["kind"] == "summary"


def until(condition):
    """Wait at most twenty seconds until the condition holds."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends, "it never held"
        time.sleep(0.01)


@contextlib.asynccontextmanager
async def asked_by_hand(app):
    """A request by a client that can disconnect: yields the response's messages and a function that disconnects."""
    body = json.dumps({"text": TEXT, "options": {"min_len": 6}}).encode()
    scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"}
    scope.update(scheme="http", method="POST", path="/summarize", query_string=b"")
    scope["headers"] = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    gone, sent = asyncio.Event(), []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if parts:
            return parts.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    task = asyncio.create_task(app(scope, receive, send))
    yield sent, gone
    await asyncio.wait_for(task, 60)


def test_a_client_that_goes_away_stops_its_search_and_those_that_wait(held):
    """A search that continued to its end would keep all other clients waiting."""

    async def go_away():
        app = held.make_app()
        async with asked_by_hand(app) as (_, gone):
            await asyncio.to_thread(until, held.summarizer.reached.is_set)
            async with asked_by_hand(app) as (_, gone_too):
                await asyncio.to_thread(until, lambda: len(held.jobs) == 2)
                gone_too.set()
            gone.set()

    asyncio.run(go_away())
    running, waiting = held.jobs
    assert running.is_stopped and waiting.future.cancelled()
    held.summarizer.go_on.set()
    until(running.future.done)
    assert held.summarizer.ended == ["JobStoppedError"], "the one that was waiting never began"
    with TestClient(held.make_app(), base_url=URL) as client:
        assert told(ask(client))[-1]["kind"] == "summary"


def test_steps_are_sent_while_the_search_goes_on(held):
    async def watch():
        async with asked_by_hand(held.make_app()) as (sent, gone):
            await asyncio.to_thread(until, held.summarizer.reached.is_set)
            before = b"".join(message.get("body", b"") for message in sent)
            held.summarizer.go_on.set()
            await asyncio.to_thread(until, lambda: any(b'"summary"' in m.get("body", b"") for m in list(sent)))
            gone.set()
            return before, [json.loads(message["body"])["kind"] for message in sent if message.get("body")]

    before, kinds = asyncio.run(watch())
    assert json.loads(before)["kind"] == "waiting", "nothing is kept back until the end"
    assert kinds[:3] == ["waiting", "document", "step"] and kinds[-1] == "summary", "each event is a part of its own"


def test_the_end_of_the_server_stops_its_searches(held):
    with TestClient(held.make_app(), base_url=URL) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, client)
        assert held.summarizer.reached.wait(20)
        (job,) = held.jobs
        held.close()
        held.summarizer.go_on.set()
        assert [event["kind"] for event in told(answer.result(60))] == ["waiting"]
        assert ask(client).status_code == 503
    until(job.future.done)
    assert held.summarizer.ended == ["JobStoppedError"]


def test_what_goes_wrong_is_said_and_the_next_document_is_summarised(demo, client, monkeypatch):
    def fails(*arguments, **options):
        raise MemoryError("no room\nfor it")

    with monkeypatch.context() as patch:
        patch.setattr(demo.summarizer, "summarize", fails)
        problem = {"kind": "problem", "words": "Something went wrong (MemoryError): no room for it"}
        assert told(ask(client))[-1] == problem
    assert told(ask(client))[-1]["kind"] == "summary"
