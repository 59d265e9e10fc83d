"""Variants as text."""

import pytest

from controller.errors import UsageError
from controller.results import Variant
from controller.variants import parse_variant


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("", Variant()),
        ("default", Variant()),
        ("jit", Variant(jit=True)),
        ("jit=false", Variant()),
        ("pipeline=memory", Variant(pipeline="memory")),
        (" jit , workers = 0 ", Variant(jit=True, workers=0)),
        ("layout=nchw,precision=amp,prefetch=2", Variant(layout="nchw", precision="amp", prefetch=2)),
    ],
)
def test_good(text, variant):
    assert parse_variant(text) == variant


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("jt", "unknown variant option 'jt'; did you mean 'jit'? "
         "known: jit, layout, pipeline, precision, prefetch, workers"),
        ("jit=yes", "variant option jit cannot be 'yes'; write jit=true|false"),
        ("pipeline", "variant option pipeline needs a value; write pipeline=native|memory"),
        ("workers=-1", "variant option workers cannot be '-1'; write workers=N with N from 0 to 256"),
        ("workers=257", "variant option workers cannot be '257'; write workers=N with N from 0 to 256"),
        ("workers=99999999999999999999", "variant option workers cannot be '99999999999999999999'; "
         "write workers=N with N from 0 to 256"),
        ("prefetch=0", "variant option prefetch cannot be '0'; write prefetch=N with N from 1 to 256"),
        ("prefetch", "variant option prefetch cannot be ''; write prefetch=N with N from 1 to 256"),
        ("jit,jit=false", "variant 'jit,jit=false' gives jit twice; give it once"),
    ],
)  # fmt: skip
def test_bad(text, line):
    with pytest.raises(UsageError) as caught:
        parse_variant(text)
    assert caught.value.line() == line


def test_labels_can_be_read_back():
    for variant in (Variant(), Variant(jit=True, workers=0), Variant(layout="nhwc", pipeline="memory", prefetch=9)):
        assert parse_variant(variant.label()) == variant
