"""The models of the transformers package in tiny random configurations, traced and scripted.

A collection for `fidelity.py`. Every model class of the package's own tables is made from its
configuration class with small sizes; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PretrainedConfig
from transformers.models.auto import modeling_auto

# Sizes by attribute name of a configuration; the first part that matches counts.
SIZES: tuple[tuple[str, int], ...] = (
    ("num_key_value_heads", 4), ("heads", 4), ("n_head", 4), ("head_dim", 8), ("d_kv", 8),
    ("num_hidden_layers", 2), ("num_layers", 2), ("n_layer", 2), ("_layers", 2), ("n_layers", 2),
    ("intermediate_size", 64), ("ffn_dim", 64), ("d_ff", 64), ("n_inner", 64), ("hidden_dim", 64),
    ("hidden_size", 32), ("d_model", 32), ("n_embd", 32), ("embedding_size", 32), ("embed_dim", 32),
    ("projection_dim", 32), ("vocab_size", 99), ("max_position_embeddings", 64),
    ("n_positions", 64), ("image_size", 32), ("patch_size", 8), ("num_experts", 4),
)  # fmt: skip
SEED_WORDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
MAX_PARAMETERS = 20_000_000


@dataclass(frozen=True, slots=True)
class Model:
    """One model class with one configuration; ``kind`` is "trace" or "script"."""

    name: str
    config_class: Any
    model_class: Any
    kind: str

    def build(self) -> Any:
        torch.manual_seed(0)
        config = self.config_class()
        shrink(config)
        model = self.model_class(config).eval()
        if sum(parameter.numel() for parameter in model.parameters()) > MAX_PARAMETERS:
            raise ValueError("too large for a test")
        if self.kind == "script":
            return torch.jit.script(model)
        return traced(model)


def traced(model: Any) -> Any:
    """Trace with the first combination of inputs that the model accepts."""
    problems: list[Exception] = []
    for named in candidate_inputs(model):
        inputs = tuple(named.values())
        network = Tensors(model, tuple(named))
        try:
            with torch.no_grad():
                network(*inputs)
        except Exception as problem:
            problems.append(problem)
            continue
        return torch.jit.trace(network, inputs, strict=False, check_trace=False)
    raise problems[0]


class Tensors(torch.nn.Module):
    """A model with positional inputs whose result is the tuple of the tensors it computed."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**dict(zip(self.names, inputs, strict=True)))
        values = result.values() if isinstance(result, dict) else result
        return tuple(value for value in values if isinstance(value, torch.Tensor))


def shrink(config: PretrainedConfig) -> None:
    """Make every size of the configuration and of nested ones small."""
    config.use_cache = False
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            shrink(value)
        elif name in SEED_WORDS:
            setattr(config, name, 1)
        elif isinstance(value, int) and not isinstance(value, bool):
            smaller = next((size for part, size in SIZES if part in name), None)
            if smaller is not None and value > smaller:
                setattr(config, name, smaller)


def candidate_inputs(model: Any) -> Iterator[dict[str, torch.Tensor]]:
    ids = torch.randint(2, 90, (1, 8))
    pixels = torch.randn(1, 3, 32, 32)
    yield {"input_ids": ids}
    yield {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    yield {"input_ids": ids, "decoder_input_ids": ids}
    yield {"pixel_values": pixels}
    yield {"input_ids": ids, "pixel_values": pixels}
    yield {"pixel_values": torch.randn(1, 3, 224, 224)}
    yield {"input_values": torch.randn(1, 4000)}
    yield {"input_features": torch.randn(1, 80, 128)}
    yield {"input_features": torch.randn(1, 64, 80)}
    yield {"pixel_values": pixels, "decoder_input_ids": ids}
    yield {"past_values": torch.randn(1, 64, 1)}


def all_cases() -> Iterator[Model]:
    """Yield every model class of the package's tables, once."""
    seen = set()
    for config_class, model_class in entries():
        if model_class.__name__ not in seen:
            seen.add(model_class.__name__)
            for kind in ("trace", "script"):
                name = f"{model_class.__name__} {kind}"
                yield Model(name, config_class, model_class, kind)


def entries() -> Iterator[tuple[Any, Any]]:
    """Yield configuration and model classes; those that need missing packages are left out."""
    for name in sorted(name for name in vars(modeling_auto) if name.endswith("_MAPPING")):
        table = getattr(modeling_auto, name)
        for config_class in table.keys() if hasattr(table, "keys") else ():
            try:
                found = table[config_class]
            except (AttributeError, ImportError, ValueError):
                continue
            for model_class in found if isinstance(found, tuple) else (found,):
                yield config_class, model_class
