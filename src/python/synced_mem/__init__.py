"""
One buffer with a copy in host memory and a copy on a GPU, for NumPy, PyTorch, CuPy and JAX.

    mem = synced_mem.Memory((3, 4), "float32")
    numpy.asarray(mem.cpu("mutable"))[:] = 1            # on the host
    torch.from_dlpack(mem.gpu("mutable")).mul_(2)       # on the device, where the contents are moved
    print(numpy.asarray(mem.cpu()))                     # moved back

An array that comes from an access is good until the next conflicting call on the object, such as an access on the other
side to write. After that its memory stays, but its contents may be stale: make a new access.
"""
from synced_mem._core import *  # noqa: F401,F403
from synced_mem import _core

__version__ = _core.__version__
__all__ = [name for name in vars(_core) if not name.startswith("_")]
__all__ += ["Tensors", "load_safetensors", "save_safetensors"]


def __getattr__(name):
    """Imports the module of safetensors files at its first use, since it needs modules that take time to import."""
    if name not in ("Tensors", "load_safetensors", "save_safetensors"):
        raise AttributeError(f"module 'synced_mem' has no attribute '{name}'")
    from synced_mem import _safetensors
    return getattr(_safetensors, name)


def __dir__():
    return sorted([*globals(), *__all__])
