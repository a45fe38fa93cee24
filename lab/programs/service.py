"""A web service: answers /?n=N after writing, reading and hashing N orders."""

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlparse


def work(orders):
    digest = hashlib.sha256()
    for i in range(orders):
        lines = [{"article": f"a{i + j}", "pieces": j, "price": 1.5 * j} for j in range(8)]
        order = json.loads(json.dumps({"id": i, "lines": lines}))
        order["total"] = sum(line["pieces"] * line["price"] for line in order["lines"])
        digest.update(json.dumps(order, sort_keys=True).encode())
    return digest.hexdigest()


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        answer = work(int(parse_qs(urlparse(self.path).query)["n"][0])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024

    def handle_error(self, *_):
        pass  # the client has gone


Server((sys.argv[1], int(sys.argv[2])), Orders).serve_forever()
