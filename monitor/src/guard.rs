//! Access control: a request needs the token, must name a host of this server, and must come from one of its pages.
//!
//! Loopback alone is no protection: every user of the machine can reach it, and so can every page that its browser
//! shows. A request needs the token (in a cookie, in `Authorization: Bearer`, or once in the address of `/`). Its
//! `Host` must be one of the server's names; otherwise an attacker could point a name of their own at this machine. Its
//! `Origin` must be one of them too; only requests that read may lack it. `Host` and `Origin` are never compared with
//! each other, because an attacker may control both.
//!
//! A page that is embedded in another page, such as a notebook's, gets no cookies: browsers withhold them from frames
//! of other sites. If [`Options::embed`](crate::Options::embed) is set, the token may be a part of the path instead.

use axum::extract::Request;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use betz_base::error::{Error, Result};

/// Header that keeps a page from loading anything that this server did not send; `$ancestors` may frame it.
macro_rules! policy {
    ($ancestors:literal) => {
        concat!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; ",
            "img-src 'self' data: blob:; worker-src 'self'; base-uri 'none'; form-action 'none'; ",
            "frame-ancestors ",
            $ancestors
        )
    };
}

/// `Content-Security-Policy` of all answers but those to an embedded page.
const POLICY: &str = policy!("'none'");
/// `Content-Security-Policy` of a page that was reached by its embedded path: pages of this machine may frame it.
const EMBEDDED_POLICY: &str = policy!("http://127.0.0.1:* http://localhost:*");

/// Start of the path of an embedded page; the token and the rest of the path follow.
pub(crate) const EMBEDDED: &str = "/embed/";

/// Marks a request that came by the path of an embedded page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameRequest;

/// `Content-Security-Policy` of the answer to a request.
pub(crate) fn policy_of(request: &Request) -> &'static str {
    match request.extensions().get::<FrameRequest>() {
        Some(FrameRequest) => EMBEDDED_POLICY,
        None => POLICY,
    }
}

/// Start of the name of the cookie with the token; the server's port follows. Browsers keep cookies by host, not by
/// port. With one name for all ports, a second server would lock out the pages of the first.
const COOKIE: &str = "betz-";

/// Secret of 256 bits that gives access to the page.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Draws a new token from the system's source of randomness.
    ///
    /// # Errors
    /// `Io` if the system has no source of randomness.
    pub fn new() -> Result<Self> {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).map_err(|e| {
            let message = format!("a token: the system gives no random bytes: {e}");
            Error::new(betz_base::ErrorKind::Io, message)
        })?;
        Ok(Self(bytes.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// The token that [`Token::as_str`] of an earlier one gave.
    ///
    /// # Errors
    /// `InvalidArgument` for other text; the message does not repeat it.
    pub fn from_text(text: &str) -> Result<Self> {
        match text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(Self(text.into())),
            false => Err(Error::argument(format!(
                "a token: expected 64 hexadecimal digits, got {} bytes",
                text.len()
            ))),
        }
    }

    /// Text of the token, as used in the page's address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not reveal where the texts differ.
    pub fn is(&self, other: &str) -> bool {
        let (a, b) = (self.0.as_bytes(), other.as_bytes());
        let differ = a.iter().zip(b).fold(0u8, |d, (x, y)| d | (x ^ y));
        a.len() == b.len() && std::hint::black_box(differ) == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Reason for refusing a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    Token,
    Site,
    Control,
    Type,
}

impl Refusal {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Token => StatusCode::UNAUTHORIZED,
            Self::Origin | Self::Site | Self::Control => StatusCode::FORBIDDEN,
            Self::Type => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Host => {
                "this server does not answer to that name; start it with --allow-host NAME if it should"
            }
            Self::Origin => "a page from elsewhere may not look",
            Self::Token => "expected the token: open the address that betz printed",
            Self::Site => "a request from another site",
            Self::Control => "this page is read-only; start betz with --control",
            Self::Type => "expected Content-Type: application/json",
        }
    }
}

/// Form in which an accepted request brought the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The request has the token in a cookie or a header, or needs none.
    Known,
    /// The request has the token in its address. The answer sets a cookie and redirects to the address without the
    /// token.
    Introduced,
}

/// Checks which requests are accepted.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    /// `name:port`, in lower case.
    hosts: Vec<String>,
    /// Name of the cookie with the token.
    cookie: String,
    /// `None`: no token is needed.
    token: Option<Token>,
    control: bool,
    /// Accept the token as a part of the path.
    embed: bool,
}

impl Guard {
    /// Accepts loopback's names and `names`, and no other host.
    pub(crate) fn new(port: u16, names: &[String], token: Option<Token>, control: bool) -> Self {
        let own = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
        let hosts = (own.iter().chain(names))
            .map(|name| format!("{}:{port}", name.to_ascii_lowercase()))
            .collect();
        Self {
            hosts,
            cookie: format!("{COOKIE}{port}"),
            token,
            control,
            embed: false,
        }
    }

    /// Also accepts the path of an embedded page, which contains the token.
    pub(crate) fn embedded(self, embed: bool) -> Self {
        Self { embed, ..self }
    }

    /// Turns a request for `/embed/TOKEN/PATH` into one for `/PATH` with the token in a header. Every other request
    /// stays as it is.
    pub(crate) fn unwrap_path<B>(&self, request: &mut axum::http::Request<B>) {
        let Some(token) = self.token.as_ref().filter(|_| self.embed) else {
            return;
        };
        let whole = request.uri().path_and_query().map_or("", |p| p.as_str());
        let Some((said, rest)) = (whole.strip_prefix(EMBEDDED))
            .and_then(|w| w.split_at_checked(w.find('/')?))
            .filter(|(said, _)| token.is(said))
        else {
            return;
        };
        let (Ok(path), Ok(bearer)) = (
            rest.parse::<PathAndQuery>(),
            HeaderValue::from_str(&format!("Bearer {said}")),
        ) else {
            return;
        };
        *request.uri_mut() = Uri::from(path);
        request.headers_mut().insert(header::AUTHORIZATION, bearer);
        request.extensions_mut().insert(FrameRequest);
    }

    fn answers_to(&self, host: &str) -> bool {
        self.hosts.iter().any(|h| h.eq_ignore_ascii_case(host))
    }

    /// Checks a request: its method, path, query and headers.
    pub(crate) fn check(
        &self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> std::result::Result<Entry, Refusal> {
        // A header that appears twice counts as absent.
        let one = |name: header::HeaderName| {
            let mut all = headers.get_all(name).iter();
            match (all.next(), all.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => value.to_str().map(Some).map_err(|_| ()),
                _ => Err(()),
            }
        };
        let host = one(header::HOST).map_err(|()| Refusal::Host)?;
        if !host.is_some_and(|h| self.answers_to(h)) {
            return Err(Refusal::Host);
        }
        let origin = one(header::ORIGIN).map_err(|()| Refusal::Origin)?;
        let own = |o: &str| {
            o.strip_prefix("http://")
                .is_some_and(|h| self.answers_to(h))
        };
        let required = path == "/live" || method == Method::POST;
        if !origin.map_or(!required, own) {
            return Err(Refusal::Origin);
        }
        let entry = self.token(path, query, headers)?;
        if method == Method::POST {
            if !self.control {
                return Err(Refusal::Control);
            }
            let site = headers.get("sec-fetch-site");
            if site.is_some_and(|s| s.as_bytes() != b"same-origin") {
                return Err(Refusal::Site);
            }
            let json = one(header::CONTENT_TYPE).map_err(|()| Refusal::Type)?;
            let is_json = |t: &str| t.split(';').next().map(str::trim) == Some("application/json");
            if !json.is_some_and(is_json) {
                return Err(Refusal::Type);
            }
        }
        Ok(entry)
    }

    fn token(
        &self,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> std::result::Result<Entry, Refusal> {
        let Some(token) = &self.token else {
            return Ok(Entry::Known);
        };
        if path == "/"
            && let Some(said) =
                query.and_then(|q| q.split('&').find_map(|p| p.strip_prefix("token=")))
        {
            return if token.is(said) {
                Ok(Entry::Introduced)
            } else {
                Err(Refusal::Token)
            };
        }
        let bearer = headers
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok());
        if bearer
            .and_then(|b| b.strip_prefix("Bearer "))
            .is_some_and(|b| token.is(b))
        {
            return Ok(Entry::Known);
        }
        let cookies = headers
            .get_all(header::COOKIE)
            .iter()
            .filter_map(|v| v.to_str().ok());
        let mut named = cookies
            .flat_map(|c| c.split(';'))
            .filter_map(|c| c.trim().strip_prefix(&self.cookie)?.strip_prefix('='));
        if named.any(|said| token.is(said)) {
            return Ok(Entry::Known);
        }
        Err(Refusal::Token)
    }

    /// `Set-Cookie` header that stores the token in a browser.
    pub(crate) fn cookie(&self) -> String {
        let token = self.token.as_ref().map_or("", Token::as_str);
        format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", self.cookie)
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
