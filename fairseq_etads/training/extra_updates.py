"""Extra updates (``--auxiliary-task``), which train the model on a second task between summarisation updates.

The class of the second task is registered by a system in this package or by a user's own package. docs/extending.md
contains a complete example.
"""

import logging
import math
import re
from pathlib import Path
from typing import Any, Dict, NamedTuple, Tuple, Type

from fairseq.distributed.utils import get_data_parallel_world_size
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from torch import Tensor, nn

from ..layers.decoder_output import unwrap_model
from ..platform.optional_parts import explain_missing_system, find_required_system
from .losses import NonFiniteLossError

logger = logging.getLogger(__name__)

_NARROW = (FP16Optimizer, MemoryEfficientFP16Optimizer, AMPOptimizer)
"""fairseq's optimisers for --fp16, --bf16 and --amp, which auxiliary updates do not support.

FP16Optimizer would also update weights without a gradient.
"""


class AuxiliaryTask:
    """Base class of auxiliary tasks, on which a model is trained in addition to summarisation.

    Register subclasses with :func:`register_extra_updates`, and select one with ``--auxiliary-task``.

    Args:
        task: the summarisation task. The attribute ``cfg`` of the task contains the options that start with
            ``--auxiliary-``.
        model: the untrained model. If the auxiliary task needs additional weights, the constructor can add a module to
            the model as the attribute ``auxiliary``. These weights are ignored when the model is loaded for generation.
    """

    def __init__(self, task: Any, model: Any):
        raise NotImplementedError

    @staticmethod
    def parts(cfg: Any) -> Dict[str, nn.Module]:
        """Return the named modules that are added to a recurrent model before its weights are initialised.

        Args:
            cfg: the options of the model.
        """
        return {}

    def loss(self, model: Any, number: int) -> Tuple[Tensor, int, Dict[str, float]]:
        """Compute the loss of one auxiliary update.

        Args:
            model: the model that is being trained.
            number: index of the auxiliary update, starting at 0. If the batch depends only on this index, a resumed run
                uses the same batches as an uninterrupted run.

        Returns:
            The mean loss over the examples, the number of examples, and a dictionary that maps names to other values to
            log. These values must be sums over the examples.
        """
        raise NotImplementedError


_REGISTERED: Dict[str, Type[AuxiliaryTask]] = {}


def register_extra_updates(name: str, auxiliary_task: Type[AuxiliaryTask]) -> None:
    """Register an auxiliary task under a name, which can then be passed to ``--auxiliary-task``.

    Raises:
        ValueError: another class is already registered under this name.
    """
    if _REGISTERED.setdefault(name, auxiliary_task) is not auxiliary_task:
        raise ValueError(f"the auxiliary task {name} is registered already: {_REGISTERED[name].__qualname__}")


def get_auxiliary_task(name: str) -> Type[AuxiliaryTask]:
    """Return the class for a value of ``--auxiliary-task``. Raises ValueError if no class has this name."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    choices = ", ".join(["none", *sorted(_REGISTERED)])
    system = find_required_system(f"--auxiliary-task {name}")
    if system is not None:
        raise ValueError(f"{explain_missing_system(f'--auxiliary-task {name}', system)}: choose from {choices}")
    raise ValueError(
        f"--auxiliary-task {name}: choose from {choices}, or load the package that registers it (--user-dir)"
    )


class UpdateSchedule(NamedTuple):
    """Schedule in which ``times`` auxiliary updates follow each block of ``every`` summarisation updates."""

    every: int
    times: int

    @classmethod
    def parse(cls, text: str) -> "UpdateSchedule":
        """Parse the value of --auxiliary-every, such as "100:10". Raises ValueError if the value is malformed."""
        found = re.fullmatch(r"0*([1-9][0-9]{0,8}):0*([1-9][0-9]{0,8})", text)
        if found is None:
            raise ValueError(
                f"--auxiliary-every {text}: choose N:M, two numbers above 0, for M auxiliary updates after "
                "every N summarisation updates"
            )
        return cls(*map(int, found.groups()))

    def list_due_updates(self, updates: int) -> range:
        """Return the indices (from 0) of the auxiliary updates to run after summarisation update number ``updates``."""
        if updates % self.every:
            return range(0)
        done = (updates // self.every - 1) * self.times
        return range(done, done + self.times)


class AuxiliaryUpdateRunner:
    """Run auxiliary updates between summarisation updates, with the same optimiser and learning rate.

    fairseq does not count them, so --max-update, learning rates and validation depend only on summarisation updates.
    Which auxiliary updates are due depends only on the number of completed summarisation updates. A resumed run
    therefore performs the same auxiliary updates as an uninterrupted run.

    Raises:
        ValueError: an option has an invalid value.
    """

    def __init__(self, task: Any, model: Any):
        self.flag = f"--auxiliary-task {task.cfg.auxiliary_task}"
        self.schedule = UpdateSchedule.parse(task.cfg.auxiliary_every)
        self.clip_norm = task.cfg.clip_norm
        self.auxiliary_task = get_auxiliary_task(str(task.cfg.auxiliary_task))(task, model)

    def check_optimizer_and_processes(self, optimizer: Any) -> None:
        """Raise ValueError if auxiliary updates are not supported with this optimiser or this number of processes."""
        if get_data_parallel_world_size() > 1:
            raise ValueError(f"{self.flag} trains in one process: leave out --distributed-world-size and torchrun")
        if isinstance(optimizer, _NARROW):
            raise ValueError(f"{self.flag} trains in float32: leave out --fp16, --bf16 and --amp")

    def run_due_updates(self, optimizer: Any, model: Any, updates: int) -> None:
        """Run the auxiliary updates that are due after ``updates`` summarisation updates, and log their results."""
        sums: Dict[str, float] = {}
        total = 0
        for number in self.schedule.list_due_updates(updates):
            count, figures = self._run_update(optimizer, unwrap_model(model), number)
            total += count
            for name, value in figures.items():
                sums[name] = sums.get(name, 0.0) + value
        if total:
            metrics.log_scalar("auxiliary_loss", sums.pop("loss") / total / math.log(2), total, round=3)
            for name, value in sums.items():
                metrics.log_scalar(f"auxiliary_{name}", value / total, total, round=4)

    def _run_update(self, optimizer: Any, model: Any, number: int) -> Tuple[int, Dict[str, float]]:
        """Run one auxiliary update."""
        optimizer.zero_grad()
        loss, count, figures = self.auxiliary_task.loss(model, number)
        if not bool(loss.isfinite()):
            raise NonFiniteLossError(f"the loss of {self.flag} is not finite: lower --lr")
        optimizer.backward(loss)
        optimizer.clip_grad_norm(self.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        return count, {"loss": float(loss) * count, **figures}


def data_folder(cfg: Any, needed: str) -> Path:
    """Return the folder given by --auxiliary-data. Raises ValueError with what is ``needed`` if it is missing."""
    if not cfg.auxiliary_data:
        raise ValueError(f"--auxiliary-task {cfg.auxiliary_task} needs {needed}: --auxiliary-data DIR")
    return Path(cfg.auxiliary_data)
