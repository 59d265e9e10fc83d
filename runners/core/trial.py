"""The life of a trial: load, build, first step, warm up, measure, evaluate. The only stopwatch.

Measured time is wall time on the monotonic clock between two device synchronisations. Between them the loop does
what any training loop does, and beside it three stores per step: the time, the number of steps done, and, for the
steps whose losses are kept, the loss as the framework returned it. Losses are read when the clock has stopped.
"""

import gc
import math
import time

import numpy as np
from trainyard import graph
from trainyard.v1 import runner_pb2

from runners.core import augmentation, datasets, telemetry
from runners.core.batches import Source
from runners.core.failures import Cancelled, Refused, TrialFailed, one_line
from runners.core.initial import initial_weights, weights_digest

# Work that is left when the clock has stopped, in seconds and as a share of what was measured: more was not waited for.
LATE_SECONDS, LATE_SHARE = 0.5, 0.05
# Losses kept of the measured steps. Each is a small tensor of the framework's, so their number is bounded.
MAX_KEPT_LOSSES = 4096

clock = time.perf_counter


class Phases(object):
    """Seconds of each phase, in order. ``enter`` ends the phase before."""

    def __init__(self, heartbeat):
        self.seconds = []
        self._heartbeat = heartbeat
        self._name = None
        self._start = None

    def enter(self, name, steps=0):
        self.leave()
        self._heartbeat.enter(name, steps)
        self._name, self._start = name, clock()

    def leave(self):
        if self._name is not None:
            self.seconds.append((self._name, clock() - self._start))
        self._name = None


class Steps(object):
    """Runs steps over epochs and keeps what the measured part needs: ``stamps`` (time at which each step returned),
    ``kept`` (step number, loss), ``marks`` (number of steps done at the end of each epoch)."""

    def __init__(self, adapter, loader, per_epoch, heartbeat, cancelled):
        self._step = adapter.step
        self._loader = loader
        self._per_epoch = per_epoch
        self._done = heartbeat.cells
        self._cancelled = cancelled
        self._opened = None

    def first(self):
        """Trains the first step of epoch 0 and returns its loss; ``run`` goes on from there."""
        batches = iter(self._loader.epoch(0))
        loss = self._step(next(batches))
        self._opened = batches, 1
        return loss

    def skip_to(self, epoch):
        """Lets go of an epoch that was left early: what that costs a loader is no part of what is measured."""
        skip_to = getattr(self._loader, "skip_to", None)
        if skip_to is not None:
            skip_to(epoch)

    def run(self, epoch, count, keep=0):
        """Runs ``count`` steps from the start of ``epoch``, or from after the first step; keeps about ``keep`` evenly
        spaced losses, and the last. Raises Cancelled, or TrialFailed for a loader that gives more or fewer batches
        than an epoch has."""
        self.stamps, self.kept, self.marks = [0.0] * (count + 1), [], []
        stride = -(-count // keep) if keep else 0
        (batches, taken), self._opened = self._opened or (None, 0), None
        done = 0
        while done < count:
            whole = self._per_epoch - taken
            end = min(done + whole, count)
            batches = self._loader.epoch(epoch) if batches is None else batches
            # A whole epoch runs until its iterator ends by itself, as in any loop; one batch too many is seen.
            self._epoch(batches, done, end, end if end < done + whole else end + 1, stride)
            done, epoch, batches, taken = end, epoch + 1, None, 0
            self.marks.append(done)
        del self.stamps[count:]

    def _epoch(self, batches, done, end, stop, stride):
        step, stamps, kept, cells, cancelled, now = (
            self._step, self.stamps, self.kept, self._done, self._cancelled, clock)
        next_kept = -(-done // stride) * stride if stride else -1
        loss = None
        for batch in batches:
            loss = step(batch)
            stamps[done] = now()
            if done == next_kept:
                kept.append((done, loss))
                next_kept += stride
            done += 1
            cells[1] = done
            if done == stop or cancelled:
                break
        if cancelled:
            raise Cancelled()
        if done != end:
            raise TrialFailed("WRONG_EPOCH_LENGTH", "the loader ended an epoch {} batches too {}".format(
                abs(end - done), "early" if done < end else "late"))
        if stride and done == len(stamps) - 1 and kept[-1][0] != done - 1:
            kept.append((done - 1, loss))


class Trial(object):
    """One TrainRequest carried out by one adapter in this process. ``cancelled`` is a list, empty until cancelled;
    ``emit`` takes a TrainEvent."""

    def __init__(self, adapter, request, model, blobs, heartbeat, cancelled, emit):
        self.adapter = adapter
        self.request = request
        self.model = model
        self.blobs = blobs
        self.phases = Phases(heartbeat)
        self.heartbeat = heartbeat
        self.cancelled = cancelled
        self.emit = emit
        self.finished = runner_pb2.Finished()

    def run(self):
        """Carries it out and returns the ``Finished`` message of a success. Raises what went wrong."""
        arrays = self._prepare()
        source = training_source(self.model, arrays, self.request.execution.variant)
        loader = self.adapter.loader(source)
        try:
            self._train(loader, source)
            self._memory()
        finally:
            loader.close()
        self._evaluate(arrays)
        self.phases.leave()
        self.finished.state = "succeeded"
        self.finished.facts.update(self.adapter.facts())
        return self.finished

    def _prepare(self):
        self.phases.enter("device")
        open_device(self.adapter, self.request.execution)
        self.phases.enter("data")
        arrays = datasets.load(self.blobs, self.request.arrays, self.model)
        self.phases.enter("build")
        initial = initial_weights(self.model)
        digest = weights_digest(self.model, initial)
        self.adapter.build(self.model, initial)
        self._emit_started(arrays, digest)
        return arrays

    def _emit_started(self, arrays, digest):
        schedule, sample_count = self.model.workload.schedule, len(arrays["x_train"])
        warmup, measured, _ = graph.step_counts(schedule, sample_count)
        self.emit(runner_pb2.TrainEvent(started=runner_pb2.Started(
            workload_digest=graph.digest(self.request.workload), data_digest=datasets.data_digest(self.request.arrays),
            weights_digest=digest, device=device_message(self.adapter.device()),
            parameter_count=self.model.parameter_count,
            steps_per_epoch=graph.steps_per_epoch(sample_count, schedule.batch_size),
            warmup_steps=warmup, measured_steps=measured)))

    def _train(self, loader, source):
        warmup, measured, first_epoch = graph.step_counts(self.model.workload.schedule, len(source.x))
        steps = Steps(self.adapter, loader, source.steps_per_epoch, self.heartbeat, self.cancelled)
        self.phases.enter("first_step", 1)
        loss = steps.first()
        self.adapter.wait()
        # Whatever the first reading of a loss brings with it is paid here.
        self.adapter.read(loss)
        self.phases.enter("warmup", warmup - 1)
        steps.run(0, warmup - 1)
        self.adapter.wait()
        steps.skip_to(first_epoch)
        gc.collect()
        self.phases.enter("measure", measured)
        before = telemetry.ProcessorSnapshot(clock)
        self.adapter.wait()
        start = clock()
        steps.run(first_epoch, measured, MAX_KEPT_LOSSES)
        self.adapter.wait()
        end = clock()
        self.finished.telemetry.update(
            telemetry.processor_telemetry(before, telemetry.ProcessorSnapshot(clock)))
        self._record(steps, start, end, source)

    def _record(self, steps, start, end, source):
        finished = self.finished
        finished.measured_seconds = end - start
        finished.step_seconds.extend(np.diff([start] + steps.stamps).tolist())
        ends = [steps.stamps[mark - 1] for mark in steps.marks[:-1]]
        if len(steps.stamps) % source.steps_per_epoch == 0:
            ends.append(end)
        finished.epoch_seconds.extend(np.diff([start] + ends).tolist())
        finished.sample_count = len(steps.stamps) * source.batch_size
        self._check_waited(steps.kept[-1][1])
        for number, loss in steps.kept:
            value = float(self.adapter.read(loss))
            if not math.isfinite(value):
                raise TrialFailed("NON_FINITE_LOSS", "the loss of measured step {} is {}".format(number, value))
            finished.loss_steps.append(number)
            finished.losses.append(value)

    def _check_waited(self, loss):
        """The last loss is there at once if ``wait`` waited; if not, it stands behind all that was left to do."""
        begin = clock()
        self.adapter.read(loss)
        late, measured = clock() - begin, self.finished.measured_seconds
        if late > max(LATE_SECONDS, LATE_SHARE * measured):
            raise TrialFailed("NOT_WAITED", "the last loss came {:.1f} s after the clock had stopped at {:.1f} s: the "
                              "device was not done".format(late, measured))

    def _memory(self):
        kinds = {"host_rss_peak": telemetry.host_rss_peak(), "workers_pss": telemetry.workers_pss()}
        kinds.update((kind, value if isinstance(value, tuple) else (value, ""))
                     for kind, value in self.adapter.memory().items())
        for kind, (size, reason) in kinds.items():
            entry = self.finished.memory.add(kind=kind, reason=reason)
            if size is not None:
                entry.bytes = int(size)

    def _evaluate(self, arrays):
        x, y, size = arrays["x_test"], arrays["y_test"], int(self.model.workload.schedule.batch_size)
        self.phases.enter("evaluate", -(-len(x) // size))
        losses, right = [], 0
        for number, begin in enumerate(range(0, len(x), size), 1):
            if self.cancelled:
                raise Cancelled()
            loss, correct = score(self.model, predict(self.adapter, x[begin:begin + size], size), y[begin:begin + size])
            losses.append(loss)
            right += correct
            self.heartbeat.cells[1] = number
        test_loss = math.fsum(losses) / len(x)
        if not math.isfinite(test_loss):
            raise TrialFailed("NON_FINITE_LOSS", "the loss on the test part is {}".format(test_loss))
        self.finished.test_loss = test_loss
        self.finished.test_accuracy = right / float(len(x))
        self.finished.test_sample_count = len(x)


def open_device(adapter, execution):
    """Selects the device. Raises Refused if the framework does not find it."""
    try:
        adapter.open(execution)
    except LookupError as error:
        raise Refused("FAILED_PRECONDITION", "DEVICE_MISSING", one_line(error))


def training_source(model, arrays, variant):
    """The ``Source`` of a model's training samples."""
    workload, x = model.workload, arrays["x_train"]
    return Source(x, arrays["y_train"], workload.seed, workload.schedule.batch_size, variant,
                  augmentation.of(workload, len(x)))


def device_message(device):
    """An adapter's ``Device`` as a message."""
    return runner_pb2.Device(kind=device.kind, index=device.index, uuid=device.uuid, name=device.name,
                             pci_bus_id=device.pci_bus_id)


def predict(adapter, x, size):
    """Logits of at most ``size`` samples. A smaller batch is filled up, so that no framework compiles a second
    shape for the last one."""
    missing = size - len(x)
    if missing:
        x = np.concatenate([x, np.repeat(x[-1:], missing, axis=0)])
    return np.asarray(adapter.predict(x), dtype=np.float64)[:size - missing]


def score(model, logits, labels):
    """(sum of losses, number of right answers) of float64 logits (batch, classes), by workload.proto's formulas."""
    if model.workload.loss == "binary_crossentropy":
        z = logits[:, 0]
        losses = np.maximum(z, 0) - z * labels + np.log1p(np.exp(-np.abs(z)))
        return float(losses.sum()), int(((z > 0) == (labels == 1)).sum())
    top = logits.max(axis=1)
    chosen = logits[np.arange(len(labels)), labels]
    losses = top + np.log(np.exp(logits - top[:, None]).sum(axis=1)) - chosen
    return float(losses.sum()), int((logits.argmax(axis=1) == labels).sum())
