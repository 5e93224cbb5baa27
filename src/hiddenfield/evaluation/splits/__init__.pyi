from .base import Request as Request, Split as Split
from .making import SPLITTERS as SPLITTERS, make_splits as make_splits
