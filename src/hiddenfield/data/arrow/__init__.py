"""The Arrow form of a pack: one row per structure; list columns are the pack's own arrays."""

from __future__ import annotations
