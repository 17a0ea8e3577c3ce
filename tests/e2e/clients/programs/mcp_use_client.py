"""The client of mcp-use over stdio or HTTP."""

import base64
from contextlib import asynccontextmanager

import mcp.types as t
from mcp_use import MCPClient
from steps import Client, main


class McpUse(Client):
    async def elicit(self, _context, _params):
        self.asked += 1
        return t.ElicitResult(action="accept", content={})

    async def tools(self):
        return [tool.name for tool in await self.session.list_tools()]

    async def call(self, tool, arguments):
        return (await self.session.call_tool(tool, arguments)).structuredContent

    async def resource(self, uri):
        return (await self.session.read_resource(uri)).contents[0].text

    async def picture(self, tool, arguments):
        result = await self.session.call_tool(tool, arguments)
        return next(base64.b64decode(part.data) for part in result.content if part.type == "image")

    async def cancel(self, tool, arguments, is_running):
        await self.abandon(self.session.call_tool(tool, arguments), is_running)


def transport(setup):
    if setup.url:
        return {"url": setup.url, "headers": setup.headers}
    return {"command": setup.command[0], "args": setup.command[1:], "env": setup.environment}


@asynccontextmanager
async def connect(setup):
    client = McpUse(setup)
    mcp_client = MCPClient.from_dict(
        {"mcpServers": {"gdal": transport(setup)}}, elicitation_callback=client.elicit
    )
    client.session = await mcp_client.create_session("gdal")
    try:
        yield client
    finally:
        await mcp_client.close_all_sessions()


if __name__ == "__main__":
    main(connect)
