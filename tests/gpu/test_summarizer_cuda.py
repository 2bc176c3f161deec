"""Model folders on a GPU: Summarizer, etads-summarize, etads-explain, etads-demo and exports give a CPU's results."""

import json

import convolutional
import language_models
import pytest
import torch
from demo_server import TEXT, URL, ask, told
from device_steps import PRETENDED, on_the_cpu, tolerance
from folders import make_folder, make_run
from starlette.testclient import TestClient

from fairseq_etads import Summarizer
from fairseq_etads.commands import explain, export, summarize
from fairseq_etads.demo import server

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

TEXTS = [TEXT, "w9", "", "only unknown words", " ".join(f"w{n % 40} x{n}" for n in range(50))]
RUNS = {
    "pointer": {"pointer": "soft"},
    "recurrent": {"arch": "pg_coverage"},
    "extractor": {"arch": "unified_summarizer", "paper_init": False, "mark": True},
    "convolutions": {"arch": "convs2s", "pointer": "soft", **convolutional.SIZES},
    "language model": {"arch": "abs", "pointer": "soft", **language_models.SIZES},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = {}

    def of(name):
        if name not in made:
            with on_the_cpu():
                made[name] = make_folder(tmp_path_factory.mktemp("made"), **RUNS[name])[0]
        return made[name]

    return of


def same_numbers(found, wanted):
    """Compare two JSON values: texts exactly, numbers as closely as float32 allows."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            same_numbers(found[name], wanted[name])
    elif isinstance(wanted, list):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            same_numbers(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", RUNS)
def test_a_summarizer_writes_and_explains_as_on_a_cpu(name, folders):
    on_gpu, on_cpu = (Summarizer.load(folders(name), device) for device in ("cuda", "cpu"))
    assert on_gpu.device.type == "cuda" and Summarizer.load(folders(name)).device.type == "cuda"
    with on_the_cpu():
        summaries = on_cpu.summarize(TEXTS, min_len=2)
        given = summaries[-1].text
        explained = on_cpu.explain(TEXTS[-1], summary=given).to_dict()
    for found, wanted in zip(on_gpu.summarize(TEXTS, min_len=2), summaries):
        assert found.score == pytest.approx(wanted.score, rel=1e-3, abs=1e-4)
        same = (found.text, found.tokens, found.copied) == (wanted.text, wanted.tokens, wanted.copied)
        assert same or name == "language model", "its untrained distributions are flat: summaries have one score"
    found = on_gpu.explain(TEXTS[-1], summary=given).to_dict()
    same_numbers(json.loads(json.dumps(found)), json.loads(json.dumps(explained)))


# On a simulated GPU, bf16 finds what fp16 finds.
@pytest.mark.parametrize("infer_dtype", ["fp16"] if PRETENDED else ["fp16", "bf16"])
def test_a_summarizer_writes_in_half_precision(infer_dtype, folders):
    """Scores differ by the format's rounding; with fp16 the summaries are the same."""
    on_gpu, on_cpu = (Summarizer.load(folders("pointer"), device) for device in ("cuda", "cpu"))
    found, wanted = on_gpu.summarize(TEXTS, infer_dtype=infer_dtype), on_cpu.summarize(TEXTS, infer_dtype=None)
    if infer_dtype == "fp16":
        assert [one.text for one in found] == [other.text for other in wanted]
    for one, other in zip(found, wanted):
        assert one.score == pytest.approx(other.score, rel=tolerance(infer_dtype), abs=1e-3)


def test_the_commands_write_as_on_a_cpu(folders, tmp_path):
    (tmp_path / "documents.txt").write_text("\n".join(TEXTS) + "\n")
    lines, figures = {}, {}
    for device in ("cuda:0", "cpu"):
        page, out = tmp_path / f"{device[:4]}.json", tmp_path / f"{device[:4]}.jsonl"
        common = [str(folders("pointer")), str(tmp_path / "documents.txt"), "--device", device]
        assert summarize.main([*common, "--lines", "--output", str(out)]) == 0
        assert explain.main([*common, "--lines", "--json", str(page), "-o", str(tmp_path / f"{device[:4]}.html")]) == 0
        lines[device] = [json.loads(line) for line in out.read_text().splitlines()]
        figures[device] = json.loads(page.read_text())
    assert len(lines["cpu"]) == len(TEXTS)
    same_numbers(lines["cuda:0"], lines["cpu"])
    same_numbers(figures["cuda:0"], figures["cpu"])


def test_a_folder_that_is_exported_where_there_is_a_gpu_works_on_both(tmp_path):
    make_run(tmp_path / "run", pointer="soft")
    assert export.main([str(tmp_path / "run"), str(tmp_path / "folder")]) == 0
    found, wanted = (Summarizer.load(tmp_path / "folder", device).summarize(TEXT) for device in ("cuda", "cpu"))
    assert found.text == wanted.text != ""


def test_the_demo_writes_as_on_a_cpu(folders):
    wanted = Summarizer.load(folders("pointer"), "cpu").summarize(TEXT, beam=1, min_len=4)
    demo = server.DemoServer(Summarizer.load(folders("pointer"), "cuda"), "a model")
    try:
        with TestClient(demo.make_app(), base_url=URL) as client:
            _, _, *steps, last = told(ask(client, beam=1, min_len=4))
    finally:
        demo.close()
    assert len(steps) >= 4 and last["text"] == wanted.text
    assert last["score"] == pytest.approx(wanted.score, rel=1e-3)
    same_numbers(last["explanation"], json.loads(json.dumps(wanted.explain().to_dict())))
