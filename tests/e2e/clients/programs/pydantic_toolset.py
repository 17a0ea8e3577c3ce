"""The MCP toolset of pydantic-ai over stdio or HTTP."""

from contextlib import asynccontextmanager

from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from pydantic_ai.mcp import MCPToolset
from steps import Client, main


class Pydantic(Client):
    async def elicit(self, _message, response_type, _params, _context):
        self.asked += 1
        return response_type() if response_type else {}

    async def tell(self, progress, total, message):
        self.progress.append(progress)

    async def tools(self):
        return [tool.name for tool in await self.session.list_tools()]

    async def call(self, tool, arguments):
        return await self.session.direct_call_tool(tool, arguments)

    async def resource(self, uri):
        return str(await self.session.read_resource(uri))

    async def picture(self, tool, arguments):
        parts = await self.session.direct_call_tool(tool, arguments)
        parts = parts if isinstance(parts, list) else [parts]
        return next(part.data for part in parts if hasattr(part, "data"))

    async def cancel(self, tool, arguments, is_running):
        await self.abandon(self.session.direct_call_tool(tool, arguments), is_running)


def transport(setup):
    if setup.url:
        return StreamableHttpTransport(setup.url, headers=setup.headers)
    return StdioTransport(setup.command[0], setup.command[1:], env=setup.environment)


@asynccontextmanager
async def connect(setup):
    client = Pydantic(setup)
    async with MCPToolset(
        transport(setup), elicitation_handler=client.elicit, progress_handler=client.tell
    ) as session:
        client.session = session
        yield client


if __name__ == "__main__":
    main(connect)
