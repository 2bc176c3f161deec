"""Models are built for the weights in a file: without random numbers, with all other values, and not much larger."""

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import RECURRENT, SMALL, make_task, model_config
from torch import nn

from fairseq_etads.data.weights_file import WeightsFile, _ModelBuilding, write_weights

ADVICE = "Ask for it again"


def weights_of(tmp_path, model) -> WeightsFile:
    path = tmp_path / "model.safetensors"
    write_weights(path, {name: value.clone() for name, value in model.state_dict().items()})
    return WeightsFile(path, {}, ADVICE)


BUILT = {
    "etads": SMALL,
    "gru_seq2seq": RECURRENT,
    "entail_s2s": {**RECURRENT, "readout_dim": 8},  # draws numbers again that are outside of its bounds
}


@pytest.mark.parametrize("arch", BUILT)
def test_a_model_that_is_built_for_its_weights_is_the_same(tmp_path, arch):
    """No random number is drawn; buffers that are not stored, such as positions, are computed."""

    def build():
        return ARCH_MODEL_REGISTRY[arch].build_model(model_config(arch, **BUILT[arch]), make_task())

    torch.manual_seed(1)
    model = build()
    file = weights_of(tmp_path, model)
    state = torch.get_rng_state()
    with file.limit_model() as limit:
        built = build()
    assert torch.equal(torch.get_rng_state(), state)
    assert limit.tensors_left > 500 and limit.numbers_left > 2**24 / 2
    assert any(value.ne(0).any() and built.state_dict()[name].eq(0).all() for name, value in model.state_dict().items())
    built.load_state_dict(file.read_weights(built.state_dict()), strict=True)
    for kind in ("named_parameters", "named_buffers"):
        torch.testing.assert_close(dict(getattr(built, kind)()), dict(getattr(model, kind)()), rtol=0, atol=0)


@pytest.mark.parametrize(
    "fill",
    [
        *(nn.init.xavier_normal_, torch.Tensor.uniform_, lambda weight: nn.init.normal_(tensor=weight, std=0.1)),
        lambda weight: nn.init.trunc_normal_(weight, mean=0.0, std=1.0, a=5.0, b=6.0),
    ],
)
def test_zeros_take_the_place_of_random_numbers(fill):
    """Numbers that are out of bounds are not drawn forever."""
    weight = nn.Parameter(torch.ones(3, 4))
    with _ModelBuilding(10**6, 100), torch.no_grad():
        fill(weight)
    assert weight.eq(0).all()
    with pytest.raises(ValueError, match="much larger"), _ModelBuilding(10**6, 100):
        nn.init.trunc_normal_(torch.ones(3), mean=0.9, std=1.0, a=0.5, b=2.0)
    assert torch.is_grad_enabled(), "trunc_normal_ disables gradients only while it runs"


@pytest.mark.parametrize(
    "create,size",
    [
        (lambda: torch.empty(5, 7), 35),
        (lambda: torch.zeros(torch.Size([5, 7])), 35),
        (lambda: torch.full((5, 7), 2.0), 35),
        (lambda: torch.full(size=(5, 7), fill_value=2.0), 35),
        (lambda: torch.empty(()), 1),
        (lambda: torch.arange(0.5, 3.0), 3),
        (lambda: torch.arange(end=9), 9),
        (lambda: torch.arange(3, end=9, step=4), 2),
        (lambda: nn.Linear(5, 7), 42),
    ],
)
def test_created_tensors_are_counted(create, size):
    with _ModelBuilding(10**6, 100) as limit:
        made = create()
    tensors = [*made.parameters()] if isinstance(made, nn.Module) else [made]
    assert sum(tensor.numel() for tensor in tensors) == size
    filled = 2 if isinstance(made, nn.Linear) else 0  # with random numbers
    assert (limit.numbers_left, limit.tensors_left) == (10**6 - size, 100 - len(tensors) - filled)


def test_limits_depend_on_the_file(tmp_path):
    """Eight times the numbers and twenty times the weights, besides what even the smallest model may have."""
    file = weights_of(tmp_path, nn.Linear(999, 1000))
    for size, times in ((8 * 1000 * 1000 + 2**24, 1), (1, 20 * 2 + 1000)):
        with file.limit_model():
            for _ in range(times):
                torch.empty(size)
            with pytest.raises(ValueError, match="a model that is much larger than the weights file"):
                torch.empty(1)
    assert torch.empty(1).numel() == 1, "outside, there is no limit"
