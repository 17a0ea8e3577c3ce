"""The Python SDK 2.x, over stdio or HTTP, in the era that is the first argument after the setup."""

import base64
import sys
from contextlib import asynccontextmanager

import httpx2
import mcp_types as t
from mcp import Client as SdkClient
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from steps import SECONDS, Client, main


class Sdk(Client):
    async def elicit(self, _context, _params):
        self.asked += 1
        return t.ElicitResult(action="accept", content={})

    async def tell(self, progress, total, message):
        self.progress.append(progress)

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments):
        return (await self.session.call_tool(tool, arguments, progress_callback=self.tell)).structured_content

    async def resource(self, uri):
        return (await self.session.read_resource(uri)).contents[0].text

    async def picture(self, tool, arguments):
        result = await self.session.call_tool(tool, arguments)
        return next(base64.b64decode(part.data) for part in result.content if part.type == "image")

    async def cancel(self, tool, arguments, is_running):
        await self.abandon(self.session.call_tool(tool, arguments), is_running)


def transport(setup):
    if setup.url:
        http = httpx2.AsyncClient(headers=setup.headers, timeout=SECONDS)
        return streamable_http_client(setup.url, http_client=http)
    command = StdioServerParameters(command=setup.command[0], args=setup.command[1:], env=setup.environment)
    return stdio_client(command)


@asynccontextmanager
async def connect(setup):
    client = Sdk(setup)
    async with SdkClient(transport(setup), mode=sys.argv[2], elicitation_callback=client.elicit) as session:
        client.session = session
        yield client


if __name__ == "__main__":
    main(connect)
