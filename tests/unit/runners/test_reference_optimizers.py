"""The reference's optimizers against closed forms, on a scalar with a constant gradient."""

import math

import numpy as np
import pytest
from trainyard.v1 import workload_pb2

from runners.reference.optimizers import OPTIMIZERS
from tests.contract.sketch import OPTIMIZER_DEFAULTS, Sketch

START, G, RATE = 1.5, 0.3, 0.01
STEPS = range(1, 7)


def path(name, decay=0.0, **options):
    """Values of the parameter after each of six steps with gradient G."""
    message = Sketch((2,)).optimizer(name, RATE, decay, **options).workload.optimizer
    optimizer = OPTIMIZERS[name](message)
    p, values = np.array([START]), []
    for _ in STEPS:
        optimizer.begin()
        p = optimizer.move("p", p, np.array([G]))
        values.append(p[0])
    return values


def summed(change):
    """START plus the sum of change(1) .. change(t), for each t."""
    return [START + sum(change(k) for k in range(1, t + 1)) for t in STEPS]


def rate(step, decay=0.0):
    return RATE / (1 + decay * (step - 1))


def test_sgd_moves_against_the_gradient():
    assert path("sgd") == pytest.approx([START - t * RATE * G for t in STEPS], rel=1e-14)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_decay_divides_the_first_step_by_one_and_the_second_by_one_plus_decay(name):
    plain, decayed = path(name), path(name, decay=0.5)
    first, second = plain[0] - START, plain[1] - plain[0]
    assert decayed[0] - START == pytest.approx(first, rel=1e-12)
    assert decayed[1] - decayed[0] == pytest.approx(second / 1.5, rel=1e-9)


def velocity(step, momentum):
    return -RATE * G * (1 - momentum**step) / (1 - momentum)


def test_sgd_momentum():
    assert path("sgd", momentum=0.9) == pytest.approx(summed(lambda t: velocity(t, 0.9)), rel=1e-14)


def test_sgd_nesterov():
    expected = summed(lambda t: 0.9 * velocity(t, 0.9) - RATE * G)
    assert path("sgd", momentum=0.9, nesterov=True) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("epsilon", [1e-7, 0.1])
def test_adam_adds_epsilon_beside_the_uncorrected_root(epsilon):
    def change(t):
        root = math.sqrt(1 - 0.999**t)
        return -RATE * root * G / (root * G + epsilon)

    assert path("adam", epsilon=epsilon) == pytest.approx(summed(change), rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-7, 0.1])
def test_rmsprop_adds_epsilon_outside_the_root(epsilon):
    def change(t):
        return -rate(t, 0.2) * G / (math.sqrt(1 - 0.9**t) * G + epsilon)

    assert path("rmsprop", decay=0.2, epsilon=epsilon) == pytest.approx(summed(change), rel=1e-12)


def test_rmsprop_centered_with_momentum():
    """v - a^2 = (1 - rho^t) rho^t g^2 for a constant gradient."""

    def update(t):
        return RATE * G / (math.sqrt((1 - 0.9**t) * 0.9**t) * G + 0.01)

    expected = summed(lambda t: -sum(0.5 ** (t - k) * update(k) for k in range(1, t + 1)))
    assert path("rmsprop", momentum=0.5, centered=True, epsilon=0.01) == pytest.approx(expected, rel=1e-12)


def test_adadelta_two_steps():
    rho, epsilon = 0.95, 1e-3
    first = G * math.sqrt(epsilon) / math.sqrt((1 - rho) * G**2 + epsilon)
    second = G * math.sqrt((1 - rho) * first**2 + epsilon) / math.sqrt((1 - rho**2) * G**2 + epsilon)
    expected = [START - RATE * first, START - RATE * (first + second)]
    assert path("adadelta", epsilon=epsilon)[:2] == pytest.approx(expected, rel=1e-14)


def test_every_optimizer_of_the_language_is_there():
    kinds = [field.name for field in workload_pb2.Optimizer.DESCRIPTOR.oneofs_by_name["kind"].fields]
    assert sorted(kinds) == sorted(OPTIMIZERS) == sorted(OPTIMIZER_DEFAULTS)
