"""The client of fastmcp over stdio or HTTP."""

import base64
from contextlib import asynccontextmanager

from fastmcp import Client as FastClient
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from steps import Client, main


class Fast(Client):
    async def elicit(self, _message, response_type, _params, _context):
        self.asked += 1
        return response_type() if response_type else {}

    async def tell(self, progress, total, message):
        self.progress.append(progress)

    async def tools(self):
        return [tool.name for tool in await self.session.list_tools()]

    async def call(self, tool, arguments):
        result = await self.session.call_tool(
            tool, arguments, progress_handler=self.tell, raise_on_error=False
        )
        return result.structured_content

    async def resource(self, uri):
        return (await self.session.read_resource(uri))[0].text

    async def picture(self, tool, arguments):
        result = await self.session.call_tool(tool, arguments)
        return next(base64.b64decode(part.data) for part in result.content if part.type == "image")

    async def cancel(self, tool, arguments, is_running):
        await self.abandon(self.session.call_tool(tool, arguments, raise_on_error=False), is_running)


def transport(setup):
    if setup.url:
        return StreamableHttpTransport(setup.url, headers=setup.headers)
    return StdioTransport(setup.command[0], setup.command[1:], env=setup.environment)


@asynccontextmanager
async def connect(setup):
    client = Fast(setup)
    async with FastClient(transport(setup), elicitation_handler=client.elicit) as session:
        client.session = session
        yield client


if __name__ == "__main__":
    main(connect)
