//! Events of a session in the order in which they came: bounded, so that a server that floods notifications costs no
//! memory, and changed lists are announced once for any number of announcements.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

/// Characters of a log entry or of a line outside of the protocol.
const TEXT_CHARS: usize = 2000;
/// Lines outside of the protocol that are kept, and characters of each.
const LAST_WORDS: usize = 3;
const LAST_WORD_CHARS: usize = 300;
/// Progress of calls that are not registered yet.
const UNCLAIMED: usize = 64;

/// Something that a server did by itself. All text in it is untrusted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The list of tools is another one now: read it before the next turn.
    ToolsChanged,
    /// The list of resources is another one now.
    ResourcesChanged,
    /// The list of prompts is another one now.
    PromptsChanged,
    /// A resource has other content now.
    ResourceUpdated {
        /// URI of the resource.
        uri: String,
    },
    /// A log entry of the server.
    Log {
        /// `debug` to `emergency`, as the server says it.
        level: String,
        /// Component of the server that logs.
        logger: Option<String>,
        /// The logged text; untrusted.
        text: String,
    },
    /// Text that is no message of the protocol.
    Noise {
        /// Text, cut after its beginning.
        text: String,
    },
    /// A line of the server's standard error. Servers greet there, too: it is no error by itself.
    ErrorLine {
        /// Text, cut after its beginning.
        text: String,
    },
    /// The server lost the session and a new one was begun: what it remembered (a page, a login) is gone.
    Restarted,
    /// Events were dropped at this place, because they came faster than they were read.
    Dropped {
        /// Number of events that are lost.
        count: u64,
    },
}

/// Progress report on a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressStep {
    /// Progress so far; it grows with each step.
    pub progress: f64,
    /// Final value of the progress, if known.
    pub total: Option<f64>,
    /// The current step, in the server's words.
    pub message: Option<String>,
}

#[derive(Default)]
struct EventState {
    waiting: VecDeque<SessionEvent>,
    dropped: u64,
    /// Changes, each once: they come before the others, so that no flood hides them.
    changes: VecDeque<SessionEvent>,
    closed: bool,
    last_words: VecDeque<String>,
}

impl EventState {
    fn keep_words(&mut self, text: &str) {
        if self.last_words.len() >= LAST_WORDS {
            self.last_words.pop_front();
        }
        self.last_words.push_back(text.chars().take(LAST_WORD_CHARS).collect());
    }
}

struct EventQueue {
    limit: usize,
    state: Mutex<EventState>,
    wake: Notify,
}

/// Writing end of the queue.
#[derive(Clone)]
pub(crate) struct EventSink(Arc<EventQueue>);

/// Reading end of the queue. Only one reader gets each event.
pub struct EventStream(Arc<EventQueue>);

/// A queue with this many events at most.
pub(crate) fn open_events(limit: usize) -> (EventSink, EventStream) {
    let state = Mutex::new(EventState::default());
    let queue = Arc::new(EventQueue { limit: limit.max(1), state, wake: Notify::new() });
    (EventSink(Arc::clone(&queue)), EventStream(queue))
}

impl EventSink {
    pub(crate) fn put(&self, event: SessionEvent) {
        let mut state = self.0.state.lock();
        match event {
            SessionEvent::ToolsChanged
            | SessionEvent::ResourcesChanged
            | SessionEvent::PromptsChanged
            | SessionEvent::Restarted => {
                if !state.changes.contains(&event) {
                    state.changes.push_back(event);
                }
            }
            event => {
                if let SessionEvent::Noise { text } = &event {
                    state.keep_words(text);
                }
                if state.waiting.len() >= self.0.limit {
                    state.waiting.pop_front();
                    state.dropped += 1;
                }
                state.waiting.push_back(event);
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }

    pub(crate) fn put_noise(&self, text: &str) {
        self.put(SessionEvent::Noise { text: cut_text(text.trim()) });
    }

    /// A line of the server's standard error: kept in case that it ends.
    pub(crate) fn put_error_line(&self, line: &str) {
        let text = cut_text(line.trim());
        self.0.state.lock().keep_words(&text);
        self.put(SessionEvent::ErrorLine { text });
    }

    /// The last lines that the server wrote outside of the protocol: often the reason why it ended.
    pub(crate) fn last_words(&self) -> String {
        let state = self.0.state.lock();
        let words: Vec<&str> = state.last_words.iter().map(|line| &**line).collect();
        if words.is_empty() { String::new() } else { format!(": {}", words.join(" / ")) }
    }

    pub(crate) fn close(&self) {
        self.0.state.lock().closed = true;
        self.0.wake.notify_one();
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

impl EventStream {
    /// The next event; none when the session is over and all are read.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        loop {
            if let Some(event) = self.take() {
                return Some(event);
            }
            if self.0.state.lock().closed {
                return self.take();
            }
            self.0.wake.notified().await;
        }
    }

    /// Takes an event that is waiting already; None if there is none.
    pub fn take(&mut self) -> Option<SessionEvent> {
        let mut state = self.0.state.lock();
        if let Some(change) = state.changes.pop_front() {
            return Some(change);
        }
        if state.dropped > 0 {
            return Some(SessionEvent::Dropped { count: std::mem::take(&mut state.dropped) });
        }
        state.waiting.pop_front()
    }
}

enum ProgressSlot {
    Claimed(mpsc::Sender<ProgressStep>),
    /// Progress that came before the call was registered.
    Unclaimed(ProgressStep),
}

/// Channels of calls for their progress, by token.
#[derive(Default)]
pub(crate) struct ProgressBook(Mutex<HashMap<String, ProgressSlot>>);

impl ProgressBook {
    pub(crate) fn claim(&self, token: String, sender: mpsc::Sender<ProgressStep>) {
        let mut slots = self.0.lock();
        if let Some(ProgressSlot::Unclaimed(step)) = slots.remove(&token) {
            let _ = sender.try_send(step);
        }
        slots.insert(token, ProgressSlot::Claimed(sender));
    }

    pub(crate) fn forget(&self, token: &str) {
        self.0.lock().remove(token);
    }

    pub(crate) fn report(&self, token: String, step: ProgressStep) {
        let mut slots = self.0.lock();
        if let Some(ProgressSlot::Claimed(sender)) = slots.get(&token) {
            // A full channel has steps that are as good.
            let _ = sender.try_send(step);
            return;
        }
        // Servers make tokens up, or leave them out. Where one call is under way, it is that one's.
        let mut claimed = slots.values().filter_map(|slot| match slot {
            ProgressSlot::Claimed(sender) => Some(sender),
            ProgressSlot::Unclaimed(_) => None,
        });
        if let (Some(only), None) = (claimed.next(), claimed.next()) {
            let _ = only.try_send(step.clone());
        }
        let unclaimed = |slot: &&ProgressSlot| matches!(slot, ProgressSlot::Unclaimed(_));
        if slots.contains_key(&token) || slots.values().filter(unclaimed).count() < UNCLAIMED {
            slots.insert(token, ProgressSlot::Unclaimed(step));
        }
    }
}

/// The beginning of a text from outside.
pub(crate) fn cut_text(text: &str) -> String {
    cut_chars(text, TEXT_CHARS)
}

/// A text of at most so many characters, with `…` where the rest was.
pub(crate) fn cut_chars(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_drops_the_oldest_and_never_hides_a_changed_list() {
        let (sink, mut stream) = open_events(3);
        sink.put(SessionEvent::ToolsChanged);
        for number in 0..1000 {
            sink.put_noise(&format!("line {number}"));
        }
        sink.put(SessionEvent::ToolsChanged);
        sink.close();
        let mut seen = Vec::new();
        while let Some(event) = stream.next().await {
            seen.push(event);
        }
        let noise = |text: &str| SessionEvent::Noise { text: text.to_owned() };
        let expected = [
            SessionEvent::ToolsChanged,
            SessionEvent::Dropped { count: 997 },
            noise("line 997"),
            noise("line 998"),
            noise("line 999"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(sink.last_words(), ": line 997 / line 998 / line 999");
    }

    #[test]
    fn progress_that_comes_before_its_call_is_known_is_kept_and_bounded() {
        let book = ProgressBook::default();
        let step = |progress| ProgressStep { progress, total: None, message: None };
        for token in 0..1000 {
            book.report(token.to_string(), step(1.0));
        }
        assert_eq!(book.0.lock().len(), UNCLAIMED);
        let (sender, mut receiver) = mpsc::channel(1);
        book.claim("5".to_owned(), sender);
        assert_eq!(receiver.try_recv().ok(), Some(step(1.0)));
        // A full channel drops what is more, without waiting.
        book.report("5".to_owned(), step(2.0));
        book.report("5".to_owned(), step(3.0));
        assert_eq!(receiver.try_recv().ok(), Some(step(2.0)));
        // A regression: a call was given up as silent whose server made up the token of its progress.
        book.report("tool-call-5".to_owned(), step(4.0));
        assert_eq!(receiver.try_recv().ok(), Some(step(4.0)));
        let (sender, _other) = mpsc::channel(1);
        book.claim("6".to_owned(), sender);
        book.report("tool-call-5".to_owned(), step(5.0));
        assert!(receiver.try_recv().is_err(), "nobody knows whose it is");
        book.forget("5");
    }
}
