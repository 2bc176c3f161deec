"""Measure the speed of beam search in fairseq, this project and CTranslate2 at the sizes in the paper.

    python benchmarks/bench_generate.py [--instructions native avx2] [--runs 3] [--only fairseq etads]

Documents have 400 tokens and summaries exactly 100 words, so that all systems run the same number of steps. Three
systems have the same random weights: "fairseq" is fairseq's ``transformer`` with fairseq's search, "etads_basic" is the
same model in this project, and "ctranslate2" is measured if this package is installed. "etads" has both mechanisms and
the decoding options of the paper: Wu's length penalty, a coverage penalty of 1, and no repeated trigrams.

Each system runs in a process of its own; they alternate, and medians count. fairseq's model is prepared with the same
calls as in ``fairseq-generate``: the generator of its task, ``prepare_for_inference_`` and ``inference_step``, with
parameters that require a gradient; without, torch batches the product with the vocabulary, which takes twice as long.

"avx2" shows the speed without AVX-512. CTranslate2 is measured with all instructions and with AVX2 only, which can be
faster; the faster one counts. Each processor and instruction set has its file.
"""

import re
import statistics
import tempfile
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import measurement
import torch
from bench_training_step import build_model
from fairseq.dataclass.configs import GenerationConfig

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.vocabulary.shortlist import Shortlist

BEAM, FEW_WORDS = 10, 5
PAPER = {"len_penalty": 0.9, "length_penalty_type": "wu", "coverage_penalty": 1.0, "no_repeat_ngram_size": 3}
SYSTEMS = [
    "fairseq",
    *(f"{arch} {infer_dtype}" for infer_dtype in ("fp32", "bf16", "int8") for arch in ("etads_basic", "etads")),
    *("etads fp32 + shortlist", "etads int8 + shortlist", "ctranslate2 float32", "ctranslate2 int8"),
]
AVX2 = dict.fromkeys(("ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "FBGEMM_ENABLE_INSTRUCTIONS"), "AVX2")
AVX2 |= {"ATEN_CPU_CAPABILITY": "avx2", "CT2_FORCE_CPU_ISA": "AVX2"}
LIMITED = " (AVX2)"


def create_summariser(system, args):
    """Create a function that summarises documents (B, 400) in a given number of words, and returns the words."""
    name, *number_format = system.split()
    _, task, model = build_model(name if name.startswith("etads") else "transformer", 400, args.vocabulary)
    if name == "ctranslate2":
        return create_ctranslate2_summariser(model.eval(), task.target_dictionary, *number_format)
    limits = {"min_len": args.words, "max_len_b": args.words}
    if name == "fairseq":
        generation = GenerationConfig(beam=BEAM, **limits)
        model.prepare_for_inference_(Namespace(generation=generation))
        generator = task.build_generator([model], generation)
    else:
        infer_dtype, *more = number_format
        options = {**limits, **(PAPER if name == "etads" else {}), "infer_dtype": infer_dtype, "keep_attention": False}
        if more:
            options["shortlist"] = create_random_shortlist(args.vocabulary, task.target_dictionary)
        generator = SummaryGenerator([model.eval()], task.target_dictionary, BEAM, **options)

    def run(source, length):
        sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(1).sum(1)}}
        if name == "fairseq":
            generator.min_len = generator.max_len_b = length
            found = task.inference_step(generator, [model], sample)
        else:
            generator.options = replace(generator.options, min_len=length, max_len=length)
            found = generator.generate(None, sample)
        return [row[0]["tokens"][:-1].tolist() for row in found]

    return run


def create_random_shortlist(words, dictionary):
    """Create shortlists as long as from etads-shortlist for SumPubMed: 1,830 words for a document, 4,700 for eight."""
    numbers, frequent = torch.Generator().manual_seed(0), torch.arange(1000)
    pool = torch.randperm(words - len(frequent), generator=numbers)[:600] + len(frequent)
    chosen = pool[torch.randint(len(pool), (words, 2), generator=numbers)]
    return Shortlist.from_arrays(frequent.int().numpy(), chosen.int().numpy(), dictionary, dictionary)


def create_ctranslate2_summariser(model, dictionary, compute_type):
    """Create a function that summarises documents with CTranslate2 and the weights of fairseq's transformer."""
    import ctranslate2
    from ctranslate2.converters import fairseq as converter

    spec = ctranslate2.specs.TransformerSpec.from_config((4, 4), 8, pre_norm=False)
    names = ["<blank>" if token == "<pad>" else token for token in dictionary.symbols]
    with torch.no_grad():
        converter.set_transformer_encoder(spec.encoder, model.encoder)
        converter.set_transformer_decoder(spec.decoder, model.decoder)
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token, spec.config.add_source_eos = spec.config.eos_token, False
    spec.validate()
    spec.optimize()
    options = {"compute_type": compute_type, "inter_threads": 1, "intra_threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, device="cpu", **options)

    def run(source, length):
        texts = [[names[token] for token in row if token != 1] for row in source.tolist()]
        limits = {"min_decoding_length": length, "max_decoding_length": length}
        results = translator.translate_batch(texts, beam_size=BEAM, length_penalty=1, **limits)
        return [[dictionary.index(word) for word in result.hypotheses[0]] for result in results]

    return run


def prepare_search(system, args):
    """Return a system's memory and words, and the function that measures the time of a search."""
    run = create_summariser(system, args)
    source = torch.randint(4, args.vocabulary, (args.documents, 400), generator=torch.Generator().manual_seed(0))
    source[:, -1] = 2
    before = measurement.read_memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, which would otherwise include loading
    run(source, args.words)  # also warms up
    about = {"MiB": {"before": before, "peak": measurement.read_memory("VmHWM")}, "words": run(source[:1], FEW_WORDS)}

    def measure_documents_per_second(at_once):
        documents = source if at_once > 1 else source[:2]
        started = time.perf_counter()
        for batch in documents.split(at_once):
            run(batch, args.words)
        return len(documents) / (time.perf_counter() - started)

    return about, measure_documents_per_second


def measure(instructions, args):
    """Measure all systems with one instruction set and return the report."""
    environment = AVX2 if instructions == "avx2" else {}
    systems = {name: (name, environment) for name in SYSTEMS if not args.only or name.startswith(tuple(args.only))}
    if instructions == "native":
        limited = [name for name in systems if name.startswith("ctranslate2")]
        systems.update({name + LIMITED: (name, {"CT2_FORCE_CPU_ISA": "AVX2"}) for name in limited})
    speeds = {}
    with measurement.start_peers(systems) as peers:
        if not peers:
            raise SystemExit(f"--only: nothing to measure; the systems are {', '.join(SYSTEMS)}")
        about = {label: peer.about for label, peer in peers.items()}
        for batches, at_once in (("together", args.documents), ("one at a time", 1)):
            found = measurement.ask_in_turn(peers, at_once, args.runs)
            medians = {label: statistics.median(values) for label, values in found.items()}
            for label in [label for label in found if label.endswith(LIMITED)]:
                del found[min(label, label[: -len(LIMITED)], key=medians.get)]
            print(f"{instructions}, documents per second, {batches}:")
            speeds[batches] = measurement.compare(found)
    fairseq = about.get("fairseq", {"words": None})
    comparable = {label: told["words"] for label, told in about.items() if not label.startswith("etads ")}
    return {
        "instructions": instructions,
        "task": f"400 tokens, {args.vocabulary} words, beam {BEAM}, {args.words} words out",
        "documents per second": speeds,
        # "etads" is another model; CTranslate2's longest summaries lack an end symbol, which changes the ranking
        "same words as fairseq": {label: words == fairseq["words"] for label, words in comparable.items()},
        "MiB": {label: told["MiB"] for label, told in about.items()},
    }


def main():
    parser = measurement.make_parser(__doc__, "generate", runs=3)
    parser.add_argument("--instructions", nargs="+", choices=("native", "avx2"), default=["native", "avx2"])
    parser.add_argument("--documents", type=int, default=8, help="number of documents per batch (default: %(default)s)")
    parser.add_argument("--words", type=int, default=100, help="number of words per summary (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument("--only", nargs="+", metavar="SYSTEM", help=f"beginnings of the names of {', '.join(SYSTEMS)}")
    args = parser.parse_args()
    if args.peer:
        return measurement.serve(lambda: prepare_search(args.peer, args))
    for instructions in args.instructions:
        machine = measurement.describe_machine()
        used = machine["has"] if instructions == "native" else instructions
        name = re.sub(r"[^a-z0-9]+", "-", f"{machine['cpu']} {machine['family']} {used}".lower()).strip("-")
        measurement.write_record(args.output / f"{name}.json", measure(instructions, args), args)


if __name__ == "__main__":
    main()
