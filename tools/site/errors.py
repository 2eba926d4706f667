"""The one exception of the site's build."""


class SiteError(Exception):
    """A step failed; the message is one sentence for the person at the terminal."""
