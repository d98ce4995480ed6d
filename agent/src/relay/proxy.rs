//! The HTTP proxy for commands: CONNECT, and plain http in absolute form. Each connection is a tunnel
//! through the gateway, which resolves the name and decides whether it may be.

use std::io;

use codebutler_wire::{TUNNEL, path};
use http::header::{HOST, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use reqwest::Upgraded;
use tokio::sync::Semaphore;

use super::{Body, end_to_end, full_body};
use crate::gateway::{GatewayClient, GatewayError};

/// Told to clients besides the text: most show no body of a refused CONNECT.
const REFUSED: HeaderName = HeaderName::from_static("x-codebutler-refused");

/// Tunnels that commands may have at once.
static TUNNELS: Semaphore = Semaphore::const_new(512);

/// True if a request is for the proxy.
pub(super) fn is_for(request: &Request<Incoming>) -> bool {
    request.method() == Method::CONNECT || request.uri().scheme().is_some()
}

/// Carries it through the gateway, or says why not.
pub(super) async fn answer_request(
    gateway: &GatewayClient,
    request: Request<Incoming>,
    refused: impl Fn(&str),
) -> Response<Body> {
    let Some(to) = proxy_target(&request) else {
        return refuse_request(
            StatusCode::BAD_REQUEST,
            "only CONNECT and http:// URLs are carried on",
        );
    };
    let tunnel = match gateway.upgrade(path::CONNECT, &[("to", to.as_str())], TUNNEL).await {
        Ok(tunnel) => tunnel,
        Err(GatewayError::Unreachable(_) | GatewayError::Token { .. }) => {
            return refuse_request(
                StatusCode::BAD_GATEWAY,
                "the gateway can't be reached: try again",
            );
        }
        Err(error) => {
            tracing::debug!(%error, "proxy_connection_refused");
            refused(&error.to_string());
            return refuse_request(StatusCode::FORBIDDEN, &error.to_string());
        }
    };
    if request.method() == Method::CONNECT {
        let Ok(place) = TUNNELS.try_acquire() else {
            return refuse_request(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many connections are open at once: close some, and try again",
            );
        };
        tokio::spawn(async move {
            let _place = place;
            let Ok(client) = hyper::upgrade::on(request).await else { return };
            let (mut client, mut tunnel) = (TokioIo::new(client), tunnel);
            let _ = tokio::io::copy_bidirectional(&mut client, &mut tunnel).await;
        });
        return Response::new(empty_body());
    }
    forward_request(request, tunnel).await.unwrap_or_else(|error| {
        tracing::debug!(%error, "proxy_request_failed");
        refuse_request(StatusCode::BAD_GATEWAY, "the server did not answer properly")
    })
}

/// `host:port`, as asked for.
fn proxy_target(request: &Request<Incoming>) -> Option<String> {
    let authority = request.uri().authority()?.as_str();
    let plain = request.uri().scheme_str() == Some("http");
    match request.method() {
        &Method::CONNECT => Some(authority.to_owned()),
        // A port behind the brackets of an IPv6 address, or behind a name.
        _ if plain && request.uri().port().is_none() => Some(format!("{authority}:80")),
        _ if plain => Some(authority.to_owned()),
        _ => None,
    }
}

/// One request of plain http through a tunnel of its own.
async fn forward_request(
    request: Request<Incoming>,
    tunnel: Upgraded,
) -> Result<Response<Body>, hyper::Error> {
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(tunnel)).await?;
    tokio::spawn(connection);
    let (head, body) = request.into_parts();
    let mut onward = Request::new(body);
    *onward.method_mut() = head.method;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    *onward.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    *onward.headers_mut() = end_to_end(&head.headers);
    let host = head.uri.authority().and_then(|a| HeaderValue::from_str(a.as_str()).ok());
    onward.headers_mut().extend(host.map(|host| (HOST, host)));
    let answer = sender.send_request(onward).await?;
    let (mut head, body) = answer.into_parts();
    head.headers = end_to_end(&head.headers);
    Ok(Response::from_parts(head, body.map_err(io::Error::other).boxed()))
}

fn refuse_request(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(full_body(format!("{text}\n").into()));
    *response.status_mut() = status;
    let line: String = text.chars().filter(|c| c.is_ascii() && !c.is_control()).collect();
    response.headers_mut().extend(HeaderValue::from_str(&line).ok().map(|line| (REFUSED, line)));
    // `HTTP/1.1 403 …`: what curl and package managers do show.
    let reason = hyper::ext::ReasonPhrase::try_from(line.into_bytes()).ok();
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

fn empty_body() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}
