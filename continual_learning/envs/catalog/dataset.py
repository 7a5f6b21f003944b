"""Classification tasks that are made from one data set."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from continual_learning.envs.catalog.stream import Examples, Place, Stream
from continual_learning.schema.errors import StudyError
from continual_learning.schema.fields import field
from continual_learning.schema.names import DatasetName, StreamKind

if TYPE_CHECKING:
    from continual_learning.envs.datasets.dataset import Dataset

EXAMPLES = {"mnist": 60_000, "digits": 1_437}
"""The sizes of the training sets."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetTasks(Stream):
    """Classification tasks that are made from one data set."""

    kind: ClassVar[str] = "dataset"
    place: ClassVar[Place] = "examples"

    dataset: DatasetName = field("mnist", help="the data set of the images")
    change: StreamKind = field(
        "permuted",
        alias="stream",
        help="what a task is: a new permutation of the pixels, a few of the classes, a few "
        "classes more than before, or new random labels to memorize",
    )
    classes_per_task: int | None = field(
        None, positive=True, help="classes of a task (split), or its new ones (class_incremental)"
    )
    examples_per_task: int | None = field(
        None, budget=True, positive=True, help="training examples of a task; none means all"
    )
    data_folder: str | None = field(None, help="folder of the dataset's IDX files")

    @property
    def examples(self) -> int:
        """The number of training examples of a task."""
        known = EXAMPLES[self.dataset]
        return known if self.examples_per_task is None else min(known, self.examples_per_task)

    @property
    def measure(self) -> Literal["test", "train"]:
        """The examples on which accuracy is measured; no learner can generalize random labels."""
        return "train" if self.change == "random_labels" else "test"

    def load(self) -> Dataset:
        """Load the data set into memory."""
        from continual_learning.envs.datasets.dataset import load_dataset

        folder = self.data_folder
        return load_dataset(self.dataset, None if folder is None else Path(folder))

    def fitted(self) -> Self:
        """Return the stream with no more examples in a task than its folder has."""
        folder = None if self.data_folder is None else Path(self.data_folder)
        if folder is None or not folder.is_dir():  # `load` reports a missing folder
            return self
        from continual_learning.envs.datasets.mnist import count_in

        there = count_in(folder)
        return (
            self if there >= self.examples else dataclasses.replace(self, examples_per_task=there)
        )

    def build(self, shared: Dataset, tasks: int) -> Examples:
        """Return the tasks and their data set."""
        from continual_learning.envs.datasets.stream import SupervisedStream

        stream = SupervisedStream(
            self.change,
            shared.classes,
            shared.train_images.shape[1],
            self.classes_per_task,
            examples=self.examples_per_task,
        )
        return Examples(stream, shared, self.measure)

    def _check(self) -> None:
        if self.dataset == "digits" and self.data_folder is not None:
            raise StudyError("data_folder: the digits come with scikit-learn; leave it out.")
        whole = self.change in ("permuted", "random_labels")
        if whole and self.classes_per_task is not None:
            raise StudyError(
                f"classes_per_task: a {self.change} stream has all classes; leave it out."
            )
        if not whole and self.classes_per_task not in range(1, 11):
            raise StudyError(
                f"classes_per_task must be from 1 to 10 in a {self.change} stream, "
                f"got {self.classes_per_task}."
            )
