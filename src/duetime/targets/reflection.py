"""Server reflection: reads the descriptors of a gRPC server's methods."""

from typing import TYPE_CHECKING

from duetime.errors import InvalidInput

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc import aio

_MOST_FILES = 300
_MOST_BYTES = 8 * 1024**2


async def reflected(channel: "aio.Channel", service: str) -> "DescriptorPool":
    """The descriptors of a service and its dependencies, from the server."""
    from google.protobuf.descriptor_pool import DescriptorPool

    files = await _ask(channel, service)
    pool = DescriptorPool()
    added: set[str] = set()

    def add(name: str, depth: int = 0) -> None:
        """Add a file after its dependencies."""
        if name in added or depth > _MOST_FILES:
            return
        added.add(name)
        for needed in files[name].dependency:
            add(needed, depth + 1)
        pool.AddSerializedFile(files[name].SerializeToString())

    try:
        for name in files:
            add(name)
    except Exception as error:
        raise InvalidInput(f"the server's reflected descriptors are invalid: {error}", field="method") from None
    return pool


async def _ask(channel: "aio.Channel", service: str) -> "dict[str, FileDescriptorProto]":
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
    from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

    stream = ServerReflectionStub(channel).ServerReflectionInfo()
    files: dict[str, FileDescriptorProto] = {}
    size = 0
    try:
        wanted = [ServerReflectionRequest(file_containing_symbol=service)]
        while wanted:
            await stream.write(wanted.pop())
            answer = await stream.read()
            if not hasattr(answer, "file_descriptor_response") or not answer.HasField("file_descriptor_response"):
                said = getattr(getattr(answer, "error_response", None), "error_message", "")
                raise InvalidInput(f"the server does not know {service}: {said}", field="method")
            for body in answer.file_descriptor_response.file_descriptor_proto:
                size += len(body)
                file = FileDescriptorProto.FromString(body)
                files[file.name] = file
            if size > _MOST_BYTES or len(files) > _MOST_FILES:
                raise InvalidInput(
                    "the server's reflected descriptors are too large", field="method", remedy="set descriptors"
                )
            missing = {needed for file in files.values() for needed in file.dependency} - files.keys()
            wanted = [ServerReflectionRequest(file_by_filename=name) for name in sorted(missing)[:1]]
        await stream.done_writing()
    finally:
        stream.cancel()
    return files
