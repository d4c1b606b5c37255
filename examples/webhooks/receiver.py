"""A receiver of HTTP targets in plain Python: it checks the signature, answers 202, and finishes the run later.

    WEBHOOK_SECRET=whsec_… python examples/webhooks/receiver.py

The secret is the one that `POST /v1/signing-secrets/rotate` showed. This receiver is on the machine itself, which
duetime calls only if it is told that it may:

    DUETIME_ALLOWED_NETWORKS=127.0.0.0/8 duetime up

Submit a job for it with:

    {"target": {"type": "http", "url": "http://127.0.0.1:9000/orders", "body": {"order": 7}, "finish_within": "10m"}}
"""

import hmac
import json
import os
import threading
import time
import urllib.request
from base64 import b64decode, b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
TOLERANCE = 300
"""Seconds. An older request is refused: it may be a replay of a recorded one."""
done: set[str] = set()
"""What was handled before: the same run may arrive twice, after a lost answer."""


def is_ours(headers: dict[str, str], body: bytes) -> bool:
    """Whether duetime has sent this, lately."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE:  # noqa: TID251 - it is no part of duetime
        return False
    signed = f"{message_id}.{timestamp}.".encode() + body
    wanted = "v1," + b64encode(hmac.digest(SECRET, signed, "sha256")).decode()
    return any(hmac.compare_digest(wanted, each) for each in headers.get("webhook-signature", "").split())


def work(order: int, link: str) -> None:
    """What takes long, and the word to duetime when it is done."""
    said = json.dumps({"status": "succeeded", "result": {"order": order, "packed": True}}).encode()
    request = urllib.request.Request(link, said, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(f"order {order}: {json.load(answer)['status']}", flush=True)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        if not is_ours(headers, body):
            self.send_error(401)
            return
        self.send_response(202)
        self.end_headers()
        if headers["idempotency-key"] not in done:
            done.add(headers["idempotency-key"])
            threading.Thread(target=work, args=(json.loads(body)["order"], headers["duetime-completion"])).start()

    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/orders", flush=True)
    server.serve_forever()
