"""An S3 server on loopback, with one bucket, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

SECRET = "not-to-be-seen"


class Quiet(MotoRequestHandler):
    """Logs no request."""

    def log_request(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def s3_server(**options: str) -> Iterator[str]:
    """Serve S3 alone; yield the address.  Options go to `create_bucket`.

    Moto's own server takes as long to find the service of each request, and to log it, as to answer.
    """
    app = create_backend_app("s3")
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    keys = {"aws_access_key_id": "me", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    try:
        boto3.client("s3", endpoint_url=address, **keys).create_bucket(Bucket="bucket", **options)
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
