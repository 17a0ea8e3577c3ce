from tests.oracle.fixtures import grounds, oracle

__all__ = ["grounds", "oracle"]
