"""`show`: a recording's page in a notebook or in the browser."""

import atexit
import html

from ._core import PageServer

#: Most pages at a time: a notebook's cell that runs again and again does not fill the machine with servers.
MOST_PAGES = 4
VIEWS = {"recording": "live", "channels": "channels", "model": "model"}
_running = []


class Page:
    """A page that `betz.show` serves. A notebook shows it; `url` opens it in a browser.

    The server runs until `stop`, the end of a `with` block or the end of Python. It listens on this machine only, and only pages
    of this machine can show it in a frame. Its addresses contain a token: whoever has it and an account on this machine can look
    while the server runs. A notebook that is saved with this output contains the token.
    """

    def __init__(self, server, height, view):
        self._server, self._height = server, height
        self._fragment = f"#v={VIEWS[view]}" if view else ""

    @property
    def url(self):
        """Address for a browser on this machine. Give it only to people who may look."""
        return self._server.url + self._fragment

    @property
    def running(self):
        """True until `stop`."""
        return self._server.running

    def stop(self):
        """Ends the server and its thread. A second call does nothing."""
        self._server.stop()
        if self in _running:
            _running.remove(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def __repr__(self):
        # Without the token: this text ends up in logs.
        at = self._server.url.partition("?")[0]
        return f"<betz.Page at {at}>" if self.running else "<betz.Page, stopped>"

    def _repr_html_(self):
        if not self.running:
            return "<p>This page was stopped. Run <code>betz.show</code> again.</p>"
        frame, url = (html.escape(text) for text in (self._server.embedded_url + self._fragment, self.url))
        return (
            f'<iframe src="{frame}" title="Betz: a recording" width="100%" height="{self._height}" style="border: 0" '
            'sandbox="allow-scripts allow-same-origin allow-downloads" allow="clipboard-write" referrerpolicy="no-referrer"></iframe>'
            f'<p><a href="{url}" target="_blank" rel="noopener noreferrer">Open this page in a tab</a></p>'
        )


def show(recording, model=None, *, name=None, view=None, height=640):
    """Shows `recording` on a page, with the estimates of `model` (a Model or a fitted Decoder) if there is one.

    As the last line of a notebook's cell, the page appears below the cell. `name` is the recording's name on the page. `view` is
    the view to begin with: "recording", "channels" or "model". `height` is the frame's height in pixels. Four pages run at a
    time: a fifth stops the oldest.

    >>> import betz
    >>> train, test = betz.simulate.population(neurons=20, train_seconds=20, test_seconds=5, seed=1)
    >>> with betz.show(test, name="test") as page:
    ...     page.running
    True
    >>> page
    <betz.Page, stopped>
    """
    if view is not None and view not in VIEWS:
        raise ValueError(f'view: expected one of {", ".join(VIEWS)}, got {view!r}')
    if isinstance(height, bool) or not isinstance(height, int) or not 100 <= height <= 10_000:
        raise ValueError(f"height: expected whole pixels from 100 to 10,000, got {height!r}")
    if view == "model" and model is None:
        raise ValueError('view: expected "recording" or "channels" without a model, got "model"')
    server = PageServer(recording, getattr(model, "model_", model), name="recording" if name is None else str(name))
    page = Page(server, height, view)
    while len(_running) >= MOST_PAGES:
        _running[0].stop()
    _running.append(page)
    return page


@atexit.register
def _stop_all():
    for page in list(_running):
        page.stop()
