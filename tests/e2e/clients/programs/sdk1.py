"""The Python SDK 1.x, over stdio or HTTP."""

import asyncio
import base64
from contextlib import asynccontextmanager

import mcp.types as t
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from steps import Client, main


def structured(result):
    return result.structuredContent


class Sdk(Client):
    async def elicit(self, _context, _params):
        self.asked += 1
        return t.ElicitResult(action="accept", content={})

    async def tell(self, progress, total, message):
        self.progress.append(progress)

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments):
        return structured(await self.session.call_tool(tool, arguments, progress_callback=self.tell))

    async def resource(self, uri):
        return (await self.session.read_resource(uri)).contents[0].text

    async def picture(self, tool, arguments):
        result = await self.session.call_tool(tool, arguments)
        return next(base64.b64decode(part.data) for part in result.content if part.type == "image")

    async def cancel(self, tool, arguments, is_running):
        # the SDK has no method that cancels a call; its request ids are counted
        number = self.session._request_id
        call = asyncio.create_task(self.session.call_tool(tool, arguments))
        while not is_running():
            await asyncio.sleep(0.05)
        params = t.CancelledNotificationParams(requestId=number, reason="no longer needed")
        note = t.CancelledNotification(method="notifications/cancelled", params=params)
        await self.session.send_notification(t.ClientNotification(note))
        call.cancel()


def transport(setup):
    if setup.url:
        return streamablehttp_client(setup.url, headers=setup.headers)
    command = StdioServerParameters(command=setup.command[0], args=setup.command[1:], env=setup.environment)
    return stdio_client(command)


@asynccontextmanager
async def connect(setup):
    client = Sdk(setup)
    async with (
        transport(setup) as streams,  # HTTP adds a function that returns the session's id
        ClientSession(*streams[:2], elicitation_callback=client.elicit) as session,
    ):
        await session.initialize()
        client.session = session
        yield client


if __name__ == "__main__":
    main(connect)
