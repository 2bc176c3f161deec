"""The server of etads-demo: streams of summaries, options, the form; its queue, its end, errors; access control."""

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
PAGES = sorted(server.FILES)


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


def test_any_text_is_taken_and_how_much_was_read_is_said_in_words(client):
    for text, words, read in (
        ("one two, three. " * 40, 120, 60),  # the words have their stops
        ("w1 w2  w3\n", 3, 3),
        ("<script>alert(1)</script> w1", 2, 2),
        ("\ud800 w1 \udfff", 3, 3),
        ("w1\r\n\r\nw2 \u202e w3", 4, 4),
        (" \n\t ", 0, 0),
    ):
        content = json.dumps({"text": text})
        *_, found = told(client.post("/summarize", content=content, headers=JSON))
        assert found["explanation"]["document"] == text
        assert (found["kind"], found["words"], found["words_read"]) == ("summary", words, read)


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
    assert set(fields) == set(CALL) - {"shortlist", "choose", "choose_words"} and about["title"] == "a <b>model</b>"
    assert [fields[name]["kind"] for name in ("lenpen", "allow_unk", "infer_dtype")] == ["float", "bool", "choice"]
    for decoding, shown, left_out in (({"shortlist": True}, "shortlist", ""), ({"choose": "extract"}, "words", "beam")):
        names = [field["name"] for field in server.describe_fields({**DECODING, **decoding})]
        assert shown in names and left_out not in names
    defaults = {name: field["default"] for name, field in fields.items()}
    assert DECODING.items() <= defaults.items()
    server.check_options(defaults, summarizer.config.decoding)
    assert summarizer.summarize(TEXT, **defaults) == summarizer.summarize(TEXT)


def test_the_page_is_opened_after_a_first_summary_in_a_thread_that_ends(tmp_path, monkeypatch, capsys):
    opened, threads = queue.Queue(), []
    model = SimpleNamespace(device="cpu", summarize=lambda text: threads.append(threading.current_thread()))
    model.config, model.picks_sentences = SimpleNamespace(task={"truncate_source": 400}), False
    monkeypatch.setattr("fairseq_etads.summarizer.Summarizer.load", lambda *args: model)
    monkeypatch.setattr(command, "_serve", lambda summarizer, title, listener: opened.put(title))
    monkeypatch.setattr(command.webbrowser, "open", opened.put)
    assert command.main([str(make_folder(tmp_path)[0]), "--port", "0", "--open"]) == 0
    url = re.search(r"http://127\.0\.0\.1:[1-9]\d*/", capsys.readouterr().out)[0]
    assert {opened.get(timeout=20) for _ in range(2)} == {"model", url}
    (thread,) = threads
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
    """A request by a client that can disconnect: yields what was sent to it, and an event that it sets if it leaves."""
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
        sent.append(message.get("body", b""))

    task = asyncio.create_task(app(scope, receive, send))
    yield sent, gone
    await asyncio.wait_for(task, 60)


def test_a_client_that_goes_away_stops_its_search_and_those_that_wait(held):
    """A search that continued to its end would keep all other clients waiting."""

    async def go_away():
        app = held.make_app()
        async with asked_by_hand(app) as (sent, gone):
            await asyncio.to_thread(until, held.summarizer.reached.is_set)
            assert json.loads(b"".join(sent))["kind"] == "waiting", "nothing is kept back until the end"
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


@pytest.mark.parametrize(
    "body, words",
    [
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": ["w1"]}', "Send"),
        (b'{"text": "w1", "more": 1}', "Send"),
        (b'{"text": "w1", "options": [1]}', "options: send an object"),
        (b'{"text": "w1", "options": {"lenpen": NaN}}', "--lenpen nan"),
        (b'{"text": "w1", "options": {"\\ud800": 1}}', "\\ud800"),
        (b'{"text": "w1", "options": {"beam": 1' + b"0" * 400 + b"}}", "--beam 1000"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_request_is_refused(client, body, words):
    answer = client.post("/summarize", content=body, headers=JSON)
    assert answer.status_code == 400 and words in answer.text and len(answer.text) < 500


@pytest.mark.parametrize("announced", [True, False])
def test_a_request_that_is_too_long_is_refused(client, announced):
    most = server.MAX_BYTES
    body = json.dumps({"text": "w" * (most - len('{"text": ""}'))}).encode()
    assert len(body) == most
    for content, status in ((body, 200), (body + b" ", 413), (b" " * 12 * most, 413)):
        sent = content if announced else (content[at : at + 2**16] for at in range(0, len(content), 2**16))
        answer = client.post("/summarize", content=sent, headers=JSON)
        assert answer.status_code == status
    assert "up to 1,000,000 bytes" in answer.text


@pytest.mark.parametrize(
    "headers, status",
    [
        *(({"host": name}, 403) for name in ("127.0.0.1.evil.example", "0.0.0.0", "", "localhost:8000@evil.example")),
        *(({"host": name, "origin": f"http://{name}"}, None) for name in ("127.0.0.1:8000", "LOCALHOST")),
        *(
            ({"origin": site}, 403)
            for site in ("http://evil.example", "null", "https://localhost", "http://localhost:1")
        ),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, None),
        *(({"content-type": kind}, 415) for kind in ("text/plain", "", "text/plain; application/json")),
    ],
    ids=str,
)
def test_only_the_page_itself_may_ask(headers, status):
    """Another site can let its name point to 127.0.0.1, and a form on it can send types that need no preflight."""
    given = {"host": "localhost", "content-type": "application/json", **headers}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    found = server.find_request_rejection("POST", headers)
    assert (found and found[0]) == status
    assert server.find_request_rejection("POST", [*headers, headers[0]])[0] == 403, "two names at once"


@pytest.mark.parametrize(
    "method, path, status",
    [
        *(("GET", path, 404) for path in ("/../setup.py", "/%2e%2e/%2e%2e/setup.py", "/page/demo.js", "/demo.js%00")),
        *(("GET", path, 404) for path in ("/static/..%2f..%2fserver.py", "/explanation/../about.json%00")),
        *(("GET", "/summarize", 405), ("DELETE", "/", 405), ("OPTIONS", "/summarize", 405)),
    ],
)
def test_there_are_no_other_paths_and_methods(client, method, path, status):
    answer = client.request(method, f"{URL}{path}", headers=JSON, follow_redirects=False)
    assert answer.status_code == status and not any(name.startswith("access-control") for name in answer.headers)


def test_every_path_is_guarded_and_every_answer_forbids_what_the_page_does_not_need(client):
    evil = {"Host": "evil"}
    guarded = [client.get(path, headers=evil) for path in (*PAGES, "/about.json", "/explanation/x", "/missing")]
    guarded.append(ask(client, headers=evil))
    assert {answer.status_code for answer in guarded} == {403}
    answers = [client.get(path) for path in (*PAGES, "/missing")] + [ask(client), ask(client, beam=0)]
    for answer in [*answers, *guarded]:
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "http" not in policy
        assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"


def test_the_pages_files_need_nothing_from_elsewhere_and_make_no_markup_of_text():
    for name, _ in server.FILES.values():
        text = (server.PAGE / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(", text), name
        assert name.endswith(".js") or not re.search(r"<style|\son\w+=|style=|<script(?! src=)", text), name
    assert {path.name for path in server.PAGE.iterdir()} == {name for name, _ in server.FILES.values()}


def test_explanations_have_a_page_without_access_to_the_server(client, summarizer, monkeypatch):
    monkeypatch.setattr(server, "MAX_EXPLANATIONS", 2)
    paths = [told(ask(client, text))[-1]["page"] for text in ("w1 w2", "w3 <b>w4</b>", TEXT)]
    assert len({*paths}) == 3 and all(len(path) > 30 for path in paths), "nobody can guess them"
    pages = [client.get(path) for path in paths]
    assert [page.status_code for page in pages] == [404, 200, 200]
    assert pages[2].text == summarizer.explain(TEXT).to_html()
    assert pages[1].headers["content-security-policy"] == "sandbox allow-scripts; frame-ancestors 'self'"
    assert client.get(paths[2], headers={"Host": "evil.example"}).status_code == 403
