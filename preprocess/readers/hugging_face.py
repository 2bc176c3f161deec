"""Read Hugging Face datasets offline, from folders written by ``save_to_disk`` or from the local cache."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError

from .base import SPLIT_NAMES, SharesOptions, parse_shares, refuse_shares
from .tables import KNOWN_COLUMNS, ColumnOptions, Item, TableReader

ROWS_AT_A_TIME = 256


class HuggingFaceReader(TableReader):
    name = "hf"
    summary = "a Hugging Face data set, from a folder written by save_to_disk or from the local cache"
    description = f"""\
  etads-corpus hf --data FOLDER --out TEXT                       a folder written by save_to_disk
  etads-corpus hf --data ccdv/cnn_dailymail --config 3.0.0 --out TEXT      a data set loaded earlier by load_dataset

Nothing is downloaded. The datasets package is required (pip install datasets). The names of known columns are
{", ".join(KNOWN_COLUMNS[:5])},
{", ".join(KNOWN_COLUMNS[5:])}. The splits are train, validation and test; a data
set without splits is divided according to --split."""

    @dataclass
    class Options(ColumnOptions, SharesOptions):
        data: str = option(None, "folder of save_to_disk, or name in the cache", metavar="FOLDER|NAME", required=True)
        config: Optional[str] = option(None, "configuration of the data set, such as 3.0.0", metavar="NAME")

    def __init__(self, args: argparse.Namespace):
        super(TableReader, self).__init__(args)
        self._data, self._config = str(args.data), args.config
        found = _load_dataset(self._data, self._config)
        self._names = self._map_split_names(found)
        self.paths = {key: Path(f"{self._data}, {name or 'data set'}") for key, name in self._names.items()}
        for key, name in self._names.items():
            table = found[name] if name else found
            self.sizes[key] = table.num_rows
            self.files[key] = [Path(file["filename"]) for file in table.cache_files]
            self.columns[key] = self._choose_columns(self.paths[key], table.column_names)

    def _map_split_names(self, found: Any) -> Dict[str, str]:
        """Return the name in the data set of each input, or an empty name for a data set without splits."""
        names = list(found) if isinstance(found, dict) else []
        known = {split: [name for name in names if name in stems] for split, stems in SPLIT_NAMES.items()}
        known = {split: there for split, there in known.items() if there}
        if names and not known:
            raise InputError(f"--data {self._data}: no train, validation or test; it has {', '.join(names)}")
        for name in names:
            if [name] not in (there[:1] for there in known.values()):
                self.notes.append(f"{self._data}: {name} is left out; it is not a split")
        if names and (self.args.shares is None or len(known) > 1):
            refuse_shares(self.args, f"the data set has splits: {', '.join(names)}")
            return {split: there[0] for split, there in known.items()}
        self.shares = parse_shares(self.args)
        return {"input": next(iter(known.values()), [""])[0]}

    def iterate_raw_documents(self, key: str) -> Iterator[Item]:
        # Load the dataset again, because the reader is copied to other processes and must not contain open files.
        found, columns = _load_dataset(self._data, self._config), self.columns[key]
        table = found[self._names[key]] if self._names[key] else found
        number = 0
        try:
            for batch in table.select_columns(columns).iter(batch_size=ROWS_AT_A_TIME):
                for row in zip(*(batch[column] for column in columns)):
                    number += 1
                    yield f"{self.paths[key]}, record {number}", key, dict(zip(columns, row))
        except (OSError, ValueError) as error:  # pyarrow's errors are subclasses of these
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{self.paths[key]}: damaged after record {number} ({reason})") from None


def _load_dataset(data: str, config: Optional[str]) -> Any:
    """Load a datasets.Dataset or DatasetDict without downloading anything."""
    os.environ.update(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", HF_DATASETS_DISABLE_PROGRESS_BARS="1")
    try:
        import datasets
    except ImportError:
        raise InputError(f"--data {data}: datasets is missing: pip install datasets") from None
    path = Path(data)
    saved = path.is_dir()
    if saved and not any((path / name).is_file() for name in ("dataset_dict.json", "state.json")):
        reason = "not a folder of save_to_disk (no dataset_dict.json or state.json in it)"
        advice = "files of JSON lines, CSV or Parquet are read by: etads-corpus table"
        raise InputError(f"--data {data}: {reason}; {advice}")
    if saved and config:
        raise InputError(f"--config {config}: applies only to a name; {data} is a folder")
    # The module may have been imported before the environment variables were set.
    before, datasets.config.HF_DATASETS_OFFLINE = datasets.config.HF_DATASETS_OFFLINE, True
    try:
        return datasets.load_from_disk(data) if saved else datasets.load_dataset(data, config)
    except Exception as error:  # pyarrow, fsspec and huggingface_hub raise many kinds of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0]
    finally:
        datasets.config.HF_DATASETS_OFFLINE = before
    if saved:
        raise InputError(f"--data {data}: cannot be read ({reason})")
    call = f"load_dataset({data!r}{f', {config!r}' if config else ''})"
    reason = f"no such folder, and no data set of this name in this machine's cache ({reason})"
    advice = f"on a machine with network access, call {call}.save_to_disk(FOLDER), and give that folder"
    raise InputError(f"--data {data}: {reason}. Nothing is downloaded here: {advice}")
