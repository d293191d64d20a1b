"""The one base class of errors that are the user's to mend: shown as text, never as a traceback."""


class ZerocfgError(Exception):
    """Base of all errors raised on purpose."""
