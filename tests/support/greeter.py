"""A gRPC server with reflection, made from descriptors: `shop.Greeter` greets, fails as it is told, or hangs; and wraps
what it is asked for."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from grpc import aio
from grpc_reflection.v1alpha import reflection

_FIELD = descriptor_pb2.FieldDescriptorProto

ANY = descriptor_pb2.FileDescriptorProto()
any_pb2.DESCRIPTOR.CopyToProto(ANY)


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append(ANY.name)
    ask = file.message_type.add(name="Ask")
    for number, (name, kind) in enumerate(
        [("name", _FIELD.TYPE_STRING), ("count", _FIELD.TYPE_INT32), ("fail_with", _FIELD.TYPE_STRING)], 1
    ):
        ask.field.add(name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    file.message_type.add(name="Answer").field.add(
        name="text", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL
    )
    file.message_type.add(name="Parcel").field.add(
        name="content",
        number=1,
        type=_FIELD.TYPE_MESSAGE,
        type_name=".google.protobuf.Any",
        label=_FIELD.LABEL_OPTIONAL,
    )
    service = file.service.add(name="Greeter")
    service.method.add(name="Wrap", input_type=".shop.Ask", output_type=".shop.Parcel")
    service.method.add(name="Unwrap", input_type=".shop.Parcel", output_type=".shop.Answer")
    for name, streams in (("Greet", False), ("Stream", True)):
        service.method.add(name=name, input_type=".shop.Ask", output_type=".shop.Answer", server_streaming=streams)
    return file


FILE = _file()
POOL = descriptor_pool.DescriptorPool()
for each in (ANY, FILE):
    POOL.AddSerializedFile(each.SerializeToString())
Ask: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Ask"))
Answer: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Answer"))
Parcel: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Parcel"))
DESCRIPTORS = b64encode(descriptor_pb2.FileDescriptorSet(file=[ANY, FILE]).SerializeToString()).decode()


@dataclass
class Greeter:
    port: int = 0
    asked: list[Any] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def greet(self, request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        self.asked.append(request)
        self.metadata.append({name: str(value) for name, value in context.invocation_metadata() or ()})
        if request.fail_with == "HANG":
            await asyncio.sleep(60)
        elif request.fail_with:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", "10"),))
            await context.abort(grpc.StatusCode[request.fail_with], "as asked")
        return Answer(text=f"hello {request.name}" * max(1, request.count))

    async def wrap(self, request: Any, context: aio.ServicerContext[Any, Any]) -> bytes:
        """A parcel with an `Answer` in it, or with something of the type that `name` says; or (`broken`) no parcel."""
        self.asked.append(request)
        if request.name == "broken":
            return b"\x0a\xff"
        parcel = Parcel()
        parcel.content.type_url = f"type.googleapis.com/{request.name or 'shop.Answer'}"
        parcel.content.value = Answer(text="inside").SerializeToString()
        body: bytes = parcel.SerializeToString()
        return body


@asynccontextmanager
async def greeting(*, reflects: bool = True, port: int = 0) -> AsyncIterator[Greeter]:
    greeter = Greeter()
    server = aio.server()
    greet = grpc.unary_unary_rpc_method_handler(
        greeter.greet, request_deserializer=Ask.FromString, response_serializer=Answer.SerializeToString
    )
    wrap = grpc.unary_unary_rpc_method_handler(greeter.wrap, request_deserializer=Ask.FromString)
    methods = {"Greet": greet, "Wrap": wrap}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Greeter", methods),))
    if reflects:
        reflection.enable_server_reflection(["shop.Greeter", reflection.SERVICE_NAME], server, pool=POOL)
    greeter.port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield greeter
    finally:
        await server.stop(0)
