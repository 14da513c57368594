"""Archives and modules whose code names a device."""

from __future__ import annotations

import io

import torch

import tsarchive
from tests.support.archives import records_of
from tsarchive.container import NewRecord, write_container
from tsarchive.pickler import Global, PersistentId, dumps

EMPTY = dumps(())
CPU, GPU = 'torch.device("cpu")', 'torch.device("cuda:0")'
DEVICE = Global("torch", "device")
STORAGE_ON_GPU = PersistentId(("storage", Global("torch", "FloatStorage"), "0", "cuda:0", 0))


def archive(code, data=EMPTY, constants=EMPTY) -> io.BytesIO:
    """An archive that can be looked at: ``code`` by record, or of the one record."""
    code = {"code/__torch__.py": code} if isinstance(code, str) else code
    records = {"data.pkl": data, **code, "constants.pkl": constants, "version": b"3\n"}
    file = io.BytesIO()
    write_container(
        file,
        [NewRecord(n, c.encode() if isinstance(c, str) else c) for n, c in records.items()],
    )
    file.seek(0)
    return file


def moved(code, target, **records) -> str:
    """The text of the one code record after loading to ``target``."""
    with tsarchive.open(archive(code, **records)) as opened:
        return opened.moved(target).code["code/__torch__.py"]


def function(body: str, parameters: str = "x: Tensor") -> str:
    lines = "".join(f"  {line}\n" for line in body.split("\n"))
    return f"def f({parameters}) -> Tensor:\n{lines}"


def to(x: torch.Tensor, device: str):
    return x.to(device)


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.device = "cuda"
        self.devices = ["cuda:0", "cpu"]
        self.title = "cuda"

    def forward(self, x: torch.Tensor):
        return x


class OnGpu(torch.nn.Module):
    """Devices in every kind of value that an archive can hold."""

    __constants__ = ("constant",)

    def __init__(self):
        super().__init__()
        self.constant = torch.device("cuda:0")
        self.one = torch.device("cuda:0")
        self.several = [torch.device("cuda:0"), torch.device("cpu")]
        self.named = {"a": torch.device("cuda:1")}
        self.maybe: torch.device | None = torch.device("cuda:1")
        self.pair = (torch.device("cuda"), 1)
        self.part = Part()

    def forward(self, x: torch.Tensor, index: int = 0):
        x = x.to(self.constant).to(self.one).to(self.several[0]).to(self.named["a"])
        if self.maybe is not None:
            x = x.to(self.pair[0])
        x = to(x, "cuda:0").to(self.part.device).to(self.part.devices[index])
        x = x.cuda() + torch.arange(3, device="cuda") + torch.ones(3, device=f"cuda:{index}")
        if x.is_cuda or x.device != torch.device("cuda:0"):
            x = x - 1000
        return x, self.part.title


class Traced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 3, batch_first=True)
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        y = self.lstm(packed)[0].data
        y = self.linear(y).to(x.device) + torch.tensor([1.0, 2.0], device=x.device)
        mask = torch.zeros(y.shape, device=x.device, dtype=torch.bool)
        positions = torch.arange(2, device=x.device) * torch.full((2,), 3, device=x.device)
        return y.masked_fill(mask, 0.0) + positions, torch.zeros_like(y), y.new_ones(2)


EXAMPLE = (torch.ones(2, 5, 4), torch.tensor([5, 3]))


def changed(data: bytes, *pairs: tuple[str, str]) -> bytes:
    """An archive with replacements in the text of its code records."""
    records = []
    for name, content in records_of(data).items():
        if name.startswith("code/") and name.endswith(".py"):
            for old, new in pairs:
                content = content.replace(old.encode(), new.encode())
        if name != ".data/serialization_id":
            records.append(NewRecord(name, content))
    file = io.BytesIO()
    write_container(file, records)
    return file.getvalue()


def code_of(data: bytes, target: str | None = None) -> dict[str, str]:
    with tsarchive.open(io.BytesIO(data)) as opened:
        return dict((opened.moved(target) if target else opened).code)
