//! Watch: the log of a table, filtered, as a stream of lines.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ResourceRequest;
use crate::apiserver::ServerState;
use crate::apiserver::convert;
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object;
use crate::apiserver::render::{self, AcceptedForm, ApiResponse, ShownForm};
use crate::apiserver::selectors::ObjectSelector;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::{StoreEvent, StoredObject};
use crate::apiserver::table;

/// Interval between bookmarks of a quiet watch, which tell it the current version.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);
/// Duration of a watch if the client names none.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);

struct WatchStream {
    server: Arc<ServerState>,
    kind: Arc<ServedKind>,
    namespace: String,
    selector: ObjectSelector,
    accepted: AcceptedForm,
    include: String,
    bookmarks: bool,
    version: u64,
    pending: VecDeque<Bytes>,
    changed: Receiver<u64>,
    deadline: Instant,
    next_bookmark: Instant,
    stop: CancellationToken,
    header_sent: bool,
    ended: bool,
    lag: Duration,
}

impl ResourceRequest<'_> {
    pub(super) fn watch(&self) -> Result<ApiResponse, ApiError> {
        self.check_list_options(true)?;
        let mut selector = self.selector()?;
        if !self.target.name.is_empty() {
            selector = ObjectSelector::parse(
                &self.kind,
                "",
                &format!("metadata.name={}", self.target.name),
            )?;
        }
        let query = &self.request.query;
        let initial = query.flag("sendInitialEvents");
        let asked = self.asked_version()?;
        let current = self.server.store.version();
        if let Some(asked) = asked.filter(|asked| initial && *asked > current) {
            return Err(ApiError::too_large_version(asked, current));
        }
        let changed = self.server.store.subscribe(&self.kind.table);
        let timeout = query.number("timeoutSeconds").filter(|s| *s > 0);
        let now = Instant::now();
        let mut watch = WatchStream {
            server: Arc::clone(self.server),
            kind: Arc::clone(&self.kind),
            namespace: self.target.namespace.clone(),
            selector,
            accepted: self.accepted.clone(),
            include: query.get("includeObject").unwrap_or("Metadata").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks"),
            version: 0,
            pending: VecDeque::new(),
            changed,
            deadline: now + timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            next_bookmark: now + BOOKMARK_EVERY,
            stop: self.server.stop.clone(),
            header_sent: false,
            ended: false,
            lag: Duration::ZERO,
        };
        if let Some((lag, ends)) = self.bad_watch {
            watch.lag = lag;
            watch.deadline = now + ends;
        }
        match asked {
            Some(version) if version > 0 && !initial => watch.version = version,
            // Without a word of the initial events a client that asks for the newest gets them, too.
            None if query.get("sendInitialEvents").is_some() && !initial => watch.version = current,
            // Any version will do: the present state first, as if all of it had just been added.
            _ => watch.start_with_present_state(),
        }
        if initial && watch.bookmarks {
            watch.bookmark(true);
        }
        let stream = futures::stream::unfold(watch, |mut watch| async move {
            let line = watch.next().await?;
            Some((Ok::<_, Infallible>(Frame::data(line)), watch))
        });
        let mut response = render::bytes_answer(200, "application/json", Bytes::new());
        *response.body_mut() = StreamBody::new(stream).boxed_unsync();
        Ok(response)
    }
}

impl WatchStream {
    fn start_with_present_state(&mut self) {
        let namespace = Some(self.namespace.as_str()).filter(|ns| !ns.is_empty());
        let (objects, version) = self.server.store.list(&self.kind.table, namespace);
        self.version = version;
        for stored in objects {
            if self.selector.matches(&self.kind, &stored.value) {
                self.push("ADDED", &stored);
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.pending.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            self.changed.mark_unchanged();
            self.read_log();
            if !self.pending.is_empty() || self.ended {
                continue;
            }
            let until =
                if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            tokio::select! {
                () = self.stop.cancelled() => return None,
                changed = self.changed.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                    if !self.lag.is_zero() {
                        tokio::time::sleep(self.lag).await;
                    }
                }
                () = tokio::time::sleep_until(until) => self.tick(),
            }
        }
    }

    /// Time is up for the watch or for a bookmark.
    fn tick(&mut self) {
        let now = Instant::now();
        self.read_log();
        if self.bookmarks && self.pending.is_empty() {
            self.bookmark(false);
            self.next_bookmark = now + BOOKMARK_EVERY;
        }
        self.ended = self.ended || now >= self.deadline;
    }

    fn read_log(&mut self) {
        match self.server.store.since(&self.kind.table, self.version) {
            Ok((events, version)) => {
                for event in events {
                    self.see(&event);
                }
                // A version that is still to come is waited for.
                self.version = self.version.max(version);
                // Its definition is gone, and nothing more will come.
                let kind = &self.kind;
                let known = self.server.kinds.find(&kind.group, &kind.version, &kind.plural);
                self.ended = known.is_none();
            }
            Err(error) => {
                let status = ApiError::expired(error.to_string()).body();
                self.line("ERROR", &status.to_string().into());
                self.ended = true;
            }
        }
    }

    fn see(&mut self, event: &StoreEvent) {
        let wanted = |stored: &Option<Arc<StoredObject>>| {
            stored.as_ref().is_some_and(|s| {
                (self.namespace.is_empty() || object::object_namespace(&s.value) == self.namespace)
                    && self.selector.matches(&self.kind, &s.value)
            })
        };
        match (wanted(&event.before), wanted(&event.after)) {
            (false, true) => self.push_some("ADDED", event.after.as_ref()),
            (true, true) => self.push_some("MODIFIED", event.after.as_ref()),
            (true, false) => match (&event.last, &event.before, &event.after) {
                (Some(last), _, _) => self.push("DELETED", last),
                // Still there, but no longer selected: its last selected state, at this version.
                (None, Some(before), _) => {
                    let mut value = before.value.clone();
                    let version = event.version.to_string();
                    object::set_meta(&mut value, "resourceVersion", Some(version.into()));
                    self.push_value("DELETED", &value);
                }
                _ => {}
            },
            (false, false) => {}
        }
    }

    fn push_some(&mut self, change: &str, stored: Option<&Arc<StoredObject>>) {
        if let Some(stored) = stored {
            self.push(change, stored);
        }
    }

    fn push(&mut self, change: &str, stored: &Arc<StoredObject>) {
        if self.accepted.form == ShownForm::Object {
            let converted = convert::convert_outbound(&self.kind, &stored.value);
            let text = match converted {
                std::borrow::Cow::Borrowed(_) => stored.json(),
                std::borrow::Cow::Owned(value) => value.to_string().into(),
            };
            self.line(change, &text);
        } else {
            self.push_value(change, &stored.value);
        }
    }

    fn push_value(&mut self, change: &str, value: &Value) {
        let shown = convert::convert_outbound(&self.kind, value);
        let text = match self.accepted.form {
            ShownForm::Object => shown.to_string(),
            ShownForm::Partial => render::partial_object(&shown).to_string(),
            ShownForm::Table => {
                let version = object::object_version(value).to_owned();
                let first = !std::mem::replace(&mut self.header_sent, true);
                table::render_table(&self.kind, &[&*shown], &self.include, &version, first)
                    .to_string()
            }
        };
        self.line(change, &text.into());
    }

    /// Tells the version; `initial` says that the state at that version is complete.
    fn bookmark(&mut self, initial: bool) {
        let version = self.version.to_string();
        let mut object = match self.accepted.form {
            ShownForm::Table => {
                table::render_table(&self.kind, &[], &self.include, &version, false)
            }
            ShownForm::Partial => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": version},
            }),
            ShownForm::Object => json!({
                "kind": self.kind.kind, "apiVersion": self.kind.api_version(),
                "metadata": {"resourceVersion": version, "creationTimestamp": null},
            }),
        };
        if initial {
            let mark = json!({"k8s.io/initial-events-end": "true"});
            object::set_meta(&mut object, "annotations", Some(mark));
        }
        self.line("BOOKMARK", &object.to_string().into());
    }

    fn line(&mut self, change: &str, object: &Bytes) {
        let mut line = Vec::with_capacity(object.len() + 40);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(change.as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        line.extend_from_slice(object);
        line.extend_from_slice(b"}\n");
        self.pending.push_back(line.into());
    }
}
