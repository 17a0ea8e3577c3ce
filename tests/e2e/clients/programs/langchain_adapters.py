"""langchain-mcp-adapters over stdio or HTTP, with one session."""

import json
from contextlib import asynccontextmanager

import mcp.types as t
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from steps import Client, main


class LangChain(Client):
    async def elicit(self, _mcp_context, _params, _context):
        self.asked += 1
        return t.ElicitResult(action="accept", content={})

    async def tell(self, progress, total, message, _context):
        self.progress.append(progress)

    async def tools(self):
        return list(self.by_name)

    async def answer(self, tool, arguments):
        return await self.by_name[tool].ainvoke(
            {"type": "tool_call", "id": "1", "name": tool, "args": arguments}
        )

    async def call(self, tool, arguments):
        message = await self.answer(tool, arguments)
        artifact = getattr(message, "artifact", None)
        if isinstance(artifact, dict) and "structured_content" in artifact:
            return artifact["structured_content"]
        blocks = message.content if isinstance(message.content, list) else [{"text": message.content}]
        return json.loads(next(block["text"] for block in blocks if "text" in block))

    async def resource(self, uri):
        return (await load_mcp_resources(self.session, uris=[uri]))[0].as_string()

    async def picture(self, tool, arguments):
        import base64

        message = await self.answer(tool, arguments)
        return next(base64.b64decode(block["base64"]) for block in message.content if block.get("base64"))

    async def cancel(self, tool, arguments, is_running):
        await self.abandon(self.answer(tool, arguments), is_running)


def transport(setup):
    if setup.url:
        return {"transport": "streamable_http", "url": setup.url, "headers": setup.headers}
    command = {"command": setup.command[0], "args": setup.command[1:], "env": setup.environment}
    return {"transport": "stdio", **command}


@asynccontextmanager
async def connect(setup):
    client = LangChain(setup)
    callbacks = Callbacks(on_progress=client.tell, on_elicitation=client.elicit)
    many = MultiServerMCPClient({"gdal": transport(setup)}, callbacks=callbacks)
    async with many.session("gdal") as session:
        client.session = session
        tools = await load_mcp_tools(session, callbacks=callbacks, server_name="gdal")
        client.by_name = {tool.name: tool for tool in tools}
        yield client


if __name__ == "__main__":
    main(connect)
