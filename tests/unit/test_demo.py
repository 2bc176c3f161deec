"""The page's server: streams of summaries, what it refuses and in which words, what it lets a page do, its queue."""

import asyncio
import contextlib
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from folders import DECODING, make_folder

pytest.importorskip("starlette", reason="needs the extra demo")
pytest.importorskip("httpx", reason="needs httpx, which Starlette's client for tests uses")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the client: Starlette 1.8 would like another one than httpx

from starlette.testclient import TestClient  # noqa: E402

from fairseq_etads import Summarizer  # noqa: E402
from fairseq_etads.demo import events, form, local, server  # noqa: E402
from fairseq_etads.search import call_options  # noqa: E402
from fairseq_etads.text.files import InputError  # noqa: E402

TEXT = "W5 w6 Zebra yak w20 😀 w21"
URL = "http://127.0.0.1:8000"
BAD_HOSTS = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "evil.example:8000", "127.0.0.2",
             "0.0.0.0", "localhost:8000@evil.example", "localhost:", "", "127.0.0.1:8000\tx"]  # fmt: skip
PAGES = sorted(path for path in server.FILES)


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory):
    return Summarizer.load(make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0], device="cpu")


@pytest.fixture
def demo(summarizer):
    made = server.Demo(summarizer, "a <b>model</b>")
    yield made
    made.worker.close()


@pytest.fixture
def client(demo):
    with TestClient(demo.app(), base_url=URL) as client:
        yield client


def ask(client, text=TEXT, headers=None, **options):
    return client.post("/summarize", json={"text": text, "options": options}, headers=headers)


def told(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


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
        answer = client.post("/summarize", content=json.dumps({"text": text}).encode(),
                             headers={"Content-Type": "application/json"})  # fmt: skip
        assert told(answer)[-1]["explanation"]["document"] == text


def test_how_much_was_read_is_said_in_words(client):
    long = told(ask(client, "one two, three. " * 40))[-1]
    assert (long["words"], long["explanation"]["left_out"]) == (120, 60), "the words have their stops"
    assert long["words_read"] == 60
    short = told(ask(client, "w1 w2  w3\n"))[-1]
    assert (short["words"], short["words_read"]) == (3, 3)
    assert events.words_read("a b c", 1, []) == {"words": 3, "words_read": 0}


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


@pytest.mark.parametrize("options, words", [({"beam": 51}, "--beam 51: choose at most 50 on this page"),
                                            ({"max_len": 1001}, "--max-len 1001: choose at most 1000"),
                                            ({"max_len_a": 11.0}, "--max-len-a 11.0: choose at most 10")])  # fmt: skip
def test_what_would_take_all_the_memory_is_refused(client, options, words):
    answer = ask(client, **options)
    assert answer.status_code == 400 and words in answer.text


def test_a_folders_own_large_values_are_possible():
    form.check({"beam": 80}, {**DECODING, "beam": 80})
    with pytest.raises(InputError, match="--beam 81: choose at most 80"):
        form.check({"beam": 81}, {**DECODING, "beam": 80})


@pytest.mark.parametrize(
    "body, words",
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"text": 1' + b"0" * 5000 + b"}", "not JSON"),
        (b"[]", "Send"),
        (b'{"options": {}}', "Send"),
        (b'{"text": ["w1"]}', "Send"),
        (b'{"text": "w1", "more": 1}', "Send"),
        (b'{"text": "w1", "options": [1]}', "options: send an object"),
        (b'{"text": "w1", "options": {"lenpen": NaN}}', "--lenpen nan"),
        (b'{"text": "w1", "options": {"beam": 1' + b"0" * 400 + b"}}", "--beam 1000"),
    ],
)
def test_what_is_no_request_is_refused_in_words(client, body, words):
    answer = client.post("/summarize", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400 and words in answer.text and len(answer.text) < 500


@pytest.mark.parametrize("announced", [True, False])
def test_a_request_that_is_too_long_is_refused(client, announced):
    most = server.MAX_BYTES
    body = json.dumps({"text": "w" * (most - len('{"text": ""}'))}).encode()
    assert len(body) == most
    for content, status in ((body, 200), (body + b" ", 413), (b" " * 12 * most, 413)):
        sent = content if announced else (content[at : at + 2**16] for at in range(0, len(content), 2**16))
        answer = client.post("/summarize", content=sent, headers={"Content-Type": "application/json"})
        assert answer.status_code == status
    assert answer.text == "That is too long: this page takes up to 1,000,000 bytes."


@pytest.mark.parametrize("path", [*PAGES, "/about.json", "/summarize"])
@pytest.mark.parametrize("host", BAD_HOSTS)
def test_other_names_of_this_computer_are_refused(client, path, host):
    """A page of another site can let its name point to 127.0.0.1; the header Host still has that name."""
    method = "POST" if path == "/summarize" else "GET"
    answer = client.request(method, path, headers={"Host": host}, json={"text": "w1"} if method == "POST" else None)
    assert answer.status_code == 403 and "answers to 127.0.0.1 and localhost only" in answer.text


def test_two_names_at_once_are_refused():
    good, evil = (b"host", b"localhost:8000"), (b"host", b"evil.example")
    assert local.refused("GET", [good]) is None
    for headers in ([good, evil], [evil, good], [good, good], []):
        assert local.refused("GET", headers)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST", "127.0.0.1", "localhost:1"])
def test_its_own_names_are_answered(client, host):
    assert client.get("/", headers={"Host": host}).status_code == 200
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert told(ask(client, headers=own))[-1]["kind"] == "summary"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:8001"},
        {"Origin": "http://localhost:8000"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_pages_are_refused(client, headers):
    answer = ask(client, headers=headers)
    assert answer.status_code == 403 and "answers to its own page only" in answer.text


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json",
                                  "text/plain; application/json"])  # fmt: skip
def test_only_json_is_taken(client, kind):
    """A form of another site can send the other types without asking first."""
    answer = client.post("/summarize", content=b'{"text": "w1"}', headers={"Content-Type": kind})
    assert answer.status_code == 415 and "Send JSON" in answer.text


@pytest.mark.parametrize(
    "path",
    ["/../setup.py", "/%2e%2e/%2e%2e/setup.py", "/page/", "/page/demo.js", "/demo.js/", "/demo.js%00", "//etc/passwd",
     "/static/..%2f..%2fserver.py", "/server.py", "/index.html~", "/favicon.ico", "/about.json/"],
)  # fmt: skip
def test_there_are_no_other_paths(client, path):
    answer = client.get(f"{URL}{path}", follow_redirects=False)
    assert (answer.status_code, answer.text) == (404, "Not Found")


def test_other_methods_are_refused(client):
    for method, path in (("GET", "/summarize"), ("DELETE", "/"), ("POST", "/about.json"), ("OPTIONS", "/summarize")):
        answer = client.request(method, path, headers={"Content-Type": "application/json"})
        assert answer.status_code == 405
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_every_answer_forbids_what_the_page_does_not_need(client):
    answers = [client.get(path) for path in PAGES]
    answers += [client.get("/", headers={"Host": "evil"}), client.get("/missing"), ask(client), ask(client, beam=0)]
    for answer in answers:
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


def test_the_form_has_every_option_with_the_words_of_the_command_line(client):
    about = client.get("/about.json").json()
    fields = {field["name"]: field for field in about["options"]}
    assert set(fields) == set(call_options.OPTIONS) and len(about["options"]) == len(fields)
    assert all(field["help"] == call_options.OPTIONS[name].help for name, field in fields.items())
    assert [field["name"] for field in about["options"] if field["main"]] == list(form.MAIN)
    assert {name: fields[name]["default"] for name in DECODING} == DECODING
    assert (fields["coverage_penalty"]["default"], fields["early_stopping"]["default"]) == (0.0, None)
    assert (fields["lenpen"]["kind"], fields["allow_unk"]["kind"], fields["infer_dtype"]["kind"]) == (
        "float", "bool", "choice")  # fmt: skip
    assert about["title"] == "a <b>model</b>" and "Architecture etads: copies words" in about["about"]


def test_the_defaults_of_the_form_change_nothing(summarizer):
    defaults = form.defaults(summarizer.config.decoding)
    form.check(defaults, summarizer.config.decoding)
    assert summarizer.summarize(TEXT, **defaults) == summarizer.summarize(TEXT)


def test_two_at_once_get_what_they_get_one_after_the_other(client):
    asked = [(f"w{n} New{n} w{n + 3} other w{n * 7 % 40}", {"beam": 1 + n % 3}) for n in range(8)]
    alone = [told(ask(client, text, **options)) for text, options in asked]
    with ThreadPoolExecutor(4) as pool:
        together = [told(a) for a in pool.map(lambda pair: ask(client, pair[0], **pair[1]), asked)]
    for first, second in zip(together, alone):
        assert first[-1].pop("page") != second[-1].pop("page")
        assert first[1:] == second[1:] and len(second) > 3


class Held:
    """A summarizer whose searches wait at every step until they are let go on."""

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
    demo = server.Demo(Held(summarizer), "held")
    yield demo
    demo.summarizer.go_on.set()
    demo.worker.close()


def test_so_many_may_wait_and_no_more(held, monkeypatch):
    monkeypatch.setattr(held.worker, "most_waiting", 2)
    with TestClient(held.app(), base_url=URL) as client, ThreadPoolExecutor(3) as pool:
        first = pool.submit(ask, client)
        assert held.summarizer.reached.wait(20)
        others = []
        for number in (1, 2):
            others.append(pool.submit(ask, client))
            until(lambda number=number: len(held.worker._waiting) == number)
        refused = ask(client)
        assert refused.status_code == 503 and refused.headers["retry-after"] == "2"
        assert "other summaries are waiting already: try again in a moment" in refused.text
        held.summarizer.go_on.set()
        assert [told(a.result(60))[0]["before"] for a in (first, *others)] == [0, 1, 2]
        assert told(ask(client))[-1]["kind"] == "summary"


def until(condition):
    """Wait, twenty seconds at most, until it holds."""
    pause = threading.Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never held")


@contextlib.asynccontextmanager
async def asked_by_hand(app):
    """A request whose client can go away: yields the messages of the answer and what makes the client go."""
    body = json.dumps({"text": TEXT, "options": {"min_len": 6}}).encode()
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "method": "POST",
        "path": "/summarize",
        "query_string": b"",
        "headers": headers,
    }
    gone, sent, asked = asyncio.Event(), [], []

    async def receive():
        if not asked:
            asked.append(True)
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    task = asyncio.create_task(app(scope, receive, send))
    yield sent, gone
    await asyncio.wait_for(task, 60)


def test_a_client_that_goes_away_stops_its_search_and_those_that_wait(held):
    """Without it the search would go on for as long as it takes, and everybody else would wait."""

    async def go_away():
        app = held.app()
        async with asked_by_hand(app) as (_, gone):
            await asyncio.to_thread(until, held.summarizer.reached.is_set)
            async with asked_by_hand(app) as (_, gone_too):
                await asyncio.to_thread(until, lambda: len(held.worker._waiting) == 1)
                gone_too.set()
            gone.set()

    asyncio.run(go_away())
    (waiting,) = held.worker._waiting
    assert waiting.is_stopped and held.worker._current.is_stopped
    held.summarizer.go_on.set()
    until(lambda: held.worker._current is None and not held.worker._waiting)
    assert held.summarizer.ended == ["StoppedError"], "the one that was waiting never began"
    with TestClient(held.app(), base_url=URL) as client:
        assert told(ask(client))[-1]["kind"] == "summary"


def test_steps_are_sent_while_the_search_goes_on(held):
    async def watch():
        async with asked_by_hand(held.app()) as (sent, gone):
            await asyncio.to_thread(until, held.summarizer.reached.is_set)
            before = b"".join(message.get("body", b"") for message in sent)
            held.summarizer.go_on.set()
            await asyncio.to_thread(until, lambda: any(b'"summary"' in m.get("body", b"") for m in list(sent)))
            gone.set()
            kinds = [json.loads(message["body"])["kind"] for message in sent if message.get("body")]
            return before, kinds

    before, kinds = asyncio.run(watch())
    assert json.loads(before)["kind"] == "waiting", "nothing is kept back until the end"
    assert kinds[:3] == ["waiting", "document", "step"] and kinds[-1] == "summary", "each event is a part of its own"


def test_the_end_of_the_server_stops_its_searches(held):
    with TestClient(held.app(), base_url=URL) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, client)
        assert held.summarizer.reached.wait(20)
        held.worker.close()
        held.summarizer.go_on.set()
        assert [event["kind"] for event in told(answer.result(60))] == ["waiting"]
        assert ask(client).status_code == 503
    held.worker.join(60)
    assert not held.worker._thread.is_alive() and held.summarizer.ended == ["StoppedError"]


def test_what_goes_wrong_is_said_and_the_next_document_is_summarised(demo, client, monkeypatch):
    def fails(*arguments, **options):
        raise MemoryError("no room\nfor it")

    with monkeypatch.context() as patch:
        patch.setattr(demo.summarizer, "summarize", fails)
        assert told(ask(client))[-1] == {
            "kind": "problem",
            "words": "Something went wrong (MemoryError): no room for it",
        }
    assert told(ask(client))[-1]["kind"] == "summary"


def test_documents_are_not_logged(client, caplog, capfd):
    secret = "w1 confidential w2"
    ask(client, secret), ask(client, secret, beam=0), ask(client, secret, headers={"Origin": "null"})
    said = "".join(capfd.readouterr()) + "".join(record.getMessage() for record in caplog.records)
    assert "confidential" not in said


def test_explanations_have_a_page_without_access_to_the_server(client, summarizer, monkeypatch):
    monkeypatch.setattr(server, "MAX_EXPLANATIONS", 2)
    paths = [told(ask(client, text))[-1]["page"] for text in ("w1 w2", "w3 <b>w4</b>", TEXT)]
    assert len({*paths}) == 3 and all(len(path) > 30 for path in paths), "nobody can guess them"
    pages = [client.get(path) for path in paths]
    assert [page.status_code for page in pages] == [404, 200, 200] and "no longer kept" in pages[0].text
    assert pages[2].text == summarizer.explain(TEXT).to_html()
    assert pages[1].headers["content-security-policy"] == "sandbox allow-scripts; frame-ancestors 'none'"
    assert "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'" in pages[1].text
    assert client.get(paths[2], headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/explanation/").status_code == client.get("/explanation/../about.json%00").status_code == 404
