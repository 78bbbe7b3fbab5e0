"""A gated training step: `pytest --perfguard-update` records its baseline, `pytest --perfguard` compares with it."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import pytest

import perfguard as pg

pytestmark = pytest.mark.perfguard(window=pg.StepWindow(skip_first=2, active=3), timed_steps=5)


def loss(weights, x, y):
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return jnp.mean((x - y) ** 2)


@jax.jit
def train(weights, x, y):
    gradients = jax.grad(loss)(weights, x, y)
    return [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)]


def test_train(perfguard):
    weights = [jax.random.normal(key, (64, 64)) for key in jax.random.split(jax.random.key(0), 3)]
    x, y = jnp.ones((32, 64)), jnp.zeros((32, 64))

    def step():
        found = jax.block_until_ready(train(weights, x, y))
        if os.environ.get("SORTS"):
            jax.block_until_ready(jnp.sort(found[0]))

    perfguard(step)
