"""Logging to stderr: our structlog events and the libraries' records through one formatter.

Invariants:
* nothing is written to stdout, where an MCP client reads the protocol;
* every event is one line of JSON in ASCII, its traceback included, so no value can pass itself off as another event, and
  nothing hides, reorders or breaks text;
* a library's record below WARNING is dropped, whatever level the library gave its own logger.
"""

import logging
import sys

import structlog

_OURS = ("gdal_mcp", "sandbox", "__main__")  # the last is one of ours run by `python -m`


def configure(level: str) -> None:
    """Send our events of at least `level`, and the libraries' of at least WARNING, to stderr.

    Can be called again; the last call counts.
    """
    ours = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(ours),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    last: list[structlog.typing.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer(),
    ]
    theirs = max(ours, logging.WARNING)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    handler.addFilter(lambda record: record.levelno >= theirs or record.name.split(".")[0] in _OURS)
    # force: a library that has set up logging of its own may write elsewhere
    logging.basicConfig(handlers=[handler], level=theirs, force=True)
    logging.captureWarnings(capture=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(ours)
