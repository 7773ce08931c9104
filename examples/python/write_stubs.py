# SPDX-License-Identifier: Apache-2.0
"""Writes the stub of the compiled module: what _core.pyi.in has, then the operations as the module describes them.

    python3 write_stubs.py <folder of the module> <_core.pyi.in> <_core.pyi>
"""

from __future__ import annotations

import sys
from pathlib import Path


def stub(core: object, rest: str) -> str:
    parts = [rest]
    for name, made in sorted(core._named_tuples.items()):
        # Weights are made by users, of whatever operations take. A tuple has a method `index`.
        is_given = name.endswith("Weights")
        members = [f"    {member}: {'Any' if is_given else hint}" + " = ..." * (member in made._field_defaults)
                   + "  # type: ignore[assignment]" * (member == "index") for member, hint in made._hints]  # fmt: skip
        parts.append("\n".join([f"class {name}(NamedTuple):", *members]) + "\n")
    parts.append("".join(f"def {name}{signature}: ...\n" for name, signature in core._operations.items()))
    names = sorted([*core._named_tuples, *core._operations])
    parts.append("__all__ += [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n")
    return "\n".join(parts)


if __name__ == "__main__":
    folder, given, written = sys.argv[1:]
    sys.path.insert(0, folder)
    import _core

    Path(written).unlink(missing_ok=True)  # a build of before may have a link there
    Path(written).write_text(stub(_core, Path(given).read_text()))
