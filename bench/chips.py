"""`python -m bench.chips`: chips per second of `make_chips`, compared with the library alone in a loop, in turn.

Both run in the same image with the same limits, read the same windows, draw the same transforms and write the same
GeoTIFF. The loop counts from the start of its interpreter; the call from the request to the reply, including its
container, its checks and its publication.
"""

import json
import statistics
import sys
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from gdal_mcp.approvals.model import Terminal
from gdal_mcp.calls.pipeline import Request
from gdal_mcp.policy.identity import local
from gdal_mcp.server.app import running
from gdal_mcp.server.toolboxes import toolboxes
from gdal_mcp.settings import load_settings
from gdal_mcp.toolboxes.augment.prompts import parse
from gdal_mcp.toolboxes.augment.toolbox import IMAGE
from sandbox.engines.discovery import connect

SIDE, CHIP, ROUNDS = 5120, 256, 5  # pixels; 400 chips
PROMPT: Final = "flip horizontally, rotate 15 degrees, increase brightness and add gaussian noise"
_START: Final = (
    "import json, sys, time\nbegun = time.monotonic()\nsys.path.insert(0, '/opt/gdal-mcp/packages')\n"
)
MAKE: Final = """
import numpy as np
from osgeo import gdal
gdal.UseExceptions()
side = {side}
made = gdal.GetDriverByName("GTiff").Create("/ws/big.tif", side, side, 3, gdal.GDT_Byte, ["TILED=YES"])
made.SetGeoTransform((400000, 10, 0, 5400000, 0, -10))
rows, columns = np.mgrid[0:side, 0:side].astype("f4")
for band in (1, 2, 3):
    hills = np.sin(rows / (40 * band)) * np.cos(columns / 60) * 90 + 128
    made.GetRasterBand(band).WriteRaster(0, 0, side, side, hills.astype("u1").tobytes())
made.Close()
"""
LOOP: Final = """
import os
os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
import albumentations as A, cv2, numpy as np
from osgeo import gdal
gdal.UseExceptions()
source = gdal.Open("/ws/big.tif")
a, b, _, d, _, f = source.GetGeoTransform()
steps = A.Compose([getattr(A, name)(**given, p=1) for name, given in {steps!r}], seed=1)
os.makedirs("/tmp/loop")
count = 0
for top in range(0, source.RasterYSize - {chip} + 1, {chip}):
    for left in range(0, source.RasterXSize - {chip} + 1, {chip}):
        data = np.frombuffer(source.ReadRaster(left, top, {chip}, {chip}), "u1").reshape(3, {chip}, {chip})
        done = steps(image=np.ascontiguousarray(data.transpose(1, 2, 0)))["image"]
        made = gdal.GetDriverByName("GTiff").Create(f"/tmp/loop/{{left}}_{{top}}.tif", {chip}, {chip}, 3, gdal.GDT_Byte, ["COMPRESS=DEFLATE"])
        made.WriteRaster(0, 0, {chip}, {chip}, np.ascontiguousarray(done.transpose(2, 0, 1)).tobytes())
        made.Close()
        count += 1
print(json.dumps([count, time.monotonic() - begun]))
"""


def in_image(code: str, folder: Path, **limits: Any) -> Any:
    with closing(connect()) as client:
        output = client.containers.run(
            IMAGE.spec.reference,
            ["python3", "-c", _START + code],
            network_mode="none",
            remove=True,
            volumes={str(folder): {"bind": "/ws", "mode": "rw"}},
            **limits,
        )
    return json.loads(output or b"null")


def main() -> int:
    steps = [(step.name, dict(step.parameters)) for step in parse(PROMPT).steps]
    ratios, rates = [], []
    with tempfile.TemporaryDirectory(prefix="gdal-mcp-bench-", dir="/var/tmp") as place:
        root = Path(place) / "ws"
        root.mkdir()
        for folder in (Path(place), root):
            folder.chmod(0o755)
        in_image(MAKE.format(side=SIDE), root)
        loaded = load_settings(
            workspaces=[str(root)],
            state_dir=f"{place}/state",
            toolboxes=["gdal", "augment"],
            timeout_seconds=1200.0,
        )
        with running(loaded, boxes=toolboxes(loaded)) as app:
            for number in range(ROUNDS + 1):
                arguments = {"input": "big.tif", "output": f"chips{number}", "size": CHIP, "prompt": PROMPT}
                approver = Terminal("bench", assume_yes=True, how="the benchmark")
                request = Request("make_chips", arguments, local("bench"), "bench", approver)
                started = time.monotonic()
                reply = anyio.run(partial(app.pipeline.call, request))
                ours = reply.result["chips"] / (time.monotonic() - started)
                if not number:  # a server's first call also attests the host, once
                    continue
                limits = {"nano_cpus": int(loaded.cpus * 1e9), "tmpfs": {"/tmp": "size=2g"}}
                count, seconds = in_image(LOOP.format(steps=steps, chip=CHIP), root, **limits)
                rates.append((ours, count / seconds))
                ratios.append(ours * seconds / count)
                print(
                    f"make_chips {ours:.1f} chips/s, the loop {count / seconds:.1f}, ratio {ratios[-1]:.2f}",
                    flush=True,
                )
    print(f"median ratio {statistics.median(ratios):.2f} of {ROUNDS} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
