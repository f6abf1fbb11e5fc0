"""Files that a skill outputs. A large one is sent to the bucket from the thread or loop of the skill's code,
so that the skill waits for it, and may close its stream or delete its file afterwards.
"""

import inspect
import io
import os
from collections.abc import AsyncIterable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from a2a_lambda import agent_threads, mistakes
from a2a_lambda.agent.outputs import File, FinalMessage, NamedArtifact
from a2a_lambda.agent.turn import Turn
from a2a_lambda.errors import AgentMistake, SkillError
from a2a_lambda.protocol.stored_file import CHUNK_BYTES

if TYPE_CHECKING:
    from a2a_lambda.agent.files.interface import FileWriter


class NoWriter:
    """Keeps the content, for a turn without a deployment."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.is_stored = False

    def add(self, chunk: bytes) -> bool:
        self._chunks.append(chunk)
        return False

    def flush(self) -> None: ...
    def finish(self) -> bytes:
        return b"".join(self._chunks)

    def abort(self) -> None: ...


def store(turn: Turn, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs of synchronous code, with what is stored in place of each file's content. Blocks.

    Raises AgentMistake for a content that no file can have, OSError, and what the content and the store
    raise.
    """
    files = {id(file): file for file in _contents(turn, outputs)}
    stored_files = {key: _store(turn, file) for key, file in files.items()}
    return _replace(outputs, stored_files) if stored_files else outputs


async def store_async(turn: Turn, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs of asynchronous code, with what is stored in place of each file's content. For the agent
    loop."""
    stored_files = {}
    for key, file in {id(file): file for file in _contents(turn, outputs)}.items():
        if isinstance(file.content, AsyncIterable):
            stored_files[key] = await _store_stream(turn, file, file.content)
        else:
            stored_files[key] = await agent_threads.call_in_thread(partial(_store, turn, file), "file")
    return _replace(outputs, stored_files) if stored_files else outputs


def read(file: File) -> File:
    """The file with its content as bytes. Raises AgentMistake, OSError."""
    return file if file.content is None else _with_content(file, b"".join(_chunks(file)))


def _contents(turn: Turn, outputs: Sequence[Any]) -> Iterator[File]:
    """Files whose content is to be stored, or is not bytes yet."""
    for output in outputs:
        if isinstance(output, NamedArtifact | FinalMessage):
            yield from _contents(turn, output.contents)
        elif isinstance(output, File) and output.content is not None and output.url is None:
            content: Any = output.content
            file_store = turn.file_store
            is_inline = isinstance(content, bytes) and (
                file_store is None or file_store.is_inline(len(content))
            )
            if not is_inline:
                yield output


def _store(turn: Turn, file: File) -> File:
    writer = _open_writer(turn)
    try:
        if not (writer.is_stored and _is_plain(file.content)):
            for chunk in _chunks(file):
                if turn.cancelled:
                    raise SkillError("The turn has ended.")
                if writer.add(chunk):
                    writer.flush()
        return _with_content(file, writer.finish())
    except BaseException:
        writer.abort()
        raise


async def _store_stream(turn: Turn, file: File, content: AsyncIterable[Any]) -> File:
    writer = await agent_threads.call_in_thread(partial(_open_writer, turn), "file")
    try:
        async for chunk in content:
            if writer.add(_bytes_of(chunk)):
                await agent_threads.call_in_thread(writer.flush, "file")
        return _with_content(file, await agent_threads.call_in_thread(writer.finish, "file"))
    except BaseException:
        agent_threads.CodeThread.run(writer.abort, "file")  # the code may be canceled, and must not wait
        raise


def _open_writer(turn: Turn) -> "FileWriter":
    if turn.file_store is None:
        return NoWriter()
    turn.file_count += 1
    return turn.file_store.writer(turn.file_count, is_replayed=turn.engine is not None)


def _is_plain(content: Any) -> bool:
    """Whether reading a content runs no code of the agent's. Other code may have steps, or change something
    that the skill uses later, so a replay must run it, too."""
    from a2a_lambda.agent.files.message_files import ReceivedFile

    return isinstance(content, bytes | bytearray | memoryview | os.PathLike | ReceivedFile)


def _chunks(file: File) -> Iterator[bytes]:
    """The content, piece by piece. Raises AgentMistake, whose text is logged: a file's name may be the user's
    words."""
    from a2a_lambda.agent.files.message_files import ReceivedFile  # few turns output large files

    content: Any = file.content
    if isinstance(content, bytes | bytearray | memoryview):
        content = io.BytesIO(content)
    if isinstance(content, os.PathLike):
        try:
            stream = open(content, "rb")  # noqa: SIM115  # closed below
        except OSError as error:
            raise AgentMistake(f"the content of a File cannot be read: {error.strerror}") from None
        with stream:
            yield from iter(partial(stream.read, CHUNK_BYTES), b"")
    elif isinstance(content, ReceivedFile):
        with content.open() as content_stream:
            yield from iter(partial(content_stream.read, CHUNK_BYTES), b"")
    elif hasattr(content, "read"):
        if getattr(content, "closed", False):
            raise AgentMistake(
                "the content of a File is a closed file. Yield it within `with`, or give its Path"
            )
        is_empty = True
        while chunk := _bytes_of(content.read(CHUNK_BYTES)):
            is_empty = False
            yield chunk
        with suppress(Exception):  # any object may have a `read`
            if is_empty and content.tell() > 0:
                mistakes.hints.info(
                    "a File is empty, because its content is read from its end: call seek(0) first"
                )
    elif isinstance(content, Iterable) and not isinstance(content, str):
        for chunk in content:
            yield _bytes_of(chunk)
    else:
        advice = ": write text.encode()" if isinstance(content, str) else ""
        raise AgentMistake(
            f"the content of a File is of type {type(content).__name__}{advice}. It must be bytes, a"
            " pathlib.Path, a file opened with mode 'rb', or an iterator of bytes; in an asynchronous skill,"
            " an asynchronous one, too"
        )


def _bytes_of(chunk: Any) -> bytes:
    if inspect.isawaitable(chunk):
        raise AgentMistake("the read() of a File's content is asynchronous; give its asynchronous iterator")
    if not isinstance(chunk, bytes | bytearray | memoryview):
        raise AgentMistake(
            f"the content of a File is {type(chunk).__name__}, not bytes. Encode a str; open a file with 'rb'"
        )
    return bytes(chunk)


def _with_content(file: File, stored: bytes | str) -> File:
    """The file with the part of its content that its task stores."""
    if isinstance(stored, bytes):
        return File(file.name, stored, media_type=file.media_type)
    return File(file.name, url=stored, media_type=file.media_type)


def _replace(outputs: tuple[Any, ...], stored: dict[int, File]) -> tuple[Any, ...]:
    result: list[Any] = []
    for output in outputs:
        match output:
            case NamedArtifact():
                contents = _replace(output.contents, stored)
                result.append(
                    NamedArtifact(
                        output.name, *contents, description=output.description, metadata=output.metadata
                    )
                )
            case FinalMessage():
                result.append(FinalMessage(*_replace(output.contents, stored)))
            case _:
                result.append(stored.get(id(output), output))
    return tuple(result)
