"""
Files of the format safetensors, as objects whose contents are in the file.

A file has a number of 8 bytes, a header of so many bytes in JSON, and the tensors' bytes. The header names each
tensor's type, shape, and place in those bytes. Source: github.com/huggingface/safetensors, "Format".
"""
import contextlib
import json
import math
import os
import threading

from synced_mem._core import File, Memory, hold

NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
         "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
         "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
         "F6_E2M3": "float6_e2m3fn", "F6_E3M2": "float6_e3m2fn", "F4": "float4_e2m1fn"}
TYPES = {name: type_ for type_, name in NAMES.items()}
SIZES = {name: name.lstrip("uintfloa") for name in TYPES}
BITS = {**{name: int(size) for name, size in SIZES.items() if size.isdigit()},
        "bool": 8, "bfloat16": 16, "complex64": 64, "float8_e4m3fn": 8, "float8_e5m2": 8, "float8_e8m0fnu": 8,
        "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}
LONGEST_HEADER = 100_000_000
METADATA = "__metadata__"
LARGEST = 2**53 - 1  # every reader of JSON has such numbers exactly
DIGITS = len(str(LARGEST))


class Tensors(dict):
    """Tensors by name, in the order of their places in the file. metadata: the texts of the header, by name."""

    def __init__(self):
        super().__init__()
        self.metadata = {}


# ---- The header ----

def _unique(pairs):
    """Makes the dict of a JSON object, in which no name may stand twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name stands twice")
    return result


def _refuse_number(text):
    raise ValueError(f"{text[:40]} is no whole number")


def _read_number(text):
    """Returns the number. Python's own limit of digits is larger, and may be turned off."""
    number = int(text) if len(text) <= DIGITS and text[0] != "-" else -1
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{text[:40]} is negative, or 2^53 or more")
    return number


def _read_json(text, **numbers):
    """Returns what JSON in UTF-8 stands for. numbers: the functions that read them."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_number, **numbers)
    except RecursionError as error:
        raise ValueError("objects and lists are nested too deep") from error


def _is_number(value):
    return type(value) is int


def _check_text(text):
    """Refuses NUL, and the halves of characters that JSON can have by escapes."""
    if "\0" in text or not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError(f"the text {text[:80]!r} is no Unicode, or has NUL")


def _check_metadata(metadata):
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("the metadata are not texts by name")
    for name, text in metadata.items():
        _check_text(name)
        _check_text(text)
    return metadata


class _Entry:
    """A tensor in a header: type, shape, and the bytes from begin to end."""

    def __init__(self, name, entry):
        _check_text(name)
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"the tensor {name!r} has other members than dtype, shape and data_offsets")
        self.name, self.shape, offsets = name, entry["shape"], entry["data_offsets"]
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in NAMES:
            raise ValueError(f"the tensor {name!r} is of the unknown type {entry['dtype']!r}")
        if not isinstance(self.shape, list) or not all(map(_is_number, self.shape)):
            raise ValueError(f"the shape of the tensor {name!r} is not a list of numbers")
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_number, offsets)):
            raise ValueError(f"the place of the tensor {name!r} is not a pair of numbers")
        self.dtype = NAMES[entry["dtype"]]
        self.begin, self.end = offsets
        self._check_size()

    def _check_size(self):
        bits = math.prod(self.shape) * BITS[self.dtype]
        if bits > LARGEST or bits % 8:
            raise ValueError(f"the tensor {self.name!r} has too many elements, or ends within a byte")
        if self.end - self.begin != bits // 8:
            raise ValueError(f"the tensor {self.name!r} has {bits // 8} bytes, but its place has "
                             f"{self.end - self.begin}")

    def is_askew(self):
        """Whether a pointer to a view of the tensor would not be aligned for its type."""
        return self.begin % max(BITS[self.dtype] // 8, 1) != 0


def _parse_header(text, size):
    """Returns the entries of a header in the order of their places, and the metadata. size: of the tensors' bytes."""
    header = _read_json(text, parse_int=_read_number, parse_float=_refuse_number)
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    metadata = _check_metadata(header.pop(METADATA, {}))
    entries = sorted((_Entry(name, entry) for name, entry in header.items()),
                     key=lambda each: (each.begin, each.end, each.name))
    place = 0
    for entry in entries:
        if entry.begin != place:
            raise ValueError(f"the tensor {entry.name!r} does not begin where the one before it ends")
        place = entry.end
    if place != size:
        raise ValueError(f"the tensors have {place} bytes, but the file has {size} after its header")
    return entries, metadata


def _read_header(file):
    """Returns the entries, the metadata, and the place of the tensors' bytes in the file."""
    total = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little") if total >= 8 else LONGEST_HEADER + 1
    if length > LONGEST_HEADER or length > total - 8:
        raise ValueError("the file is too short, or its header too long")
    text = file.read(length)
    if len(text) < length:
        raise ValueError("the file has become shorter")
    if not text.startswith(b"{"):
        raise ValueError("the header does not begin with {")
    entries, metadata = _parse_header(text, total - 8 - length)
    return entries, metadata, 8 + length


# ---- Loading ----

def _short(name):
    """Returns the end of a name, as far as the library keeps it."""
    if name.isascii():
        return name[-47:]
    return name.encode("utf-8", "replace")[-47:].decode("utf-8", "ignore")


def _make_object(file, shape, dtype, offset, name, evictable=False):
    """Returns an object whose contents are in the file."""
    mem = Memory(shape, dtype, name=_short(name), evictable=evictable)
    mem.use_file(file, offset)
    return mem


def _load_file(path, tensors, evictable):
    with open(path, "rb") as opened:
        try:
            entries, metadata, begin = _read_header(opened)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        file, whole = File(opened), None
    for entry in entries:
        if entry.name in tensors:
            raise ValueError(f"{path}: the tensor {entry.name!r} is in another file too")
        if evictable or entry.is_askew():
            is_evictable = evictable and entry.begin < entry.end
            mem = _make_object(file, entry.shape, entry.dtype, begin + entry.begin, entry.name, is_evictable)
        else:
            if whole is None:
                whole = _make_object(file, entries[-1].end, "uint8", begin, os.path.basename(path))
            mem = whole.part(entry.begin, entry.shape, entry.dtype, name=_short(entry.name))
        if entry.begin == entry.end:
            mem.cpu("overwrite")  # no file has an object without bytes, and a push needs a valid copy
        tensors[entry.name] = mem
    tensors.metadata.update(metadata)


def _files_of_index(path):
    """Returns the files that an index names, and the file of each tensor."""
    with open(path, "rb") as file:
        try:
            index = _read_json(file.read())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ValueError(f"{path}: the index has no weight_map of names and files")
    for file in places.values():
        if file in ("", ".", "..") or os.path.basename(file) != file or "\0" in file:
            raise ValueError(f"{path}: {file!r} is no file of the index's folder")
    return sorted(set(places.values())), places


def load_safetensors(path, *, evictable=False):
    """
    Loads a file of tensors, or the files that an index ("....index.json") names, and returns Tensors: a Memory for each
    tensor, by name.

    Only the headers are read. The contents are in the files: an access, push() or pull() reads those of its tensors,
    straight to its side, and raises FileError if the file has become shorter. The Memories of one file are views of one
    object, whose memory on a side is one block. A tensor whose place in the file is not a multiple of its element's
    size is an object of its own. evictable=True: each tensor is an evictable object of its own, which is held while its
    device copy is used; one without elements is not evictable.

    Raises ValueError for a malformed file, OSError if it can't be read, or an Error.
    """
    path, tensors = os.fspath(path), Tensors()
    path = os.fsdecode(path)
    if not path.endswith(".json"):
        _load_file(path, tensors, evictable)
        return tensors
    files, places = _files_of_index(path)
    for file in files:
        before = set(tensors)
        _load_file(os.path.join(os.path.dirname(path), file), tensors, evictable)
        for name in set(tensors) - before:
            if places.get(name) != file:
                raise ValueError(f"{path}: the index does not say that the tensor {name!r} is in {file!r}")
    if set(tensors) != set(places):
        raise ValueError(f"{path}: the files lack the tensor {min(set(places) - set(tensors))!r}")
    return tensors


# ---- Saving ----

def _make_header(tensors, metadata):
    """Returns the bytes before the tensors', and the tensors in the order of their places: large elements first, so
    that none lies askew."""
    header, place = {}, 0
    if metadata:
        header[METADATA] = _check_metadata(dict(metadata))
    order = sorted(tensors, key=lambda name: (-BITS.get(tensors[name].dtype, 0), name))
    for name in order:
        mem = tensors[name]
        if name == METADATA or not isinstance(name, str):
            raise ValueError(f"no name of a tensor: {name!r}")
        if mem.dtype not in TYPES:
            raise ValueError(f"the format has no type for {mem.dtype}")
        if math.prod(mem.shape) * BITS[mem.dtype] % 8:
            raise ValueError(f"the tensor {name!r} ends within a byte")
        header[name] = {"dtype": TYPES[mem.dtype], "shape": list(mem.shape),
                        "data_offsets": [place, place + mem.nbytes]}
        place += mem.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, order


def _write_all(file, buffer):
    while len(buffer) > 0:
        buffer = buffer[file.write(buffer[:1 << 30]):]


def _write_contents(file, mem):
    """Writes the bytes. While host copies have a budget, those of an evictable object need a hold."""
    with hold(mem, "cpu") if mem.evictable else contextlib.nullcontext():
        with memoryview(mem.reshape(-1).view("uint8").cpu()) as buffer:
            _write_all(file, buffer)


def save_safetensors(tensors, path, metadata=None):
    """
    Saves Memories by name in a file, with texts by name as its metadata. The file appears, or replaces another, when it
    is complete.

    Raises ValueError for a type that the format has not, OSError if the file can't be written, or an Error.
    """
    begin, order = _make_header(tensors, metadata)
    path = os.fsdecode(os.fspath(path))
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(temporary, "xb", buffering=0) as file:
            _write_all(file, memoryview(begin))
            for name in order:
                if tensors[name].nbytes > 0:
                    _write_contents(file, tensors[name])
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except FileExistsError:  # another's
        raise
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
