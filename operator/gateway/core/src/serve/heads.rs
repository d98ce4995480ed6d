//! Times the heads of a connection's requests. A head begins with the connection or, later, with
//! the first byte after an answer; it ends when the request is known.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// State of one connection. Clones share it.
#[derive(Clone)]
pub(super) struct RequestHeads {
    /// Start of the head that is being read.
    begun: Arc<watch::Sender<Option<Instant>>>,
    /// Requests that are not answered yet: what arrives belongs to them.
    open: Arc<AtomicUsize>,
}

impl Default for RequestHeads {
    fn default() -> Self {
        Self { begun: Arc::new(watch::channel(Some(Instant::now())).0), open: Arc::default() }
    }
}

impl RequestHeads {
    /// A request is known; it is open for as long as what comes back is held.
    pub(super) fn open(&self) -> OpenConnection {
        self.begun.send_replace(None);
        self.open.fetch_add(1, Ordering::SeqCst);
        OpenConnection(self.clone())
    }

    /// Ends when a head has taken so long.
    pub(super) async fn late(&self, limit: Duration) {
        let mut begun = self.begun.subscribe();
        loop {
            let at = *begun.borrow_and_update();
            let over = async {
                match at {
                    Some(at) => sleep_until(at + limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => return,
                // The sender is held by `self`.
                _ = begun.changed() => {}
            }
        }
    }

    fn arrived(&self) {
        if self.open.load(Ordering::SeqCst) == 0 {
            self.begun.send_if_modified(|begun| {
                let new = begun.is_none();
                begun.get_or_insert_with(Instant::now);
                new
            });
        }
    }
}

pub(super) struct OpenConnection(RequestHeads);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A stream that tells when something arrives.
pub(super) struct ReadStream<S> {
    pub stream: S,
    pub heads: RequestHeads,
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.heads.arrived();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
