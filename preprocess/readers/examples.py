"""Read files of ``tf.train.Example`` records, as See et al. (2017) store CNN/Daily Mail, without TensorFlow.

A record is the length in bytes, as an int64 of the machine, and a serialised message of Protocol Buffers:
``Example {Features features = 1}``, ``Features {map<string, Feature> feature = 1}``, ``Feature {BytesList bytes_list =
1}`` and ``BytesList {repeated bytes value = 1}``.
"""

import itertools
import struct
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from fairseq_etads.files.inputs import open_binary
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError

LARGEST = 1 << 26
"""Maximum size of a record in bytes. Larger numbers are not lengths."""
_FIXED = {1: 8, 5: 4}
"""Wire types of fixed size, with their sizes in bytes."""


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the serialised records of a file. Raises InputError if it is of another format or ends in a record."""
    with open_binary(path) as file:
        for number in itertools.count(1):
            head = file.read(8)
            if not head:
                return
            size = struct.unpack("<q", head)[0] if len(head) == 8 else -1
            content = file.read(size) if 0 < size <= LARGEST else b""
            if not content or len(content) != size:
                raise InputError(f"{path}: no record {number} of length-prefixed tf.train.Example, or not all of it")
            yield content


def parse_example(content: bytes) -> Dict[str, List[str]]:
    """Return the texts of each feature of a serialised Example. Raises BadDocumentError if it is damaged."""
    try:
        found = {}
        for features in _list_values(content, 1):
            for entry in _list_values(features, 1):
                name = b"".join(_list_values(entry, 1)).decode()
                values = (values for feature in _list_values(entry, 2) for values in _list_values(feature, 1))
                found[name] = [text.decode() for value in values for text in _list_values(value, 1)]
        return found
    except UnicodeDecodeError:
        raise BadDocumentError("not UTF-8") from None
    except IndexError:
        raise BadDocumentError("not a tf.train.Example") from None


def _list_values(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the values of a message's field with the number ``wanted``. Raises IndexError if the message is damaged."""
    place = 0
    while place < len(message):
        key, place = _read_number(message, place)
        kind = key & 7
        size = _FIXED.get(kind, 0)
        if kind == 2:
            size, place = _read_number(message, place)
            if key >> 3 == wanted:
                yield message[place : place + size]
        elif kind == 0:
            _, place = _read_number(message, place)
        elif not size:
            raise IndexError
        place += size
    if place > len(message):
        raise IndexError


def _read_number(message: bytes, place: int) -> Tuple[int, int]:
    """Return the number that is encoded at a place in a message, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 or shift > 63:
            return number, place
