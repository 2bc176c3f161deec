"""Beam search at the paper's sizes: documents per second, for fairseq, this project and CTranslate2.

    python benchmarks/bench_generate.py [--output benchmarks/results/generate.json] [--runs 3]

Documents of 400 tokens, 50,000 words, beam 10, summaries of exactly 100 words, so that every system does the same
number of steps. Three systems have the same weights: "fairseq", its ``transformer`` through its own
``SequenceGenerator``; "etads_basic", this project's; and "ctranslate2", if that package is installed. "etads" has both
mechanisms and the paper's decoding: Wu's length penalty, coverage penalty 1, and no trigram twice. The systems take
turns; numbers are medians. Weights are random: a step costs the same whatever it says.
"""

import argparse
import json
import statistics
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path

import torch
from bench_focus_attention import machine
from bench_training_step import build
from fairseq.sequence_generator import SequenceGenerator

from fairseq_etads.commands.architectures import numbered_dictionary
from fairseq_etads.generation import SummaryGenerator

PAPER = {"len_penalty": 0.9, "length_penalty_type": "wu", "coverage_penalty": 1.0, "no_repeat_ngram_size": 3}


def with_fairseqs_classes(cls, model, dictionary, beam, words, **options):
    generator = cls([model], dictionary, beam_size=beam, min_len=words, max_len_b=words, **options)

    def run(source, limit=None):
        longest = limit or words
        if isinstance(generator, SummaryGenerator):
            generator.settings = replace(generator.settings, min_len=longest, max_len_b=longest)
        else:
            generator.min_len = generator.max_len_b = longest
        sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(1).sum(1)}}
        return [row[0]["tokens"][:-1].tolist() for row in generator.generate([model], sample)]

    return run


def with_ctranslate2(model, dictionary, beam, words, compute_type, directory, threads):
    """CTranslate2's engine with the weights of fairseq's transformer; None if the package is missing."""
    try:
        import ctranslate2
        from ctranslate2.converters import fairseq as converter
    except ImportError:
        return None
    spec = ctranslate2.specs.TransformerSpec.from_config((4, 4), 8, pre_norm=False)
    names = ["<blank>" if token == "<pad>" else token for token in dictionary.symbols]
    with torch.no_grad():
        converter.set_transformer_encoder(spec.encoder, model.encoder)
        converter.set_transformer_decoder(spec.decoder, model.decoder)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token = spec.config.eos_token
    spec.config.add_source_eos = False
    spec.validate()
    spec.optimize()
    Path(directory).mkdir()
    spec.save(directory)
    translator = ctranslate2.Translator(
        directory, device="cpu", compute_type=compute_type, inter_threads=1, intra_threads=threads
    )

    def run(source, limit=None):
        limit = limit or words
        texts = [[names[token] for token in row if token != 1] for row in source.tolist()]
        results = translator.translate_batch(
            texts, beam_size=beam, min_decoding_length=limit, max_decoding_length=limit, length_penalty=1
        )
        return [[dictionary.index(word) for word in result.hypotheses[0]] for result in results]

    return run


def systems(args, dictionary, directory):
    basic, etads = build("etads_basic", args.vocabulary).eval(), build("etads", args.vocabulary).eval()
    stock = build("transformer", args.vocabulary).eval()
    stock.load_state_dict(basic.state_dict())
    for model in (basic, etads, stock):
        model.requires_grad_(False)
    sizes = (dictionary, args.beam, args.words)
    found = {"fairseq": with_fairseqs_classes(SequenceGenerator, stock, *sizes)}
    for infer_dtype in ("fp32", "bf16", "int8"):
        options = {"infer_dtype": infer_dtype, "keep_attention": False}
        found[f"etads_basic {infer_dtype}"] = with_fairseqs_classes(SummaryGenerator, basic, *sizes, **options)
        found[f"etads {infer_dtype}"] = with_fairseqs_classes(SummaryGenerator, etads, *sizes, **options, **PAPER)
    for compute_type in ("float32", "int8"):
        place = Path(directory) / compute_type
        run = with_ctranslate2(stock, *sizes, compute_type, str(place), torch.get_num_threads())
        if run is not None:
            found[f"ctranslate2 {compute_type}"] = run
    return found


def measure(found, source, at_once, runs):
    """System -> documents per second, the median over runs in which the systems take turns."""
    speeds = {name: [] for name in found}
    for _ in range(runs):
        for name, run in found.items():
            started = time.perf_counter()
            for batch in source.split(at_once):
                run(batch)
            speeds[name].append(len(source) / (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in speeds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "generate.json")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each system (default: %(default)s)")
    parser.add_argument("--documents", type=int, default=8, help="documents at once (default: %(default)s)")
    parser.add_argument("--words", type=int, default=100, help="words of a summary (default: %(default)s)")
    parser.add_argument("--beam", type=int, default=10)
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help="systems to measure, by their first words")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    dictionary = numbered_dictionary(args.vocabulary)
    source = torch.randint(4, args.vocabulary, (args.documents, 400), generator=torch.Generator().manual_seed(0))
    source[:, -1] = dictionary.eos()
    with tempfile.TemporaryDirectory() as directory:
        found = systems(args, dictionary, directory)
        if args.only:
            found = {name: run for name, run in found.items() if name.startswith(tuple(args.only))}
        outputs = {name: run(source[:1], 5) for name, run in found.items()}  # and everything is warm
        speeds = {
            f"{at_once} at once": measure(found, source[:documents], at_once, args.runs)
            for at_once, documents in ((args.documents, args.documents), (1, min(2, args.documents)))
        }
    report = {
        "machine": machine(),
        "task": f"400 tokens, {args.vocabulary} words, beam {args.beam}, {args.words} words out; documents per second",
        "runs": args.runs,
        "same words as fairseq": {
            name: words == outputs["fairseq"] for name, words in outputs.items() if not name.startswith("etads ")
        } if "fairseq" in outputs else {},
        "documents per second": {
            how: {name: round(speed, 3) for name, speed in values.items()} for how, values in speeds.items()
        },
        "ratio to fairseq": {
            how: {name: round(speed / values["fairseq"], 2) for name, speed in values.items()}
            for how, values in speeds.items()
            if "fairseq" in values
        },
    }  # fmt: skip
    print(json.dumps(report, indent=2))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
