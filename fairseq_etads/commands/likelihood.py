"""The command ``etads-likelihood`` (evaluate): compute the likelihood of references under a trained model."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..files.checksums import compute_sha256
from ..files.inputs import check_format, name_format
from ..files.outputs import write_text
from ..platform.command_options import option, options_command
from ..platform.errors import InputError
from .shared_options import RunOptions, find_checkpoint_and_data


@dataclass
class LikelihoodOptions(RunOptions):
    """Options of ``etads-likelihood``."""

    subset: str = option("test", "split to score: train, valid or test", metavar="NAME")


@dataclass(frozen=True)
class Likelihoods:
    """Log-likelihoods of the reference summaries in a split, in the order of the split."""

    checkpoint: str  # SHA-256 checksum
    data: str  # SHA-256 checksum of the binarised files of the split
    subset: str  # name of the split, such as "test"
    log_likelihood: List[float]  # natural logarithm of the probability of each summary
    tokens: List[int]  # number of tokens in each summary, including the end symbol
    unknown: List[int]  # number of tokens in each summary for which the probability of the unknown word is used

    def compute_per_token_means(self) -> np.ndarray:
        """Return the mean log-likelihood per token for each summary, shape (n,)."""
        return np.array(self.log_likelihood) / np.array(self.tokens)

    def format_mean_and_perplexity(self) -> str:
        """Format the mean log-likelihood over all summaries and the perplexity over all tokens as one line of text."""
        perplexity = np.exp(-sum(self.log_likelihood) / sum(self.tokens))
        return (
            f"{len(self.tokens):,} summaries, {self.compute_per_token_means().mean():.4f} per token on average; "
            f"perplexity {perplexity:.2f}; {sum(self.unknown) / sum(self.tokens):.1%} of the tokens are unknown words"
        )


def read_likelihoods(path: Path) -> Optional[Likelihoods]:
    """Read a likelihood file, or return None if there is none or it is damaged."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return Likelihoods(**check_format(record, "likelihoods", path, "", older=True))
    except (OSError, ValueError, TypeError):
        return None


def check_comparable(first: Likelihoods, second: Likelihoods, names: List[str]) -> None:
    """Raise InputError if two models, with these ``names``, have scored different tokens or other unknown words."""
    what = "their likelihoods belong to different words, so a difference between them is meaningless"
    if first.tokens != second.tokens:
        raise InputError(f"{names[0]} and {names[1]} split the summaries into different tokens: {what}")
    if first.unknown != second.unknown:
        counts = [f"{name} {sum(found.unknown):,}" for name, found in zip(names, (first, second))]
        raise InputError(f"of {sum(first.tokens):,} tokens, {' and '.join(counts)} are unknown words: {what}")


def compute_split_likelihoods(args: LikelihoodOptions) -> Tuple[Likelihoods, Path, bool]:
    """Compute the likelihoods of the reference summaries in a split, unless they are stored in the run folder.

    They are computed again if they belong to another checkpoint, data or split. Returns the likelihoods, the path of
    their file, and whether this call has computed them.
    """
    checkpoint, data = find_checkpoint_and_data(args)
    from ..summarizer.folder.loading import load_checkpoint  # imported here, because it imports torch
    from ..summarizer.summarizer import choose_device

    path = args.run / f"likelihood-{args.subset}-{args.checkpoint}.json"
    model, cfg, task = load_checkpoint(checkpoint, data, "RUN")
    identity: Dict[str, Any] = {
        "checkpoint": compute_sha256(checkpoint),
        "data": _compute_split_checksum(Path(cfg.task.data.split(":")[0]), args.subset),
        "subset": args.subset,
    }
    stored = read_likelihoods(path)
    if stored is not None and all(getattr(stored, name) == value for name, value in identity.items()):
        return stored, path, False
    scores = _score_summaries(model, task, args.subset, args.max_tokens, choose_device(args.device))
    found = Likelihoods(**identity, **scores)
    write_text(path, json.dumps({"format": name_format("likelihoods"), **asdict(found)}) + "\n")
    return found, path, True


def _compute_split_checksum(folder: Path, subset: str) -> str:
    """Compute the SHA-256 hash of all binarised files in a split."""
    files = sorted(path for path in folder.glob(f"{subset}.*") if path.suffix in (".bin", ".idx"))
    if not files:
        known = sorted({path.name.split(".")[0] for path in folder.glob("*.idx")})
        raise InputError(f"--subset {subset}: {folder} has none; it has {', '.join(known) or 'no data'}")
    return hashlib.sha256("".join(f"{path.name} {compute_sha256(path)}\n" for path in files).encode()).hexdigest()


def _score_summaries(model: Any, task: Any, subset: str, max_tokens: int, device: Any) -> Dict[str, Any]:
    """Return the fields of :class:`Likelihoods` that contain one value per summary."""
    from fairseq.dataclass.configs import GenerationConfig

    from ..search.ensemble import make_output_vocabulary
    from ..summarizer.prepared_split import predict

    task.load_dataset(subset)
    dataset = task.dataset(subset)
    if dataset.tgt is None:
        raise InputError(f"--subset {subset}: it has no summaries to score")
    generator = task.build_generator([model], GenerationConfig(score_reference=True))

    def score(sample: Dict[str, Any]) -> List[Tuple[float, int, int]]:
        target = sample["target"]  # (B, T)
        vocabulary = make_output_vocabulary([model], sample["net_input"])
        written = target if vocabulary is None else vocabulary.convert_to_producible_ids(target)
        unknown = written.eq(task.tgt_dict.unk()).sum(dim=1).tolist()
        scores = [best["positional_scores"].double() for best, *_ in task.inference_step(generator, [model], sample)]
        return [(float(row.sum()), len(row), count) for row, count in zip(scores, unknown)]

    columns = zip(*predict(model, dataset, score, max_tokens, device, f"scoring {subset}"))
    return dict(zip(("log_likelihood", "tokens", "unknown"), map(list, columns)))


@options_command(
    "etads-likelihood",
    LikelihoodOptions,
    ValueError,
    RuntimeError,
    description="Compute the log-likelihood of the reference summaries under a trained model. etads-compare "
    "--likelihood uses the results.",
    epilog="""\
examples:
  etads-likelihood runs/etads                    # score the test split with checkpoint_best.pt
  etads-likelihood runs/etads --subset valid --checkpoint last

  The log-likelihoods are written to RUN/likelihood-SUBSET-CHECKPOINT.json, and reused as long as the checkpoint and the
  data are unchanged. They are natural logarithms. The end symbol counts as a token of the summary.""",
)
def main(args: LikelihoodOptions) -> None:
    """Run the command ``etads-likelihood``."""
    found, path, is_new = compute_split_likelihoods(args)
    print(f"{path}: {found.format_mean_and_perplexity()}" + ("" if is_new else " (scored before)"))
