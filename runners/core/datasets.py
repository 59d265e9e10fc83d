"""Dataset arrays by SHA-256: kept as ``<sha256>.npy`` in one folder, checked before every use."""

import hashlib
import os
import re
import tempfile

import numpy as np

from runners.core.failures import Refused

ROLES = ("x_train", "y_train", "x_test", "y_test")
MAX_BLOB_BYTES = 64 * 2 ** 30
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


class Blobs(object):
    """The folder of arrays. No name from the wire is ever used as a path unless it is 64 hexadecimal digits."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)

    def path(self, sha256):
        """Where the array lies, or would. Raises Refused for what is not a digest."""
        if not _SHA256.match(sha256):
            raise Refused("INVALID_ARGUMENT", "sha256", "sha256 must be 64 lower case hexadecimal digits")
        return os.path.join(self.folder, sha256 + ".npy")

    def has(self, sha256):
        return os.path.isfile(self.path(sha256))

    def put(self, sha256, size_bytes, chunks):
        """Stores an array from an iterator of bytes. Raises Refused if it is not what was announced."""
        target = self.path(sha256)
        if not 0 < size_bytes <= MAX_BLOB_BYTES:
            raise Refused("RESOURCE_EXHAUSTED", "size_bytes", "an array has 1 to {} bytes, not {}".format(
                MAX_BLOB_BYTES, size_bytes))
        descriptor, temporary = tempfile.mkstemp(prefix="put-", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                found = _receive(file, size_bytes, chunks)
            if found != sha256:
                raise Refused("INVALID_ARGUMENT", "sha256", "the bytes received have SHA-256 {}, not {}".format(
                    found, sha256))
            os.replace(temporary, target)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)


def _receive(file, size_bytes, chunks):
    total, received = hashlib.sha256(), 0
    for chunk in chunks:
        received += len(chunk)
        if len(chunk) > _CHUNK or received > size_bytes:
            raise Refused("INVALID_ARGUMENT", "chunk", "a chunk has at most {} bytes, all together {}".format(
                _CHUNK, size_bytes))
        total.update(chunk)
        file.write(chunk)
    if received != size_bytes:
        raise Refused("INVALID_ARGUMENT", "size_bytes", "{} bytes were announced, {} came".format(size_bytes, received))
    return total.hexdigest()


def check_present(blobs, arrays):
    """{role: path} of the request's arrays. Raises Refused for a role that is missing, unknown or not here."""
    found = {}
    for array in arrays:
        if array.role not in ROLES or array.role in found:
            raise Refused("INVALID_ARGUMENT", "arrays", "role {!r} is unknown or given twice; roles are {}".format(
                array.role, ", ".join(ROLES)))
        if not blobs.has(array.sha256):
            raise Refused("FAILED_PRECONDITION", "BLOB_MISSING", "array {} ({}) is not on this host".format(
                array.role, array.sha256))
        found[array.role] = blobs.path(array.sha256)
    missing = [role for role in ROLES if role not in found]
    if missing:
        raise Refused("INVALID_ARGUMENT", "arrays", "role {} is missing".format(missing[0]))
    return found


def data_digest(arrays):
    """SHA-256 over the arrays' digests in the order of ROLES."""
    by_role = {array.role: array.sha256 for array in arrays}
    return hashlib.sha256("".join(by_role[role] for role in ROLES).encode("ascii")).hexdigest()


def load(blobs, arrays, model):
    """{role: array} for a ``trainyard.graph.Model``: digests, types, shapes and labels checked. Raises Refused."""
    paths = check_present(blobs, arrays)
    loaded = {}
    for array in arrays:
        if _file_digest(paths[array.role]) != array.sha256:
            raise Refused("FAILED_PRECONDITION", "BLOB_CORRUPT", "array {} does not have SHA-256 {} any more".format(
                array.role, array.sha256))
        loaded[array.role] = _read(array.role, paths[array.role])
    for part in ("train", "test"):
        _check(model, part, loaded["x_" + part], loaded["y_" + part])
    return loaded


def _file_digest(path):
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK), b""):
            total.update(chunk)
    return total.hexdigest()


def _read(role, path):
    try:
        # Not np.load, which takes archives too.
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, OverflowError, TypeError, SyntaxError) as error:
        raise Refused("INVALID_ARGUMENT", "arrays", "array {} is no .npy file: {}".format(role, error))


def _check(model, part, x, y):
    kind = np.dtype("<i4") if model.input_is_integer else np.dtype("<f4")
    if x.dtype != kind or tuple(x.shape[1:]) != tuple(model.input_shape):
        raise Refused("INVALID_ARGUMENT", "arrays", "x_{} is {} {}, the workload needs {} (samples, {})".format(
            part, x.dtype, x.shape, kind, ", ".join(str(length) for length in model.input_shape)))
    # A number that is not finite makes either of them so; neither needs room for an array of answers.
    if len(x) and not (np.isfinite(x.min()) and np.isfinite(x.max())):
        raise Refused("INVALID_ARGUMENT", "arrays", "x_{} has values that are not finite".format(part))
    if not len(x):
        raise Refused("INVALID_ARGUMENT", "arrays", "x_{} has no samples".format(part))
    if y.dtype != np.dtype("<i4") or y.shape != (len(x),):
        raise Refused("INVALID_ARGUMENT", "arrays", "y_{} is {} {}, not int32 ({},)".format(
            part, y.dtype, y.shape, len(x)))
    classes = max(model.classes, 2)
    if y.min() < 0 or y.max() >= classes:
        raise Refused("INVALID_ARGUMENT", "arrays", "y_{} has labels from {} to {}, the model has {} classes".format(
            part, y.min(), y.max(), classes))
    if model.input_is_integer:
        vocabulary = min(node.fields.vocabulary for node in model.nodes if node.op == "embedding")
        if x.min() < 0 or x.max() >= vocabulary:
            raise Refused("INVALID_ARGUMENT", "arrays", "x_{} has tokens up to {}, the embedding holds {}".format(
                part, x.max(), vocabulary))
