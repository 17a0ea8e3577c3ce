"""The MCP server class of openai-agents over stdio or HTTP. By default, its session times out after five seconds."""

import base64
from contextlib import asynccontextmanager

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from steps import Client, main


class OpenAi(Client):
    async def tools(self):
        return [tool.name for tool in await self.session.list_tools()]

    async def answer(self, tool, arguments):
        return await self.session.call_tool(tool, arguments)

    async def call(self, tool, arguments):
        result = await self.answer(tool, arguments)
        return getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)

    async def resource(self, uri):
        return (await self.session.read_resource(uri)).contents[0].text

    async def picture(self, tool, arguments):
        result = await self.answer(tool, arguments)
        return next(base64.b64decode(part.data) for part in result.content if part.type == "image")

    async def cancel(self, tool, arguments, is_running):
        await self.abandon(self.answer(tool, arguments), is_running)


def transport(setup):
    if setup.url:
        params = {"url": setup.url, "headers": setup.headers, "timeout": 60}
        return MCPServerStreamableHttp(params, client_session_timeout_seconds=60)
    params = {"command": setup.command[0], "args": setup.command[1:], "env": setup.environment}
    return MCPServerStdio(params, client_session_timeout_seconds=60)


@asynccontextmanager
async def connect(setup):
    client = OpenAi(setup)
    async with transport(setup) as session:
        client.session = session
        yield client


if __name__ == "__main__":
    main(connect)
