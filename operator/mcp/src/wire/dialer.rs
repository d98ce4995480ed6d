//! The caller's way to the network: it alone decides which hosts may be reached, and holds the TLS.

use std::io;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::{Request, Response};

/// The body of an answer as it arrives.
pub type BodyStream = BoxStream<'static, io::Result<Bytes>>;

/// A connection that can't be made or may not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DialError(pub String);

/// Sends requests. It decides where they may go, must not follow redirects, and must not buffer bodies: a stream of
/// events can stay open for hours without a byte.
pub trait HttpDialer: Send + Sync + 'static {
    /// Sends one request; the answer is there when its headers are.
    fn send(
        &self,
        request: Request<Bytes>,
    ) -> BoxFuture<'static, Result<Response<BodyStream>, DialError>>;
}
