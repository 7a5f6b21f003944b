"""What can go wrong outside the program."""


class DatasetError(Exception):
    """A data set is missing, damaged or cannot be downloaded; the message says what to do."""


class OpenGLError(Exception):
    """Pictures cannot be made with OpenGL here; the message says what to do."""


class WorkerError(Exception):
    """Environments on the host cannot go on; the message holds the traceback of the worker."""
