"""What a chart holds."""


def rows_of(chart) -> list[dict]:
    """All data of a chart."""
    return [row for rows in chart.to_dict().get("datasets", {}).values() for row in rows]


def notes_of(chart) -> str:
    return " ".join(chart.to_dict()["title"]["text"])


def values_of(tree, key) -> list:
    """All values of a key, however deep."""
    if isinstance(tree, dict):
        here = [tree[key]] if key in tree else []
        return here + [v for t in tree.values() for v in values_of(t, key)]
    return [v for t in tree for v in values_of(t, key)] if isinstance(tree, list) else []
