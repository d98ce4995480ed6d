//! Waiting for an answer for as long as something is on its way to the host: a large pack over a slow line
//! takes what it takes, and what only waits has an end.

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use http_body_util::BodyDataStream;
use reqwest::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// A body that is made while it is sent, and when something of it was last taken.
pub(super) fn watch_body(body: Body) -> (Body, watch::Receiver<Instant>) {
    let (taken, seen) = watch::channel(Instant::now());
    if body.as_bytes().is_some() {
        return (body, seen);
    }
    let parts = BodyDataStream::new(body).inspect(move |_| {
        taken.send_replace(Instant::now());
    });
    (Body::wrap_stream(parts), seen)
}

/// Awaits an upload; None once nothing was sent and nothing received for the whole of `patience`.
pub(super) async fn await_outcome<T>(
    sending: impl Future<Output = T>,
    seen: &watch::Receiver<Instant>,
    patience: Duration,
) -> Option<T> {
    let mut sending = pin!(sending);
    loop {
        let until = *seen.borrow() + patience;
        tokio::select! {
            done = &mut sending => return Some(done),
            () = sleep_until(until) => {}
        }
        if *seen.borrow() + patience <= Instant::now() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    /// Takes a body of some parts, one a while, and is silent from then on.
    async fn sent(parts: u64) -> Option<()> {
        let made = stream::iter((0..parts).map(|_| Ok::<_, std::io::Error>(Bytes::from("part"))));
        let (body, seen) = watch_body(Body::wrap_stream(made));
        let slowly = async {
            let mut parts = BodyDataStream::new(body);
            while parts.next().await.is_some() {
                tokio::time::sleep(PATIENCE / 2).await;
            }
            std::future::pending::<()>().await;
        };
        await_outcome(slowly, &seen, PATIENCE).await
    }

    #[tokio::test]
    async fn a_slow_line_is_waited_for_and_silence_is_not() {
        let begun = Instant::now();
        assert_eq!(sent(6).await, None);
        assert!(begun.elapsed() >= PATIENCE * 3, "given up after {:?}", begun.elapsed());
        let (_, seen) = watch_body(Body::from("whole"));
        assert_eq!(await_outcome(async { 7 }, &seen, PATIENCE).await, Some(7));
        assert_eq!(await_outcome(std::future::pending::<()>(), &seen, PATIENCE).await, None);
    }
}
