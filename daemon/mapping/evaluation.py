"""Evaluates the expressions of a mapping on one record. Pure."""

from functools import cached_property
from typing import Any, Final, final

import jmespath.exceptions

from ..events.fields import InvalidField
from .expressions import Expression
from .functions import Interpreter, Surroundings, TooMuchWork

_TOO_MUCH: Final = "takes more steps than are allowed for a record of this size"


@final
class Evaluation:
    """Evaluates expressions about one record. Work adds up over all of them."""

    def __init__(self, around: Surroundings, size: int) -> None:
        self._around, self._size = around, size
        self._interpreter = Interpreter(around, size)

    @cached_property
    def beside(self) -> "Evaluation":
        """One whose work adds up apart: of values that must not cost the record anything."""
        return Evaluation(self._around, self._size)

    def find(self, expression: Expression, value: object) -> Any:
        """Return what the expression finds in a value. Raises InvalidField, and nothing else."""
        try:
            return self._interpreter.visit(expression.tree, value)
        except InvalidField as error:
            raise InvalidField(error.reason, f"{expression.name}: {error.detail}") from error
        except TooMuchWork as error:
            raise InvalidField("too_large", f"{expression.name}: {_TOO_MUCH}") from error
        except jmespath.exceptions.JMESPathTypeError as error:
            raise InvalidField("wrong_type", f"{expression.name}: {_words(error)}") from error
        except Exception as error:
            # Whatever the library's functions raise for odd values (an overflow, a recursion that
            # is too deep) refuses this event: no record may stop the others.
            detail = f"{expression.name}: cannot be computed: {type(error).__name__}"
            raise InvalidField("wrong_type", detail) from error

    def is_true(self, expression: Expression | None, value: object) -> bool:
        """Whether a condition holds; none always does. Null, false and what is empty do not."""
        if expression is None:
            return True
        found = self.find(expression, value)
        return found is not None and found is not False and found not in ("", [], {})


def _words(error: Any) -> str:
    expected = " or ".join(map(str, error.expected_types))
    return f"{error.function_name}(): needs {expected}, not {error.actual_type}"
