"""The frontend: TorchScript source to program graphs, without torch.

Records are cut into definitions, definitions are read when they are asked for, and the bodies of
functions are lowered when their graphs are. May import the IR and the table of operators.
"""

from .importer import CodeImporter

__all__ = ["CodeImporter"]
