"""Convolutional networks modelled on well-known ones, in torch.nn alone.

Each maps [1, 3, H, W] to logits or to a map of scores; none has trained weights.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn


def convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution that keeps or divides the resolution, and its batch norm."""
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [layer, nn.BatchNorm2d(outputs)]


class SqueezeExcitation(nn.Module):
    """Weights channels by their means."""

    def __init__(self, channels: int, squeezed: int, gate: type[nn.Module]) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.activation = nn.ReLU()
        self.expand = nn.Conv2d(squeezed, channels, 1)
        self.gate = gate()

    def forward(self, x: Tensor) -> Tensor:
        scale = self.activation(self.reduce(self.pool(x)))
        return x * self.gate(self.expand(scale))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, squeeze-excitation and projection, with a shortcut."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        activation: type[nn.Module],
        gate: type[nn.Module],
    ) -> None:
        super().__init__()
        inner = inputs * 4
        self.is_residual = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            *convolution(inputs, inner, 1),
            activation(),
            *convolution(inner, inner, 3, stride, groups=inner),
            activation(),
            SqueezeExcitation(inner, max(inputs // 4, 4), gate),
            *convolution(inner, outputs, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        result = self.layers(x)
        if self.is_residual:
            result += x
        return result


class InvertedResidualNet(nn.Module):
    """A stem, stages of inverted residuals and a classifier.

    stages: for each stage its channels, its number of blocks and the stride of the first.
    """

    def __init__(
        self,
        stages: tuple[tuple[int, int, int], ...],
        activation: type[nn.Module],
        gate: type[nn.Module],
        classes: int = 1000,
    ) -> None:
        super().__init__()
        inputs = 16
        layers: list[nn.Module] = [*convolution(3, inputs, 3, 2), activation()]
        for outputs, count, stride in stages:
            for number in range(count):
                step = stride if number == 0 else 1
                layers.append(InvertedResidual(inputs, outputs, step, activation, gate))
                inputs = outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(inputs, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


def mobile_net() -> nn.Module:
    stages = ((16, 1, 2), (24, 2, 2), (40, 3, 2), (48, 2, 1), (96, 3, 2))
    return InvertedResidualNet(stages, nn.Hardswish, nn.Hardsigmoid)


def efficient_net() -> nn.Module:
    stages = ((16, 1, 1), (24, 2, 2), (40, 2, 2), (80, 3, 2), (112, 3, 1), (192, 4, 2), (320, 1, 1))
    return InvertedResidualNet(stages, nn.SiLU, nn.Sigmoid)


class DenseLayer(nn.Module):
    """Two convolutions over the concatenation of all preceding maps."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(inputs, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, maps: list[Tensor]) -> Tensor:
        narrow = self.conv1(self.relu1(self.norm1(torch.cat(maps, 1))))
        return self.conv2(self.relu2(self.norm2(narrow)))


class DenseBlock(nn.Module):
    def __init__(self, inputs: int, layers: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DenseLayer(inputs + number * growth, growth) for number in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        maps = [x]
        for layer in self.layers:
            maps.append(layer(maps))
        return torch.cat(maps, 1)


class DenseNet(nn.Module):
    """Dense blocks with transitions that halve width and resolution."""

    def __init__(
        self, blocks: tuple[int, ...] = (4, 8, 12, 10), growth: int = 16, classes: int = 1000
    ) -> None:
        super().__init__()
        channels = 2 * growth
        layers: list[nn.Module] = [
            *convolution(3, channels, 7, 2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        for number, count in enumerate(blocks):
            layers.append(DenseBlock(channels, count, growth))
            channels += count * growth
            if number + 1 < len(blocks):
                layers += transition(channels)
                channels //= 2
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(inplace=True))
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        maps = nn.functional.adaptive_avg_pool2d(self.features(x), (1, 1))
        return self.classifier(torch.flatten(maps, 1))


def transition(channels: int) -> list[nn.Module]:
    narrow = nn.Conv2d(channels, channels // 2, 1, bias=False)
    return [nn.BatchNorm2d(channels), nn.ReLU(inplace=True), narrow, nn.AvgPool2d(2)]


def shuffled(x: Tensor, groups: int) -> Tensor:
    """Interleave the channels of all groups."""
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(batch, channels, height, width)


class ShuffleUnit(nn.Module):
    """Passes half of the channels through, or reduces both halves; then shuffles channels."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.is_split = stride == 1
        self.shortcut = nn.Sequential()
        if not self.is_split:
            depthwise = convolution(inputs, inputs, 3, stride, groups=inputs)
            self.shortcut = nn.Sequential(*depthwise, *convolution(inputs, half, 1), nn.ReLU())
        self.branch = nn.Sequential(
            *convolution(half if self.is_split else inputs, half, 1),
            nn.ReLU(inplace=True),
            *convolution(half, half, 3, stride, groups=half),
            *convolution(half, half, 1),
            nn.ReLU(inplace=True),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.is_split:
            kept, changed = x.chunk(2, dim=1)
            joined = torch.cat((kept, self.branch(changed)), dim=1)
        else:
            joined = torch.cat((self.shortcut(x), self.branch(x)), dim=1)
        return shuffled(joined, 2)


class ShuffleNet(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        inputs = 24
        layers: list[nn.Module] = [*convolution(3, inputs, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for outputs, count in ((48, 4), (96, 8), (192, 4)):
            for number in range(count):
                layers.append(ShuffleUnit(inputs, outputs, 1 if number else 2))
                inputs = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class UNet(nn.Module):
    """Downsampling and upsampling with skip connections."""

    def __init__(self, width: int = 8, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.first = double_convolution(3, width)
        self.down = nn.ModuleList(
            nn.Sequential(nn.MaxPool2d(2), double_convolution(a, b)) for a, b in pairwise(widths)
        )
        widths.reverse()
        pairs = list(pairwise(widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.joined = nn.ModuleList(double_convolution(2 * b, b) for _, b in pairs)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        maps = [self.first(x)]
        for down in self.down:
            maps.append(down(maps[-1]))
        result = maps.pop()
        for up, join in zip(self.up, self.joined):  # noqa: B905 - scripted
            result = join(torch.cat([maps.pop(), up(result)], dim=1))
        return self.last(result)


def double_convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *convolution(inputs, outputs, 3), nn.ReLU(), *convolution(outputs, outputs, 3), nn.ReLU()
    )
