"""Measure the time and memory of a training step with the sizes in the paper, for fairseq's transformer and ETADS.

    python benchmarks/bench_training_step.py                                              the paper's sizes
    python benchmarks/bench_training_step.py --tiny --lengths 400 --runs 3 --output /tmp/try.json     (a minute)

A step is the work of fairseq-train for one batch: fairseq's ``Trainer`` with forward pass, loss, backward pass,
clipping of the gradient norm, Adam and logging. fairseq's transformer is trained as in fairseq-train, with the task
``translation`` and the criterion ``cross_entropy``. It has the sizes, the dropout and the shared embeddings of
etads_basic. Each system runs in a process of its own and takes turns with the first one. When systems shared a process,
fairseq's step with one document of 400 tokens took 1.77 s instead of 1.33 s, because another system had fragmented the
memory. Times are CPU seconds on one thread, because other processes affect them less than wall-clock time; the report
has medians over steps and ratios to the first system. Peak memory is the largest resident set of the process.

A system may have options of fairseq-train after its name. To measure Muon, and long documents:

    python benchmarks/bench_training_step.py --systems "etads,etads --optimizer muon" --lengths 400 --output muon.json
    python benchmarks/bench_training_step.py --documents 1 --lengths 400,1024,2048,4096,8192 --output long.json
"""

import time

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks import TASK_REGISTRY
from fairseq.trainer import Trainer
from measurement import ask_in_turn, compare, make_parser, read_memory, serve, start_peers, write_record

import fairseq_etads  # noqa: F401 (registers task, models and criterions)
from fairseq_etads.pipeline.architectures import make_numbered_dictionary

SYSTEMS = ["transformer", "etads_basic", "etads_focus", "etads_saliency", "etads", "etads --pointer soft"]
LENGTHS = [400, 1024, 4096]
SUMMARY = 100
OF_FAIRSEQ = ["--encoder-learned-pos", "--decoder-learned-pos", "--share-all-embeddings"]
COMMON = [
    *("--optimizer", "adam", "--adam-betas", "(0.9, 0.998)", "--lr", "1e-5", "--clip-norm", "2"),
    *("--dropout", "0.2", "--max-tokens", "4096", "--cpu", "--max-update", "1000"),
]
OF_TRANSFORMERS = ["--encoder-layers", "4", "--decoder-layers", "4"]  # other families use the sizes in their papers
TINY = [
    *("--encoder-layers", "2", "--decoder-layers", "2", "--encoder-embed-dim", "128", "--encoder-ffn-embed-dim", "512"),
    *("--encoder-attention-heads", "4", "--decoder-attention-heads", "4"),
]


def build_model(system, length, vocabulary, tiny=False):
    """Return the configuration, task and model of one system, as fairseq-train builds them from the same options."""
    arch, *more = system.split(" ")
    ours = arch != "transformer"
    task, criterion = ("summarization", "summarization_nll") if ours else ("translation", "cross_entropy")
    command = ["data", "--arch", arch, "--task", task, "--criterion", criterion, *COMMON]
    if issubclass(ARCH_MODEL_REGISTRY[arch], TransformerModelBase):
        command += [*OF_TRANSFORMERS, *(TINY if tiny else [])]
        command += ["--max-source-positions", str(length + 1), "--max-target-positions", str(SUMMARY + 1)]
    command += ["--truncate-source", str(length), "--truncate-target", str(SUMMARY)] if ours else OF_FAIRSEQ
    command += more  # these options come last, so that a system can override the optimiser
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
    torch.manual_seed(1)
    dictionary = make_numbered_dictionary(vocabulary)
    task = TASK_REGISTRY[task](cfg.task, dictionary, dictionary)
    return cfg, task, task.build_model(cfg.model)


def create_batch(documents, length, vocabulary):
    """Create a batch in the format of a dataset, with padding: the last document is shorter than the others."""
    generator = torch.Generator().manual_seed(0)
    source = torch.randint(4, vocabulary, (documents, length), generator=generator)
    source[:, -1] = 2
    if documents > 1:
        source[-1, : length // 8] = 1  # fairseq pads on the left
    target = torch.randint(4, vocabulary, (documents, SUMMARY), generator=generator)
    target[:, -1] = 2
    return {
        "id": torch.arange(documents),
        "nsentences": documents,
        "ntokens": target.numel(),
        "net_input": {
            "src_tokens": source,
            "src_lengths": source.ne(1).sum(1),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }


def prepare_steps(length, system, args):
    """Create a system's trainer; return the memory before the first step, and the function that takes a step."""
    cfg, task, model = build_model(system, length, args.vocabulary, args.tiny)
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    trainer.lr_step_begin_epoch(1)
    before = read_memory("VmHWM")
    batch = create_batch(choose_document_count(length, args), length, args.vocabulary)

    def take_step(_):
        started = time.process_time()
        trainer.train_step([batch])
        return {"seconds": time.process_time() - started, "peak": read_memory("VmHWM")}

    return {"before": before}, take_step


def choose_document_count(length, args):
    return args.documents or max(1, args.tokens // length)


def measure(length, args):
    """Measure each system in turn with the first one, at most two processes at once, because they need much memory."""
    first, *others = args.systems
    report = {"documents": choose_document_count(length, args), "systems": {}}
    for system in others or [first]:
        with start_peers({label: (f"{length} {label}", {}) for label in (first, system)}) as peers:
            steps = ask_in_turn(peers, "step", args.runs + 1)
        # The first step is a warm-up.
        seconds = compare({label: [step["seconds"] for step in taken[1:]] for label, taken in steps.items()})
        for label, taken in steps.items():
            report["systems"].setdefault(
                label,
                {
                    "CPU seconds": seconds[label],
                    "peak MiB": taken[-1]["peak"],
                    "before the first step": peers[label].about["before"],
                    "memory ratio": round(taken[-1]["peak"] / steps[first][-1]["peak"], 3),
                },
            )
    return report


def main():
    parser = make_parser(__doc__, "training_step.json", runs=5)
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=LENGTHS)
    parser.add_argument("--systems", type=lambda text: text.split(","), default=SYSTEMS)
    parser.add_argument("--tokens", type=int, default=4096, help="source tokens per batch (default: %(default)s)")
    parser.add_argument("--documents", type=int, help="documents per batch (default: as many as --tokens allows)")
    parser.add_argument("--vocabulary", type=int, default=50000)
    parser.add_argument("--tiny", action="store_true", help="use the quickstart's model sizes (2+2 layers, width 128)")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.peer:
        length, system = args.peer.split(" ", 1)
        return serve(lambda: prepare_steps(int(length), system, args))
    size = f"{args.documents} documents" if args.documents else f"{args.tokens} source tokens"
    report = {
        "step": f"fairseq's Trainer, {size} a batch, summaries of {SUMMARY} words, float32",
        "vocabulary": args.vocabulary,
        "lengths": {},
    }
    for length in args.lengths:
        print(f"{length} tokens:")
        report["lengths"][str(length)] = measure(length, args)
        write_record(args.output, report, args)  # after each length, because long documents take a long time


if __name__ == "__main__":
    main()
