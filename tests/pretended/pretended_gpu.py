"""A simulated GPU: tensors that claim to be on cuda:0 and are computed on the CPU, for tests without a GPU.

Once this module is imported, code written for CUDA runs unchanged: ``.cuda()``, ``is_cuda``, autocast with CUDA's own
lists of operators, backward passes, fairseq's trainer. An operator that is given tensors of both devices fails, as on a
GPU. The simulation cannot show anything about cuDNN, fused kernels, memory or speed.

Import it before torch: as a plugin of pytest (``scripts/test.sh --gpu-simulated``), or with ``run_pretending.py``. The
first import compiles ``pretended_gpu.cpp`` with g++.
"""

import collections
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from types import SimpleNamespace

_TORCH = importlib.util.find_spec("torch").submodule_search_locations[0]
if "torch" in sys.modules or os.path.exists(f"{_TORCH}/lib/libtorch_cuda.so"):
    raise RuntimeError("import this before torch, which must be built for CPUs only")
_STUB = Path(__file__).with_suffix(".cpp").read_text()
_KEY = hashlib.sha256(f"{_STUB}{_TORCH}{os.stat(_TORCH).st_mtime}".encode()).hexdigest()[:16]
_LIBRARY = os.path.join(tempfile.gettempdir(), f"pretended-gpu-{os.getuid()}-{_KEY}.so")
if not os.path.exists(_LIBRARY):
    _command = f"g++ -std=c++20 -O0 -w -shared -fPIC -x c++ - -I{_TORCH}/include -L{_TORCH}/lib -Wl,--no-as-needed "
    _command += f"-ltorch_cpu -lc10 -Wl,-rpath,{_TORCH}/lib -o {_LIBRARY}.{os.getpid()}"
    subprocess.run(_command.split(), input=_STUB, text=True, check=True)
    os.replace(f"{_LIBRARY}.{os.getpid()}", _LIBRARY)
ctypes.CDLL(_LIBRARY, mode=ctypes.RTLD_GLOBAL)

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing  # noqa: E402

WAITS, UPLOADS = collections.Counter(), collections.Counter()
"""(operator, file:line) -> how often the CPU waited for it, or it copied memory that is not pinned to the GPU."""
SYNCS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"}
SYNCS |= {"is_nonzero", "bincount", "_coalesce", "multinomial", "masked_scatter", "masked_scatter_"}
MAY_MIX = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "set_"}
NUMBERS = {"fill_", "fill", "masked_fill", "masked_fill_", "index_fill", "index_fill_"}
"""Operators for which the CPU waits, which accept tensors of both devices, and which accept numbers of the CPU."""


class MixedDevicesError(RuntimeError):
    """An operator was given tensors of both devices."""


class PretendedTensor(torch.Tensor):
    """A tensor that claims to be on cuda:0. Its numbers are in ``inner``, a tensor on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        layout = {"layout": torch.sparse_coo} if inner.is_sparse else {"strides": inner.stride()}
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, device="cuda:0", **layout)

    def __init__(self, inner):
        self.inner = inner

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), PretendedTensor(self.inner.clone()))

    def data_ptr(self):
        return self.inner.data_ptr()

    def tolist(self):
        return self.cpu().tolist()

    def __format__(self, spec):
        return format(self.item() if self.dim() == 0 else self.cpu(), spec)

    def __repr__(self, **_):
        return f"pretended({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


class Mode(TorchDispatchMode):
    """Inside, operators that make tensors make them on the simulated GPU if they are asked to."""

    _should_skip_dynamo = classmethod(lambda cls: False)  # torch's guard takes a tenth of the time

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def wrap(x):
    """Move tensors in nested lists and tuples to the simulated GPU."""
    if type(x) is list or type(x) is tuple:
        return type(x)(map(wrap, x))
    return PretendedTensor(x) if isinstance(x, torch.Tensor) and type(x) is not PretendedTensor else x


def unwrap(x, tensors):
    """Copy nested arguments with everything moved to the CPU, and append the original tensors to a list."""
    kind = type(x)
    if kind is list or kind is tuple:
        return kind([unwrap(part, tensors) for part in x])
    if kind is torch.device:
        return torch.device("cpu") if x.type == "cuda" else x
    if isinstance(x, torch.Tensor):
        tensors.append(x)
    return x.inner if kind is PretendedTensor else x


def count(counter, name):
    """Count an operator at the innermost line of fairseq_etads, except for its wrappers of fairseq, or of fairseq."""
    for frame, line in traceback.walk_stack(sys._getframe(2)):
        found = re.fullmatch(r".*/(fairseq(_etads)?/(?!fairseq_fixes/).*)", frame.f_code.co_filename)
        if found:
            counter[name, f"{found[1]}:{line}"] += 1
            return
    counter[name, "(backward or torch)"] += 1


def check_devices(func, name, args, plain):
    """Refuse tensors of both devices, unless a GPU would accept them; ``plain`` are on the CPU."""
    strict = []
    if "index" in name:  # only the indices may be on the CPU
        unwrap([args[0], *args[2:]], strict)
    mixed = any(x.dim() and type(x) is not PretendedTensor for x in strict)
    numbers = (torch.Tag.pointwise in func.tags or name in NUMBERS) and all(x.dim() == 0 for x in plain)
    if mixed or not (numbers or name in MAY_MIX or name == "_pack_padded_sequence"):
        raise MixedDevicesError(f"{func}: cuda:0 with the CPU's {[tuple(x.shape) for x in plain]}")


def run(func, args, kwargs):
    """Compute an operator on the CPU; its results claim to be on the device where a GPU would put them."""
    tensors, device, name = [], kwargs.get("device"), func.overloadpacket.__name__
    own_args = unwrap(args, tensors)
    own_kwargs = {key: unwrap(value, tensors) for key, value in kwargs.items()}
    plain = [x for x in tensors if type(x) is not PretendedTensor]
    pretended = len(plain) < len(tensors)
    if not pretended and (device is None or device.type != "cuda"):
        return func(*args, **kwargs)
    if pretended and plain:
        check_devices(func, name, args, plain)
    to_cpu = type(args[0]) is not PretendedTensor if name == "copy_" else device is not None and device.type != "cuda"
    masked = name in MAY_MIX and "index" in name and any(x.dtype in (torch.bool, torch.uint8) for x in tensors[1:])
    if name in SYNCS or to_cpu or masked:
        count(WAITS, name)
    elif name in MAY_MIX and not all(x.is_pinned() for x in plain):
        count(UPLOADS, name)
    found = COMPUTED[name](func, *own_args) if name in COMPUTED else func(*own_args, **own_kwargs)
    if to_cpu:
        return found
    if name == "_pack_padded_sequence":  # the sizes of its steps stay on the CPU
        return wrap(found[0]), found[1]
    return return_and_correct_aliasing(func, args, kwargs, wrap(found)) if pretended else wrap(found)


# Operators of CUDA that torch for CPUs lacks or has in another form.


def softmax(func, x, dim, half_to_float):  # CUDA's version reads half precision and writes float32 on request
    return func(x.float() if half_to_float else x, dim, False)


def softmax_backward(func, grad, out, dim, dtype):
    return func(grad, out, dim, grad.dtype).to(dtype)


COMPUTED = {"_softmax": softmax, "_softmax_backward_data": softmax_backward}
COMPUTED |= {"_log_softmax": softmax, "_log_softmax_backward_data": softmax_backward}


def gru_cell(of_input, of_hidden, hx, b_ih=0, b_hh=0):
    (i_r, i_z, i_n), (h_r, h_z, h_n) = (of_input + b_ih).chunk(3, 1), (of_hidden + b_hh).chunk(3, 1)
    n = torch.tanh(i_n + torch.sigmoid(i_r + h_r) * h_n)
    return n + torch.sigmoid(i_z + h_z) * (hx - n), n


def lstm_cell(of_input, of_hidden, cx, b_ih=0, b_hh=0):
    i, f, g, o = (of_input + of_hidden + b_ih + b_hh).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy, g


def apply(module, function, recurse=True):
    """Replacement for ``Module._apply`` that keeps shared parameters shared, and attributes of parameters."""
    done = {}
    for part in module.modules():
        for name, x in [*part._parameters.items(), *part._buffers.items()]:
            if x is not None and id(x) not in done:
                new = function(x.detach())
                if isinstance(x, nn.Parameter):
                    new = nn.Parameter(new, x.requires_grad)
                    vars(new).update({name: value for name, value in vars(x).items() if name != "inner"})
                done[id(x)] = new, x
            if x is not None:
                setattr(part, name, done[id(x)][0])
    return module


def pin_memory(x, *_):
    x.pretended_pin = True
    return x


def run_thread(thread, plain_run=threading.Thread.run):
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(…, device="cuda") is made on the CPU first
    with Mode():  # modes belong to a thread
        plain_run(thread)


properties = SimpleNamespace(name="pretended", major=8, minor=0, total_memory=80 << 30)
answers = {"is_available": True, "device_count": int(os.environ.get("PRETENDED_GPUS", 1)), "current_device": 0}
answers |= {"get_device_capability": (8, 0), "get_device_properties": properties, "max_memory_allocated": 0}
answers |= dict.fromkeys(("_lazy_init", "empty_cache", "synchronize", "set_device", "reset_peak_memory_stats"))
answers |= dict.fromkeys(("manual_seed", "manual_seed_all"))
vars(torch.cuda).update({name: lambda *_, value=value, **__: value for name, value in answers.items()})
torch.cuda._initialized, torch.cuda.device = True, lambda *_: contextlib.nullcontext()
torch.cuda.get_rng_state = lambda *_: torch.get_rng_state()
torch.cuda.set_rng_state = lambda state, *_: torch.set_rng_state(state)
for kind, dtype in (("ByteTensor", torch.uint8), ("DoubleTensor", torch.float64)):  # for sizes only
    setattr(torch.cuda, kind, functools.partial(torch.empty, dtype=dtype, device="cuda"))
torch.compile = lambda function, **_: function
torch.Tensor.pin_memory, torch.Tensor.is_pinned = pin_memory, lambda x, *_: hasattr(x, "pretended_pin")
nn.Module._apply, nn.RNNBase.flatten_parameters = apply, lambda self: None
threading.Thread.run = run_thread
LIBRARY = torch.library.Library("aten", "IMPL", "AutogradCUDA")  # above automatic differentiation, which is thus used
LIBRARY.impl("_thnn_fused_gru_cell", gru_cell)
LIBRARY.impl("_thnn_fused_lstm_cell", lstm_cell)
torch._C._set_only_lift_cpu_tensors(True)
Mode().__enter__()
