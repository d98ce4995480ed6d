//! Signing in to the example of the official SDK, which has an authorization server of its own.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codebutler_mcp::oauth::{
    AuthorizationLink, StatedAuthority, TokenError, TokenRequest, authorization_server_urls,
    read_authorization_server, read_challenge, read_protected_resource, read_registration,
    read_tokens, registration_request, resource_metadata_urls,
};
use codebutler_mcp::{HttpDialer as _, McpError, ServerLink, ServerSession};
use futures::TryStreamExt as _;
use http::{HeaderMap, Method, Request};
use url::Url;

use super::dialer::LocalDialer;
use super::servers::{free_port, node_script, setup};

async fn ask(
    dialer: &LocalDialer,
    method: Method,
    url: &Url,
    kind: &str,
    body: String,
) -> (u16, HeaderMap, Bytes) {
    let request = Request::builder().method(method).uri(url.as_str()).header("content-type", kind);
    let response = dialer.send(request.body(Bytes::from(body)).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let chunks: Vec<Bytes> = body.try_collect().await.unwrap();
    (parts.status.as_u16(), parts.headers, chunks.concat().into())
}

async fn first_found(dialer: &LocalDialer, urls: Vec<Url>) -> Bytes {
    for url in urls {
        let (status, _, body) = ask(dialer, Method::GET, &url, "", String::new()).await;
        if status == 200 {
            return body;
        }
    }
    panic!("none of the addresses has metadata");
}

async fn open(
    dialer: &Arc<LocalDialer>,
    url: &Url,
    token: Option<&str>,
) -> Result<ServerSession, McpError> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    let link = ServerLink::Http { dialer: dialer.clone(), url: url.clone(), headers };
    ServerSession::open(link, setup()).await.map(|(session, _)| session)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_signs_in_to_the_sdks_own_example() {
    let script = "sdk/dist/esm/examples/server/simpleStreamableHttp.js";
    let Some(mut command) = node_script(script).await else { return };
    let (port, auth_port) = (free_port(), free_port());
    command.args(["--oauth", "--oauth-strict"]).env("MCP_PORT", port.to_string());
    command.env("MCP_AUTH_PORT", auth_port.to_string()).kill_on_drop(true);
    let _child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let dialer = LocalDialer::new();
    let server: Url = format!("http://localhost:{port}/mcp").parse().unwrap();
    let challenge = loop {
        match open(&dialer, &server, None).await {
            Err(McpError::SignIn { challenge }) => break read_challenge(&challenge),
            Err(McpError::Unreachable(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            other => panic!("{other:?}"),
        }
    };
    let body = first_found(&dialer, resource_metadata_urls(&server, &challenge)).await;
    let resource = read_protected_resource(&body, &server).unwrap();
    let issuer = &resource.authorization_servers[0];
    let body = first_found(&dialer, authorization_server_urls(issuer)).await;
    let authority = read_authorization_server(&body, issuer, StatedAuthority::default()).unwrap();

    let back: Url = "http://localhost:9/back".parse().unwrap();
    let register = authority.registration_endpoint.clone().unwrap();
    let body = registration_request("CodeButler", &back, &authority, Some("mcp:tools")).to_string();
    let (status, _, body) = ask(&dialer, Method::POST, &register, "application/json", body).await;
    let client = read_registration(status, &body).unwrap();

    let resource = Some(resource.resource.as_str());
    let asked = (resource, Some("mcp:tools"));
    let link = AuthorizationLink::new(&authority, &client, &back, asked, &[]);
    let (status, headers, _) = ask(&dialer, Method::GET, &link.url, "", String::new()).await;
    assert_eq!(status, 302);
    let returned = Url::parse(headers["location"].to_str().unwrap()).unwrap();
    let code = link.read_return(returned.query().unwrap()).unwrap();

    let form = "application/x-www-form-urlencoded";
    let stolen = AuthorizationLink::new(&authority, &client, &back, (resource, None), &[]);
    let request = TokenRequest::of_code(&authority, &client, &stolen, &code, resource);
    let (status, _, body) = ask(&dialer, Method::POST, &request.url, form, request.body).await;
    assert!(
        matches!(read_tokens(status, &body, None), Err(TokenError::Lost(_))),
        "the code alone is worth nothing"
    );

    let request = TokenRequest::of_code(&authority, &client, &link, &code, resource);
    let (status, _, body) = ask(&dialer, Method::POST, &request.url, form, request.body).await;
    let tokens = read_tokens(status, &body, None).unwrap();
    let session = open(&dialer, &server, Some(&tokens.access_token)).await.unwrap();
    assert!(!session.list_tools().await.unwrap().items.is_empty());
    assert!(open(&dialer, &server, Some("wrong")).await.is_err());
}
