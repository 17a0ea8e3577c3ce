from tests.oracle.fixtures import grounds

__all__ = ["grounds"]
