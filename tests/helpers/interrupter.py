"""SIGINT at chosen lines of Python, for tests of interrupts."""

import functools
import signal
import sys


def contained(function):
    """Run a function that is interrupted in a generator, which has a state of its own for handled exceptions.

    An exception that a tracer raises on the last line of an except clause is "being handled" for ever in its thread: it
    would stand above the traceback of every later failure.
    """

    @functools.wraps(function)
    def run(*args, **options):
        return next(_yielded(function, args, options))

    return run


def _yielded(function, args, options):
    yield function(*args, **options)


class Interrupter:
    """Sends SIGINT at given line events of the files that are traced, counted from 0."""

    def __init__(self, traced, *moments):
        self.traced, self.moments, self.lines, self.sent = traced, set(moments), 0, 0

    def __enter__(self):
        sys.setprofile(self.profile)
        sys.settrace(self.trace)
        return self

    def __exit__(self, *exception):
        sys.setprofile(None)
        sys.settrace(None)

    def trace(self, frame, event, arg):
        if frame.f_code.co_filename not in self.traced:
            return None
        if event == "line":
            self.lines += 1
            if self.lines - 1 in self.moments:
                self.sent += 1
                signal.raise_signal(signal.SIGINT)
        return self.trace

    def profile(self, frame, event, arg):
        """Python stops tracing when the tracer raises; this continues it."""
        if sys.gettrace() is None:
            sys.settrace(self.trace)
