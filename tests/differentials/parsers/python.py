"""A provider built on Starlette or on Werkzeug: answers with every model that it finds in a request.

The first argument says which. The port is the first line that is printed.
"""

import asyncio
import gzip
import io
import json
import logging
import re
import socket
import sys
import zlib
from urllib.parse import unquote

ROUTES = [
    re.compile(r"/openai/deployments/([^/]+)/", flags)
    for flags in (0, re.IGNORECASE)
] + [
    re.compile(r"/models/([^/]+):[A-Za-z]+/?$", flags)
    for flags in (0, re.IGNORECASE)
] + [
    re.compile(r"/model/([^/]+)/(?:invoke|converse|count-tokens)[a-z-]*/?$", flags)
    for flags in (0, re.IGNORECASE)
]


def by_path(path, models):
    for text in (path, unquote(path)):
        for route in ROUTES:
            match = route.search(text)
            if match:
                models.update((match[1], unquote(match[1])))


def plain(coding, body):
    yield body
    try:
        if "gzip" in coding.lower():
            yield gzip.decompress(body)
        elif "deflate" in coding.lower():
            yield zlib.decompress(body)
    except (OSError, EOFError, zlib.error):
        return


def by_json(body, models):
    # `json.loads` finds out by itself whether bytes are UTF-8, UTF-16 or UTF-32.
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    if isinstance(document, dict) and isinstance(document.get("model"), str):
        models.add(document["model"])


def starlette_app():
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def answer(request):
        models = set()
        by_path(request.scope["raw_path"].decode("latin-1"), models)
        by_path(request.url.path, models)
        body = await request.body()
        for text in plain(request.headers.get("content-encoding", ""), body):
            by_json(text, models)
        try:
            form = await request.form()
            models.update(value for value in form.getlist("model") if isinstance(value, str))
        except Exception:  # whatever a form that is none raises, nothing was read from it
            pass
        return JSONResponse({"models": sorted(models)}, headers={"x-parser": "starlette"})

    methods = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(routes=[Route("/{path:path}", answer, methods=methods)])


def werkzeug_app(environ, start_response):
    from werkzeug.wrappers import Request, Response

    models = set()
    request = Request(environ)
    by_path(environ.get("RAW_URI") or environ.get("REQUEST_URI") or request.path, models)
    by_path(request.path, models)
    body = request.get_data(cache=True, parse_form_data=False)
    for text in plain(request.headers.get("content-encoding", ""), body):
        by_json(text, models)
    again = dict(environ)
    again["wsgi.input"] = io.BytesIO(body)
    again["CONTENT_LENGTH"] = str(len(body))
    again.pop("HTTP_TRANSFER_ENCODING", None)
    try:
        models.update(Request(again).form.getlist("model"))
    except Exception:  # as above
        pass
    response = Response(json.dumps({"models": sorted(models)}), content_type="application/json")
    response.headers["x-parser"] = "werkzeug"
    return response(environ, start_response)


def main():
    logging.disable(logging.CRITICAL)
    kind = sys.argv[1]
    if kind == "starlette":
        import uvicorn

        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(starlette_app(), log_level="critical", access_log=False)
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    else:
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            def log(self, *_):
                pass

        server = make_server("127.0.0.1", 0, werkzeug_app, threaded=True, request_handler=Quiet)
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
