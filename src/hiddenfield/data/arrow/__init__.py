"""The Arrow form of a pack: one row a structure; list columns are the pack's own arrays."""

from __future__ import annotations
