"""Files that a skill outputs. A large one is sent to the bucket from the thread or loop of the skill's code,
so that the skill waits for it, and may close its stream or delete its file afterwards.
"""

import inspect
import io
import os
from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from a2a_lambda import agent_threads, mistakes
from a2a_lambda.agent.outputs import File, FinalMessage, NamedArtifact
from a2a_lambda.agent.turn import Turn
from a2a_lambda.errors import AgentMistake, SkillError
from a2a_lambda.protocol.stored_file import CHUNK_BYTES, INLINE_BYTES

if TYPE_CHECKING:
    from a2a_lambda.agent.files.interface import FileWriter


def store(turn: Turn, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs of synchronous code, with what is stored in place of each file's content. Blocks.

    Raises AgentMistake for a content that no file can have, OSError, and what the content and the store
    raise.
    """
    files = _files_to_store(outputs)
    stored_files = {key: _store(turn, file, inline_bytes) for key, (file, inline_bytes) in files.items()}
    return _replace(outputs, stored_files) if stored_files else outputs


async def store_async(turn: Turn, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs of asynchronous code, with what is stored in place of each file's content. For the agent
    loop."""
    stored_files = {}
    for key, (file, inline_bytes) in _files_to_store(outputs).items():
        if isinstance(file.content, AsyncIterable):
            stored_files[key] = await _store_stream(turn, file, file.content, inline_bytes)
        else:
            store_file = partial(_store, turn, file, inline_bytes)
            stored_files[key] = await agent_threads.call_in_thread(store_file, "file")
    return _replace(outputs, stored_files) if stored_files else outputs


def read(file: File) -> File:
    """The file with its content as bytes. Raises AgentMistake, OSError."""
    return file if file.content is None else _with_content(file, b"".join(_chunks(file)))


def _files_to_store(outputs: tuple[Any, ...]) -> dict[int, tuple[File, int]]:
    """The files whose content is to be stored, or is not bytes yet, each with the bytes up to which it stays
    in its task; among them those of the user that a message sends back. Keys are the ids of the outputs,
    because one file may be output twice.

    A replay of a durable turn finds each stored file by its number, so their order must stay: those of the
    skill come before those of the user.
    """
    files: dict[int, tuple[File, int]] = {}
    for output in outputs:
        contents = output.contents if isinstance(output, NamedArtifact | FinalMessage) else (output,)
        inline_files = {
            id(item): item
            for item in contents
            if isinstance(item, File) and item.content is not None and item.url is None
        }
        inline_bytes = INLINE_BYTES
        if isinstance(output, FinalMessage):
            from a2a_lambda.agent.files.message_files import ReceivedFile  # few skills end with a message

            inline_files |= {
                id(item): File(item.name, item.read(), media_type=item.media_type)
                for item in contents
                if isinstance(item, ReceivedFile) and "raw" in item.part
            }
            # All of a message is in its task's head, which has room for what one file may have. A file that
            # the message has twice takes room twice.
            inline_bytes //= max(sum(id(item) in inline_files for item in contents), 1)
        for key, file in inline_files.items():
            if not isinstance(file.content, bytes) or len(file.content) > inline_bytes:
                files[key] = (file, inline_bytes)
    return files


def _store(turn: Turn, file: File, inline_bytes: int) -> File:
    writer = _open_writer(turn, inline_bytes)
    try:
        needs_reading = True
        if writer.is_stored:  # by the run that this one replays
            from a2a_lambda.agent.files.message_files import ReceivedFile

            # Reading these runs no code of the agent's. Other code may have steps, or change something that
            # the skill uses later, so a replay must run it, too.
            needs_reading = not isinstance(
                file.content, bytes | bytearray | memoryview | os.PathLike | ReceivedFile
            )
        if needs_reading:
            for chunk in _chunks(file):
                if turn.cancelled:
                    raise SkillError("The turn has ended.")
                if writer.add(chunk):
                    writer.flush()
        return _with_content(file, writer.finish())
    except BaseException:
        writer.abort()
        raise


async def _store_stream(turn: Turn, file: File, content: AsyncIterable[Any], inline_bytes: int) -> File:
    writer = await agent_threads.call_in_thread(partial(_open_writer, turn, inline_bytes), "file")
    try:
        async for chunk in content:
            if writer.add(_bytes_of(chunk)):
                await agent_threads.call_in_thread(writer.flush, "file")
        return _with_content(file, await agent_threads.call_in_thread(writer.finish, "file"))
    except BaseException:
        agent_threads.CodeThread.run(writer.abort, "file")  # the code may be canceled, and must not wait
        raise


def _open_writer(turn: Turn, inline_bytes: int) -> "FileWriter":
    assert turn.file_store is not None  # every turn that runs has one
    turn.file_count += 1
    is_replayed = turn.engine is not None
    return turn.file_store.writer(turn.file_count, is_replayed=is_replayed, inline_bytes=inline_bytes)


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
            raise AgentMistake(f"the path in a File cannot be read: {error.strerror}") from None
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
            case File():
                result.append(stored.get(id(output), output))
            case _ if id(output) in stored:  # one of the user's files, whose part may say more about it
                url = stored[id(output)].url
                result.append(output if url is None else output.at(url))
            case _:
                result.append(output)
    return tuple(result)
