"""gRPC messages: finds a method in descriptors, builds its request from JSON, and converts its answer to JSON.

protobuf is an extra (`duetime[grpc]`), so it is imported on demand.
"""

from base64 import b64decode
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from duetime.errors import InvalidInput
from duetime.model.target import GrpcTarget

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message


def split_method(method: str) -> tuple[str, str]:
    """The service and the method of `package.Service/Method`."""
    service, slash, name = method.removeprefix("/").partition("/")
    parts = [*service.split("."), name]
    if not slash or not all(part.isidentifier() and part.isascii() for part in parts):
        raise InvalidInput(
            f"{method[:60]!r} is not a method", field="target.method", remedy="such as package.Service/Method"
        )
    return service, name


def check_message(target: GrpcTarget) -> None:
    """Check what is visible without the server: with descriptors, that the message matches."""
    split_method(target.method)
    if target.descriptors is not None:
        make_request(find_method(read_descriptors(target.descriptors), target.method), target.message)


def read_descriptors(text: str) -> "DescriptorPool":
    """A descriptor pool from a base64 FileDescriptorSet."""
    require_grpc()
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool

    pool, files = DescriptorPool(), FileDescriptorSet()
    try:
        files.ParseFromString(b64decode(text, validate=True))
        for file in files.file:
            pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    except Exception as error:
        raise InvalidInput(
            f"cannot be read: {error}",
            field="target.descriptors",
            remedy="a FileDescriptorSet in base64 (protoc --include_imports --descriptor_set_out=…)",
        ) from None
    return pool


def find_method(pool: "DescriptorPool", method: str) -> "MethodDescriptor":
    service_name, name = split_method(method)
    try:
        service = pool.FindServiceByName(service_name)
        found: MethodDescriptor = service.methods_by_name[name]
    except (KeyError, TypeError):
        raise InvalidInput(f"the method {method[:100]} does not exist", field="target.method") from None
    if found.client_streaming or found.server_streaming:
        raise InvalidInput(f"{method[:100]} is a streaming method", field="target.method", remedy="use a unary method")
    return found


def make_request(method: "MethodDescriptor", message: dict[str, Any]) -> "Message":
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message_factory import GetMessageClass

    try:
        pool = method.input_type.file.pool
        return ParseDict(message, GetMessageClass(method.input_type)(), descriptor_pool=pool)
    except (ParseError, ValueError, TypeError) as error:
        name = method.input_type.full_name
        raise InvalidInput(f"does not match {name}: {error}", field="target.message") from None


def read_answer(method: "MethodDescriptor", body: bytes) -> dict[str, Any]:
    """Decode an answer. The contents of an `Any` are resolved with the method's own descriptors."""
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    message = GetMessageClass(method.output_type).FromString(body)
    pool = method.output_type.file.pool
    said: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    return said


def require_grpc() -> None:
    if any(find_spec(name) is None for name in ("grpc", "grpc_reflection", "google.protobuf")):
        raise InvalidInput(
            "gRPC targets need grpcio, grpcio-reflection and protobuf",
            field="target.type",
            remedy="pip install 'duetime[grpc]'",
        )
