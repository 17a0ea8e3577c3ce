from tests.oracle.fixtures import grounds, oracle

pytest_plugins: list[str] = []
__all__ = ["grounds", "oracle"]
