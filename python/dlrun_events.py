"""Report to dlrun how far a training is: epochs, steps, evaluation, checkpoints.

One file, no dependency, Python 3.6 and later. Put it beside your program:

    dlrun config events-module > dlrun_events.py

    from dlrun_events import epoch, evaluation
    for number in range(1, 11):
        with epoch(number, of=10, samples=60000) as now:
            now["loss"] = train()
            with evaluation():
                now["val_loss"] = evaluate()

Outside dlrun every call does nothing. No call ever raises an exception: a full disk or a missing file costs
the event, not the training. The lines that are written are described in dlrun's docs/events.md.
"""

import contextlib
import json
import math
import os
import stat
import time

__all__ = [
    "KerasCallback",
    "announce",
    "checkpoint",
    "enabled",
    "epoch",
    "epochs",
    "evaluation",
    "log",
    "phase",
    "should_stop",
    "step",
    "steps",
]

# A line goes out with one write, and dlrun reads none that is longer than 8 KiB.
_LINE_BYTES = 4096
# Steps are reported this often at most, in seconds: a program may take thousands a second.
_STEP_PAUSE = 0.5
# What launchers call the number of a process among all, the most specific first.
_RANKS = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
# Keys whose values are words; all others are numbers.
_WORDS = ("phase", "unit", "scope")
# The request to stop early is looked for this often at most, in seconds.
_STOP_PAUSE = 1.0
# When it was looked for last, and whether it was there.
_stop = {"looked": None, "asked": False}
# Holds something after a line that was not written whole.
_cut_off = []


def enabled():
    """Whether dlrun reads events."""
    return bool(os.environ.get("DLRUN_EVENTS"))


def log(**fields):
    """Write one event, such as ``log(epoch=1, seconds=9.1, samples=60000, loss=0.3)``.

    Keys that dlrun does not know are metrics. A value that is not a number is left out.
    """
    _write({}, fields)


def should_stop():
    """Whether the training shall save what it needs and end: a search (``dlrun sweep``) tries better parameters.

    It looks for one file on this node, once a second at most. Only the first rank of a node hears of it: tell the others.
    """
    path = os.environ.get("DLRUN_EVENTS")
    try:
        now = time.monotonic()
        is_due = _stop["looked"] is None or now - _stop["looked"] >= _STOP_PAUSE
        if path and is_due and not _stop["asked"]:
            _stop["looked"] = now
            _stop["asked"] = os.path.isfile(os.path.join(os.path.dirname(path), "stop"))
    except Exception:  # noqa: BLE001 - whatever it is, the training continues
        pass
    return _stop["asked"]


def announce(epochs=None, steps=None):
    """Say how many epochs the training will have, and how many steps each of them."""
    log(epochs=epochs, steps=steps)


@contextlib.contextmanager
def epoch(number, of=None, samples=None):
    """Time an epoch. What is put into the yielded dictionary is reported with its end: losses, metrics, ``samples``."""
    figures = {"samples": samples}
    log(epoch=number, epochs=of, begin=True)
    begun = time.perf_counter()
    yield figures
    # An exception in the body comes out of `yield`: the epoch did not end.
    _write(figures, dict(epoch=number, epochs=of, seconds=time.perf_counter() - begun, end=True))


def epochs(count, first=1, samples=None):
    """Go through `count` epochs and time each: ``for number in epochs(10): ...``.

    One that is left with `break` is not counted; use ``with epoch(number)`` where that may happen.
    """
    for number in range(first, first + count):
        with epoch(number, of=count, samples=samples):
            yield number


@contextlib.contextmanager
def phase(name):
    """Time a part of the training that is not training: ``with phase("evaluation"): ...``."""
    log(phase=name, begin=True)
    begun = time.perf_counter()
    try:
        yield
    finally:
        log(phase=name, seconds=time.perf_counter() - begun, end=True)


def evaluation():
    """Time an evaluation, inside an epoch or between two."""
    return phase("evaluation")


def checkpoint():
    """Time the writing of a checkpoint, inside an epoch or between two."""
    return phase("checkpoint")


def step(number, of=None, epoch=None, seconds=None, data_seconds=None, **metrics):
    """Report one step. ``seconds`` is how long it took, ``data_seconds`` how long of that it waited for data."""
    metrics.pop("step_seconds", None)
    _write(metrics, dict(step=number, of=of, epoch=epoch, step_seconds=seconds, data_seconds=data_seconds))


def steps(batches, epoch=None, of=None):
    """Go through the batches of an epoch and report the steps: ``for images, labels in steps(loader, epoch=3): ...``.

    It reports the mean time of the steps since its last report, and how long of it they waited for ``batches``, twice a
    second at most.
    """
    if of is None:
        try:
            of = len(batches)
        except Exception:  # noqa: BLE001 - an iterator, or a loader that does not know
            of = None
    begun = now = time.perf_counter()
    reported, waited = 0, 0.0
    for number, batch in enumerate(batches, 1):
        waited += time.perf_counter() - now
        yield batch
        now = time.perf_counter()
        if now - begun >= _STEP_PAUSE or number == of:
            count = number - reported
            step(number, of=of, epoch=epoch, seconds=(now - begun) / count, data_seconds=waited / count)
            begun, reported, waited = now, number, 0.0


class KerasCallback(object):
    """Report epochs and evaluation of ``model.fit(..., callbacks=[KerasCallback(samples=60000)])``; Keras 2 and 3.

    It is not a subclass of Keras's own class, so this file needs no Keras. It has no hooks for batches, so it costs nothing
    in them.
    """

    def __init__(self, samples=None):
        """`samples`: how many training samples an epoch has."""
        self.model = None
        self.params = {}
        self.validation_data = None
        self._samples = samples
        self._begun = {}

    def set_params(self, params):
        """Keras gives the number of epochs and steps."""
        self.params = params or {}

    def set_model(self, model):
        """Keras gives the model."""
        self.model = model

    def on_train_begin(self, logs=None):
        """Announce the epochs."""
        self._begin("train")
        params = self.params if isinstance(self.params, dict) else {}
        announce(epochs=params.get("epochs"), steps=params.get("steps"))

    def on_train_end(self, logs=None):
        """Report how long all of it took."""
        log(run_seconds=self._seconds("train"))

    def on_epoch_begin(self, epoch, logs=None):
        """Begin an epoch; Keras counts from 0 here and from 1 in what it prints, as this does."""
        self._begin("epoch")
        log(epoch=_following(epoch), begin=True)

    def on_epoch_end(self, epoch, logs=None):
        """End an epoch."""
        figures = logs if isinstance(logs, dict) else {}
        seconds = self._seconds("epoch")
        _write(figures, dict(epoch=_following(epoch), seconds=seconds, samples=self._samples, end=True))
        # Of several ranks only one hears of it, and the others would wait for it.
        several = any(os.environ.get(name, "1") != "1" for name in ("WORLD_SIZE", "HOROVOD_SIZE")) or "TF_CONFIG" in os.environ
        if self.model is not None and not several and should_stop():
            self.model.stop_training = True

    def on_test_begin(self, logs=None):
        """Begin an evaluation."""
        self._begin("evaluation")
        log(phase="evaluation", begin=True)

    def on_test_end(self, logs=None):
        """End an evaluation."""
        log(phase="evaluation", seconds=self._seconds("evaluation"), end=True)

    def _begin(self, what):
        self._begun[what] = time.perf_counter()

    def _seconds(self, what):
        begun = self._begun.pop(what, None)
        return None if begun is None else time.perf_counter() - begun

    # Keras asks these before it calls the hooks of batches.
    def _implements_train_batch_hooks(self):
        return False

    def _implements_test_batch_hooks(self):
        return False

    def _implements_predict_batch_hooks(self):
        return False

    def _nothing(self, *arguments, **named):
        pass

    on_batch_begin = on_batch_end = _nothing
    on_train_batch_begin = on_train_batch_end = _nothing
    on_test_batch_begin = on_test_batch_end = _nothing
    on_predict_begin = on_predict_end = on_predict_batch_begin = on_predict_batch_end = _nothing


def _following(number):
    try:
        return int(number) + 1
    except Exception:  # noqa: BLE001 - no call raises an exception of its own
        return None


def _write(figures, fields):
    """Write figures of the program's with fields of ours, which win."""
    path = os.environ.get("DLRUN_EVENTS")
    if not path:
        return
    try:
        event = {str(name): value for name, value in figures.items()}
        event.update({name: value for name, value in fields.items() if value is not None})
        _append(path, _line(event))
    except Exception:  # noqa: BLE001 - whatever it is, the training continues
        pass


def _line(fields):
    event = {}
    for name, value in fields.items():
        if value is None:
            continue
        if name in _WORDS:
            event[name] = str(value)
        elif isinstance(value, bool):
            event[name] = value
        else:
            number = _number(value)
            if number is not None:
                # JSON has no NaN; null says that there is no number.
                event[name] = number if math.isfinite(number) else None
    event.setdefault("time", round(time.time(), 3))
    rank = _rank()
    if rank is not None:
        event.setdefault("rank", rank)
    line = _encoded(event)
    if len(line) > _LINE_BYTES:
        known = ("epoch", "epochs", "begin", "end", "seconds", "samples", "phase", "step", "of", "time", "rank")
        line = _encoded({name: event[name] for name in known if name in event})
    return line


def _encoded(event):
    return (json.dumps(event, separators=(",", ":")) + "\n").encode("ascii")


def _number(value):
    """A Python, NumPy or framework number, or an array of one."""
    if isinstance(value, int) and abs(value) < 1 << 63:
        return value
    try:
        return float(value)
    except Exception:  # noqa: BLE001 - no number
        return None


def _rank():
    for name in _RANKS:
        text = os.environ.get(name, "")
        if text.isdigit():
            return int(text)
    return None


def _append(path, line):
    # Opened each time: a descriptor that is kept would write elsewhere once the program closes and reuses it.
    # Without O_CREAT: where the file is gone, or belongs to another node, nobody listens.
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    target = os.open(path, flags)
    try:
        if stat.S_ISREG(os.fstat(target).st_mode):
            # After a line that a full disk cut off, this one shall stand on its own.
            whole = b"\n" + line if _cut_off else line
            _cut_off[:] = [] if os.write(target, whole) == len(whole) else [True]
    finally:
        os.close(target)
