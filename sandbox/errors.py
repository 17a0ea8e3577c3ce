"""Failures of the sandbox itself. The way in which a job ended is a value in `sandbox.outcome`, never an exception."""


class SandboxError(Exception):
    """Base class of every failure of the sandbox."""


class EngineUnavailable(SandboxError):
    """No container engine answers at the address in use, or it stopped answering."""


class ImageMissing(SandboxError):
    """The image does not exist on the engine's host. A call never pulls."""


class PullFailed(SandboxError):
    """The registry cannot be reached, does not have the image, or refuses it."""


class CapacityExhausted(SandboxError):
    """The memory for containers is in use, or too small for one container."""


class IsolationRefused(SandboxError):
    """The engine created a container weaker than requested. Nothing was run."""


class AttestationFailed(IsolationRefused):
    """A container measured isolation that is weaker than requested. No job was sent."""


class LaunchCancelled(SandboxError):
    """The caller cancelled before the container was ready."""


class PathRefused(SandboxError):
    """The path is outside every workspace, reserved, or not a regular file or folder."""


class PathMissing(PathRefused):
    """The path is allowed but does not exist."""


class PathReplaced(PathRefused):
    """The path was replaced after it was resolved. Nothing was run on it."""


class StagingFailed(SandboxError):
    """The staging folder could not be used. No user file was changed."""


class OutputRejected(StagingFailed):
    """The kind, size or name of an output is never published. Nothing was published."""
