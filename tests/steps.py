"""A few training steps and a search in this process, like fairseq-train and fairseq-generate with a model's options."""

import copy
import functools

import torch
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.trainer import Trainer
from helpers import EOS, PAD, make_batch, make_dictionary, make_task
from omegaconf import OmegaConf, open_dict

CRITERION = {
    **{"label_smoothing": 0.1, "coverage_loss": 0.0, "coverage_loss_start": 0, "coverage_loss_ramp": 0},
    **{"switch_loss": 1.0, "sentence_avg": False},
}
MARK, RARE = 43, (44, 46, 47)
DOCUMENTS = [[5, 6, MARK, 7, RARE[1], 9], [8, 9, RARE[2], RARE[2]], [10]]
SUMMARIES = [[5, RARE[1], MARK, 7], [8, 9, RARE[0]], [10]]


def steps_task(**options):
    """A task with a dictionary of 44 known words, the last "<q>", and 9 to copy; one source factor."""
    task = make_task(tail=9, mark=True, **options)
    task.factor_dictionaries = {"pos": make_dictionary(words=6)}
    return task


def make_sample(model=None, documents=DOCUMENTS, summaries=SUMMARIES, left=False):
    """Make a batch like the task's dataset."""
    source, target = make_batch(documents, left), make_batch(summaries, left)
    previous = collate_tokens([torch.tensor([*text, EOS]) for text in summaries], PAD, EOS, left, True)
    net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1), "prev_output_tokens": previous}
    if getattr(model, "factors", ()):
        net_input["factors"] = torch.full((*source.shape, len(model.factors)), 5)
    return {
        "id": torch.arange(len(source)),
        "net_input": net_input,
        "target": target,
        "ntokens": int(target.ne(PAD).sum()),
        "nsentences": len(target),
    }


def make_criterion(task, name="summarization_nll", **options):
    defaults = CRITERION if name == "summarization_nll" else {"sentence_avg": False}
    return task.build_criterion(OmegaConf.create({"_name": name, **defaults, **options}))


plain_config = functools.cache(lambda: OmegaConf.structured(FairseqConfig))


def make_trainer(task, model, criterion, change=lambda cfg: None):
    """fairseq's trainer with plain gradient descent, unless ``change`` sets other options."""
    cfg = copy.deepcopy(plain_config())
    with open_dict(cfg):
        cfg.common.cpu, cfg.distributed_training.distributed_world_size = True, 1
        cfg.optimization.lr, cfg.optimization.clip_norm = [1.0], 0.0
        cfg.optimizer = OmegaConf.create({"_name": "sgd", "lr": [1.0], "momentum": 0.0, "weight_decay": 0.0})
        scheduler = {"_name": "fixed", "lr": [1.0], "warmup_updates": 0, "force_anneal": None, "lr_shrink": 0.1}
        cfg.lr_scheduler = OmegaConf.create(scheduler)
        change(cfg)
    return Trainer(cfg, task, model, criterion)


def train_and_decode(task, cfg, criterion="summarization_nll", steps=2, **criterion_options):
    """Build a model and its criterion, train, validate and decode; every parameter must be trained. Returns the
    model.
    """
    torch.manual_seed(1)
    model = task.build_model(cfg)
    loss_function = make_criterion(task, criterion, **criterion_options)
    optimizer = torch.optim.SGD([*model.parameters(), *loss_function.parameters()], lr=0.01)
    wrapped = _Optimizer(optimizer)
    sample = make_sample(model)
    for update in range(steps):
        optimizer.zero_grad()
        loss, _, _ = task.train_step(sample, model, loss_function, wrapped, update)
        assert torch.isfinite(loss)
        optimizer.step()
    model.eval()
    task.valid_step(sample, model, loss_function)
    generator = task.build_generator([model], OmegaConf.structured(GenerationConfig(beam=2, max_len_b=6)))
    hypotheses = task.inference_step(generator, [model], sample)
    assert [len(found) for found in hypotheses] == [2, 2, 2]
    return model


class _Optimizer:
    """The parts of fairseq's optimiser that ``train_step`` needs."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def backward(self, loss):
        loss.backward()
