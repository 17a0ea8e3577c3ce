"""mcpo: each tool is an address that takes JSON. It does not have the protocol's questions, progress, cancellation or
resources.
"""

import base64
import json
import urllib.request
from contextlib import asynccontextmanager

from steps import Client, main


class OpenApi(Client):
    async def tools(self):
        with urllib.request.urlopen(f"{self.setup.url}/openapi.json") as answer:
            return [path.strip("/") for path in json.load(answer)["paths"]]

    def post(self, tool, arguments):
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.setup.url}/{tool}", json.dumps(arguments).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    async def call(self, tool, arguments):
        return self.post(tool, arguments)

    async def picture(self, tool, arguments):
        parts = self.post(tool, arguments)
        parts = parts if isinstance(parts, list) else [parts]
        data = next(
            part for part in parts if isinstance(part, str) and part.startswith("data:image/png;base64,")
        )
        return base64.b64decode(data.partition(",")[2])


@asynccontextmanager
async def connect(setup):
    yield OpenApi(setup)


if __name__ == "__main__":
    main(connect)
