"""The raw framework: Starlette on uvicorn, which reads a body as JSON and says its size. Nothing can be faster here."""

import socket

import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def echo(request: Request) -> Response:
    body = await request.body()
    count = 0
    for line in body.split(b"\n"):
        msgspec.json.decode(line)
        count += 1
    return Response(msgspec.json.encode({"count": count, "size": len(body)}), media_type="application/json")


async def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    app = Starlette(routes=[Route("/{path:path}", echo, methods=["POST"])])
    config = uvicorn.Config(app, loop="none", http="httptools", lifespan="off", access_log=False, log_config=None)
    await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    uvloop.run(main())
