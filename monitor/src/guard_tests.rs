//! Every combination of host, origin, token and method.

use super::*;
use axum::http::HeaderValue;

const SECRET: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn guard(control: bool) -> Guard {
    let names = ["rig.lab".to_owned()];
    Guard::new(8765, &names, Some(Token(SECRET.into())), control)
}

/// Host name, and true if the server answers to it.
const HOSTS: [(Option<&str>, bool); 16] = [
    (Some("127.0.0.1:8765"), true),
    (Some("localhost:8765"), true),
    (Some("LocalHost:8765"), true),
    (Some("[::1]:8765"), true),
    (Some("rig.lab:8765"), true),
    (None, false),
    (Some(""), false),
    (Some("127.0.0.1"), false),
    (Some("127.0.0.1:8766"), false),
    (Some("localhost.:8765"), false),
    (Some("localhost:8765."), false),
    (Some("localhost.evil.example:8765"), false),
    (Some("evil.example:8765"), false),
    (Some("localhost:8765.evil.example"), false),
    (Some("evil@localhost:8765"), false),
    (Some("127.0.0.1:87650"), false),
];

/// Origin, and true if it is the server's own.
const ORIGINS: [(&str, bool); 9] = [
    ("http://127.0.0.1:8765", true),
    ("http://LOCALHOST:8765", true),
    ("http://[::1]:8765", true),
    ("null", false),
    ("https://localhost:8765", false),
    ("http://localhost:8766", false),
    ("http://localhost:8765.evil.example", false),
    ("http://evil.example:8765", false),
    ("http://localhost:8765/", false),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Credential {
    Nothing,
    Cookie,
    CookieAmongOthers,
    Bearer,
    Query,
    Wrong,
    Prefix,
    Longer,
}

const CREDENTIALS: [Credential; 8] = [
    Credential::Nothing,
    Credential::Cookie,
    Credential::CookieAmongOthers,
    Credential::Bearer,
    Credential::Query,
    Credential::Wrong,
    Credential::Prefix,
    Credential::Longer,
];

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap()
}

/// Adds the credential to the headers, or returns it as a query.
fn add_credential(credential: Credential, headers: &mut HeaderMap) -> Option<String> {
    let cookie = match credential {
        Credential::Nothing => return None,
        Credential::Query => return Some(format!("a=b&token={SECRET}")),
        Credential::Bearer => {
            let bearer = value(&format!("Bearer {SECRET}"));
            headers.insert(header::AUTHORIZATION, bearer);
            return None;
        }
        Credential::Cookie => format!("betz-8765={SECRET}"),
        Credential::CookieAmongOthers => {
            format!("a=b; xbetz-8765=1; betz-87651=2; betz-8765={SECRET}; c=d")
        }
        Credential::Wrong => format!("betz-8765={}", SECRET.replace('0', "1")),
        Credential::Prefix => format!("betz-8765={}", &SECRET[..63]),
        Credential::Longer => format!("betz-8765={SECRET}0"),
    };
    headers.insert(header::COOKIE, value(&cookie));
    None
}

/// A request; `known` and `own` are right for its host and its origin.
struct Request<'a> {
    host: Option<&'a str>,
    known: bool,
    origin: Option<&'a str>,
    own: bool,
    credential: Credential,
    path: &'a str,
    method: Method,
}

impl Request<'_> {
    fn assert_guarded(&self, control: bool) {
        let mut headers = HeaderMap::new();
        if let Some(host) = self.host {
            headers.insert(header::HOST, value(host));
        }
        if let Some(origin) = self.origin {
            headers.insert(header::ORIGIN, value(origin));
        }
        headers.insert(header::CONTENT_TYPE, value("application/json"));
        let query = add_credential(self.credential, &mut headers);
        let (method, path) = (&self.method, self.path);
        let got = guard(control).check(method, path, query.as_deref(), &headers);
        let expected = self.expected(control);
        assert_eq!(got, expected, "{method} {path} {headers:?} {query:?}");
    }

    fn expected(&self, control: bool) -> std::result::Result<Entry, Refusal> {
        let has_token = match self.credential {
            Credential::Cookie | Credential::CookieAmongOthers | Credential::Bearer => true,
            Credential::Query => self.path == "/",
            _ => false,
        };
        let post = self.method == Method::POST;
        if !self.known {
            Err(Refusal::Host)
        } else if !self.own || (self.origin.is_none() && (self.path == "/live" || post)) {
            Err(Refusal::Origin)
        } else if !has_token {
            Err(Refusal::Token)
        } else if post && !control {
            Err(Refusal::Control)
        } else if self.credential == Credential::Query {
            Ok(Entry::Introduced)
        } else {
            Ok(Entry::Known)
        }
    }
}

#[test]
fn every_host_origin_token_and_method() {
    let mut seen = 0;
    for (host, known) in HOSTS {
        let origins = ORIGINS.iter().map(|&(o, own)| (Some(o), own));
        for (origin, own) in origins.chain([(None, true)]) {
            for credential in CREDENTIALS {
                for path in ["/", "/live", "/api/state", "/metrics"] {
                    for method in [Method::GET, Method::POST] {
                        let request = Request {
                            host,
                            known,
                            origin,
                            own,
                            credential,
                            path,
                            method,
                        };
                        request.assert_guarded(false);
                        request.assert_guarded(true);
                        seen += 2;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 16 * 10 * 8 * 4 * 2 * 2);
}

#[test]
fn a_post_of_another_site_or_of_a_form_is_refused() {
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, value("localhost:8765"));
    headers.insert(header::ORIGIN, value("http://localhost:8765"));
    headers.insert(header::COOKIE, value(&format!("betz-8765={SECRET}")));
    let check = |h: &HeaderMap| guard(true).check(&Method::POST, "/api/control/mark", None, h);
    assert_eq!(check(&headers), Err(Refusal::Type));
    headers.insert(header::CONTENT_TYPE, value("text/plain"));
    assert_eq!(check(&headers), Err(Refusal::Type));
    headers.insert(
        header::CONTENT_TYPE,
        value("application/json; charset=utf-8"),
    );
    assert_eq!(check(&headers), Ok(Entry::Known));
    for (site, expected) in [
        ("same-origin", true),
        ("same-site", false),
        ("cross-site", false),
        ("none", false),
    ] {
        headers.insert("sec-fetch-site", value(site));
        assert_eq!(check(&headers).is_ok(), expected, "{site}");
    }
}

#[test]
fn a_browser_keeps_the_cookies_of_several_servers() {
    // A browser sends a host's cookies to all of its ports.
    let (first, second) = (Token::new().unwrap(), Token::new().unwrap());
    let servers = [(8765, first), (8766, second)]
        .map(|(port, token)| (port, Guard::new(port, &[], Some(token), false)));
    let names_and_values = |(_, guard): &(u16, Guard)| {
        let cookie = guard.cookie();
        cookie.split(';').next().unwrap().to_owned()
    };
    let jar: Vec<String> = servers.iter().map(names_and_values).collect();
    assert_ne!(jar[0].split('=').next(), jar[1].split('=').next());
    for (port, guard) in &servers {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, value(&format!("localhost:{port}")));
        headers.insert(header::COOKIE, value(&jar.join("; ")));
        let entry = guard.check(&Method::GET, "/api/state", None, &headers);
        assert_eq!(entry, Ok(Entry::Known), "{port}");
    }
}

#[test]
fn headers_that_are_there_twice_are_refused() {
    for (name, first, second, refusal) in [
        (
            header::HOST,
            "localhost:8765",
            "evil.example",
            Refusal::Host,
        ),
        (
            header::ORIGIN,
            "http://localhost:8765",
            "http://evil.example",
            Refusal::Origin,
        ),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, value("localhost:8765"));
        headers.insert(header::COOKIE, value(&format!("betz-8765={SECRET}")));
        headers.insert(name.clone(), value(first));
        assert!(
            guard(false)
                .check(&Method::GET, "/", None, &headers)
                .is_ok()
        );
        headers.append(name, value(second));
        assert_eq!(
            guard(false).check(&Method::GET, "/", None, &headers),
            Err(refusal)
        );
    }
}

#[test]
fn without_a_token_host_and_origin_still_count() {
    let open = Guard::new(8765, &[], None, false);
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, value("localhost:8765"));
    assert_eq!(
        open.check(&Method::GET, "/api/state", None, &headers),
        Ok(Entry::Known)
    );
    headers.insert(header::HOST, value("evil.example:8765"));
    assert_eq!(
        open.check(&Method::GET, "/api/state", None, &headers),
        Err(Refusal::Host)
    );
}

#[test]
fn tokens_are_new_each_time_and_not_printed() {
    let (a, b) = (Token::new().unwrap(), Token::new().unwrap());
    assert_ne!(a, b);
    assert_eq!(a.as_str().len(), 64);
    assert!(!format!("{a:?}").contains(a.as_str()));
}

#[test]
fn a_path_with_the_token_is_one_for_the_rest_of_it() {
    let request = |path: &str| axum::http::Request::get(path).body(()).unwrap();
    let guards = [false, true].map(|embed| guard(false).embedded(embed));
    let (wrong, short) = (SECRET.replace('0', "1"), &SECRET[..63]);
    for (path, rest) in [
        (format!("/embed/{SECRET}/"), Some("/")),
        (format!("/embed/{SECRET}/live"), Some("/live")),
        (
            format!("/embed/{SECRET}/api/spikes?source=0&from=1"),
            Some("/api/spikes?source=0&from=1"),
        ),
        (
            format!("/embed/{SECRET}//evil.example/"),
            Some("//evil.example/"),
        ),
        (format!("/embed/{SECRET}"), None),
        (format!("/embed/{SECRET}0/"), None),
        (format!("/embed/{wrong}/"), None),
        (format!("/embed/{short}/"), None),
        (format!("/embed//{SECRET}/"), None),
        (format!("/x/embed/{SECRET}/"), None),
        ("/embed/".into(), None),
        ("/".into(), None),
    ] {
        for guard in &guards {
            let mut got = request(&path);
            guard.unwrap_path(&mut got);
            let expected = rest.filter(|_| guard.embed);
            assert_eq!(got.uri(), expected.unwrap_or(&path), "{path}");
            assert_eq!(
                got.extensions().get::<FrameRequest>().is_some(),
                expected.is_some()
            );
            assert_eq!(
                got.headers().contains_key(header::AUTHORIZATION),
                expected.is_some()
            );
        }
    }
    // A server without a token embeds nothing.
    let mut got = request(&format!("/embed/{SECRET}/"));
    Guard::new(8765, &[], None, false)
        .embedded(true)
        .unwrap_path(&mut got);
    assert_eq!(got.uri().path(), format!("/embed/{SECRET}/"));
}
