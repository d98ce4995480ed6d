//! State of the tests' gateway, and what was done through it: tests set it up, and look in here.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Instant;

use axum::http::StatusCode;
use codebutler_wire::history::ToldEntry;
use codebutler_wire::{
    ApprovalRequest, ApprovalState, BuildWant, EgressReport, ErrorCode, MessageAuthor, OtherThread,
    PendingItem, PostMessage, RoleCard, RoleSession, RunReport, SeatSetUp, SeatSetUpEnd,
    ShowComparison, SlackTs, ThreadMessage, ThreadOverlap, WebResult, WebSearch,
};
use serde_json::Value;

use super::servers::Servers;

/// The model: from a conversation to a whole body of a chat completion.
pub(crate) type Model = Box<dyn Fn(&[Value]) -> Value + Send + Sync>;

/// State of the gateway, and records of what was done. Tests look in here.
pub(crate) struct Inner {
    pub session: RoleSession,
    pub messages: Vec<ThreadMessage>,
    pub inbox: Option<SlackTs>,
    pub done: Option<SlackTs>,
    pub pending: Vec<PendingItem>,
    pub closed: bool,
    /// `(key, message)`, by first appearance of the key.
    pub posts: Vec<PostMessage>,
    pub reports: Vec<RunReport>,
    /// Words with which a run was about to end.
    pub last_words: Vec<String>,
    /// Nudges about the next of the last words.
    pub nudges: VecDeque<String>,
    /// Titles in the order of creation.
    pub pull_requests: Vec<String>,
    pub closings: Vec<String>,
    /// Answers of people, by the question's key.
    pub approvals: HashMap<String, ApprovalState>,
    pub asked_for: Vec<ApprovalRequest>,
    /// Pictures by id, and how often one was got.
    pub pictures: HashMap<String, Vec<u8>>,
    pub pictures_got: usize,
    /// Pages that people were shown, and what is said of that.
    pub comparisons: Vec<ShowComparison>,
    pub comparison_notes: Vec<String>,
    /// Name and content of each file, by id.
    pub files: HashMap<String, (String, Vec<u8>)>,
    pub files_got: usize,
    /// Searches as they were sent, and the keys of those that were made.
    pub searches: Vec<WebSearch>,
    pub searched: Vec<String>,
    /// Result of a search, instead of a guide.
    pub hit: Option<WebResult>,
    pub others: Vec<OtherThread>,
    /// Entries that journals told, by journal.
    pub history: BTreeMap<String, Vec<ToldEntry>>,
    /// Overlaps that a plan is told.
    pub overlaps: Vec<ThreadOverlap>,
    /// Models that refuse pictures.
    pub blind: Vec<String>,
    /// Models that refuse sounds.
    pub deaf: Vec<String>,
    /// Pictures that the provider does not take, in base64, with the code and the words of the refusal.
    pub refused_pictures: Vec<(&'static str, ErrorCode, &'static str)>,
    /// Number of requests for what a run needs to know.
    pub sessions: usize,
    /// Conversations that the model was paid for.
    pub asked: Vec<Vec<Value>>,
    pub requests: Vec<Value>,
    /// Messages that are said when the first run ends waiting.
    pub later: Vec<(&'static str, bool)>,
    /// Message that is said while the model thinks about its n-th answer.
    pub meanwhile: Option<(usize, &'static str)>,
    /// Answers, before anything else, to the first calls of a path.
    pub refuse: Vec<(&'static str, StatusCode, ErrorCode, &'static str)>,
    /// Seconds after which a refused call may be repeated.
    pub retry_after: Option<u32>,
    /// Paths whose first call is carried out and not answered; then nobody answers for a while.
    pub cut: Vec<&'static str>,
    /// End of an outage: nobody answers before.
    pub away: Option<Instant>,
    /// Build slots that others have, of two.
    pub building: u32,
    /// Build slots that this pod wanted.
    pub builds: Vec<BuildWant>,
    /// MCP servers of the company.
    pub servers: Servers,
    /// True once a Thread has taken the pod that waits for one.
    pub seat_taken: bool,
    /// Set-up of the clone of that pod.
    pub seat_set_up: Option<SeatSetUp>,
    /// Ends of set-ups, as that pod told them.
    pub seat_ends: Vec<SeatSetUpEnd>,
    /// Reports of pods on ways out.
    pub egress: Vec<EgressReport>,
    pub(super) model: Model,
    clock: u32,
}

impl Inner {
    pub(super) fn new(model: Model) -> Self {
        let tools = "Read Write Edit Bash Grep Glob GitLog GitDiff GitCommit GitPush GHCreatePR GHStatus \
                     SendMessage CloseThread";
        Self {
            session: RoleSession {
                namespace: "team".into(),
                thread: "shop-1-000001".into(),
                repo: "shop".into(),
                role: "pm".into(),
                model: "scripted/pm".into(),
                context_tokens: None,
                max_tokens: None,
                facts: BTreeMap::default(),
                tools: tools.split_whitespace().map(Into::into).collect(),
                decisions: vec![],
                max_turns: 30,
                timeout_seconds: 60,
                idle_timeout_seconds: 0,
                prompt: None,
                roles: vec![role_card("pm", "PM"), role_card("coder", "Coder")],
                branch: "codebutler/t".into(),
                base_branch: "main".into(),
                stacked_on: None,
                base_commit: None,
                plan: None,
                plan_text: None,
                people: BTreeMap::default(),
                pull_request: None,
                done: None,
                root: "1000.000000".parse().unwrap(),
                usage: vec![],
                models: vec![],
                stronger: None,
                steps_up: false,
                is_strongest: false,
                tool_overrides: BTreeMap::default(),
                test: None,
                planned: vec![],
                complexity: None,
                link: None,
                looks_back: false,
                learns_later: false,
                look_back_limit: None,
                keeps_journal: false,
                unhelpful: vec![],
                first_pass: None,
                first_look: None,
                is_first: false,
                setup: None,
                sparse: vec![],
                hosts: vec![],
                parallelism: 1,
            },
            messages: vec![],
            inbox: None,
            done: None,
            pending: vec![],
            closed: false,
            posts: vec![],
            reports: vec![],
            last_words: vec![],
            nudges: VecDeque::new(),
            pull_requests: vec![],
            closings: vec![],
            approvals: HashMap::default(),
            asked_for: vec![],
            pictures: HashMap::new(),
            pictures_got: 0,
            comparisons: Vec::new(),
            comparison_notes: Vec::new(),
            files: HashMap::new(),
            files_got: 0,
            searches: Vec::new(),
            searched: Vec::new(),
            hit: None,
            history: BTreeMap::new(),
            others: vec![],
            overlaps: vec![],
            blind: vec![],
            deaf: vec![],
            refused_pictures: vec![],
            sessions: 0,
            asked: vec![],
            requests: vec![],
            later: vec![],
            meanwhile: None,
            refuse: vec![],
            retry_after: None,
            cut: vec![],
            away: None,
            building: 0,
            builds: vec![],
            servers: Servers::default(),
            seat_taken: false,
            seat_set_up: None,
            seat_ends: vec![],
            egress: vec![],
            model,
            clock: 1000,
        }
    }

    /// The refusal of a picture or a sound by a model that takes none.
    pub(super) fn refuse_part(
        &self,
        model: &str,
        messages: &[Value],
    ) -> Option<(ErrorCode, &'static str)> {
        let sends = |kind: &str| {
            let parts = messages.iter().filter_map(|message| message["content"].as_array());
            parts.flatten().any(|part| part["type"] == kind)
        };
        let refuses = |models: &[String]| models.iter().any(|known| known == model);
        if refuses(&self.deaf) && sends("input_audio") {
            return Some((
                ErrorCode::InvalidRequest,
                "no endpoint of this model takes audio input",
            ));
        }
        let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
        let urls: Vec<&str> = parts.filter_map(|part| part["image_url"]["url"].as_str()).collect();
        let is_sent = |data: &str| urls.iter().any(|url| url.ends_with(data));
        let unwanted = self.refused_pictures.iter().find(|(data, ..)| is_sent(data));
        if let Some((_, code, words)) = unwanted {
            return Some((*code, *words));
        }
        (refuses(&self.blind) && sends("image_url"))
            .then_some((ErrorCode::InvalidRequest, "no endpoint of this model takes image input"))
    }

    pub(super) fn next_ts(&mut self) -> SlackTs {
        self.clock += 1;
        format!("{}.000000", self.clock).parse().unwrap()
    }

    /// Adds a message of a user.
    pub(crate) fn say(&mut self, text: &str, addressed: bool) -> SlackTs {
        self.say_as(MessageAuthor::User { id: "U1".into() }, text, addressed)
    }

    /// Adds a message of this author.
    pub(crate) fn say_as(&mut self, author: MessageAuthor, text: &str, addressed: bool) -> SlackTs {
        let ts = self.next_ts();
        self.messages.push(ThreadMessage {
            ts: ts.clone(),
            author,
            text: text.into(),
            addressed,
            pictures: vec![],
        });
        if addressed {
            self.inbox = self.inbox.take().max(Some(ts.clone()));
        }
        ts
    }

    /// True if the controller would start a pod: there is mail, or something is pending.
    pub(crate) fn wants(&self) -> bool {
        self.has_mail() || !self.pending.is_empty()
    }

    pub(super) fn is_away(&self) -> bool {
        self.away.is_some_and(|until| Instant::now() < until)
    }

    fn has_mail(&self) -> bool {
        self.inbox > self.done
    }

    pub(crate) fn post_texts(&self) -> Vec<&str> {
        self.posts.iter().map(|post| post.text.as_str()).collect()
    }

    pub(crate) fn last_report(&self) -> &RunReport {
        self.reports.last().unwrap()
    }
}

/// Keys of posts must be unique to an effect and usable at Slack.
pub(crate) fn check_keys(posts: &[PostMessage]) {
    let keys: HashSet<_> = posts.iter().map(|post| &post.key).collect();
    assert_eq!(keys.len(), posts.len());
    for key in keys {
        assert!(
            key.len() <= 64
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b)),
            "{key}"
        );
    }
}

fn role_card(role: &str, name: &str) -> RoleCard {
    RoleCard {
        role: role.into(),
        name: name.into(),
        description: String::new(),
        implements: role == "coder",
        reviews: role == "reviewer",
        leads: role == "lead",
    }
}
