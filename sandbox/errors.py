"""The sandbox's own failures. What a job did is never here: that is a value in `sandbox.outcome`."""


class SandboxError(Exception):
    """Base of every failure of the sandbox itself."""


class EngineUnavailable(SandboxError):
    """No container engine answers at the address in use, or it stopped answering."""


class ImageMissing(SandboxError):
    """The image is not present on the engine's host; a call never pulls."""


class PullFailed(SandboxError):
    """The registry cannot be reached, does not have the image, or will not give it."""


class CapacityExhausted(SandboxError):
    """The memory that containers may use together is promised to others, or too small for one."""


class IsolationRefused(SandboxError):
    """The engine created something weaker than asked; nothing was run."""


class AttestationFailed(IsolationRefused):
    """A container measured its own isolation and it is weaker than asked; no job was sent."""


class LaunchCancelled(SandboxError):
    """The caller cancelled before the container was ready."""


class PathRefused(SandboxError):
    """The path is outside every workspace, reserved, or not a regular file or folder."""


class PathMissing(PathRefused):
    """The path is allowed but nothing is there."""


class PathReplaced(PathRefused):
    """The path was replaced after it was looked up; nothing was run on it."""


class StagingFailed(SandboxError):
    """The private output folder could not be used; no user file was changed."""


class OutputRejected(StagingFailed):
    """An output is of a kind, size or name that is never published; nothing was published."""
