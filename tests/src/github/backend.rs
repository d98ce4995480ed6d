//! Git's smart HTTP protocol: each request is a run of the real `git http-backend` (CGI).

use std::path::Path;
use std::process::Stdio;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_util::io::ReaderStream;

use super::git::BareRepository;

/// Answers one request. `path` is inside `root`, such as `/acme/shop.git/info/refs`; `hooks`: those that run in place of the
/// repository's.
pub(super) async fn answer_git(
    root: &Path,
    (path, hooks): (&str, Option<&Path>),
    user: &str,
    request: Request,
) -> Response {
    match run_backend(root, (path, hooks), user, request).await {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(%error, path, "git http-backend failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "git http-backend failed\n").into_response()
        }
    }
}

async fn run_backend(
    root: &Path,
    (path, hooks): (&str, Option<&Path>),
    user: &str,
    request: Request,
) -> std::io::Result<Response> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
    };
    let mut command = BareRepository::command();
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("REMOTE_USER", user)
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("SERVER_PROTOCOL", "HTTP/1.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(hooks) = hooks {
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.hooksPath")
            .env("GIT_CONFIG_VALUE_0", hooks);
    }
    // A chunked body has no length: git then reads to the end.
    let length = header("content-length");
    if !length.is_empty() {
        command.env("CONTENT_LENGTH", length);
    }
    let mut child = command.spawn()?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(std::io::ErrorKind::BrokenPipe.into());
    };
    tokio::spawn(async move {
        let mut body = body.into_data_stream();
        while let Some(Ok(chunk)) = body.next().await {
            // git may end early, for instance when it refuses the request.
            if stdin.write_all(&chunk).await.is_err() {
                break;
            }
        }
    });
    let mut stdout = BufReader::new(stdout);
    let (status, headers) = read_head(&mut stdout).await?;
    // The child lives as long as its output is being read; dropped earlier, it is killed.
    let output = ReaderStream::new(stdout).map_ok(move |bytes| {
        let _ = &child;
        bytes
    });
    let mut response = (status, Body::from_stream(output)).into_response();
    response.headers_mut().remove(header::CONTENT_TYPE);
    response.headers_mut().extend(headers);
    Ok(response)
}

async fn read_head(
    output: &mut (impl tokio::io::AsyncBufRead + Unpin),
) -> std::io::Result<(StatusCode, HeaderMap)> {
    let mut status = StatusCode::OK;
    let mut headers = HeaderMap::new();
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let Some((name, value)) = line.split_once(':') else { break };
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            status = code.parse().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) =
            (name.parse::<HeaderName>(), HeaderValue::from_str(value))
        {
            headers.append(name, value);
        }
    }
    Ok((status, headers))
}
