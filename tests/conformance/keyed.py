"""A pytest plugin for the conformance kit's own environment: its clients show a key, which the kit has
no setting for. What it sends through a session made by hand, to be refused, stays without one."""

import os

import httpx

KEY = {"X-API-Key": os.environ.get("A2A_KEY", "conformance-key")}

if accept := os.environ.get("A2A_ACCEPT"):
    KEY["Accept"] = accept


def keyed(function):
    def call(*args, headers=None, **options):
        return function(*args, headers={**KEY, **dict(headers or {})}, **options)

    return call


httpx.Client.__init__ = keyed(httpx.Client.__init__)
httpx.AsyncClient.__init__ = keyed(httpx.AsyncClient.__init__)

try:
    import requests
    from tck.sut_client import SUTClient
except ImportError:  # the 1.0 line has neither
    pass
else:
    made = SUTClient.__init__

    def with_key(self, *args, **options):
        made(self, *args, **options)
        self.session.headers.update(KEY)

    SUTClient.__init__ = with_key
    requests.post = keyed(requests.post)
