"""Networks over sequences: attention, and recurrence written as a loop."""

import torch
from torch import Tensor, nn


class Encoder(nn.Module):
    """Tokens to logits, [1, L] int64 to [1, L, vocabulary], through torch.nn's encoder."""

    def __init__(self, vocabulary: int = 1000, width: int = 64, layers: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.encoder(self.embedding(tokens)))


class Attention(nn.Module):
    """Causal attention, with an operator for each step."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inner = width // heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.size()
        joined = self.query_key_value(x).view(batch, length, 3, self.heads, self.inner)
        query, key, value = joined.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(query, key.transpose(-2, -1)) / self.inner**0.5
        weights = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1)
        mixed = torch.matmul(weights, value).transpose(1, 2).reshape(batch, length, width)
        return self.output(mixed)


class DecoderBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.activation = nn.GELU()
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.narrow(self.activation(self.wide(self.norm2(x))))


class LanguageModel(nn.Module):
    """Tokens to next-token logits, [1, L] int64 to [1, L, vocabulary]."""

    def __init__(self, vocabulary: int = 1000, width: int = 64, blocks: int = 12) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(64, width)
        self.blocks = nn.ModuleList(DecoderBlock(width, 4) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.size(1)
        places = torch.arange(length, device=tokens.device)
        mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x, mask)
        return self.output(self.norm(x))


class RecurrentLayer(nn.Module):
    """The equations of an LSTM, in a loop over the sequence."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.read = nn.Linear(inputs, 4 * width)
        self.keep = nn.Linear(width, 4 * width)
        self.width = width

    def forward(self, sequence: Tensor) -> Tensor:
        hidden = torch.zeros(sequence.size(0), self.width)
        cell = torch.zeros(sequence.size(0), self.width)
        outputs: list[Tensor] = []
        for place in range(sequence.size(1)):
            gates = self.read(sequence[:, place]) + self.keep(hidden)
            write, forget, new, show = gates.chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(new)
            hidden = torch.sigmoid(show) * torch.tanh(cell)
            outputs.append(hidden)
        return torch.stack(outputs, 1)


class Recurrent(nn.Module):
    """Two such layers over [1, L, inputs]."""

    def __init__(self, inputs: int = 16, width: int = 32) -> None:
        super().__init__()
        self.layers = nn.Sequential(RecurrentLayer(inputs, width), RecurrentLayer(width, width))
        self.output = nn.Linear(width, inputs)

    def forward(self, sequence: Tensor) -> Tensor:
        return self.output(self.layers(sequence))
