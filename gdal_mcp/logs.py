"""Logging to stderr: our structlog events and the libraries' records through one formatter.

Invariants:
* nothing is written to stdout, where an MCP client reads the protocol;
* every event is one line of ASCII JSON, including its traceback, so no value can imitate another event, and no
  character hides, reorders or breaks text;
* a library's record below WARNING is dropped, whatever level the library set for its logger.
"""

import logging
import sys

import structlog

_OWN_PACKAGES = ("gdal_mcp", "sandbox", "__main__")  # the last one is a module run with `python -m`


def configure(level: str) -> None:
    """Sends our events from `level` up, and those of libraries from WARNING up, to stderr.

    Can be called again; the last call takes effect.
    """
    own_level = logging.getLevelNamesMapping()[level.upper()]
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(own_level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    last: list[structlog.typing.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.JSONRenderer(),
    ]
    library_level = max(own_level, logging.WARNING)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    handler.addFilter(
        lambda record: record.levelno >= library_level or record.name.split(".")[0] in _OWN_PACKAGES
    )
    # force: a library that configured logging itself may write elsewhere
    logging.basicConfig(handlers=[handler], level=library_level, force=True)
    logging.captureWarnings(capture=True)
    for name in _OWN_PACKAGES:
        logging.getLogger(name).setLevel(own_level)
