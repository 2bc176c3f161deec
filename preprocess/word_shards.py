"""Divide tokenisation among processes or machines.

``etads-prepare --shard I/N`` creates one shard, and ``etads-prepare`` without ``--shard`` joins all shards.

A shard is a folder such as OUT/shards/2-of-4, which contains a tokenised part of each file in TEXT. Each shard has its
own prepare.json and SHA256SUMS, so several shards can be created at the same time. After the shards have been joined,
the result is identical to the output of a single process.
"""

import re
import shutil
from pathlib import Path
from typing import Any, Dict, List, Sequence

from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import open_binary_output
from fairseq_etads.text.checksums import Checksums
from fairseq_etads.text.json_files import SIDES, read_json
from fairseq_etads.text.shards import Shard


def get_shard_folder(out: Path, shard: Shard) -> Path:
    """Return the path of the folder that contains a shard."""
    return out / "shards" / shard.name


def _list_shards(folder: Path) -> List[Shard]:
    """Return all shards into which the text was divided, based on the names of the shards in a folder."""
    names = [re.fullmatch(r"(\d+)-of-(\d+)", path.name) for path in folder.glob("*-of-*")]
    counts = sorted({int(name.group(2)) for name in names if name})
    if len(counts) > 1:
        said = " and of ".join(map(str, counts))
        raise InputError(f"{folder} has shards of {said}: delete those that do not belong together")
    return Shard(1, counts[0]).list_all_shards() if counts else []


def join_shards(out: Path, record: Dict[str, Any], words: str, splits: Sequence[str], made: Checksums) -> None:
    """Create the missing files in OUT/``words`` by joining shards, if there are any.

    Args:
        record: content of prepare.json.
        words: name of the folder for tokenised words.
        made: checksums to which the checksums of the new files are added.

    Raises:
        InputError: a shard is missing, damaged, or was created with other options or from other text.
    """
    names = [f"{words}/{split}.{side}" for split in splits for side in SIDES]
    names = [name for name in names if not (out / name).exists()]
    shards = _list_shards(out / "shards") if names else []
    if not shards:
        return
    folders = {shard: get_shard_folder(out, shard) for shard in shards}
    missing = [str(shard.number) for shard, folder in folders.items() if not all((folder / n).is_file() for n in names)]
    if missing:
        raise InputError(
            f"{out / 'shards'}: of {len(shards)} shards, {', '.join(missing)} are not complete; run the same command "
            f"with --shard {missing[0]}/{len(shards)}, or delete {out / 'shards'} to continue without shards"
        )
    listed = {}
    for folder in folders.values():
        listed[folder] = Checksums(folder, f"Delete {folder} and make the shard again")
        listed[folder].verify(["prepare.json"])
        made_from = read_json(folder / "prepare.json", f"delete {folder} and make the shard again")
        if made_from != record:
            different = [key for key in {**record, **made_from} if made_from.get(key) != record.get(key)]
            raise InputError(f"{folder} was made with another {', '.join(different)}: delete it and make it again")
    for name in names:
        with made.record_new_files(name), open_binary_output(out / name) as file:
            for folder, checksums in listed.items():
                with open(folder / name, "rb") as part:
                    shutil.copyfileobj(part, file, 1 << 20)
                checksums.verify([name])
