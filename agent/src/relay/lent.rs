//! The body of a request on its way to the gateway. The part that is unread at the time of the answer is read and
//! discarded: Git reads an answer only once it has sent everything, and says "Broken pipe" where it can't.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http_body_util::{BodyDataStream, BodyExt as _};
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Most bytes that are discarded, and the time for that.
const MOST: usize = 256 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_mins(2);

/// A body that returns to its owner when its reader is dropped.
pub(super) struct LentBody {
    /// None once it has come back.
    body: Option<BodyDataStream<Incoming>>,
    owner: Option<oneshot::Sender<BodyDataStream<Incoming>>>,
}

/// Gets the rest of the body once it comes back.
pub(super) struct UnsentBody(oneshot::Receiver<BodyDataStream<Incoming>>);

pub(super) fn lend_body(body: Incoming) -> (LentBody, UnsentBody) {
    let (owner, unsent) = oneshot::channel();
    let body = Some(body.into_data_stream());
    (LentBody { body, owner: Some(owner) }, UnsentBody(unsent))
}

impl Stream for LentBody {
    type Item = Result<Bytes, hyper::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.body {
            Some(body) => body.poll_next_unpin(cx),
            None => Poll::Ready(None),
        }
    }
}

impl Drop for LentBody {
    fn drop(&mut self) {
        if let (Some(body), Some(owner)) = (self.body.take(), self.owner.take()) {
            // The receiver is gone where the answer is a success.
            let _ = owner.send(body);
        }
    }
}

impl UnsentBody {
    /// Waits until the body's reader is dropped, and reads the rest.
    pub(super) async fn drain(self) {
        let draining = async {
            let Ok(mut body) = self.0.await else { return };
            let mut read = 0;
            while read < MOST
                && let Some(Ok(piece)) = body.next().await
            {
                read += piece.len();
            }
        };
        // A rest that comes too slowly is cut off.
        let _ = timeout(PATIENCE, draining).await;
    }
}
