"""Values of records as text: kinds, attributes, and the experiments of an impression. Pure."""

import json

from ..events import too_long


def scalar_text(value: object) -> str | None:
    """Return a text, a number or a truth value as text; None for null, objects and arrays."""
    if value is None or isinstance(value, (dict, list)):
        return None
    return value if isinstance(value, str) else json.dumps(value)


class ValueTexts:
    """Gathers attributes or experiments: what cannot be one is left out, and its reason noted."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.dropped: list[str] = []
        self._disputed: set[str] = set()

    def add(self, name: str, value: object) -> None:
        """Take the value of a name; null and an empty text are none."""
        if value is None or value == "":
            return
        text = scalar_text(value)
        if text is None:
            self.dropped.append("bad_value")
        elif too_long(name) or too_long(text):
            self.dropped.append("long_name" if too_long(name) else "long_value")
        elif name in self._disputed or self.texts.get(name, text) != text:
            # An experiment that is listed twice. Whichever arm got the impression would be moved
            # by what the other arm did to it: neither gets it.
            self.texts.pop(name, None)
            self._disputed.add(name)
            self.dropped.append("two_variants")
        else:
            self.texts[name] = text

    def add_scalars(self, members: object) -> None:
        """Take the scalar members of an object that have no value yet."""
        if isinstance(members, dict):
            self.add_members(
                {
                    name: value
                    for name, value in members.items()
                    if name not in self.texts and not isinstance(value, (dict, list))
                }
            )
        elif members is not None:
            self.dropped.append("bad_value")

    def add_members(self, members: object) -> None:
        """Take all members of an object."""
        if isinstance(members, dict):
            for name, value in members.items():
                self.add(name, value)
        elif members is not None:
            self.dropped.append("bad_value")
