"""A metric and a table of it in one file, as a user writes them: accuracy in its last task."""

from continual_learning.analysis import load
from continual_learning.diagnostics import metrics
from continual_learning.paper import tables
from continual_learning.paper.tables import Column, Measured, Table


def last_task(artifact, folders):
    """Return a row for each method, with its mean accuracy in the last task."""
    rows = load(folders)
    last = rows[rows.task == rows.task.max()].groupby("method").online_accuracy.mean()
    found = tuple((method, Measured(100 * mean, decimals=1)) for method, mean in last.items())
    columns = Column("method", "method"), Column("accuracy, %", "accuracy")
    return Table(artifact.title, columns, found)


metrics.register(
    metrics.Metric("Performance", "surprise", "Surprise", "nats", "lower", "Of the next label.")
)
tables.register("last_task", "Accuracy in the last task", last_task)
