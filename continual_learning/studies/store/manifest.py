"""Reads and writes `study.toml` and `environment.json`, with the version of the layout."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from continual_learning.installation import DISTRIBUTION
from continual_learning.studies.store import documents
from continual_learning.studies.store.files import StoreError, explained, reading

SCHEMA = 1
STUDY = "study.toml"
ENVIRONMENT = "environment.json"

_ABSENT = "(absent)"


def encode(study: Mapping[str, Any], environment: Mapping[str, Any]) -> dict[str, bytes]:
    """Return {file name: content}, the study last, because a folder with a study is a store."""
    facts = (json.dumps(environment, indent=2) + "\n").encode()
    sums = {ENVIRONMENT: documents.checksum(facts)}
    content = {"schema": SCHEMA, "study": plain(study)}
    return {ENVIRONMENT: facts, STUDY: documents.encode(content, sums)}


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the study and the environment of a folder; raise a StoreError if it has none."""
    path = folder / STUDY
    if not is_study(folder):
        reason = f"it has no {STUDY}" if folder.is_dir() else "there is no such folder"
        inside = sorted(str(each.parent) for each in folder.glob(f"*/{STUDY}"))
        shown = ", ".join(inside[:5]) + (", …" if len(inside) > 5 else "")
        hint = f"Studies in it: {shown}." if inside else "Name the folder that was given as output."
        raise StoreError(f"{folder} is not the folder of a study: {reason}. {hint}")
    content, sums = documents.read(path)
    schema, study = content.get("schema"), content.get("study")
    if not isinstance(schema, int) or not isinstance(study, dict):
        raise StoreError(
            f"{path} is not the file of a study: it needs a number `schema` and a table `study`."
        )
    if schema > SCHEMA:
        raise StoreError(
            f"{folder} has schema {schema}, written by a newer version of {DISTRIBUTION}; "
            f"this one reads schemas up to {SCHEMA}. Upgrade {DISTRIBUTION}."
        )
    path = folder / ENVIRONMENT
    with explained("read", path), reading(path) as file:
        facts = file.read()
    if ENVIRONMENT in sums:
        documents.verify(path, facts, sums[ENVIRONMENT])
    try:
        environment = json.loads(facts)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is damaged ({error}): restore it from a copy.") from error
    return study, environment


def is_study(folder: Path) -> bool:
    """Return whether a folder is the folder of a study that has begun."""
    return (folder / STUDY).is_file()


def check_same(folder: Path, stored: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise a StoreError that lists the fields in which two studies differ, if there are any.

    The scales of an experiment do not count, because a study has the values of one of them.
    """
    lines = [
        f"  {name}: {here!r} in the folder, {there!r} asked"
        for name, (here, there) in differences(stored, plain(asked)).items()
        if "scales" not in name.split(".")
    ]
    if lines:
        raise StoreError(
            f"{folder} holds another study:\n" + "\n".join(lines) + "\n"
            "Resume it as it is, or choose another folder."
        )


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return {"dotted.path": (value in a, value in b)} of the fields in which two tables differ."""
    here, there = _fields(a), _fields(b)
    pairs = {name: (here.get(name, _ABSENT), there.get(name, _ABSENT)) for name in here | there}
    return {name: pair for name, pair in pairs.items() if not _same(*pair)}


def plain(value: Any, where: str = "study") -> Any:
    """Return a copy in str, int, float, bool, list and dict; raise a TypeError for other values."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{where}: the key {key!r} is not a string.")
        return {str(key): plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    hint = " Leave out what has no value." if value is None else ""
    raise TypeError(
        f"{where} must be a str, int, float, bool, list or dict, got {value!r} "
        f"({type(value).__name__}).{hint}"
    )


def _fields(value: Any, where: str = "") -> dict[str, Any]:
    """Return {"dotted.path": value}; lists and empty tables are values."""
    if not isinstance(value, Mapping) or not value:
        return {where: value}
    found = {}
    for key, item in value.items():
        found |= _fields(item, f"{where}.{key}" if where else key)
    return found


def _same(a: Any, b: Any) -> bool:
    both_nan = a != a and b != b
    return both_nan or (a == b and isinstance(a, bool) == isinstance(b, bool))
