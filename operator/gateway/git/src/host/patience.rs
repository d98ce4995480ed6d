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

/// Bytes that a host has to send in each [`SPEED_WINDOW`], as Git's `http.lowSpeedLimit` and `http.lowSpeedTime` have
/// it: about 1000 a second. A large pack over a slow line takes what it takes; one that only trickles never ends.
const LOW_SPEED: usize = 300_000;
const SPEED_WINDOW: Duration = Duration::from_mins(5);
/// Longest time until the first bytes of an answer: a host that puts a pack together only says that it is there.
const FIRST_BYTES: Duration = Duration::from_mins(30);

/// Speed of a transfer.
#[derive(Debug)]
pub(super) struct TransferSpeed {
    /// End of the current window.
    until: Instant,
    /// Bytes received in this window.
    received: usize,
    has_begun: bool,
}

impl TransferSpeed {
    pub(super) fn new(now: Instant) -> Self {
        Self { until: now + FIRST_BYTES, received: 0, has_begun: false }
    }

    /// Counts bytes that were received; false if the transfer has become too slow to go on with.
    pub(super) fn is_enough(&mut self, bytes: usize, now: Instant) -> bool {
        if !self.has_begun && bytes > 0 {
            self.has_begun = true;
            self.until = now + SPEED_WINDOW;
        }
        self.received = self.received.saturating_add(bytes);
        if now < self.until {
            return true;
        }
        let is_enough = self.received >= LOW_SPEED;
        (self.until, self.received) = (now + SPEED_WINDOW, 0);
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    /// Counts the seconds until a transfer of so many bytes every second is given up; None if it is not for a day.
    fn given_up_after(each: impl Fn(u64) -> usize) -> Option<u64> {
        let start = Instant::now();
        let mut speed = TransferSpeed::new(start);
        (1..86_400)
            .find(|second| !speed.is_enough(each(*second), start + Duration::from_secs(*second)))
    }

    #[test]
    fn a_transfer_that_trickles_is_given_up_and_a_slow_one_is_not() {
        assert_eq!(given_up_after(|_| 10), Some(1 + SPEED_WINDOW.as_secs()));
        assert_eq!(given_up_after(|_| 2000), None);
        // It is fast at first.
        let late = given_up_after(|second| if second < 1000 { 1 << 20 } else { 1 });
        assert!(late.is_some_and(|late| late <= 1000 + 2 * SPEED_WINDOW.as_secs()), "{late:?}");
        // A pack is put together first.
        assert_eq!(given_up_after(|second| if second < 1200 { 0 } else { 1 << 20 }), None);
        assert_eq!(given_up_after(|_| 0), Some(FIRST_BYTES.as_secs()));
    }

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
