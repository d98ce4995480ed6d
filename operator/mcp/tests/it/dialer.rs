//! A dialer that reaches this machine only, and remembers where it was sent.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use codebutler_mcp::{BodyStream, DialError, HttpDialer};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

pub(crate) struct LocalDialer {
    client: Client<HttpConnector, Full<Bytes>>,
    pub sent: Mutex<Vec<String>>,
}

impl LocalDialer {
    pub(crate) fn new() -> Arc<Self> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Arc::new(Self { client, sent: Mutex::default() })
    }
}

impl HttpDialer for LocalDialer {
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<BodyStream>, DialError>> {
        self.sent.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
        if !matches!(request.uri().host(), Some("127.0.0.1" | "localhost")) {
            return async { Err(DialError("only this machine may be reached".into())) }.boxed();
        }
        let sending = self.client.request(request.map(Full::new));
        async move {
            let response = sending.await.map_err(|error| DialError(format!("{error:?}")))?;
            Ok(response.map(|body| {
                body.into_data_stream().map_err(std::io::Error::other).boxed() as BodyStream
            }))
        }
        .boxed()
    }
}
