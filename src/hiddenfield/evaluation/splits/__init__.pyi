from .base import SPLITTERS as SPLITTERS, Request as Request, Split as Split, make_splits as make_splits
