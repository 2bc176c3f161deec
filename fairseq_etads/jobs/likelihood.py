"""Score the reference summaries of a binarised split with a checkpoint, for the command ``etads-likelihood``."""

import hashlib
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import progress_bar

from ..evaluation.likelihood_file import Likelihoods, read_likelihoods
from ..platform.console import MAX_TOKENS
from ..platform.errors import InputError
from ..search.ensemble import make_output_vocabulary
from ..summarizer.summarizer import choose_device
from ..text.checksums import compute_sha256
from ..training.task import SummarizationTask


def compute_split_likelihoods(
    checkpoint: Path,
    data: Optional[Path],
    subset: str,
    path: Path,
    max_tokens: int = MAX_TOKENS,
    device: Optional[str] = None,
) -> Tuple[Likelihoods, bool]:
    """Compute the likelihoods of the reference summaries in a split, unless they have already been computed.

    Args:
        checkpoint: path of a checkpoint that was saved by fairseq-train.
        data: path of the folder with the binarised data, or None to use the data with which the model was trained.
        path: path of the file that stores the likelihoods. It is read if it belongs to the same checkpoint, data and
            split, and is otherwise written.
        max_tokens: maximum number of source tokens per batch.

    Returns:
        The likelihoods, and whether this call has computed them.

    Raises:
        InputError: the checkpoint or the data cannot be read, or they do not belong together.
    """
    overrides = {} if data is None else {"data": str(data)}
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(checkpoint)], {**overrides, "init_from": None}
    )
    if not isinstance(task, SummarizationTask):
        raise InputError(f"{checkpoint} was not trained with --task summarization")
    folder = Path(cfg.task.data.split(":")[0])
    identity: Dict[str, Any] = {
        "checkpoint": compute_sha256(checkpoint),
        "data": _compute_split_checksum(folder, subset),
        "subset": subset,
    }
    if path.is_file():
        found = read_likelihoods(path)
        if all(getattr(found, name) == value for name, value in identity.items()):
            return found, False
    where = choose_device(device)
    figures = _score_summaries(models[0].to(where).eval(), task, subset, max_tokens, where)
    found = Likelihoods(**identity, **figures)
    found.save(path)
    return found, True


def _compute_split_checksum(folder: Path, subset: str) -> str:
    """Compute the SHA-256 hash of all binarised files in a split."""
    files = sorted(path for path in folder.glob(f"{subset}.*") if path.suffix in (".bin", ".idx"))
    if not files:
        known = sorted({path.name.split(".")[0] for path in folder.glob("*.idx")})
        raise InputError(f"--subset {subset}: {folder} has none; it has {', '.join(known) or 'no data'}")
    return hashlib.sha256("".join(f"{path.name} {compute_sha256(path)}\n" for path in files).encode()).hexdigest()


@torch.no_grad()
def _score_summaries(
    model: Any, task: SummarizationTask, subset: str, max_tokens: int, device: torch.device
) -> Dict[str, Any]:
    """Return the fields of :class:`Likelihoods` that contain one value per summary, as lists."""
    task.load_dataset(subset)
    generator = task.build_generator([model], GenerationConfig(score_reference=True))
    dataset = task.dataset(subset)
    if dataset.tgt is None:
        raise InputError(f"--subset {subset}: it has no summaries to score")
    longest = max(map(dataset.num_tokens, range(len(dataset))), default=0)
    batches = task.get_batch_iterator(
        dataset, max_tokens=max(max_tokens, longest), max_positions=None, ignore_invalid_inputs=False
    ).next_epoch_itr(shuffle=False)
    rows: Dict[int, Tuple[float, int, int]] = {}
    for sample in progress_bar.progress_bar(batches, log_format="tqdm", prefix=f"scoring {subset}"):
        if device.type == "cuda":
            sample = utils.move_to_cuda(sample, device)
        target = sample["target"]  # (B, T)
        vocabulary = make_output_vocabulary([model], sample["net_input"])
        written = target if vocabulary is None else vocabulary.convert_to_producible_ids(target)
        unknown = written.eq(task.tgt_dict.unk()).sum(dim=1).tolist()
        hypotheses = task.inference_step(generator, [model], sample)
        for number, (best, *_), count in zip(sample["id"].tolist(), hypotheses, unknown):
            scores = best["positional_scores"].double()
            rows[number] = (float(scores.sum()), len(scores), count)
    columns = zip(*(rows[number] for number in sorted(rows)))
    return dict(zip(("log_likelihood", "tokens", "unknown"), map(list, columns)))
