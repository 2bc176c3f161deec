"""The server of etads-demo under load: its queue, clients that disconnect, its end, errors."""

# ruff: noqa: F811  # fixtures are imported, and then arguments

import asyncio
import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette", reason="needs the extra demo")
pytest.importorskip("httpx", reason="needs httpx, which Starlette's client for tests uses")
pytestmark = pytest.mark.filterwarnings("ignore")  # from the client: newer versions of Starlette prefer another httpx

from demo_server import TEXT, URL, ask, client, demo, summarizer, told  # noqa: E402, F401  # fixtures among them
from starlette.testclient import TestClient  # noqa: E402

from fairseq_etads.demo import server  # noqa: E402


def test_two_at_once_get_what_they_get_one_after_the_other(client):
    asked = [(f"w{n} New{n} w{n + 3} other w{n * 7 % 40}", {"beam": 1 + n % 3}) for n in range(8)]
    alone = [told(ask(client, text, **options)) for text, options in asked]
    with ThreadPoolExecutor(4) as pool:
        together = [told(a) for a in pool.map(lambda pair: ask(client, pair[0], **pair[1]), asked)]
    for first, second in zip(together, alone):
        assert first[-1].pop("page") != second[-1].pop("page")
        assert first[1:] == second[1:] and len(second) > 3


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
    demo.worker.close()


def test_so_many_may_wait_and_no_more(held, monkeypatch):
    monkeypatch.setattr(held.worker, "most_waiting", 2)
    with TestClient(held.make_app(), base_url=URL) as client, ThreadPoolExecutor(3) as pool:
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
    """Wait at most twenty seconds until the condition holds."""
    pause = threading.Event()
    for _ in range(2000):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("it never held")


@contextlib.asynccontextmanager
async def asked_by_hand(app):
    """A request by a client that can disconnect: yields the response's messages and a function that disconnects."""
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
    """A search that continued to its end would keep all other clients waiting."""

    async def go_away():
        app = held.make_app()
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
            kinds = [json.loads(message["body"])["kind"] for message in sent if message.get("body")]
            return before, kinds

    before, kinds = asyncio.run(watch())
    assert json.loads(before)["kind"] == "waiting", "nothing is kept back until the end"
    assert kinds[:3] == ["waiting", "document", "step"] and kinds[-1] == "summary", "each event is a part of its own"


def test_the_end_of_the_server_stops_its_searches(held):
    with TestClient(held.make_app(), base_url=URL) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, client)
        assert held.summarizer.reached.wait(20)
        held.worker.close()
        held.summarizer.go_on.set()
        assert [event["kind"] for event in told(answer.result(60))] == ["waiting"]
        assert ask(client).status_code == 503
    held.worker.join(60)
    assert not held.worker._thread.is_alive() and held.summarizer.ended == ["JobStoppedError"]


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
