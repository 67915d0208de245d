"""`betz.show` serves a recording's page to a notebook and to nobody else."""

import html
import json
import re
import urllib.error
import urllib.request

import numpy as np
import pytest

import betz


@pytest.fixture(scope="module")
def made():
    train, test = betz.simulate.population(neurons=12, train_seconds=10, test_seconds=4, seed=1)
    return test, betz.Decoder(step_seconds=0.005, bank=[(0.02, 1)], delay_seconds=0.03).fit(train)


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.headers, answer.read()


def frame(page):
    return html.unescape(re.search(r'<iframe src="([^"]*)"', page._repr_html_())[1]).partition("#")[0]


def test_a_frame_needs_no_cookie(made):
    test, decoder = made
    with betz.show(test, decoder, name="a <b>recording") as page:
        at = frame(page)
        headers, body = get(at)
        assert b"<title>Betz</title>" in body and headers["Set-Cookie"] is None
        assert "frame-ancestors http://127.0.0.1:* http://localhost:*" in headers["Content-Security-Policy"]
        for name in re.findall(r'(?:src|href)="([a-z]+[.](?:js|css))"', body.decode()):
            get(at + name)
        source = json.loads(get(at + "api/state")[1])["source"]
        assert source["name"] == "a <b>recording"
        assert source["channels"] == test.channels and source["step_seconds"] == 0.005
        assert [o["name"] if isinstance(o, dict) else o for o in source["outputs"]] == decoder.model_.output_names


def test_every_spike_is_shown_with_and_without_a_model(made):
    test, decoder = made
    for model in (None, decoder, decoder.model_):
        with betz.show(test, model) as page:
            end = test.ticks * test.tick_seconds + 1
            found = json.loads(get(frame(page) + f"api/range?source=0&from=0&to={end}")[1])
            expected = np.bincount(test.spike_channels, minlength=test.channels)
            np.testing.assert_array_equal(found["spikes"], expected)
            accuracy = [output["r2"] for output in found["outputs"]]
            assert (max(r for r in accuracy if r is not None) > 0.3) if model else accuracy == [None] * len(accuracy)


def test_without_the_token_nothing_is_served(made):
    with betz.show(made[0]) as page:
        root = page.url.partition("?")[0]
        for path in ("", "api/state", "embed//api/state", f"embed/{'0' * 64}/api/state"):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                get(root + path)
        with pytest.raises(urllib.error.HTTPError, match="421"):
            get(frame(page), Host="evil.example")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(frame(page) + "api/state", Origin="http://localhost:8888")
        assert "token" not in repr(page) and root in repr(page)


def test_stop_ends_the_server(made):
    page = betz.show(made[0])
    at = frame(page)
    get(at)
    page.stop()
    page.stop()
    assert not page.running and repr(page) == "<betz.Page, stopped>"
    assert "iframe" not in page._repr_html_() and "betz.show" in page._repr_html_()
    with pytest.raises(urllib.error.URLError):
        get(at)


def test_a_second_call_starts_another_server_and_a_fifth_ends_the_first(made):
    pages = [betz.show(made[0], name=str(k)) for k in range(5)]
    assert [page.running for page in pages] == [False, True, True, True, True]
    assert len({page.url for page in pages}) == 5
    assert json.loads(get(frame(pages[1]) + "api/state")[1])["source"]["name"] == "1"
    for page in pages:
        page.stop()


def test_html_is_escaped_and_has_the_height_and_the_view(made):
    with betz.show(made[0], view="channels", height=321) as page:
        shown = page._repr_html_()
        assert 'height="321"' in shown and "#v=channels" in shown
        assert 'sandbox="allow-scripts allow-same-origin allow-downloads"' in shown


@pytest.mark.parametrize(
    "options, error, words",
    [
        (dict(view="map"), ValueError, "expected one of recording, channels, model, got 'map'"),
        (dict(view="model"), ValueError, "without a model"),
        (dict(height=0), ValueError, "from 100 to 10,000, got 0"),
        (dict(height=True), ValueError, "got True"),
        (dict(model=np.zeros(3)), TypeError, "model"),
    ],
)
def test_wrong_arguments(made, options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        betz.show(made[0], **options)


def test_wrong_recording():
    with pytest.raises(TypeError, match="recording"):
        betz.show([1, 2, 3])
