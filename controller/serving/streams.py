"""A call's work in a thread of its own: gRPC never resumes the handler of a call that was cancelled, so nothing that
must end well may stand in one."""

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from controller.runtimes.links import REASON_KEY
from controller.serving.limits import Refusal, abort

Send = Callable[[Any], None]
Wanted = Callable[[], bool]
Work = Callable[[Send, Wanted], None]
_OVER = object()


def streamed(context: Any, work: Work) -> Iterator[Any]:
    """Yields what ``work`` sends, and ends the call as it ends: with its Refusal, or the status of the call that it
    passed on. ``work`` is told when nobody wants its messages any more, and goes on until it sees that."""
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    unwanted = threading.Event()

    def leave() -> None:
        unwanted.set()
        messages.put(_OVER)

    def run() -> None:
        try:
            work(messages.put, lambda: not unwanted.is_set())
            messages.put(_OVER)
        except (Refusal, grpc.RpcError) as error:
            messages.put(error)
        except Exception as error:  # a bug of ours must not leave the controller waiting
            messages.put(Refusal(grpc.StatusCode.INTERNAL, "HOST_BUG", f"{type(error).__name__}: {error}"))
            raise

    if not context.add_callback(leave):
        return
    threading.Thread(target=run, name="call", daemon=True).start()
    while (message := messages.get()) is not _OVER:
        if isinstance(message, Refusal):
            abort(context, message)
        if isinstance(message, grpc.RpcError):
            pass_on(context, message)
        yield message


def pass_on(context: Any, error: Any) -> None:
    """Ends a call as the one ended that it stood for."""
    reason = dict(error.trailing_metadata() or ()).get(REASON_KEY)
    if reason is not None:
        context.set_trailing_metadata(((REASON_KEY, str(reason)),))
    context.abort(error.code(), error.details() or "")
