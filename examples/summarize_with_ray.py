#!/usr/bin/env python3
"""Summarise JSON lines on all machines of a Ray cluster, or with several processes of this one.

    python -m pip install '.[ray]'
    python examples/summarize_with_ray.py debian articles/ summaries/ --column article

Every record of the output has the fields of its record in the input, and "summary", "score" and "problem". The order
differs from the input's: give the records a field that identifies them. A worker that is killed is started again, and
its batch is repeated. When the command ends with status 0, the output has every record once. If the command itself is
ended, delete the output and run it again.
"""

import argparse
import os

import ray

from fairseq_etads.summarizer.records import RecordSummarizer


def main() -> None:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument(
        "model", metavar="MODEL", help="a folder of etads-export that every machine can read, or debian"
    )
    parser.add_argument("input", metavar="IN", help="a file of JSON lines, or a folder of them")
    parser.add_argument("output", metavar="OUT", help="folder for the files of JSON lines")
    parser.add_argument("--column", default="text", help="field of the text (default: %(default)s)")
    parser.add_argument(
        "--workers", type=int, help="number of processes that summarise (default: all processors but one)"
    )
    parser.add_argument("--cpus", type=float, default=1, help="processors per process (default: %(default)s)")
    parser.add_argument("--gpus", type=float, default=0, help="GPUs per process (default: %(default)s)")
    parser.add_argument("--batch-size", type=int, default=256, help="records per batch (default: %(default)s)")
    args = parser.parse_args()
    if os.path.exists(args.output) and os.listdir(args.output):
        parser.error(f"OUT {args.output}: is not empty; name another folder or delete it")

    # Each worker uses as many threads as processors. Otherwise, torch would use all processors of the machine in each
    # worker.
    ray.init(runtime_env={"env_vars": {"OMP_NUM_THREADS": str(max(1, int(args.cpus)))}})
    there = ray.cluster_resources()["CPU"]
    workers = max(1, int((there - 1) // args.cpus)) if args.workers is None else args.workers
    if workers * args.cpus > there - 1:  # otherwise, Ray would wait forever
        parser.error(
            f"{workers} workers with {args.cpus:g} processors each leave none of {there:g} for reading and writing: "
            "lower --workers or --cpus (0.5 is possible)"
        )
    records = ray.data.read_json(args.input, lines=True)
    summaries = records.map_batches(
        RecordSummarizer,
        fn_constructor_kwargs={"folder": args.model, "column": args.column},
        batch_size=args.batch_size,
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=args.cpus,
        num_gpus=args.gpus,
    )
    summaries.write_json(args.output)


if __name__ == "__main__":
    main()
