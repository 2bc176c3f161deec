"""``--lr-scheduler reduce_lr_on_validation``, which reduces the learning rate if validation results stagnate."""

from dataclasses import dataclass
from typing import Optional

from fairseq.optim.lr_scheduler import register_lr_scheduler
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)

from ..platform.option_checks import option


@dataclass
class ReduceLROnValidationConfig(ReduceLROnPlateauLRScheduleConfig):
    """Options of ``--lr-scheduler reduce_lr_on_validation``."""

    lr_patience: int = option(0, "number of validations without improvement before the learning rate is reduced")


@register_lr_scheduler("reduce_lr_on_validation", dataclass=ReduceLROnValidationConfig)
class ReduceLROnValidation(ReduceLROnPlateauLRSchedule):
    """fairseq's ``reduce_lr_on_plateau``, modified to count validations instead of epochs (Chen and Bansal 2018)."""

    def step(self, epoch: int, val_loss: Optional[float] = None) -> float:
        """Do not change the learning rate, because the validation at the end of the epoch has already been counted."""
        return super().step(epoch, None)

    def step_validation(self, val_loss: float) -> None:
        """Count a validation with the result ``val_loss``.

        The training loop calls this method after each validation.
        """
        if self.warmup_end:
            self.lr_scheduler.step(val_loss)
