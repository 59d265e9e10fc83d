"""The four optimizers of the specification as PyTorch's own, and what must be set before each of their steps.

Where PyTorch's formula differs it is made the same by other numbers in it, which costs one or two operations on
Python floats a step. The comments below show why each is exact.
"""

import inspect
import math

import torch


class Updates(object):
    """``optimizer`` (a ``torch.optim.Optimizer``), ``advance`` (called before each step; None: nothing to do) and
    ``rate`` (None, or a tensor to call ``backward`` with, so that gradients arrive multiplied with the rate)."""

    def __init__(self, optimizer, advance=None, rate=None):
        self.optimizer = optimizer
        self.advance = advance
        self.rate = rate


def make(message, parameters, device):
    """The Updates of an Optimizer message for ``parameters`` (a list) on ``device``."""
    kind = message.WhichOneof("kind")
    return _MAKERS[kind](message, getattr(message, kind), parameters, device)


def implementation(optimizer):
    """Which of PyTorch's implementations runs, for people: "fused", "foreach" or "for-loop"."""
    group = optimizer.param_groups[0]
    if group.get("fused"):
        return "fused"
    # PyTorch takes "foreach" by itself on a GPU, in the versions that have it.
    on_gpu = "foreach" in group and group["params"][0].is_cuda
    return "foreach" if on_gpu else "for-loop"


def _fused(optimizer_class):
    """The option for one kernel over all parameters, where the version has it."""
    return {"fused": True} if "fused" in inspect.signature(optimizer_class.__init__).parameters else {}


def _rates(message):
    """Learning rates of the steps: learning_rate / (1 + decay * (t - 1)) for t = 1, 2, ..."""
    t = 0
    while True:
        yield message.learning_rate / (1.0 + message.decay * t)
        t += 1


def _sgd(message, options, parameters, device):
    # v = momentum v - rate g is PyTorch's -rate b with b = momentum b + g while the rate does not change.
    nesterov = options.nesterov and options.momentum > 0
    optimizer = torch.optim.SGD(parameters, lr=message.learning_rate, momentum=options.momentum, nesterov=nesterov,
                                **_fused(torch.optim.SGD))
    if not message.decay:
        return Updates(optimizer)
    if nesterov:
        return _sgd_of_scaled_gradients(message, optimizer, device)
    return Updates(optimizer, _decay_with_momentum(message, options.momentum, optimizer))


def _sgd_of_scaled_gradients(message, optimizer, device):
    """Nesterov's look-ahead takes the momentum itself, so the changing rate goes into the gradients, and 1 is left:
    b = momentum b + rate g;  p = p - (rate g + momentum b)."""
    optimizer.param_groups[0]["lr"] = 1.0
    rates, rate = _rates(message), torch.ones((), device=device)
    return Updates(optimizer, lambda: rate.fill_(next(rates)), rate)


def _decay_with_momentum(message, momentum, optimizer):
    """Sets the rate of each step, and the momentum that makes up for its change: the buffer b is to hold v / -rate,
    so v = momentum v - rate g becomes b = momentum (rate before / rate now) b + g."""
    group, rates = optimizer.param_groups[0], _rates(message)
    group["lr"] = message.learning_rate

    def advance():
        before, now = group["lr"], next(rates)
        group["lr"] = now
        if momentum:
            group["momentum"] = momentum * (before / now)

    return advance


def _adam(message, options, parameters, device):
    optimizer = torch.optim.Adam(parameters, lr=message.learning_rate, betas=(options.beta_1, options.beta_2),
                                 eps=options.epsilon, **_fused(torch.optim.Adam))
    group, rates, decay = optimizer.param_groups[0], _rates(message), message.decay
    power, beta_2, epsilon = 1.0, options.beta_2, options.epsilon

    def advance():
        # PyTorch adds its epsilon to the root of the *corrected* moment, sqrt(v) / sqrt(1 - beta_2^t). With
        # epsilon / sqrt(1 - beta_2^t) the whole is the specification's (sqrt(v) + epsilon) / sqrt(1 - beta_2^t).
        nonlocal power
        power *= beta_2
        group["eps"] = epsilon / math.sqrt(1.0 - power)
        if decay:
            group["lr"] = next(rates)

    return Updates(optimizer, advance)


def _rmsprop(message, options, parameters, device):
    optimizer = torch.optim.RMSprop(parameters, lr=message.learning_rate, alpha=options.rho, eps=options.epsilon,
                                    momentum=options.momentum, centered=options.centered)
    if not message.decay:
        return Updates(optimizer)
    # Here too the buffer of PyTorch leaves the rate out.
    return Updates(optimizer, _decay_with_momentum(message, options.momentum, optimizer))


def _adadelta(message, options, parameters, device):
    optimizer = torch.optim.Adadelta(parameters, lr=message.learning_rate, rho=options.rho, eps=options.epsilon)
    if not message.decay:
        return Updates(optimizer)
    return Updates(optimizer, _decay_with_momentum(message, 0.0, optimizer))


_MAKERS = {"sgd": _sgd, "adam": _adam, "rmsprop": _rmsprop, "adadelta": _adadelta}
OPTIMIZERS = tuple(_MAKERS)
