"""BART by the real commands: raw text, fine-tuning from its weights, and text again."""

import re

import torch
from bart import SIZES, bart_dictionary, gpt2_files, make_bart, save_bart
from etads_preprocess.prepare import main as prepare
from fairseq.data.encoders.gpt2_bpe_utils import get_encoder
from fairseq.sequence_generator import SequenceGenerator
from helpers import PAD, make_batch, run_command
from toy import PLUGIN, summaries

COUNTS = {"train": 8, "valid": 2, "test": 3}
SEARCH = {"beam": 2, "min-len": 4, "max-len-b": 9}


def make_text(folder):
    folder.mkdir()
    for split, count in COUNTS.items():
        documents = [f"The Ant, the Bee & “{number}” — naïve?\n" for number in range(count)]
        (folder / f"{split}.source").write_text("".join(documents), encoding="utf-8")
        (folder / f"{split}.target").write_text("".join(f"An Ant. <q> A Bee {i}\n" for i in range(count)))
    return folder


def test_a_model_that_begins_with_bart_and_learns_nothing_writes_what_bart_writes(tmp_path):
    """Both mechanisms have their initial weights, and the learning rate is 0. Validation computes ROUGE on text."""
    encoder, merges = gpt2_files(tmp_path)
    model = save_bart(make_bart(bart_dictionary()), bart_dictionary(), tmp_path / "bart.base")
    files = ["--gpt2-encoder-json", str(encoder), "--gpt2-vocab-bpe", str(merges)]
    files += ["--dictionary", str(model.parent / "dict.txt")]
    data = tmp_path / "data"
    prepare([str(make_text(tmp_path / "text")), str(data), "--tokens", "gpt2", *files, "--jobs", "1"])

    command = ["fairseq-train", str(data / "bin"), *PLUGIN, "--arch", "etads_bart_base", "--init-from", str(model)]
    command += [word for name, size in SIZES.items() for word in (f"--{name.replace('_', '-')}", str(size))]
    command += ["--criterion", "summarization_nll", "--optimizer", "adam", "--lr", "0", "--max-update", "2"]
    command += ["--max-tokens", "2048", "--cpu", "--num-workers", "0", "--save-dir", str(tmp_path / "run")]
    command += ["--eval-rouge", "--eval-rouge-print-samples", "1", "--eval-rouge-args", '{"beam": 1, "max_len_b": 3}']
    log = run_command([*command, "--no-epoch-checkpoints", "--truncate-source", "1023"], cwd=tmp_path).stdout
    assert re.search(r"--init-from \S+: loaded [\d,]+ of [\d,]+ parameters \(9\d\.\d%\)", log)
    assert "subwords: gpt2" in log and "reference: An Ant. A Bee 0\n" in log

    command = ["fairseq-generate", str(data / "bin"), *PLUGIN, "--path", str(tmp_path / "run/checkpoint_last.pt")]
    command += [f"--{name}={value}" for name, value in SEARCH.items()]
    command += ["--tokenizer", "etads", "--text-words", "raw", "--text-keep-case", "--bpe", "gpt2", *files[:4]]
    output = run_command([*command, "--cpu"], cwd=tmp_path).stdout
    documents = dict(re.findall(r"^S-(\d+)\t(.*)$", output, re.MULTILINE))
    assert documents["1"] == "The Ant, the Bee & “1” — naïve?" and len(documents) == COUNTS["test"]

    words = bart_dictionary(mask=False)
    fairseqs = make_bart(words)
    fairseqs.args.task = "translation"
    fairseqs.load_state_dict(torch.load(model, weights_only=False)["model"])
    pieces = get_encoder(str(encoder), str(merges))
    batch = make_batch([[words.index(str(piece)) for piece in pieces.encode(documents[str(i)])] for i in range(3)])
    sample = {"net_input": {"src_tokens": batch, "src_lengths": batch.ne(PAD).sum(1)}}
    generator = SequenceGenerator([fairseqs], words, beam_size=2, min_len=4, max_len_b=9)
    expected = [words.string(found[0]["tokens"]) for found in generator.generate([], sample)]
    assert [text for _, text in sorted(summaries(output).items())] == expected and all(expected)
