//! Questions and lines for one person of a thread, for services that know nothing of Slack.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::api_error::ApiError;
use crate::caller::ProvenCaller;
use crate::notices::ThreadNotices;
use crate::thread_key::ThreadKey;

/// A question with answers to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonQuestion {
    /// Key that identifies its message.
    pub key: String,
    /// Markdown text of our own.
    pub text: String,
    /// Words of a stranger, shown as they are under it.
    pub quote: String,
    /// Answers: 2 to 5, of at most 75 characters.
    pub choices: Vec<String>,
    /// The next message of the person is an answer too.
    pub takes_words: bool,
    /// Slack user id of the person who is asked.
    pub to: String,
}

/// A person's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonAnswer {
    /// One of the choices, from 0, taken by the person who was asked.
    Choice(usize),
    /// The next message of the person who was asked.
    Words(String),
}

/// Words and pictures of a stranger for the people of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrangersWords {
    /// Key that identifies the message.
    pub key: String,
    /// Markdown text of our own.
    pub text: String,
    /// The words, shown as they are under it; may be empty.
    pub quote: String,
    /// Images, of types that people are shown.
    pub pictures: Vec<Bytes>,
}

/// Finds the person to ask in a thread, and speaks with them.
#[async_trait]
pub trait PersonalNotices: ThreadNotices {
    /// Slack user id of the person who asked last and may decide; else of one who may.
    async fn find_decider(&self, thread: &ThreadKey) -> Option<String>;

    /// Shows a line to one person alone, in the thread.
    ///
    /// # Errors
    /// A sentence for the log.
    async fn whisper(&self, thread: &ThreadKey, user: &str, text: &str) -> Result<(), ApiError>;

    /// Shows words of a stranger to all in the thread of a role; the same key shows once.
    ///
    /// # Errors
    /// A sentence for the log.
    async fn show_words(
        &self,
        caller: &ProvenCaller,
        shown: &StrangersWords,
    ) -> Result<(), ApiError>;

    /// Asks in the thread, and returns the answer; None if that takes too long, or nobody waits for
    /// it any more: then the question can't be answered any more.
    ///
    /// # Errors
    /// When it can't be asked.
    async fn choose(
        &self,
        caller: &ProvenCaller,
        question: &PersonQuestion,
        patience: Duration,
        over: &CancellationToken,
    ) -> Result<Option<PersonAnswer>, ApiError>;

    /// Shows how far a role's call is, beside what the role does; an empty line ends that.
    fn show_progress(&self, caller: &ProvenCaller, line: &str);
}
