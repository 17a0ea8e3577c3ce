from tests.oracle.fixtures import grounds

pytest_plugins: list[str] = []
__all__ = ["grounds"]
