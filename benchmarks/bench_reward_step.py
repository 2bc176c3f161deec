"""Compare a step of reward training with a step of likelihood training on real batches.

    python benchmarks/bench_reward_step.py --data runs/debian_rewards/prepared/bin \
        --checkpoint runs/debian_rewards/likelihood-1/checkpoints/checkpoint_best.pt [--threads 1,2]

Both steps use the model and the options of a checkpoint from likelihood training, because an untrained model would
generate summaries of maximum length. scripts/reproduce/debian_rewards.sh creates the checkpoint and the data. A step is
the work of fairseq's ``Trainer`` for one batch. Times are CPU seconds of this process, because other processes affect
them less than wall-clock time. Both steps alternate on the same batches, and each ratio compares them on one batch.

With --profile, the script also measures the time of each part of a reward step, in seconds on one thread.
"""

import argparse
import copy
import statistics
import time
import warnings
from pathlib import Path

import torch
from benchmark_records import write_record
from fairseq import checkpoint_utils, tasks
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.trainer import Trainer
from omegaconf import OmegaConf, open_dict

import fairseq_etads  # noqa: F401 (registers the task, the models and the criteria)

LIKELIHOOD, REWARDS = "likelihood", "rewards"
PARTS = {
    "compute_decoder_output": "likelihood's pass",
    "_compute_word_losses": "likelihood's pass",
    "encode": "encoding without dropout",
    "sample_summaries": "drawing",
    "compute_advantages": "texts and rewards",
    "compute_policy_loss": "log p of what was drawn",
}
"""Mapping from methods of the criterion to their names in the report."""


def create_trainer(step, args):
    """Create fairseq's Trainer and its task for one type of training step."""
    torch.manual_seed(1)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(args.checkpoint))
    cfg = copy.deepcopy(state["cfg"])
    with open_dict(cfg):
        cfg.task.data = str(args.data)
        cfg.optimization.lr = [1e-6]  # with a tiny learning rate, both models keep nearly the same weights
        cfg.common.cpu = True
        if step == REWARDS:
            own = {"_name": "summarization_rl", "rewards": "rougeL", "rl_max_len": args.longest}
            own.update(rl_samples=args.samples, rl_baseline=args.baseline)
            defaults = OmegaConf.structured(CRITERION_DATACLASS_REGISTRY[own["_name"]])
            cfg.criterion = OmegaConf.create(
                {**OmegaConf.to_container(defaults), **OmegaConf.to_container(cfg.criterion), **own}
            )
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
    made = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    made.lr_step_begin_epoch(1)
    made.lr_step_update()
    return made


def load_batches(training, args):
    """Load ``--runs`` + 1 batches of the training data. The first batch is used for the warm-up."""
    training.task.load_dataset("train")
    iterator = training.task.get_batch_iterator(
        training.task.dataset("train"), max_tokens=args.tokens, max_positions=training.model.max_positions(), seed=1
    )
    found = []
    for sample in iterator.next_epoch_itr(shuffle=True):
        found.append(sample)
        if len(found) > args.runs:
            return found
    raise SystemExit(f"--runs {args.runs}: the data has {len(found)} batches of --tokens {args.tokens}; choose fewer")


def time_training_steps(trainings, samples):
    """Return a dictionary from each type of step to the CPU seconds per batch.

    The two types of training step alternate. The first batch is not measured.
    """
    found = {step: [] for step in trainings}
    for number, sample in enumerate(samples):
        for step, training in trainings.items():
            started = time.process_time()
            training.train_step([sample])
            if number:
                found[step].append(time.process_time() - started)
    return found


def measure_training_step_ratios(threads, trainings, samples):
    torch.set_num_threads(threads)
    times = time_training_steps(trainings, samples)
    middle = {step: statistics.median(values) for step, values in times.items()}
    ratios = [reward / plain for reward, plain in zip(times[REWARDS], times[LIKELIHOOD])]
    row = {f"CPU seconds, {step}": round(value, 3) for step, value in middle.items()}
    row["median of ratios"] = round(statistics.median(ratios), 2)
    row["range of ratios"] = [round(min(ratios), 2), round(max(ratios), 2)]
    row["ratio of medians"] = round(middle[REWARDS] / middle[LIKELIHOOD], 2)
    print(f"{threads} threads: {row}", flush=True)
    return row


def profile_reward_step(training, samples):
    """Measure the median CPU seconds of each part of a reward step on one thread. The first batch is a warm-up."""
    torch.set_num_threads(1)
    now = {}

    def add_method_timer(owner, attribute, part):
        plain = getattr(owner, attribute)

        def call(*arguments, **options):
            started = time.process_time()
            try:
                return plain(*arguments, **options)
            finally:
                now[part] = now.get(part, 0.0) + time.process_time() - started

        setattr(owner, attribute, call)

    criterion = training.criterion
    for name, part in PARTS.items():
        add_method_timer(criterion, name, part)
    add_method_timer(training.optimizer, "backward", "backward")
    add_method_timer(training, "train_step", "step")
    found = []
    for sample in samples:
        now.clear()
        training.train_step([sample])
        found.append(dict(now))
    return {part: round(statistics.median(one[part] for one in found[1:]), 4) for part in found[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder containing the data binarised by fairseq-preprocess"
    )
    parser.add_argument(
        "--checkpoint", type=Path, required=True, help="checkpoint of a model trained by maximum likelihood"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "reward_step.json")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument(
        "--tokens", type=int, default=4000, help="maximum number of source tokens per batch (default: %(default)s)"
    )
    parser.add_argument("--runs", type=int, default=12, help="number of batches to measure (default: %(default)s)")
    parser.add_argument(
        "--longest", type=int, default=30, help="maximum number of tokens in a summary (default: %(default)s)"
    )
    parser.add_argument(
        "--samples", type=int, default=1, help="number of sampled summaries per document (default: %(default)s)"
    )
    parser.add_argument(
        "--baseline",
        default="greedy",
        help="baseline for the reward, as in --rl-baseline of fairseq-train (default: %(default)s)",
    )
    parser.add_argument("--profile", action="store_true", help="also measure the time of each part of a reward step")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    trainings = {step: create_trainer(step, args) for step in (LIKELIHOOD, REWARDS)}
    samples = load_batches(trainings[LIKELIHOOD], args)
    report = {
        "step": f"fairseq's Trainer, {args.tokens} source tokens a batch, {args.runs} batches, float32",
        "times": "CPU seconds of the process, with alternating steps",
        "rewards": f"rougeL, {args.samples} sample(s) of at most {args.longest} tokens, baseline {args.baseline}",
        "parameters": sum(parameter.numel() for parameter in trainings[REWARDS].model.parameters()),
        "threads": {threads: measure_training_step_ratios(threads, trainings, samples) for threads in args.threads},
    }
    if args.profile:
        report["CPU seconds of each part of a training step with rewards, on one thread"] = profile_reward_step(
            trainings[REWARDS], samples
        )
        print(report["CPU seconds of each part of a training step with rewards, on one thread"])
    write_record(args.output, report, args)


if __name__ == "__main__":
    main()
