"""A gRPC server with reflection, made from descriptors: `shop.Greeter` greets, fails as it is told, or hangs."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc import aio
from grpc_reflection.v1alpha import reflection

_FIELD = descriptor_pb2.FieldDescriptorProto


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    ask = file.message_type.add(name="Ask")
    for number, (name, kind) in enumerate(
        [("name", _FIELD.TYPE_STRING), ("count", _FIELD.TYPE_INT32), ("fail_with", _FIELD.TYPE_STRING)], 1
    ):
        ask.field.add(name=name, number=number, type=kind, label=_FIELD.LABEL_OPTIONAL)
    file.message_type.add(name="Answer").field.add(
        name="text", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL
    )
    service = file.service.add(name="Greeter")
    for name, streams in (("Greet", False), ("Stream", True)):
        service.method.add(name=name, input_type=".shop.Ask", output_type=".shop.Answer", server_streaming=streams)
    return file


FILE = _file()
POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(FILE.SerializeToString())
Ask: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Ask"))
Answer: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Answer"))
DESCRIPTORS = b64encode(descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()).decode()


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


@asynccontextmanager
async def greeting(*, reflects: bool = True, port: int = 0) -> AsyncIterator[Greeter]:
    greeter = Greeter()
    server = aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        greeter.greet, request_deserializer=Ask.FromString, response_serializer=Answer.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Greeter", {"Greet": handler}),))
    if reflects:
        reflection.enable_server_reflection(["shop.Greeter", reflection.SERVICE_NAME], server, pool=POOL)
    greeter.port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield greeter
    finally:
        await server.stop(0)
