"""
Objects of synced_mem as tensors of NumPy, PyTorch, CuPy and JAX, and back, without a copy. It needs nothing but ctypes.

    mem = Memory((3, 4), "float32")
    array = numpy.from_dlpack(mem)              # the host copy
    tensor = torch.from_dlpack(mem.gpu)         # the device copy
    mem = Memory.from_dlpack(tensor)

SYNCED_MEM_LIBRARY in the environment names the library; the default is libsynced_mem.so.0.2.
Source: data-apis.org/array-api, "Data interchange mechanisms"; github.com/dmlc/dlpack.
"""
import ctypes
import math
import os

CPU, GPU = 1, 2  # DLPack's numbers of the devices, and synced_mem's of the sides
HEADS = {0: "UNINITIALIZED", 1: "AT_CPU", 2: "AT_GPU", 3: "SYNCED", 4: "MIXED"}
MODES = {"read": 0, "mutable": 1, "overwrite": 2}
CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
NO_STREAM = ctypes.c_void_p(-1).value


# ---- The C interface ----

class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64),
                ("tensor", DLTensor)]


class Legacy(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("side", ctypes.c_int), ("mode", ctypes.c_int),
                ("type_code", ctypes.c_uint8), ("type_bits", ctypes.c_uint8), ("type_lanes", ctypes.c_uint16),
                ("ndim", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)), ("stream", ctypes.c_void_p)]


# A capsule keeps its name's address, so the names live as long as this module.
VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED = {VERSIONED: b"used_dltensor_versioned", LEGACY: b"used_dltensor"}
STRUCTS = {VERSIONED: Versioned, LEGACY: Legacy}

library = ctypes.CDLL(os.environ.get("SYNCED_MEM_LIBRARY", "libsynced_mem.so.0.2"))
library.synced_mem_last_error_message.restype = ctypes.c_char_p
library.synced_mem_status_name.restype = ctypes.c_char_p
library.synced_mem_size.restype = ctypes.c_size_t


class Error(RuntimeError):
    """A failed call, with the library's own text."""


def call(function, *arguments):
    """Calls a function that returns a status."""
    status = getattr(library, "synced_mem_" + function)(*arguments)
    if status:
        name = library.synced_mem_status_name(status).decode()
        raise Error(f"{name}: {library.synced_mem_last_error_message().decode()}")


# ---- Capsules ----

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
# The destructor gets an object without references, so these take its address.
python.PyCapsule_IsValid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.c_void_p, ctypes.c_char_p]


def delete_unused(capsule):
    """Calls the deleter of a tensor that no consumer has taken. A consumer renames the capsule."""
    for name, struct in STRUCTS.items():
        if python.PyCapsule_IsValid(capsule, name):
            address = python.PyCapsule_GetPointer(capsule, name)
            struct.from_address(address).deleter(address)


destructor = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete_unused)


def take(capsule):
    """Returns the name of an unused capsule and the address of its tensor."""
    for name in STRUCTS:
        if python.PyCapsule_IsValid(id(capsule), name):
            return name, python.PyCapsule_GetPointer(id(capsule), name)
    raise BufferError("this is no unused capsule of DLPack's")


# ---- Types ----

def bits_of(dtype):
    """Returns a type's code and bits: "float32" is (2, 32), "bool" is (6, 8)."""
    name = str(dtype).split(".")[-1]  # of "torch.float32" too
    kind = name.rstrip("0123456789")
    if kind not in CODES:
        raise TypeError(f"no type of DLPack's: {dtype}")
    return CODES[kind], int(name[len(kind):] or 8)


def name_of(code, bits):
    """Returns the type's name. The formats of 8 bits and less have none here."""
    names = {number: name for name, number in CODES.items()}
    if code not in names:
        raise BufferError(f"no name for DLPack's type {code} of {bits} bits")
    return "bool" if code == CODES["bool"] else f"{names[code]}{bits}"


# ---- Memory ----

class Memory:
    """An object with a type and a shape. side is CPU, GPU, or None: where the contents are, the host if they are on
    both sides. mode is the access of consumers: "read", "mutable" or "overwrite"."""

    def __init__(self, shape, dtype="float32", side=None, mode="mutable"):
        code, bits = bits_of(dtype)
        handle = ctypes.c_void_p()
        call("create", ctypes.byref(handle), ctypes.c_size_t(math.prod(shape) * bits // 8), None)
        self._become(handle, shape, dtype, side, mode)

    def _become(self, handle, shape, dtype, side, mode):
        self.handle, self.shape, self.dtype, self.side, self.mode = handle, tuple(shape), dtype, side, mode
        return self

    def __del__(self):
        if getattr(self, "handle", None):
            call("release", self.handle)

    def seen(self, side, mode=None):
        """Returns the same object for consumers of one side, and with this mode."""
        call("retain", self.handle)
        other = Memory.__new__(Memory)
        return other._become(self.handle, self.shape, self.dtype, side, mode or self.mode)

    @property
    def cpu(self):
        return self.seen(CPU)

    @property
    def gpu(self):
        return self.seen(GPU)

    @property
    def head(self):
        return HEADS[library.synced_mem_head(self.handle)]

    # ---- Out ----

    def _side(self):
        return self.side or (GPU if self.head == "AT_GPU" else CPU)

    def __dlpack_device__(self):
        if self._side() == CPU:
            return CPU, 0
        return GPU, max(library.synced_mem_device(self.handle), 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        side = dl_device[0] if dl_device else self._side()
        if side not in (CPU, GPU):
            raise BufferError(f"no memory on a device of type {side}")
        if copy:
            raise BufferError("no copies are made: copy the consumer's array")
        versioned = max_version is not None and max_version[0] >= 1
        if not versioned and self.mode == "read":
            raise BufferError("the consumer can't read a version in which tensors can be read-only")
        code, bits = bits_of(self.dtype)
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        options = Options(ctypes.sizeof(Options), side, MODES[self.mode], code, bits, 1, len(self.shape), shape,
                          stream_of(stream, side))
        tensor = ctypes.c_void_p()
        call("to_dlpack" if versioned else "to_dlpack_legacy", ctypes.byref(tensor), self.handle,
             ctypes.byref(options))
        return python.PyCapsule_New(tensor, VERSIONED if versioned else LEGACY, destructor)

    # ---- In ----

    @classmethod
    def from_dlpack(cls, array, stream=None):
        """Makes an object of an array's memory. stream: the one on which the object is used first, in DLPack's
        numbers; None: the legacy stream. The array's library makes it wait for the contents."""
        device = array.__dlpack_device__()[0]
        arguments = {} if device == CPU else {"stream": stream}
        try:
            capsule = array.__dlpack__(max_version=(1, 0), **arguments)
        except TypeError:  # a library that knows legacy tensors alone
            capsule = array.__dlpack__(**arguments)
        name, address = take(capsule)
        tensor = STRUCTS[name].from_address(address).tensor
        shape, dtype = tensor.shape[:tensor.ndim], name_of(tensor.code, tensor.bits)
        handle = ctypes.c_void_p()
        call("from_dlpack" if name == VERSIONED else "from_dlpack_legacy", ctypes.byref(handle),
             ctypes.c_void_p(address), None if device == CPU else ctypes.c_void_p(stream_of(stream, GPU)), None)
        python.PyCapsule_SetName(id(capsule), USED[name])
        return cls.__new__(cls)._become(handle, shape, dtype, None, "mutable")


def stream_of(stream, side):
    """Returns the handle of the stream that a consumer names."""
    if side == CPU:
        if stream is not None:
            raise ValueError("memory of the host has no stream")
        return None
    if stream == 0:
        raise ValueError("the stream 0 is ambiguous: 1 is the legacy stream, 2 that of the thread")
    return {None: 1, -1: NO_STREAM}.get(stream, stream)
