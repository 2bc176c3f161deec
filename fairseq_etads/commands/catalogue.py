"""The command etads-models: the named architectures, their sizes, and their options.

``fairseq-train --help`` stops before it has looked at ``--arch`` and ``--task``, so it shows none of these options.
"""

import argparse
import warnings
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf, gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY

from ..models import rnn, transformer_options
from ..options import SummarizationConfig
from ..task import SummarizationTask
from ..text.words import SENTENCE_MARK

PRESETS: Dict[str, Dict[str, Any]] = {**transformer_options.PRESETS, **rnn.PRESETS}
"""Named architectures of all families: what each changes in the defaults."""
FACTOR_VALUES = 50
"""Values that each source factor is taken to have, for counting parameters."""


def numbered_dictionary(size: int) -> Dictionary:
    """A dictionary of ``size`` entries, special symbols included, whose words are numbers: for sizes and speeds."""
    dictionary = Dictionary()
    for number in range(size - len(dictionary)):
        dictionary.add_symbol(str(number))
    return dictionary


def count_parameters(arch: str, vocabulary: int, target_vocabulary: Optional[int] = None) -> Optional[int]:
    """Trainable numbers of an architecture with its own defaults; shared ones count once, factors have 50 values each.

    Args:
        arch: a name in ``PRESETS``.
        vocabulary: entries of the dictionary of the documents, special symbols included.
        target_vocabulary: entries of that of the summaries; None if both share one.

    Returns:
        None if there are two dictionaries and the architecture needs one.
    """
    cfg = convert_namespace_to_omegaconf(argparse.Namespace(arch=arch)).model
    if target_vocabulary is not None and (cfg.share_all_embeddings or str(cfg.pointer) != "none"):
        return None
    source = target = numbered_dictionary(vocabulary - 1)
    source.add_symbol(SENTENCE_MARK)
    if target_vocabulary is not None:
        target = numbered_dictionary(target_vocabulary - 1)
        target.add_symbol("summary")  # another word, so that there are two dictionaries even if they are equally long
    task = SummarizationTask(SummarizationConfig(), source, target)
    task.factor_dictionaries = dict.fromkeys(("pos", "ner", "tf", "idf"), numbered_dictionary(FACTOR_VALUES))
    with torch.device("meta"):  # shapes without memory
        model = ARCH_MODEL_REGISTRY[arch].build_model(cfg, task)
    return sum(parameter.numel() for parameter in model.parameters())


def describe(vocabulary: int, target_vocabulary: Optional[int] = None) -> Iterator[Tuple[str, str, str]]:
    """Name, parameters and changed defaults of each architecture."""
    for arch, changes in PRESETS.items():
        changed = " ".join(_flag(option, value) for option, value in changes.items())
        count = count_parameters(arch, vocabulary, target_vocabulary)
        yield arch, "one dictionary" if count is None else f"{count:,}", changed or "the defaults"


def _flag(option: str, value: Any) -> str:
    """An option as on a command line."""
    name = option.replace("_", "-")
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {value}"


class _Formatter(argparse.ArgumentDefaultsHelpFormatter):
    """Defaults behind the help, except where there is none or the help tells it."""

    def _get_help_string(self, action: argparse.Action) -> Optional[str]:
        if action.default is None or "default" in (action.help or ""):
            return action.help
        return super()._get_help_string(action)


def options_of(arch: str) -> argparse.ArgumentParser:
    """A parser whose help shows the options of an architecture and of the task, with their defaults."""
    parser = argparse.ArgumentParser(
        prog=f"fairseq-train DATA --user-dir fairseq_etads --task summarization --arch {arch}",
        usage="%(prog)s [options below, and fairseq's own: fairseq-train --help]",
        formatter_class=_Formatter,
        add_help=False,
    )
    model = ARCH_MODEL_REGISTRY[arch]
    gen_parser_from_dataclass(parser.add_argument_group("summarization task"), SummarizationConfig())
    group = parser.add_argument_group(f"model {arch}")
    model.add_args(group)
    preset: Any = getattr(model, "__dataclass")()
    for action in group._group_actions:  # fairseq leaves the defaults to the dataclass
        default = getattr(preset, action.dest)
        if str(default).startswith("${model."):
            default = f"--{default[8:-1].replace('_', '-')}"
        action.default = default
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """The command etads-models."""
    parser = argparse.ArgumentParser(
        prog="etads-models",
        description="List the named architectures with their parameters, or the options of one of them.",
        epilog="examples:  etads-models            etads-models etads",
    )
    parser.add_argument("arch", nargs="?", choices=list(PRESETS), help="show this architecture's options")
    parser.add_argument(
        "--vocabulary", type=int, default=50000, help="entries of the documents' dictionary (default: %(default)s)"
    )
    parser.add_argument(
        "--target-vocabulary",
        type=int,
        help="entries of the summaries' dictionary (default: one for both, which some architectures need)",
    )
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")  # Hydra's about how fairseq calls it
    for option, size in (("--vocabulary", args.vocabulary), ("--target-vocabulary", args.target_vocabulary)):
        if size is not None and size < 5:
            parser.error(f"{option} {size}: choose 5 or more")
    if args.arch:
        options_of(args.arch).print_help()
        return
    rows = [("--arch", "parameters", "what it changes"), *describe(args.vocabulary, args.target_vocabulary)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for arch, count, changes in rows:
        print(f"{arch:<{widths[0]}} {count:>{widths[1]}}   {changes}")


if __name__ == "__main__":
    main()
