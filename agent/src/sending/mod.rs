//! Sends what transcripts record to the gateway, which keeps it as the conversation's history. Nothing
//! waits for it. The transcript itself is what waits to be sent: whatever is lost on the way, or dies
//! in between, is read there again, from the number on that the gateway wants.

mod events;
mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codebutler_wire::HistoryKept;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::Instrument as _;

use crate::gateway::{GatewayClient, GatewayError};
use crate::transcript::TranscriptGrowth;
use file::JournalFile;

/// Debounce: entries that arrive within this time are sent together.
const GATHER: Duration = Duration::from_millis(40);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Longest time that the end of a process waits for what is not sent yet.
const FAREWELL: Duration = Duration::from_secs(3);

/// Sends for as long as it exists.
pub(crate) struct HistorySender {
    pub growth: TranscriptGrowth,
    task: JoinHandle<()>,
    ends: Arc<Notify>,
}

impl HistorySender {
    pub(crate) fn start(gateway: GatewayClient) -> Self {
        let (growth, ends) = (TranscriptGrowth::default(), Arc::new(Notify::new()));
        let sender = JournalSender {
            gateway,
            growth: growth.clone(),
            journals: BTreeMap::new(),
            kept: None,
        };
        let task = tokio::spawn(sender.run(Arc::clone(&ends)).in_current_span());
        Self { growth, task, ends }
    }

    /// Sends what is left, for a short while: a successor sends the rest.
    pub(crate) async fn finish(mut self) {
        self.ends.notify_one();
        if tokio::time::timeout(FAREWELL, &mut self.task).await.is_err() {
            tracing::info!("transcript_flush_failed");
        }
    }
}

impl Drop for HistorySender {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reason why nothing can be sent now.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("nothing is kept there")]
    Off,
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error("the transcript can't be read")]
    Read(#[from] std::io::Error),
    #[error("it was not taken")]
    NotTaken,
}

impl SendError {
    /// True if the error lasts for as long as this process lives.
    fn is_final(&self) -> bool {
        match self {
            Self::Off => true,
            Self::Gateway(error) => error.code().is_some() && !error.may_pass(),
            Self::Read(_) | Self::NotTaken => false,
        }
    }
}

struct JournalSender {
    gateway: GatewayClient,
    growth: TranscriptGrowth,
    journals: BTreeMap<PathBuf, JournalFile>,
    kept: Option<BTreeMap<String, u64>>,
}

impl JournalSender {
    async fn run(mut self, ends: Arc<Notify>) {
        let growth = self.growth.clone();
        let (mut pause, mut ending) = (FIRST_PAUSE, false);
        loop {
            if !ending {
                tokio::select! {
                    () = growth.grown() => tokio::time::sleep(GATHER).await,
                    () = ends.notified() => ending = true,
                }
            }
            match self.send_all().await {
                Ok(()) if ending => return,
                Ok(()) => pause = FIRST_PAUSE,
                Err(error) if error.is_final() => {
                    tracing::debug!(%error, "history_send_failed");
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, ?pause, "history_send_delayed");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    growth.wake();
                }
            }
        }
    }

    async fn send_all(&mut self) -> Result<(), SendError> {
        for (path, length) in self.growth.unsent() {
            let mut journal =
                self.journals.remove(&path).unwrap_or_else(|| JournalFile::new(path.clone()));
            journal.grew(length);
            let (journal, sent) = self.send(journal).await;
            if let Some(journal) = journal {
                self.journals.insert(path.clone(), journal);
            }
            sent?;
            self.growth.note_sent(&path, length);
        }
        Ok(())
    }

    /// Sends all of a journal. What a failure left of it is read anew.
    async fn send(
        &mut self,
        mut journal: JournalFile,
    ) -> (Option<JournalFile>, Result<(), SendError>) {
        loop {
            let wanted = match self.wanted(&mut journal).await {
                Ok(Some(wanted)) => wanted,
                Ok(None) => return (Some(journal), Ok(())),
                Err(error) => return (Some(journal), Err(error)),
            };
            if journal.is_settled(wanted) {
                return (Some(journal), Ok(()));
            }
            // A long transcript takes a while, and the run goes on meanwhile.
            let read = spawn_blocking(move || (journal.next(wanted), journal)).await;
            let Ok((batch, back)) = read else { return (None, Err(SendError::NotTaken)) };
            journal = back;
            let batch = match batch {
                Ok(batch) if batch.events.is_empty() => continue,
                Ok(batch) => batch,
                Err(error) => return (Some(journal), Err(error.into())),
            };
            let told = self.gateway.tell_history(&batch).await;
            let taken = told.map_err(SendError::from).and_then(|kept| self.keep(kept));
            let taken = taken.and_then(|()| match self.known(&batch.journal) {
                next if next > wanted => Ok(()),
                _ => Err(SendError::NotTaken),
            });
            if taken.is_err() {
                return (Some(journal), taken);
            }
        }
    }

    async fn wanted(&mut self, journal: &mut JournalFile) -> Result<Option<u64>, SendError> {
        let Some(id) = journal.id()?.map(ToOwned::to_owned) else { return Ok(None) };
        if self.kept.is_none() {
            let kept = self.gateway.history_kept().await?;
            self.kept = Some(BTreeMap::new());
            self.keep(kept)?;
        }
        Ok(Some(self.known(&id)))
    }

    fn known(&self, id: &str) -> u64 {
        self.kept.as_ref().and_then(|kept| kept.get(id)).copied().unwrap_or(1)
    }

    fn keep(&mut self, kept: HistoryKept) -> Result<(), SendError> {
        if kept.off {
            return Err(SendError::Off);
        }
        self.kept.get_or_insert_default().extend(kept.next);
        Ok(())
    }
}
