//! ✅ on what is finished: once nothing runs, waits or is asked in a conversation, each message of a
//! person that was seen gets it. 👀 stays: taking it away would be a second change to look at, and
//! a message that is delivered again would get it anew.

use std::sync::Arc;

use codebutler_crds::thread::SlackThread;
use codebutler_crds::{Thread, ThreadStatus};
use codebutler_gateway_core::finished;
use codebutler_gateway_core::thread_key::ThreadKey;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::Inner;
use crate::api::deferral::LaterError;
use crate::api::reading::WantedReading;
use crate::people::access;

const DONE: &str = "white_check_mark";
/// Most messages that are marked: the newest.
const MOST: usize = 20;

pub(crate) async fn mark_finished(inner: &Arc<Inner>, thread: &Thread) -> Result<(), LaterError> {
    let Some(newest) = finished::find_finished(thread, Timestamp::now()) else { return Ok(()) };
    let key = ThreadKey::from(thread);
    let Some((_, repo)) = inner.known(&key) else { return Ok(()) };
    let Some(slack) = thread.conversation() else { return Ok(()) };
    let SlackThread { channel, ts: root } = slack;
    let account = inner.account(&repo).await?;
    let status = thread.status.clone().unwrap_or_default();
    let after = status.finished.as_ref();
    let wanted = WantedReading::of(&status, after, None);
    let reading = match inner.read_conversation(&account, (&key, slack), &wanted).await {
        Ok(reading) => Some(reading),
        // The conversation was deleted.
        Err(error) if error.code().is_some() => None,
        Err(error) => return Err(error.into()),
    };
    let said = reading.as_ref().map_or(&[][..], |reading| reading.after(after));
    let users = &repo.spec.access.users;
    let theirs = said.iter().filter(|message| {
        let opened = account.wrote(message) && message.ts == *root;
        let person = message.person().is_some_and(|user| access::permits_user(users, user));
        message.ts <= newest && (opened || (person && !account.wrote(message)))
    });
    let theirs: Vec<_> = theirs.collect();
    for message in &theirs[theirs.len().saturating_sub(MOST)..] {
        let body = json!({"channel": channel, "timestamp": message.ts, "name": DONE});
        match inner.web.post::<Value>(&account.bot, "reactions.add", &body).await {
            // The reaction is there, or the message is gone.
            Err(error) if error.code().is_some() => {}
            other => drop(other?),
        }
    }
    let marked = |status: &mut ThreadStatus| {
        status.finished = status.finished.take().max(Some(newest.clone()));
    };
    inner.threads.update(&key, marked).await?;
    Ok(())
}
