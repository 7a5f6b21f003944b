"""For the reference: `@reset_method` makes a dataclass, which cannot be told without running it."""

from typing import Any

import griffe


class ResetMethods(griffe.Extension):
    """Shows reset methods with the arguments that their fields give them."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Take one decorator for the other."""
        for decorator in cls.decorators:
            if decorator.callable_path.endswith(".reset_method"):
                decorator.value = griffe.ExprName("dataclasses.dataclass")
