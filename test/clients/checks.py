"""What the Python programs share: checks, each of which prints a line that 052_clients.pl reads, and threads that race."""

import os
import sys
import threading
import traceback

# Whether PostgreSQL itself keeps the keys unique, in tables without partitions.
IS_NATIVE = os.environ["PGDATABASE"] == "native"

failed = False


def check(title):
    """Runs a function at once. It fails by raising, and its result, if any, says why something is left out."""

    def run(function):
        global failed
        try:
            reason = function()
            print(f"skip {title}: {reason}" if reason else f"ok {title}", flush=True)
        except Exception as error:
            failed = True
            where = traceback.extract_tb(error.__traceback__)
            line = next(f.lineno for f in reversed(where) if f.filename == function.__code__.co_filename)
            message = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"not ok {title}: line {line}: {message[:600]}", flush=True)
        return function

    return run


def equal(is_, should_be):
    """Of lists it says where they begin to differ."""
    if is_ == should_be:
        return
    if isinstance(is_, list) and isinstance(should_be, list) and len(is_) == len(should_be):
        is_, should_be = next(pair for pair in zip(is_, should_be) if pair[0] != pair[1])
    raise AssertionError(f"{str(is_)[:200]} where {str(should_be)[:200]} should be")


def raises(kind, sqlstate, function):
    """Runs a function that must fail with a kind of exception that comes of an SQLSTATE."""
    try:
        function()
    except kind as error:
        cause = getattr(error, "orig", None) or error.__cause__
        equal(cause.pgcode, sqlstate)
        return
    raise AssertionError(f"no {kind.__name__}")


def race(number, function):
    """Runs function(thread) in threads that start together, and returns their results."""
    barrier = threading.Barrier(number)
    results = [None] * number
    errors = []

    def run(thread):
        try:
            barrier.wait()
            results[thread] = function(thread)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def finish():
    sys.exit(1 if failed else 0)
