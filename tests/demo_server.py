"""Shared parts of the tests of etads-demo's server: a server without a socket, and requests to it."""

import json

import pytest
from folders import make_folder

from fairseq_etads import Summarizer

pytest.importorskip("starlette", reason="needs the extra demo")
pytest.importorskip("httpx", reason="needs httpx, which Starlette's client for tests uses")

from starlette.testclient import TestClient

from fairseq_etads.demo import server

TEXT = "W5 w6 Zebra yak w20 😀 w21"
URL = "http://127.0.0.1:8000"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory):
    return Summarizer.load(make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0], device="cpu")


@pytest.fixture
def demo(summarizer):
    made = server.DemoServer(summarizer, "a <b>model</b>")
    yield made
    made.close()


@pytest.fixture
def client(demo):
    with TestClient(demo.make_app(), base_url=URL) as client:
        yield client


def ask(client, text=TEXT, headers=None, **options):
    return client.post("/summarize", json={"text": text, "options": options}, headers=headers)


def told(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]
