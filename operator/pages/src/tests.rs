//! Hostile text in every field is text.

use codebutler_wire::history::{
    CheckShown, HistoryEvent, HistoryLine, ItemShown, ModelCall, TodoEntry, ToolUse, VERSION,
    ViewShown,
};
use codebutler_wire::{MessageAuthor, NanoUsd, PageColors, PageWidth};

use crate::summary::LineRemark;
use crate::{
    AskedButton, AskedPart, AskedQuestion, BranchShown, ChangedFile, ChangesPage, FilePatch,
    ListFilter, ListedThread, PageReplies, PageVisitor, RoadmapPage, StepView, ThreadNow,
    ThreadPage, ThreadSummary, UserNames, WaitCause, WaitNow,
};

const PAYLOADS: [&str; 17] = [
    "<script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</pre></details><iframe src=javascript:alert(1)>",
    "</title><script>alert(1)</script>",
    "<a href=\"javascript:alert(1)\">x</a>",
    "\" autofocus onfocus=alert(1) x=\"",
    "' onmouseover='alert(1)",
    "<!--<script>-->alert(1)<!--</script>-->",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<scr\0ipt>alert(1)</scr\0ipt>",
    "\u{202e}<b>txt.exe</b>",
    "{{ 7*7 }}{% raw %}<b>{% endraw %}",
    "+<style>@import'//evil.example'</style>",
    "<a href=//evil.example onclick=alert(1)>x</a><img src=//evil.example/x.png>",
];

/// Every event with a text in every field.
fn events(text: &str) -> Vec<HistoryEvent> {
    let own = || text.to_owned();
    let ts = || "1.000000".parse().unwrap();
    let call = |tool: &str, arguments: String| ToolUse { tool: tool.to_owned(), arguments };
    let tool = |call: ToolUse| HistoryEvent::Tool {
        call,
        output: own(),
        ok: false,
        exit_code: Some(1),
        millis: Some(5),
    };
    let command = serde_json::json!({"command": text}).to_string();
    let edit = serde_json::json!({"path": text, "edits": [{"old": text, "new": text}]}).to_string();
    let diff = HistoryEvent::Tool {
        call: call(text, own()),
        output: format!("@@ -1 +1 @@\n-{text}\n+{text}\n {text}"),
        ok: true,
        exit_code: None,
        millis: None,
    };
    let (model, provider, effort) = (own(), Some(own()), Some(own()));
    let model = ModelCall { model, provider, effort, cost: NanoUsd(1), ..ModelCall::default() };
    let reason = Some(own());
    vec![
        HistoryEvent::Opened { repo: own(), channel: own(), by: Some(own()) },
        HistoryEvent::Message { ts: ts(), author: MessageAuthor::User { id: own() }, text: own() },
        HistoryEvent::Message { ts: ts(), author: MessageAuthor::Bot { id: own() }, text: own() },
        HistoryEvent::Picture { id: own(), name: own(), author: MessageAuthor::User { id: own() } },
        HistoryEvent::Compared {
            page: own(),
            views: vec![ViewShown {
                width: PageWidth::Phone,
                colors: PageColors::Dark,
                before: Some(own()),
                after: own(),
            }],
            author: MessageAuthor::Role { role: own() },
        },
        HistoryEvent::ModelCall(model),
        HistoryEvent::Answer {
            model: Some(own()),
            text: Some(own()),
            thoughts: Some(own()),
            calls: vec![call(text, own())],
        },
        HistoryEvent::Flawed { why: own() },
        tool(call(text, own())),
        tool(call("Bash", command)),
        tool(call("Edit", edit)),
        diff,
        HistoryEvent::McpCall {
            server: own(),
            tool: own(),
            arguments: own(),
            hash: own(),
            bytes: 1,
            approved_by: Some(own()),
            millis: 1,
            outcome: own(),
            model_answers: 1,
            cost: NanoUsd(1),
            price: NanoUsd(1),
        },
        HistoryEvent::Tested { command: own(), exit_code: Some(1) },
        HistoryEvent::Todo { items: vec![TodoEntry { text: own(), state: own() }] },
        HistoryEvent::Asked { call: call(text, own()) },
        HistoryEvent::Model { model: own(), why: own() },
        HistoryEvent::Note { text: own() },
        HistoryEvent::RunEnded { outcome: own(), reason },
        HistoryEvent::Checks {
            commit: own(),
            checks: vec![CheckShown { name: own(), state: "failure".into() }],
        },
        HistoryEvent::Pushed { branch: own(), commit: own(), subjects: vec![own()] },
        HistoryEvent::Plan { message: ts(), approved_by: Some(own()) },
        HistoryEvent::Decision { kind: own(), choice: own(), user: own(), message: ts() },
        HistoryEvent::Receipt { commit: own(), command: own(), exit_code: 0 },
        HistoryEvent::PullRequest { number: 1, url: format!("https://x/{text}"), state: own() },
        HistoryEvent::Waiting { what: own(), now: true, why: own() },
        HistoryEvent::Roadmap { items: 1, budget: None, ended: Some(own()) },
        HistoryEvent::RoadmapItem(ItemShown {
            id: own(),
            title: own(),
            place: 0,
            state: own(),
            why: Some(own()),
            after: vec![own()],
            thread: Some(own()),
            pull_request: Some(1),
        }),
        HistoryEvent::Closed { by: Some(own()) },
    ]
}

/// Forms with this text in every field.
fn replies(text: &str) -> PageReplies {
    let text = || text.to_owned();
    let buttons = vec![AskedButton { action: text(), label: text(), class: "primary" }];
    let question =
        AskedQuestion { message: text(), parts: vec![AskedPart { text: text(), buttons }] };
    PageReplies { token: text(), key: text(), questions: vec![question], unread: Some(text()) }
}

/// A branch of hostile files, with a remark on a line of one.
fn changes(text: &str, summary: &ThreadSummary) -> ChangesPage {
    let patch = format!("diff --git a/x b/x\n@@ -1 +1,2 @@ {text}\n-{text}\n+{text}\n+x\n");
    let name = text.to_owned();
    let mut summary = summary.clone();
    let (role, file, body) = (text.to_owned(), text.to_owned(), text.to_owned());
    summary.remarks = vec![LineRemark { role, file, line: 2, body, commit: None }];
    let branch = BranchShown {
        branch: text.to_owned(),
        tip: text.to_owned(),
        files: vec![ChangedFile { path: name.clone(), added: Some(1), removed: Some(1) }],
        commits: format!("{} {text}", "1".repeat(40)),
        patches: FilePatch::read_all(&patch, &[name]),
    };
    ChangesPage {
        base: "/team/shop-1".to_owned(),
        summary,
        names: UserNames::new(),
        now: 1,
        slack: true,
        file: Some(text.to_owned()),
        from: 0,
        changes: Ok(branch),
    }
}

#[test]
fn a_call_of_a_server_says_what_it_and_models_for_it_cost() {
    let call = |model_answers, cost, price| HistoryEvent::McpCall {
        server: "tracker".into(),
        tool: "report".into(),
        arguments: "{}".into(),
        hash: String::new(),
        bytes: 5,
        approved_by: None,
        millis: 7,
        outcome: "ok".into(),
        model_answers,
        cost,
        price: NanoUsd(price),
    };
    let names = UserNames::from([("U1".to_owned(), "Ana".to_owned())]);
    let shown = |event| {
        let (source, role) = ("gateway".to_owned(), Some("coder".to_owned()));
        let line =
            HistoryLine { v: VERSION, at: 1, source, seq: None, key: None, role, run: None, event };
        StepView::of(1, &line, &names, false).unwrap().meta
    };
    let asked = shown(call(2, NanoUsd(250_000_000), 0));
    let said = asked.last().unwrap();
    assert_eq!(said, "2 answers of a model for it: $0.25");
    assert_eq!(shown(call(0, NanoUsd::default(), 0)).len(), asked.len() - 1);
    let priced = shown(call(0, NanoUsd::default(), 20_000_000));
    assert_eq!(priced.last().map(String::as_str), Some("price $0.02"));
    let mut approved = call(0, NanoUsd::default(), 0);
    if let HistoryEvent::McpCall { approved_by, .. } = &mut approved {
        *approved_by = Some("U1".to_owned());
    }
    let meta = shown(approved);
    assert!(meta.iter().any(|part| part == "approved by Ana"), "{meta:?}");
}

fn page(text: &str) -> String {
    let lines: Vec<_> = events(text)
        .into_iter()
        .map(|event| {
            let (source, role) = ("gateway".to_owned(), Some(text.to_owned()));
            HistoryLine {
                v: VERSION,
                at: 1_000,
                source,
                seq: None,
                key: None,
                role,
                run: None,
                event,
            }
        })
        .collect();
    let mut summary = ThreadSummary::default();
    for line in &lines {
        summary.add(Some(line));
    }
    let names = UserNames::from([(text.to_owned(), text.to_owned())]);
    let steps = lines.iter().zip(1..).filter_map(|(line, n)| StepView::of(n, line, &names, false));
    let steps = steps.collect();
    let query = text.to_owned();
    let base = "/team/shop-1".to_owned();
    let listed = || {
        vec![ListedThread {
            name: "team/shop-1".to_owned(),
            summary: summary.clone(),
            zone: text.to_owned(),
        }]
    };
    let visitor =
        PageVisitor { name: text.to_owned(), token: Some(text.to_owned()), may_stop: true };
    let filter = ListFilter {
        query: format!("{text} none"),
        person: text.to_owned(),
        ..ListFilter::default()
    };
    let parts = [
        crate::render_list(listed(), &ListFilter::default(), (&names, 1), &visitor),
        crate::render_list(listed(), &filter, (&names, 1), &visitor),
        crate::render_costs(&listed(), &[], (0, 1), &names, &visitor),
        crate::render_roadmap(
            &RoadmapPage {
                base: base.clone(),
                summary: summary.clone(),
                threads: [(text.to_owned(), summary.clone())].into(),
                names: names.clone(),
                slack: true,
            },
            &visitor,
        ),
        crate::render_changes(&changes(text, &summary), &visitor),
        crate::one_step("/team/shop-1", 5, &lines[4], &names),
        crate::render_notice(text, text, Some(("/", text))),
    ];
    let mut stuck = summary.clone();
    let (cause, people) = (WaitCause::Trouble(text.to_owned()), vec![text.to_owned()]);
    let wait = Some(WaitNow { cause, people, since: 5 });
    stuck.stand(ThreadNow { wait, ..ThreadNow::default() });
    let stuck = crate::render_added(&base, &stuck, &[], (&names, 1));
    let again = crate::render_reply_again(&base, (text, text), text, text);
    let replies = Some(replies(text));
    let mut page = ThreadPage { base, summary, steps, names, replies, ..ThreadPage::default() };
    let plain = crate::render_thread(&page, &visitor);
    page.query = query;
    plain + &again + &stuck + &crate::render_thread(&page, &visitor) + &parts.concat()
}

#[test]
fn hostile_text_in_every_field_is_shown_as_text() {
    let markup = |page: &str| ['<', '>', '"', '\''].map(|c| page.matches(c).count());
    let harmless = markup(&page("harmless"));
    for payload in PAYLOADS {
        let page = page(payload);
        assert_eq!(markup(&page), harmless, "{payload}");
        assert!(!page.contains("<script>") && !page.contains("href=\"javascript:"), "{payload}");
    }
}

/// A message as a page shows it, and the title of a thread that it begins.
fn said(text: &str, author: MessageAuthor) -> (String, String) {
    let event =
        HistoryEvent::Message { ts: "1.000000".parse().unwrap(), author, text: text.to_owned() };
    let source = "gateway".to_owned();
    let line =
        HistoryLine { v: 1, at: 1, source, seq: None, key: None, role: None, run: None, event };
    let mut summary = ThreadSummary::default();
    summary.add(Some(&line));
    let step = StepView::of(1, &line, &UserNames::new(), false).unwrap();
    (step.prose.unwrap_or_default(), summary.title)
}

#[test]
fn messages_are_shown_with_their_markup_and_titles_without() {
    let pm = || MessageAuthor::Role { role: "pm".into() };
    let (shown, title) = said("*Plan* for `src/clock.rs:21`\n• one\n• two", pm());
    assert_eq!(title, "Plan for src/clock.rs:21");
    assert_eq!(
        shown,
        "<p><b>Plan</b> for <code>src/clock.rs:21</code></p><ul><li>one</li><li>two</li></ul>"
    );
    let (_, title) = said("Implement item `1` of the roadmap: **Cents**", pm());
    assert_eq!(title, "Implement item 1 of the roadmap: Cents");
    let (shown, title) = said("<!here> *look* at `<#C0123ABC>` in <#C0123ABC|ops>", pm());
    let expected = "<p>@here <b>look</b> at <code>&#60;#C0123ABC&#62;</code> in #ops</p>";
    assert_eq!((&*shown, &*title), (expected, "<!here> look at <#C0123ABC> in <#C0123ABC|ops>"));
    // Neither what is loaded nor what is led to is chosen by who writes, but for pages of the web.
    let hostile = "![x](https://evil.example/p.png) [y](javascript:alert(1)) <img src=x>";
    let (shown, _) = said(hostile, MessageAuthor::User { id: "U1".into() });
    assert!(!shown.contains("<img") && !shown.contains("href=\"javascript:"), "{shown}");
}

#[test]
fn a_search_shows_what_it_found_and_the_page_the_newest_message() {
    let said = |text: &str, ts: &str| HistoryLine {
        v: 1,
        at: 1,
        source: "gateway".to_owned(),
        seq: None,
        key: None,
        role: None,
        run: None,
        event: HistoryEvent::Message {
            ts: ts.parse().unwrap(),
            author: MessageAuthor::User { id: "U1".into() },
            text: text.to_owned(),
        },
    };
    let lines = [said("the first", "1.000000"), said("the *newest*", "2.000000")];
    let mut summary = ThreadSummary::default();
    for line in &lines {
        summary.add(Some(line));
    }
    let steps = StepView::of(1, &lines[0], &UserNames::new(), false).into_iter().collect();
    let mut page = ThreadPage { summary, steps, ..ThreadPage::default() };
    let shown = crate::render_thread(&page, &PageVisitor::default());
    assert!(shown.contains("<a href=\"#n2\">the newest</a>"), "{shown}");
    page.query = "first".to_owned();
    let waits =
        HistoryEvent::Waiting { what: "AwaitingUser".into(), now: true, why: "first".into() };
    let aside = HistoryLine { event: waits, ..said("", "3.000000") };
    page.steps.extend(StepView::of(3, &aside, &UserNames::new(), false));
    assert_eq!((page.steps.len(), crate::is_on_page(&aside)), (2, false));
    let found = crate::render_thread(&page, &PageVisitor::default());
    assert!(found.contains("1 found") && !found.contains("newest</a>"), "{found}");
    assert!(found.contains("id=\"n1\"") && !found.contains("there are older"), "{found}");
    page.cut = true;
    let found = crate::render_thread(&page, &PageVisitor::default());
    assert!(found.contains("1 found, the newest: there are older ones"), "{found}");
}

#[test]
fn only_pages_of_the_web_are_led_to() {
    for url in ["javascript:alert(1)", "data:text/html,x", "//evil.example", "http://x"] {
        let event =
            HistoryEvent::PullRequest { number: 1, url: url.to_owned(), state: "open".into() };
        let source = "gateway".to_owned();
        let line =
            HistoryLine { v: 1, at: 1, source, seq: None, key: None, role: None, run: None, event };
        assert_eq!(StepView::of(1, &line, &UserNames::new(), false).unwrap().link, None, "{url}");
    }
}

#[test]
fn checks_say_how_many_passed_and_which_failed() {
    let step = |states: &[(&str, &str)]| {
        let of = |(name, state): &(&str, &str)| CheckShown {
            name: (*name).to_owned(),
            state: (*state).to_owned(),
        };
        let (commit, checks) = ("0123456789abcdef".to_owned(), states.iter().map(of).collect());
        let (source, event) = ("gateway".to_owned(), HistoryEvent::Checks { commit, checks });
        let line =
            HistoryLine { v: 1, at: 1, source, seq: None, key: None, role: None, run: None, event };
        let step = StepView::of(1, &line, &UserNames::new(), false).unwrap();
        (step.class, step.title, step.text.unwrap_or_default())
    };
    let said = |class, title: &str, text: &str| (class, title.to_owned(), text.to_owned());
    assert_eq!(
        step(&[("lint", "success"), ("test", "failure"), ("e2e", "queued")]),
        said(
            "bad",
            "1 of 3 checks failed at 0123456789",
            "test: failure\ne2e: queued\nlint: success"
        )
    );
    assert_eq!(
        step(&[("lint", "success"), ("docs", "skipped")]),
        said("good", "checks passed at 0123456789: 2", "lint: success\ndocs: skipped")
    );
    let hidden = step(&[("commit statuses", "unknown")]);
    assert_eq!(hidden.1, "checks at 0123456789 can't be read");
    let running = step(&[("lint", "success"), ("test", "in_progress")]);
    assert_eq!((running.0, &*running.1), ("note", "checks at 0123456789: 1 of 2 passed"));
}

#[test]
fn a_page_adds_up_what_calls_have_cost() {
    let mut summary = ThreadSummary::default();
    for (role, cost) in [("pm", 123_457), ("coder", 1_000_000_001), ("pm", 1)] {
        let event =
            HistoryEvent::ModelCall(ModelCall { cost: NanoUsd(cost), ..ModelCall::default() });
        let (source, role) = ("gateway".to_owned(), Some(role.to_owned()));
        let line =
            HistoryLine { v: 1, at: 1, source, seq: None, key: None, role, run: None, event };
        summary.add(Some(&line));
    }
    assert_eq!(summary.total.cost, NanoUsd(1_000_123_459));
    assert_eq!(summary.by_role["pm"].cost, NanoUsd(123_458));
    let page = ThreadPage { summary, ..ThreadPage::default() };
    let page = crate::render_thread(&page, &PageVisitor::default());
    assert!(page.contains("title=\"$1.000123459\">$1.00</data>"), "{page}");
}

#[test]
fn a_server_s_tool_is_shown_as_people_know_it_with_all_of_its_arguments() {
    let arguments = r#"{"command":"DROP TABLE a","force":true}"#.to_owned();
    let call = ToolUse { tool: "mcp__my-db__run".to_owned(), arguments };
    let (output, source) = (String::new(), String::new());
    let event = HistoryEvent::Tool { call, output, ok: true, exit_code: None, millis: None };
    let line =
        HistoryLine { v: 1, at: 1, source, seq: None, key: None, role: None, run: None, event };
    let step = StepView::of(1, &line, &UserNames::new(), true).unwrap();
    assert_eq!(step.title, "my-db: run DROP TABLE a");
    assert!(format!("{:?}", step.blocks).contains("force"), "{:?}", step.blocks);
}

#[test]
fn a_thread_without_words_is_called_by_its_name() {
    let page = ThreadPage { base: "/team/shop-1".to_owned(), ..ThreadPage::default() };
    let shown = crate::render_thread(&page, &PageVisitor::default());
    assert!(shown.contains("<h1>team/shop-1</h1>"), "{shown}");
    assert!(shown.contains("<title>team/shop-1 · CodeButler</title>"), "{shown}");
}

#[test]
fn the_timeline_says_in_words_how_a_run_ended() {
    let (role, what) = ("pm".to_owned(), "idle".to_owned());
    let span =
        crate::TimeSpan { role, what, began: 5, ended: Some(9), ..crate::TimeSpan::default() };
    let summary = ThreadSummary { spans: vec![span], last: 9, ..ThreadSummary::default() };
    let page = ThreadPage { summary, ..ThreadPage::default() };
    let shown = crate::render_thread(&page, &PageVisitor::default());
    assert!(shown.contains("<td>is done</td>") && !shown.contains("idle"), "{shown}");
}
