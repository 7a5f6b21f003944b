"""Continual supervised learning: from its specification to its program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from continual_learning.agents.common.trainer import Hyper, Trainer
from continual_learning.agents.supervised.train import ClassifierConfig, ClassifierData, classifier
from continual_learning.envs.datasets.dataset import Dataset, load_dataset
from continual_learning.envs.datasets.stream import SupervisedStream
from continual_learning.networks import MLP
from continual_learning.studies import methods
from continual_learning.studies.spec import SupervisedSpec


def data(experiment: SupervisedSpec) -> Dataset:
    """The data set, in memory."""
    folder = experiment.data_folder
    return load_dataset(experiment.dataset, None if folder is None else Path(folder))


def chunks(experiment: SupervisedSpec) -> int:
    """One chunk a task."""
    return experiment.tasks


def trainer(experiment: SupervisedSpec, method: str, shared: Dataset) -> Trainer:
    """A classifier on the stream of tasks."""

    def optimizer(units: Any, hyper: Hyper) -> Any:
        chosen = experiment.methods[method]
        return methods.transformation(chosen, units, init=experiment.init, hyper=hyper)

    config = ClassifierConfig(
        tasks=experiment.tasks,
        steps_per_task=experiment.steps_per_task,
        batch_size=experiment.batch_size,
        rows_per_task=experiment.rows_per_task,
        redraw_head=experiment.redraw_head,
        measure="train" if experiment.stream == "random_labels" else "test",
        sample_scores=methods.needs_sample_scores(experiment.methods[method]),
        diagnostics=experiment.diagnostics,
    )
    return classifier(
        MLP(
            experiment.hidden,
            shared.classes,
            experiment.activation,
            experiment.init,
            experiment.layer_norm,
        ),
        SupervisedStream(
            experiment.stream,
            shared.classes,
            shared.train_images.shape[1],
            experiment.classes_per_task,
            examples=experiment.examples_per_task,
        ),
        ClassifierData(
            np.asarray(shared.train_images),
            np.asarray(shared.train_labels),
            np.asarray(shared.test_images),
            np.asarray(shared.test_labels),
        ),
        optimizer,
        config,
    )
