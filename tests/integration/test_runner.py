import pytest
from sandbox.outcome import Exited
pytestmark = pytest.mark.engine
def test_x(run, workspace):
    r = run("print('hi'); return {'code':0,'ls':os.listdir(job['w'])}", {"w": str(workspace)}, workspace=workspace)
    print(r)
    assert r.outcome == Exited(0)
