"""Program graphs as Python functions and classes."""

import torch

from tsarchive.operators.versions import require_torch

require_torch(torch.__version__)
