"""What the columns of a study mean: a readable name, a line of explanation, a group."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Metric(NamedTuple):
    """How a column is shown.

    Attributes:
      name: the column.
      title: as it is written on the page.
      text: what it is, in a line.
      share: whether it is a share of something, shown as a percentage.
    """

    name: str
    title: str
    text: str
    share: bool


GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Performance": {
        "latest_return": (
            "Return",
            "Of the episode that each environment ended last, mean over the environments.",
        ),
        "episode_return": (
            "Return of ended episodes",
            "Mean over the episodes that ended in the iteration; short ones count more often.",
        ),
        "published_return": (
            "Return as the paper's trainer logs it",
            "Mean over 100 episodes, to each of which evaluations add parts of others.",
        ),
        "eval_seen": (
            "Evaluation",
            "Return of deterministic episodes on every task met so far, mean over these tasks.",
        ),
        "eval": (
            "Evaluation",
            "Return of deterministic episodes on this task, since it was met.",
        ),
        "eval_seen_success": (
            "Success in evaluation",
            "Share of deterministic episodes that ended with the task solved, on every task met so "
            "far, mean over these tasks.",
        ),
        "eval_seen_success_ever": (
            "Ever a success in evaluation",
            "Share of deterministic episodes in which the task was solved at some time, likewise.",
        ),
        "eval_success": (
            "Success in evaluation",
            "Share of deterministic episodes on this task that ended with it solved.",
        ),
        "eval_success_ever": (
            "Ever a success in evaluation",
            "Share of deterministic episodes on this task in which it was solved at some time.",
        ),
        "test_accuracy": ("Test accuracy", "On test examples of the current task."),
        "train_accuracy": ("Training accuracy", "On the training examples of the current task."),
        "online_accuracy": (
            "Online accuracy",
            "On each batch before the network learns from it, since the row before.",
        ),
        "test_loss": ("Test loss", "Cross-entropy on test examples of the current task."),
        "train_loss": ("Training loss", "Cross-entropy on the task's training examples."),
        "running_return": (
            "Return so far",
            "Of the episodes in progress; it has no jump when a task begins.",
        ),
        "reward": ("Reward", "Mean reward of a step."),
        "episode_length": ("Episode length", "Mean over the episodes that ended, in steps."),
        "episodes_ended": ("Episodes ended", "How many ended in the iteration."),
        "success": ("Success", "Share of the episodes that ended with the task solved."),
        "success_ever": (
            "Ever a success",
            "Share of the episodes that ended in which the task was solved at some time.",
        ),
        "collapse": ("Collapse", "1 while the run is in a collapse, as it was found live."),
    },
    "Units": {
        "dormant_ratio": (
            "Dormant units",
            "Share of hidden units whose mean activation is below a tenth of their layer's.",
        ),
        "linearised_ratio": (
            "Linearised units",
            "Share of hidden units that are positive on more than 90 % of the inputs.",
        ),
        "low_variance_ratio": (
            "Low-variance units",
            "Share of hidden units that hardly depend on the input: variance below a tenth of "
            "their layer's.",
        ),
    },
    "Ranks of the features": {
        "srank": ("srank", "Singular values that make up 99 % of their sum, over all layers."),
        "stable_rank": (
            "Stable rank",
            "Sum of squared singular values over the largest squared, over all layers.",
        ),
        "effective_rank": (
            "Effective rank",
            "exp of the entropy of the singular values, over all layers.",
        ),
        "feature_rank": ("Feature rank", "Singular values above 0.01, over all layers."),
    },
    "Norms": {
        "gradient_norm": ("Gradient norm", "Before clipping, mean over the updates."),
        "parameter_norm": ("Parameter norm", "Of all parameters, after the updates."),
    },
    "Updates": {
        "policy_loss": (
            "Policy loss",
            "PPO's clipped objective, or SAC's minus soft value; mean over the updates.",
        ),
        "value_loss": ("Value loss", "Mean over the updates."),
        "loss": ("Loss", "Mean over the updates."),
        "q": ("Q", "What the critics say of the transitions they learn from."),
        "alpha": ("Temperature", "α, the weight of the entropy."),
        "alpha_loss": ("Loss of the temperature", "Mean over the updates."),
        "entropy": ("Entropy", "Of the policy; low means that it explores little."),
        "kl": (
            "KL divergence",
            "From the policy that acted to the one in training, mean over the updates.",
        ),
        "clip_fraction": ("Clip fraction", "Share of samples whose ratio was clipped."),
        "initial_kl": (
            "KL divergence before any update",
            "Of the first minibatch; 0 unless stored log densities are not those of the actions.",
        ),
        "initial_clip_fraction": (
            "Clip fraction before any update",
            "Likewise: share of samples whose ratio is beyond the clip before anything is learnt.",
        ),
        "clipped_actions": (
            "Clipped actions",
            "Share of the actions' entries at the action limit.",
        ),
        "explained_variance": (
            "Explained variance",
            "Of the value targets, by the values before the updates; 1 is perfect.",
        ),
    },
    "Resets": {
        "units_reset": ("Units reset", "What the reset method did since the start."),
        "layers_skipped": (
            "Layers skipped",
            "Layers the reset method left alone, since the start.",
        ),
    },
    "Other": {
        "diverged": ("Diverged steps", "Steps whose physics diverged."),
    },
}
"""{group: {column: (title, text)}}, in the order of the page."""

NETWORKS = ("policy", "value", "actor", "critic", "critic_1", "critic_2", "q")
SHARES = ("_ratio", "accuracy", "_fraction", "success", "success_ever")
_KNOWN = {name: group for group, names in GROUPS.items() for name in names}


def metric(column: str) -> Metric:
    """How a column is shown; `policy_dormant_ratio` is `dormant_ratio` of one network.

    `eval_NAME` and `eval_NAME_success` are evaluations on one task.
    """
    network, base = _split(column)
    share = column.endswith(SHARES)
    if base not in _KNOWN:
        return Metric(column, column, "A column of the study.", share)
    title, text = GROUPS[_KNOWN[base]][base]
    if network:
        title = f"{title}, {network}"
        text = text if base.startswith("eval") else f"{text} Of the {network} network."
    return Metric(column, title, text, share)


def grouped(columns: Iterable[str]) -> dict[str, list[str]]:
    """{group: its columns}, in the order of the page; unknown columns come last."""
    order = {name: i for i, name in enumerate(_KNOWN)}
    found: dict[str, list[str]] = {group: [] for group in GROUPS}
    for column in sorted(columns, key=lambda each: order.get(_split(each)[1], len(order))):
        found[_KNOWN.get(_split(column)[1], "Other")].append(column)
    return {group: names for group, names in found.items() if names}


def _split(column: str) -> tuple[str, str]:
    """`policy_dormant_ratio` as ("policy", "dormant_ratio"), others as ("", column).

    `eval_asterix` is ("asterix", "eval"), `eval_push_success` is ("push", "eval_success").
    """
    if column in _KNOWN:
        return "", column
    if column.startswith("eval_"):
        for measure in ("_success_ever", "_success", ""):
            if column.endswith(measure):
                return column.removeprefix("eval_").removesuffix(measure), f"eval{measure}"
    for network in NETWORKS:
        base = column.removeprefix(f"{network}_")
        if base != column and base in _KNOWN:
            return network, base
    return "", column


def known(column: str) -> bool:
    """Whether a column is a metric that we know."""
    return _split(column)[1] in _KNOWN


def higher_is_better(column: str) -> bool:
    """Whether more of it is better; of losses and errors, less is."""
    return not column.endswith(("loss", "error"))
