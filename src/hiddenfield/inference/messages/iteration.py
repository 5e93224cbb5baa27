"""What a schedule of message passing is."""

from __future__ import annotations

import abc

from hiddenfield.inference.messages.passing import MessagePassing
from hiddenfield.shapes import Float, Tensor

__all__ = ["Iteration"]


class Iteration(abc.ABC):
    """One way to update all messages, on any representation of them: here the messages themselves."""

    @abc.abstractmethod
    def step(self, state: Tensor) -> tuple[Tensor, Float[Tensor, " graphs"]]:
        """Update every message, or as many single ones; return each graph's undamped residual too."""

    def start(self, messages: Float[Tensor, " messages"]) -> Tensor:
        """Return the representation of log messages that the steps work on."""
        return messages

    def start_uniform(self, passing: MessagePassing) -> Tensor:
        """Return the representation of uniform messages."""
        return self.start(passing.start())

    def messages(self, state: Tensor) -> Float[Tensor, " messages"]:
        """Return normalised log messages."""
        return state
