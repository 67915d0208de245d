//! A page in a frame: the token in the path, and who may frame it.

use betz_monitor::{Monitor, Options, Source};

use crate::common::{KNOWN, decoder, get, start};

fn embedded() -> Options {
    Options {
        embed: true,
        ..Options::default()
    }
}

#[test]
fn pages_of_this_machine_may_frame_the_embedded_page_and_no_other_path() {
    let (monitor, _session) = start(embedded());
    let url = monitor.embedded_url().unwrap();
    let token = monitor.token().unwrap().as_str();
    assert_eq!(url, format!("http://{}/embed/{token}/", monitor.address()));

    let framed = "frame-ancestors http://127.0.0.1:* http://localhost:*\r\n";
    let alone = "frame-ancestors 'none'\r\n";
    for (path, more, status, ancestors) in [
        ("/embed/TOKEN/", "", 200, framed),
        ("/embed/TOKEN/app.js", "", 200, framed),
        ("/embed/TOKEN/api/state", "", 200, framed),
        // A page of the notebook may not read what its frame reads.
        (
            "/embed/TOKEN/api/state",
            "Origin: http://localhost:8888\r\n",
            403,
            framed,
        ),
        ("/", KNOWN, 200, alone),
        ("/api/state", "", 401, alone),
        ("/embed/00/api/state", "", 401, alone),
        ("/embed/00/api/state", KNOWN, 404, alone),
    ] {
        let path = path.replace("TOKEN", token);
        let answer = get(&monitor, &path, more).to_lowercase();
        let first = format!("http/1.1 {status} ");
        assert!(answer.starts_with(&first), "{path} {more}: {answer}");
        assert!(answer.contains(ancestors), "{path} {more}: {answer}");
        assert!(!answer.contains("set-cookie"), "{path} {more}: {answer}");
    }
}

#[test]
fn a_host_of_another_name_gets_nothing_by_the_embedded_path() {
    let (monitor, _session) = start(embedded());
    let request = format!(
        "GET /embed/TOKEN/ HTTP/1.1\r\nHost: evil.example:{}\r\nConnection: close\r\n\r\n",
        monitor.address().port()
    );
    let answer = crate::common::ask(&monitor, &request);
    assert!(answer.starts_with("HTTP/1.1 421 "), "{answer}");
}

#[test]
fn without_the_option_the_path_is_refused() {
    let (monitor, _session) = start(Options::default());
    assert_eq!(monitor.embedded_url(), None);
    let path = format!("/embed/{}/", monitor.token().unwrap().as_str());
    let answer = get(&monitor, &path, "");
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[test]
fn a_page_that_controls_or_is_open_to_others_is_not_embedded() {
    for (options, words) in [
        (
            Options {
                control: true,
                ..embedded()
            },
            "only shows",
        ),
        (
            Options {
                no_token: true,
                ..embedded()
            },
            "a token and a loopback address",
        ),
        (
            Options {
                address: "0.0.0.0".parse().unwrap(),
                ..embedded()
            },
            "a token and a loopback address",
        ),
    ] {
        let source = Source::of("a test", &decoder(0.05));
        let Err(error) = Monitor::start(source, options) else {
            panic!("{words}: was started");
        };
        assert!(error.to_string().contains(words), "{error}");
    }
}
