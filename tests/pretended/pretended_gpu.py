"""A simulated GPU: tensors that claim to be on cuda:0 and are computed on the CPU, for tests without a GPU.

Inside :func:`pretend_cuda`, code written for CUDA runs unchanged: ``.cuda()``, ``is_cuda``, ``torch.autocast("cuda")``
with CUDA's own lists of operators, backward passes, fairseq's trainer. An operator that is given tensors of both
devices fails, as on a GPU, and a :class:`Ledger` counts the operators for which the CPU would wait. It cannot show
anything about cuDNN, fused kernels, memory or speed.

Import this module before torch, in a process of its own, as ``run_pretending.py`` does. torch for CPUs then finds the
device of ``pretended_gpu.cpp``, and so has backward passes for it. That file is compiled at the first import, which
needs g++. torch with CUDA already has that device, so it cannot be pretended there.
"""

import collections
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

if "torch" in sys.modules:
    raise RuntimeError("import this before torch, in a process of its own")
_TORCH = importlib.util.find_spec("torch").submodule_search_locations[0]
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
from pretended_kernels import COMPUTED, compiled  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing  # noqa: E402

CUDA, CPU = torch.device("cuda:0"), torch.device("cpu")
SYNCS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"}
SYNCS |= {"is_nonzero", "bincount", "_coalesce", "multinomial", "masked_scatter", "masked_scatter_"}
MAY_MIX = {"copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "set_"}
NUMBERS = {"fill_", "fill", "masked_fill", "masked_fill_", "index_fill", "index_fill_"}
UNCHANGED = (int, float, bool)
NO_KERNEL = {"detach", "alias", "empty", "empty_like", "new_empty", "empty_strided", "_unsafe_view", "split", "unbind"}


class MixedDevicesError(RuntimeError):
    """An operator was given tensors of both devices."""


class Ledger:
    """Counts of three events.

    Attributes:
        syncs: the CPU waits for the GPU; by operator and by line of the project, or else of fairseq.
        uploads: memory that is not pinned is copied to the GPU; by operator and line, too.
        kernels: an operator is computed; by operator.
    """

    def __init__(self):
        self.syncs, self.uploads, self.kernels = (collections.Counter() for _ in range(3))

    def add(self, counter, name):
        frame, places = sys._getframe(2), {}
        while frame is not None:
            for package in ("fairseq_etads", "fairseq"):
                # the package platform only wraps functions of fairseq: the place is fairseq's
                if f"/{package}/" in frame.f_code.co_filename and "/platform/" not in frame.f_code.co_filename:
                    path = frame.f_code.co_filename.rpartition(f"/{package}/")[2]
                    places.setdefault(package, f"{package}/{path}:{frame.f_lineno}")
            frame = frame.f_back
        counter[name, places.get("fairseq_etads") or places.get("fairseq", "(backward or torch)")] += 1


LEDGER = Ledger()


class PretendedTensor(torch.Tensor):
    """A tensor that claims to be on cuda:0. Its numbers are in ``inner``, a tensor on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner):
        layout = {"layout": torch.sparse_coo} if inner.is_sparse else {"strides": inner.stride()}
        return torch.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype, device=CUDA, **layout)

    def __init__(self, inner):
        self.inner = inner

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), wrap(self.inner.clone()))

    def __reduce_ex__(self, _):
        return wrap, (self.inner,)

    def data_ptr(self):
        return self.inner.data_ptr()

    def untyped_storage(self):  # safetensors uses it to find tensors that share memory
        return self.inner.untyped_storage()

    def tolist(self):
        return self.cpu().tolist()

    def __format__(self, spec):  # torch's function is only for plain tensors
        return format(self.item() if self.dim() == 0 else self.cpu(), spec)

    def __repr__(self, **_):
        return f"pretended({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def wrap(x):
    return PretendedTensor(x) if isinstance(x, torch.Tensor) and type(x) is not PretendedTensor else x


def unwrap(x):
    return x.inner if type(x) is PretendedTensor else CPU if is_gpu(x) else x


def each(function, x):
    """Copy nested lists, tuples and dictionaries, and apply a function to everything inside; quicker than torch's."""
    kind = type(x)
    if kind is list or kind is tuple:
        return kind([each(function, part) for part in x])
    return {key: each(function, part) for key, part in x.items()} if kind is dict else function(x)


def tensors_in(parts):
    """The tensors in nested lists and tuples."""
    found = []
    for x in parts:
        if isinstance(x, torch.Tensor):
            found.append(x)
        elif type(x) is list or type(x) is tuple:
            found += tensors_in(x)
    return found


def pin(x, *_):
    """Replacement for ``Tensor.pin_memory``: the tensor itself, marked."""
    x.pretended_pin = True
    return x


def is_pinned(x, *_):
    return getattr(x, "pretended_pin", False)


def is_gpu(device):
    return isinstance(device, torch.device) and device.type == "cuda"


class Operator:
    """Properties of an operator that :func:`run` needs.

    Attributes:
        name: without the namespace.
        compute: the function that computes it on the CPU.
        waits: whether the CPU waits for its result.
        indexes, may_mix, takes_numbers: the rules of mixed devices that apply to it.
        is_kernel: whether a GPU would start a kernel.
        returns_first: whether the result is its first argument, which it changes.
        has_aliases: whether results share memory with arguments.
    """

    def __init__(self, func):
        self.func, self.name = func, func._schema.name.removeprefix("aten::")
        self.compute = COMPUTED.get(self.name, func)
        self.waits, self.indexes, self.may_mix = self.name in SYNCS, "index" in self.name, self.name in MAY_MIX
        self.takes_numbers = torch.Tag.pointwise in func.tags or self.name in NUMBERS
        self.is_kernel = not (func.is_view or self.name in NO_KERNEL)
        written = [part.alias_info is not None and part.alias_info.is_write for part in func._schema.arguments]
        in_place = written[:1] == [True] and sum(written) == len(func._schema.returns) == 1
        self.returns_first = in_place and torch.Tag.inplace_view not in func.tags
        self.has_aliases = any(part.alias_info for part in (*func._schema.arguments, *func._schema.returns))

    def check_devices(self, args, tensors, plain):
        """Refuse tensors of both devices, unless a GPU would accept them; ``plain`` are on the CPU."""
        numbers = self.takes_numbers and all(x.dim() == 0 for x in plain)
        strict = tensors_in((args[0], *args[2:])) if self.indexes else []  # of these only indices may be the CPU's
        mixed = any(x.dim() and not isinstance(x, PretendedTensor) for x in strict)
        if mixed or not (numbers or self.may_mix or self.name == "_pack_padded_sequence"):
            raise MixedDevicesError(f"{self.func}: cuda:0 with the CPU's {[tuple(x.shape) for x in plain]}")


operator_of = functools.cache(Operator)


def run(func, args, kwargs):
    """Compute an operator on the CPU; its results claim to be on the device where a GPU would put them."""
    tensors = tensors_in((*args, *kwargs.values()) if kwargs else args)
    plain = [x for x in tensors if type(x) is not PretendedTensor]
    pretended, device = len(plain) < len(tensors), kwargs.get("device")
    if not (pretended or is_gpu(device)):
        return func(*args, **kwargs)
    operator = operator_of(func)
    name = operator.name
    if pretended and plain:
        operator.check_devices(args, tensors, plain)
    to_cpu = isinstance(device, torch.device) and not is_gpu(device)
    to_cpu = to_cpu or (name == "copy_" and not isinstance(args[0], PretendedTensor))
    masked = operator.may_mix and any(x.dtype in (torch.bool, torch.uint8) for x in tensors[1:])
    if operator.waits or to_cpu or (masked and operator.indexes):
        LEDGER.add(LEDGER.syncs, name)
    elif plain and operator.may_mix and not all(is_pinned(x) for x in plain):
        LEDGER.add(LEDGER.uploads, name)
    if operator.is_kernel:
        LEDGER.kernels[name] += 1
    torch._C._set_only_lift_cpu_tensors(True)  # of each thread: torch.tensor(…, device="cuda") is made on the CPU first
    own_args = [x if type(x) in UNCHANGED else each(unwrap, x) for x in args]
    found = operator.compute(*own_args, **(each(unwrap, kwargs) if kwargs else kwargs))
    if to_cpu:
        return found if name != "copy_" else args[0]
    if name == "_pack_padded_sequence":  # the sizes of its steps stay on the CPU
        return wrap(found[0]), found[1]
    if pretended and operator.returns_first:
        return args[0]
    found = PretendedTensor(found) if type(found) is torch.Tensor else each(wrap, found)
    if pretended and operator.has_aliases:
        return return_and_correct_aliasing(func, args, kwargs, found)
    return found


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):  # nothing is compiled here, and torch's guard takes a tenth of the time
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def _apply(module, function, recurse=True):
    """Replacement for ``Module._apply`` that keeps shared parameters shared, and attributes of parameters."""
    done = {}

    def changed(x):
        if id(x) not in done:
            with torch.no_grad():
                new = function(x)
            if isinstance(x, nn.Parameter):
                new = nn.Parameter(new.detach(), x.requires_grad)
                vars(new).update({name: value for name, value in vars(x).items() if name != "inner"})
            done[id(x)] = x, new
        return done[id(x)][1]

    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            tensors.update((name, changed(x)) for name, x in tensors.items() if x is not None)
        if isinstance(part, nn.RNNBase):
            part._flat_weights = [getattr(part, name) for name in part._flat_weights_names]
    return module


@contextlib.contextmanager
def pretend_cuda(capability=(8, 0), devices=1):
    """Pretend that this machine has a GPU; yields an empty :class:`Ledger`.

    Args:
        capability: (8, 0) for an A100, (9, 0) for an H100.
        devices: number of GPUs to pretend. All tensors are on the first of them.
    """
    global LEDGER
    LEDGER = Ledger()
    properties = SimpleNamespace(name="pretended", major=capability[0], minor=capability[1], total_memory=80 << 30)
    answers = {"is_available": True, "is_initialized": True, "current_device": 0, "device_count": devices}
    answers |= {"get_device_capability": capability, "get_device_properties": properties, "max_memory_allocated": 0}
    answers |= dict.fromkeys(("_lazy_init", "empty_cache", "synchronize", "set_device", "reset_peak_memory_stats"))
    answers |= {"manual_seed": None, "manual_seed_all": None, "is_bf16_supported": capability >= (8, 0)}
    fakes = {name: lambda *_, value=value, **__: value for name, value in answers.items()}
    fakes |= {"_initialized": True, "device": lambda *_: contextlib.nullcontext()}
    fakes |= {"get_rng_state": lambda *_: torch.get_rng_state(), "set_rng_state": lambda x, *_: torch.set_rng_state(x)}
    for name, dtype in (("ByteTensor", torch.uint8), ("DoubleTensor", torch.float64)):  # for sizes only
        fakes[name] = lambda *sizes, dtype=dtype: torch.empty(*sizes, dtype=dtype, device="cuda")
    before = torch._C._only_lift_cpu_tensors()
    with contextlib.ExitStack() as stack:
        for name, fake in fakes.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, fake))
        stack.enter_context(mock.patch.object(torch, "compile", compiled))
        stack.enter_context(mock.patch.object(torch.Tensor, "pin_memory", pin))
        stack.enter_context(mock.patch.object(torch.Tensor, "is_pinned", is_pinned))
        stack.enter_context(mock.patch.object(nn.Module, "_apply", _apply))
        stack.enter_context(mock.patch.object(nn.RNNBase, "flatten_parameters", lambda self: None))
        stack.callback(torch._C._set_only_lift_cpu_tensors, before)
        torch._C._set_only_lift_cpu_tensors(True)
        plain_run = threading.Thread.run

        def run_pretending(self):  # modes belong to a thread
            torch._C._set_only_lift_cpu_tensors(True)
            with _Mode():
                plain_run(self)

        stack.enter_context(mock.patch.object(threading.Thread, "run", run_pretending))
        stack.enter_context(_Mode())
        yield LEDGER
