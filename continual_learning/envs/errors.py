"""Errors whose causes lie outside the program."""


class DatasetError(Exception):
    """A data set is missing or damaged, or cannot be downloaded; the message says what to do."""


class OpenGLError(Exception):
    """OpenGL cannot render pictures on this machine; the message says what to do."""


class WorkerError(Exception):
    """Environments on the host cannot continue; the message has the traceback of the worker."""
